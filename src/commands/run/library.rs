//! Where the libraries are: beside this program in a build's folder, or where an installation has
//! them.

use std::ffi::OsStr;
use std::io;
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
        let home = program.parent().unwrap_or(Path::new("/"));
        let folders = INSTALLED.iter().map(|folder| home.join(folder));
        // A test program lies one folder deeper than what it tests.
        let folders = [home.to_path_buf(), home.join("..")].into_iter().chain(folders);
        let mut looked = Vec::new();
        for folder in folders {
            let file = folder.join(library.file);
            if file.is_file() {
                return Ok(Self(file.canonicalize().unwrap_or(file)));
            }
            looked.push(folder.display().to_string());
        }
        let release = if cfg!(debug_assertions) { "" } else { " --release" };
        Err(Failure::failed(
            format!("{} is not there; looked in {}", library.file, looked.join(", ")),
            format!("in the source folder: cargo build{release} -p {}", library.package),
        ))
    }

    /// The file itself.
    pub(super) fn file(&self) -> &Path {
        &self.0
    }

    /// A folder in which the library has all names that programs know it by: its own, where it was
    /// installed so, else one that is made.
    pub(super) fn directory(&self) -> Result<PathBuf, Failure> {
        if let Some(own) = self.0.parent()
            && self.is_linked_in(own)
        {
            return Ok(own.to_path_buf());
        }
        self.link().map_err(|error| {
            Failure::failed(
                format!("the links to {} cannot be made: {error}", self.0.display()),
                "set XDG_RUNTIME_DIR or TMPDIR to a folder where files can be made",
            )
        })
    }

    fn is_linked_in(&self, folder: &Path) -> bool {
        let same = |name| folder.join(name).canonicalize().is_ok_and(|file| file == self.0);
        NAMES.iter().all(same)
    }

    /// One file under several names stays one library to the dynamic linker: it tells files by
    /// their inode. Copies would be several.
    fn link(&self) -> io::Result<PathBuf> {
        let folder = private_directory()?.join("lib").join(label(self.0.as_os_str()));
        std::fs::create_dir_all(&folder)?;
        for name in NAMES {
            let link = folder.join(name);
            if link.canonicalize().is_ok_and(|file| file == self.0) {
                continue;
            }
            // Another process may do the same: each puts a whole link in place.
            let fresh = folder.join(format!(".{name}.{}", std::process::id()));
            symlink(&self.0, &fresh)?;
            std::fs::rename(&fresh, &link)?;
        }
        Ok(folder)
    }
}

/// A name for a folder that belongs to `text` alone: the same one every time.
pub(super) fn label(text: &OsStr) -> String {
    format!("{:08x}", crc32fast::hash(text.as_encoded_bytes()))
}
