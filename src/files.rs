//! Reading files whole: those that a command line names, of ordinary size only.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// The most that is read of a file of text.
pub(crate) const TEXT_MAX: u64 = 64 << 20;
/// The most that is read of a capture.
pub(crate) const CAPTURE_MAX: u64 = 1 << 30;

/// The text of a file.
///
/// # Errors
/// It cannot be read, is no ordinary file, is longer than [`TEXT_MAX`], or is not UTF-8.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read(path, TEXT_MAX)?;
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is not UTF-8"))
    })
}

/// The bytes of a file, of which there may be `most`.
///
/// # Errors
/// It cannot be read, is no ordinary file, or is longer.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let judge = |about: Metadata| {
        if about.is_file() {
            return Ok(about);
        }
        let kind = if about.is_dir() { "a directory" } else { "a device, pipe or socket" };
        Err(invalid(format!("it is {kind}, and only ordinary files are read")))
    };
    judge(std::fs::metadata(path)?)?;
    let file = open(path)?;
    // It may be another one by now.
    let about = judge(file.metadata()?)?;
    let longer = || invalid(format!("it is longer than {} MiB", most >> 20));
    if about.len() > most {
        return Err(longer());
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile, and some files of the system do not say how long they are.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(longer()) } else { Ok(bytes) }
}

/// Opens without waiting: a pipe without a writer would keep us for ever.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NONBLOCK);
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ordinary_files_of_ordinary_size_are_read() {
        let folder = std::env::temp_dir().join(format!("softrnic-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("text");
        std::fs::write(&file, b"a\nbcd").unwrap();
        std::fs::write(folder.join("latin"), b"a\nb\xe4\n").unwrap();
        let why = |path: &Path, most| read(path, most).unwrap_err().to_string();
        assert_eq!(read(&file, 5).unwrap(), b"a\nbcd");
        assert_eq!(why(&file, 4), "it is longer than 0 MiB");
        assert!(why(&folder, 4).contains("directory"));
        assert!(why(&folder.join("none"), 4).contains("No such file") || cfg!(not(unix)));
        let latin = read_text(&folder.join("latin")).unwrap_err().to_string();
        assert_eq!(latin, "line 2 is not UTF-8");
        #[cfg(unix)]
        assert!(why(Path::new("/dev/zero"), 4).contains("ordinary files"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
