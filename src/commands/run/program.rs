//! The program to run: where it is, and whether a library can be put before it at all.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::FakeSysfs;
use crate::error::Failure;

/// Finds the program as a shell would.
pub(super) fn find(program: &OsStr) -> Result<PathBuf, Failure> {
    let executable = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        if executable(&path) {
            return Ok(path);
        }
        return Err(Failure::usage(
            format!("run: {} is not a program that may be executed", path.display()),
            "check the path and the permissions of the file",
        ));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(program));
    found.into_iter().find(|path| executable(path)).ok_or_else(|| {
        Failure::usage(
            format!("run: there is no program {}", program.display()),
            "check its name, or install it (ibv_* are in ibverbs-utils, ib_* in perftest)",
        )
    })
}

/// Refuses a program that would not use the drop-in, and so find no device or the kernel's.
pub(super) fn judge(path: &Path, how: FakeSysfs) -> Result<(), Failure> {
    let setid = path.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o6000 != 0);
    if setid {
        return Err(Failure::failed(
            format!("{} changes its user or group when it starts", path.display()),
            "the dynamic linker ignores LD_LIBRARY_PATH for such programs: run a copy of it",
        ));
    }
    // A file that cannot be read can still be executed.
    let Ok(file) = File::open(path) else { return Ok(()) };
    if how != FakeSysfs::Ns && is_static(&file) {
        return Err(Failure::failed(
            format!("{} is linked statically", path.display()),
            "no library can be put in place of the one in it: link it dynamically",
        ));
    }
    Ok(())
}

/// Whether the program is linked to a sanitizer's run-time library, which insists on being loaded
/// before all others: such a program goes without the preload library.
pub(super) fn wants_no_preload(path: &Path) -> bool {
    /// Names of libraries lie near the start of a program.
    const LOOKED_AT: u64 = 64 << 20;
    let mut image = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut image));
    let is_elf = image.starts_with(b"\x7fELF");
    let named = |name: &[u8]| image.windows(name.len()).any(|window| window == name);
    read.is_ok() && is_elf && named(b"\0libasan.so.")
}

/// Whether this is an ELF program without an interpreter (`elf(5)`). What is no ELF file, a script
/// say, is not.
fn is_static(mut file: &File) -> bool {
    const PT_INTERP: u32 = 3;
    let mut head = [0; 64];
    if file.read_exact(&mut head).is_err() || head[..4] != *b"\x7fELF" {
        return false;
    }
    // Another class or byte order is another machine's; the system will say so.
    if head[4] != 2 || (head[5] == 1) != cfg!(target_endian = "little") {
        return false;
    }
    let number = |at: usize, len: usize| {
        let mut bytes = [0; 8];
        let from = head.get(at..at + len).unwrap_or_default();
        if cfg!(target_endian = "little") {
            bytes[..from.len()].copy_from_slice(from);
            u64::from_le_bytes(bytes)
        } else {
            bytes[8 - from.len()..].copy_from_slice(from);
            u64::from_be_bytes(bytes)
        }
    };
    let (table, size, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
    let interpreted = (0..count).any(|index| {
        let mut kind = [0; 4];
        let at = index.checked_mul(size).and_then(|offset| table.checked_add(offset));
        at.is_some_and(|at| file.read_exact_at(&mut kind, at).is_ok())
            && u32::from_ne_bytes(kind) == PT_INTERP
    });
    !interpreted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let sh = find(OsStr::new("sh")).unwrap();
        assert!(sh.is_absolute(), "{}", sh.display());
        assert_eq!(find(sh.as_os_str()).unwrap(), sh);
        for missing in ["no-such-program-at-all", "/etc/passwd", "/"] {
            assert!(find(OsStr::new(missing)).is_err(), "{missing}");
        }
    }

    #[test]
    fn a_dynamic_program_and_a_script_are_fine() {
        let sh = find(OsStr::new("sh")).unwrap();
        assert!(judge(&sh, FakeSysfs::Shim).is_ok());
        assert!(!is_static(&File::open(file!()).unwrap()));
        assert!(!is_static(&File::open(std::env::current_exe().unwrap()).unwrap()));
    }

    #[test]
    fn a_program_without_an_interpreter_is_static() {
        let mut image = [0_u8; 128];
        image[..4].copy_from_slice(b"\x7fELF");
        image[4] = 2;
        image[5] = if cfg!(target_endian = "little") { 1 } else { 2 };
        let put = |image: &mut [u8; 128], at: usize, value: u16| {
            image[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        };
        // One header of 56 bytes at offset 64, loadable.
        let low = if cfg!(target_endian = "little") { 0 } else { 6 };
        put(&mut image, 0x20 + low, 64);
        put(&mut image, 0x36, 56);
        put(&mut image, 0x38, 1);
        let path = std::env::temp_dir().join(format!("softrnic-static-{}", std::process::id()));
        for (kind, expected) in [(1_u32, true), (3, false)] {
            image[64..68].copy_from_slice(&kind.to_ne_bytes());
            std::fs::write(&path, image).unwrap();
            assert_eq!(is_static(&File::open(&path).unwrap()), expected, "header of type {kind}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
