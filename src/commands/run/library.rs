//! Where the libraries are: beside this program in a build's folder, or where an installation has
//! them.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use softrnic_verbs::emulated::private_directory;

use crate::error::Failure;

/// A library of ours.
pub(super) struct Library {
    /// Its file.
    file: &'static str,
    /// The package that it is built from.
    package: &'static str,
}

/// The drop-in for `libibverbs.so.1` and `librdmacm.so.1`.
pub(super) const DROP_IN: Library =
    Library { file: "libsoftrnic_ibverbs.so", package: "softrnic-cabi" };

/// The preload library of `--fake-sysfs=shim`.
pub(super) const SHIM: Library =
    Library { file: "libsoftrnic_sysfs.so", package: "softrnic-sysfs-shim" };

/// What programs call the drop-in: as they are linked, and as they open it at run time.
const NAMES: [&str; 4] = ["libibverbs.so.1", "libibverbs.so", "librdmacm.so.1", "librdmacm.so"];

/// Folders of an installation, from that of this program (`bin`).
const INSTALLED: [&str; 3] = ["../lib/softrnic", "../lib64/softrnic", "../lib"];

/// What cannot stand in a path of a list that the dynamic linker reads, for it ends items there or
/// puts something in its place (`ld.so(8)`).
const NOT_IN_LIBRARY_PATH: &[u8] = b":;$";
const NOT_IN_PRELOAD: &[u8] = b": \t\n$";

/// A library's file.
#[derive(Debug)]
pub(super) struct Found(PathBuf);

impl Found {
    /// Finds a library: the one that was named, or that belongs to this program.
    pub(super) fn library(library: &Library, named: Option<&Path>) -> Result<Self, Failure> {
        if let Some(path) = named {
            return match path.canonicalize() {
                Ok(file) if file.is_file() => Ok(Self(file)),
                _ => Err(Failure::usage(
                    format!("--library (SOFTRNIC_LIBRARY): there is no file {}", path.display()),
                    format!("name {}, or leave it out", library.file),
                )),
            };
        }
        let program = std::env::current_exe().and_then(|path| path.canonicalize());
        let program = program.map_err(|error| {
            Failure::failed(
                format!("this program's own place cannot be found out: {error}"),
                "name the library with --library",
            )
        })?;
        let home = program.parent().unwrap_or(Path::new("/")).to_path_buf();
        let folders = INSTALLED.iter().map(|folder| home.join(folder));
        // A test program lies one folder deeper than what it tests.
        let folders = [home.clone(), home.join("..")].into_iter().chain(folders);
        let mut looked = Vec::new();
        for folder in folders {
            let file = folder.join(library.file);
            if file.is_file() {
                return Ok(Self(file.canonicalize().unwrap_or(file)));
            }
            looked.push(folder.display().to_string());
        }
        Err(Failure::failed(
            format!("{} is not there; looked in {}", library.file, looked.join(", ")),
            advice(library, &home),
        ))
    }

    /// The file, by a path for `LD_PRELOAD`.
    pub(super) fn preload(&self) -> Result<PathBuf, Failure> {
        if !has_any(&self.0, NOT_IN_PRELOAD) {
            return Ok(self.0.clone());
        }
        let name = self.0.file_name().unwrap_or_default();
        Ok(self.linked_as(&[name], NOT_IN_PRELOAD)?.join(name))
    }

    /// A folder for `LD_LIBRARY_PATH` in which the library has all names that programs know it by:
    /// its own, where it was installed so, else one that is made.
    pub(super) fn directory(&self) -> Result<PathBuf, Failure> {
        if let Some(own) = self.0.parent()
            && self.is_linked_in(own)
            && !has_any(own, NOT_IN_LIBRARY_PATH)
        {
            return Ok(own.to_path_buf());
        }
        self.linked_as(&NAMES.map(OsStr::new), NOT_IN_LIBRARY_PATH)
    }

    fn linked_as(&self, names: &[&OsStr], unfit: &[u8]) -> Result<PathBuf, Failure> {
        const ADVICE: &str = "set XDG_RUNTIME_DIR or TMPDIR to a folder where files can be made, with \
            no blank, colon, semicolon or dollar sign in its name";
        match self.link(names) {
            Ok(folder) if has_any(&folder, unfit) => Err(Failure::failed(
                format!("the dynamic linker cannot be told of the folder {}", folder.display()),
                ADVICE,
            )),
            Ok(folder) => Ok(folder),
            Err(error) => Err(Failure::failed(
                format!("the links to {} cannot be made: {error}", self.0.display()),
                ADVICE,
            )),
        }
    }

    fn is_linked_in(&self, folder: &Path) -> bool {
        let same = |name| folder.join(name).canonicalize().is_ok_and(|file| file == self.0);
        NAMES.iter().all(same)
    }

    /// One file under several names stays one library to the dynamic linker: it tells files by
    /// their inode. Copies would be several.
    fn link(&self, names: &[&OsStr]) -> io::Result<PathBuf> {
        let folder = private_directory()?.join("lib").join(label(self.0.as_os_str()));
        std::fs::create_dir_all(&folder)?;
        for name in names {
            let link = folder.join(name);
            if link.canonicalize().is_ok_and(|file| file == self.0) {
                continue;
            }
            // Another process may do the same: each puts a whole link in place.
            let fresh = folder.join(format!(".{}.{}", name.display(), std::process::id()));
            symlink(&self.0, &fresh)?;
            std::fs::rename(&fresh, &link)?;
        }
        Ok(folder)
    }
}

/// What to do about a library that is missing, from the folder of this program.
fn advice(library: &Library, home: &Path) -> String {
    // Cargo's own lock marks a build's folder.
    let is_build = [home, &home.join("..")].iter().any(|f| f.join(".cargo-lock").exists());
    if is_build {
        let release = if cfg!(debug_assertions) { "" } else { " --release" };
        format!("in the source folder: cargo build{release} -p {}", library.package)
    } else {
        format!(
            "`cargo install` puts only the program there: run `tools/dist --prefix \"{}\"` in the \
             source folder, or unpack the whole tarball and use its bin/softrnic",
            home.parent().unwrap_or(home).display()
        )
    }
}

fn has_any(path: &Path, bytes: &[u8]) -> bool {
    path.as_os_str().as_bytes().iter().any(|byte| bytes.contains(byte))
}

/// A name for a folder that belongs to `text` alone: the same one every time.
pub(super) fn label(text: &OsStr) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
