//! Gives the library its name, its symbol versions, and keeps it loaded.
//!
//! The names and their versions are in `src/exports/`; `drop-in.map` only declares the versions. The
//! compiler passes a version script of its own, and GNU ld is the one linker that refuses two.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=drop-in.map");
    let of_target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if of_target("OS") != "linux" || of_target("ENV") != "gnu" {
        // Symbol versions are glibc's.
        return;
    }
    let here = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let map = Path::new(&here).join("drop-in.map");
    for argument in [
        "-Wl,-soname,libibverbs.so.1".to_owned(),
        format!("-Wl,--version-script={}", map.display()),
        // Its threads and fault handler outlive any dlclose.
        "-Wl,-z,nodelete".to_owned(),
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
    if links_with_gnu_ld(&of_target("ARCH")) {
        println!(
            "cargo:warning=GNU ld cannot link the drop-in (\"anonymous version tag cannot be combined \
             with other version tags\"): install lld or mold and build with RUSTFLAGS=\"-C \
             link-arg=-fuse-ld=lld\" (or =mold)"
        );
    }
}

/// Whether GNU ld will be the linker, as far as one can tell. Rust's own lld is the default on x86-64
/// only, and not in every distribution's compiler.
fn links_with_gnu_ld(arch: &str) -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let chosen =
        flags.split('\x1f').filter_map(|flag| Some(flag.split_once("-fuse-ld=")?.1)).next_back();
    match chosen {
        Some(linker) => linker == "bfd",
        None if flags.contains("linker=") || flags.contains("linker-f") => false,
        None if flags.contains("link-self-contained=-linker") => true,
        None => arch != "x86_64",
    }
}
