//! The names and versions that the library exports.

use std::collections::BTreeSet;
use std::path::Path;

use object::elf::{FileHeader64, SHT_DYNSYM, VER_NDX_LOCAL};
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, SymbolIndex};

use super::setup::{library, run};

/// One a line, sorted; to be changed by hand together with `src/exports/`.
const EXPECTED: &str = include_str!("exports.txt");
/// The real libraries, where a distribution puts them.
const REAL: [&str; 4] = [
    "/lib/x86_64-linux-gnu/libibverbs.so.1",
    "/lib/x86_64-linux-gnu/librdmacm.so.1",
    "/usr/lib64/libibverbs.so.1",
    "/usr/lib64/librdmacm.so.1",
];

/// What a library exports: `name@@VERSION`, or `name@VERSION` where it is not the default.
fn exports(path: &Path) -> BTreeSet<String> {
    let data = std::fs::read(path).unwrap();
    let data = &*data;
    let header = FileHeader64::<Endianness>::parse(data).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, data).unwrap();
    let symbols = sections.symbols(endian, data, SHT_DYNSYM).unwrap();
    let versions = sections.versions(endian, data).unwrap().expect("it has a version table");
    let mut found = BTreeSet::new();
    for (index, symbol) in symbols.iter().enumerate().skip(1) {
        let index = versions.version_index(endian, SymbolIndex(index));
        if symbol.is_undefined(endian) || index.index() == VER_NDX_LOCAL {
            continue;
        }
        let name = String::from_utf8(symbol.name(endian, symbols.strings()).unwrap().to_vec());
        let version = versions.version(index).unwrap();
        let version = version.map_or("", |version| std::str::from_utf8(version.name()).unwrap());
        let name = name.unwrap();
        // The nodes themselves are symbols too.
        if name != version {
            let at = if index.is_hidden() { "@" } else { "@@" };
            found.insert(format!("{name}{at}{version}"));
        }
    }
    found
}

#[test]
fn the_table_is_the_expected_one() {
    let built = exports(library());
    let expected: BTreeSet<String> = EXPECTED.lines().map(str::to_owned).collect();
    let missing: Vec<_> = expected.difference(&built).collect();
    let surplus: Vec<_> = built.difference(&expected).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing: {missing:?}\nsurplus: {surplus:?}");
}

#[test]
fn what_the_installed_libraries_export_is_there() {
    let built = exports(library());
    let installed = REAL.map(Path::new).into_iter().filter(|real| real.exists());
    let installed: Vec<_> = installed.collect();
    if installed.len() < 2 {
        super::setup::cannot_run("libibverbs or librdmacm is not installed where it is looked for");
    }
    for real in installed {
        // Versions that are not the default belong to an interface older than 2007.
        let wanted = exports(real);
        let missing: Vec<_> =
            wanted.iter().filter(|name| name.contains("@@") && !built.contains(*name)).collect();
        assert!(missing.is_empty(), "of {}: {missing:?}", real.display());
    }
}

#[test]
fn it_is_never_unloaded_and_has_the_name_that_programs_ask_for() {
    if !super::setup::is_installed("readelf") {
        return;
    }
    let said = run(std::process::Command::new("readelf").arg("-dW").arg(library())).out;
    assert!(said.contains("Library soname: [libibverbs.so.1]"), "{said}");
    assert!(said.contains("NODELETE"), "{said}");
}
