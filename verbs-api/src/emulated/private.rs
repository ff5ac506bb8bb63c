//! Directories that only one user can enter: for sockets and links that others must not replace.

use std::fs::{DirBuilder, symlink_metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A directory of this user alone, made if it is not there yet: `softrnic` in `XDG_RUNTIME_DIR`, or
/// `softrnic-UID` among the temporary files.
///
/// # Errors
/// It cannot be made, or is there and others may enter it.
pub fn private_directory() -> io::Result<PathBuf> {
    let directory = directories().into_iter().next().ok_or(ErrorKind::NotFound)?;
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => judge(&directory).map(|()| directory),
    }
}

/// Where such directories may be, the place for new things first.
pub(super) fn directories() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute() && path.is_dir());
    let uid = rustix::process::getuid().as_raw();
    let shared = std::env::temp_dir().join(format!("softrnic-{uid}"));
    runtime.map(|path| path.join("softrnic")).into_iter().chain([shared]).collect()
}

/// Whether a directory is one that only this user can enter.
pub(super) fn judge(directory: &Path) -> io::Result<()> {
    let found = symlink_metadata(directory)?;
    let own = found.is_dir() && found.uid() == rustix::process::getuid().as_raw();
    if own && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let why = format!("{} is not a directory of this user alone", directory.display());
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_can_enter_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let directory = std::env::temp_dir().join(format!("softrnic-open-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&directory).unwrap();
        judge(&directory).unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&directory, open).unwrap();
        assert_eq!(judge(&directory).unwrap_err().kind(), ErrorKind::PermissionDenied);
        std::fs::remove_dir(&directory).unwrap();
    }
}
