//! Starting the service where there is none.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::VARIABLE;

/// The name of the executable.
const EXECUTABLE: &str = "softrnic";
/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why no service was started.
#[derive(Debug)]
pub(super) enum LaunchError {
    /// There is no executable where it is looked for.
    NotFound,
    /// It could not be started, or ended with an error.
    Failed(PathBuf, String),
}

/// Starts a service for this user and `port` in this network namespace, and returns when clients
/// can connect to it; also if somebody else was quicker.
///
/// The program that is started starts the service proper and ends: the caller gets no child that
/// it does not expect.
pub(super) fn start(port: u16) -> Result<(), LaunchError> {
    let program = find().ok_or(LaunchError::NotFound)?;
    let failed = |why: String| LaunchError::Failed(program.clone(), why);
    let child = Command::new(&program)
        .args(["service", "--on-demand", "--udp-port", &port.to_string()])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| failed(error.to_string()))?;
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(failed(describe(status))),
            // A program that waits for any child has got hold of its end.
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(()),
            Err(error) => return Err(failed(error.to_string())),
            Ok(None) if started.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_micros(500));
            }
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed("it does not get ready".into()));
            }
        }
    }
}

fn describe(status: ExitStatus) -> String {
    format!("it ended at once ({status})")
}

/// Where an installation has the executable, from the folder of a library: beside it in a build's
/// folder, else in `bin` for one in `lib` or in `lib/softrnic`.
const FROM_LIBRARY: [&str; 3] = ["", "../bin", "../../bin"];

/// The executable: the one that the environment names, else beside the running executable, else
/// where it belongs to the shared library that holds this code, else on the path.
fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return std::path::absolute(named).ok();
    }
    let executable = std::env::current_exe().ok();
    let beside = executable.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = std::env::split_paths(&path).filter(|f| f.is_absolute()).collect();
    let folders = beside.into_iter().chain(of_library()).chain(path);
    folders.map(|folder| folder.join(EXECUTABLE)).find(|file| is_executable(file))
}

fn of_library() -> impl Iterator<Item = PathBuf> {
    let library = own_library();
    FROM_LIBRARY.iter().filter_map(move |folder| Some(library.as_ref()?.parent()?.join(folder)))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The file that this code was loaded from.
fn own_library() -> Option<PathBuf> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let here = (own_library as fn() -> Option<PathBuf>) as usize;
    maps.split(|byte| *byte == b'\n').find_map(|line| file_of(line, here))
}

/// The file of a line of `/proc/PID/maps`, if `address` is in its range (`proc_pid_maps(5)`).
fn file_of(line: &[u8], address: usize) -> Option<PathBuf> {
    let range = line.split(|byte| *byte == b' ').next()?;
    let (start, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
    let parse = |text| usize::from_str_radix(text, 16).ok();
    let inside = (parse(start)?..parse(end)?).contains(&address);
    let name = line.get(line.iter().position(|byte| *byte == b'/')?..)?;
    inside.then(|| PathBuf::from(OsStr::from_bytes(name)))
}

/// This executable, also where its file has been replaced since.
pub(super) fn own_executable() -> io::Result<PathBuf> {
    let file = std::env::current_exe()?;
    Ok(if is_executable(&file) { file } else { PathBuf::from("/proc/self/exe") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_code_is_in_a_file_that_exists() {
        assert_eq!(own_library().unwrap(), std::env::current_exe().unwrap());
        assert!(is_executable(&own_executable().unwrap()));
    }

    #[test]
    fn a_line_of_the_map_is_understood() {
        let line = b"7f00-7fff r-xp 00001000 08:01 42    /opt/a library.so";
        assert_eq!(file_of(line, 0x7f00), Some("/opt/a library.so".into()));
        assert_eq!((file_of(line, 0x7fff), file_of(b"", 0)), (None, None));
        assert_eq!(file_of(b"7f00-7fff rw-p 00000000 00:00 0 [heap]", 0x7f00), None);
    }
}
