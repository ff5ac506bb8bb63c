//! Real devices of which something is wrong: each says what, and how to go on.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::hardware::{HardwareConfig, HardwareProvider, LoadError};
use softrnic_verbs::provider::Provider;
use softrnic_verbs::{Access, AsyncEvent, Context};

/// The library with a fault, if there is a C compiler; says so if not.
fn library(mode: &str) -> Option<PathBuf> {
    let file = std::env::temp_dir().join(format!("softrnic-fake-{mode}-{}.so", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/fake_ibverbs.c");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"])
        .arg(format!("-DMODE={mode}"));
    match compiler.arg("-o").arg(&file).arg(source).output() {
        Ok(compiled) => {
            let said = String::from_utf8_lossy(&compiled.stderr);
            assert!(compiled.status.success(), "{said}");
            Some(file)
        }
        Err(error) => {
            softrnic_testing::not_installed(&format!("there is no C compiler: {error}"));
            None
        }
    }
}

/// The provider of a library with a fault.
fn provider(mode: &str) -> Option<Result<HardwareProvider, LoadError>> {
    let file = library(mode)?;
    let loaded = HardwareProvider::load(&HardwareConfig::library(&file));
    std::fs::remove_file(file).unwrap();
    Some(loaded)
}

fn opened(mode: &str) -> Option<Context> {
    Some(Context::new(provider(mode)?.unwrap().open("fake0").unwrap()))
}

#[test]
fn no_library() {
    let error = HardwareProvider::load(&HardwareConfig::library("/no/such/library")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("/no/such/library cannot be loaded: cannot open shared object"),
        "{text}"
    );
    assert!(text.contains("install rdma-core (Debian, Ubuntu: libibverbs1"), "{text}");
}

#[test]
fn another_library() {
    let error = HardwareProvider::load(&HardwareConfig::library("libc.so.6")).unwrap_err();
    assert!(matches!(error, LoadError::Incomplete { function: "ibv_get_device_list", .. }));
    assert!(error.to_string().contains("too old"), "{error}");
}

/// What is said of a file with these bytes.
fn said_of(name: &str, bytes: &[u8]) -> String {
    let folder = std::env::temp_dir().join(format!("softrnic-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("libibverbs.so.1");
    std::fs::write(&file, bytes).unwrap();
    let error = HardwareProvider::load(&HardwareConfig::library(&file)).unwrap_err();
    std::fs::remove_dir_all(folder).unwrap();
    assert!(matches!(error, LoadError::Absent { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn a_file_that_is_no_library() {
    let text = said_of("text", b"This is not the library that you are looking for.\n");
    assert!(text.contains("libibverbs.so.1 cannot be loaded: it is no shared library"), "{text}");
    assert!(said_of("empty", b"").contains("it is no shared library"));
    assert!(said_of("short", b"\x7fELF\x02\x01").contains("it is no shared library"));
}

#[test]
fn a_library_of_another_architecture() {
    let own = std::fs::read("/proc/self/exe").unwrap();
    let mut other = own[..4096].to_vec();
    // `e_machine`: that of the DEC Alpha.
    other[18..20].copy_from_slice(&0x9026_u16.to_ne_bytes());
    let text = said_of("alpha", &other);
    assert!(text.contains("another architecture (ELF machine 36902"), "{text}");
    let mut narrow = own[..4096].to_vec();
    narrow[4] = 1;
    let text = said_of("narrow", &narrow);
    assert!(text.contains("another architecture (word size"), "{text}");
}

#[test]
fn a_library_that_was_cut_off() {
    let own = std::fs::read("/proc/self/exe").unwrap();
    // Behind the segments a program that is debugged goes on for long.
    for len in [64, 4096, 65_536] {
        let text = said_of("cut", &own[..len]);
        assert!(text.contains("it is no shared library (cut off)"), "{text}");
        assert!(text.contains("install rdma-core"), "{text}");
    }
}

#[test]
fn a_kernel_without_rdma() {
    let Some(provider) = provider("NO_KERNEL") else { return };
    let error = provider.unwrap().devices().unwrap_err();
    assert_eq!(error.errno_name(), "ENOSYS");
    assert!(error.to_string().contains("modprobe ib_uverbs"), "{error}");
}

#[test]
fn no_device() {
    let Some(provider) = provider("NO_DEVICE") else { return };
    let provider = provider.unwrap();
    assert_eq!(provider.devices(), Ok(Vec::new()));
    let failure = provider.open("rxe0").unwrap_err();
    assert_eq!(failure.reason, "no RDMA device is called \"rxe0\": there is none at all");
}

#[test]
fn no_permission() {
    let Some(provider) = provider("NO_PERMISSION") else { return };
    let failure = provider.unwrap().open("fake0").unwrap_err();
    assert_eq!(failure.error.errno_name(), "EACCES");
    assert!(failure.reason.contains("no permission on /dev/infiniband/uverbs-fake0"), "{failure}");
    assert!(failure.reason.contains("docker run --device="), "{failure}");
}

#[test]
fn no_address() {
    let Some(context) = opened("NO_ADDRESS") else { return };
    let error = context.first_gid().unwrap_err();
    assert_eq!(error.source.errno_name(), "ENETUNREACH");
    // The extended verbs of a library that has none.
    let error = context.clock_ns().unwrap_err();
    assert_eq!(error.source.errno_name(), "EOPNOTSUPP");
    let error = context.alloc_dm(64).unwrap_err();
    assert_eq!(error.source.errno_name(), "EOPNOTSUPP");
}

#[test]
fn too_little_memory_may_be_locked() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Some(context) = opened("NO_LOCKED_MEMORY") else { return };
    let maximum = getrlimit(Resource::Memlock).maximum;
    setrlimit(Resource::Memlock, Rlimit { current: Some(4096), maximum }).unwrap();
    let pd = context.alloc_pd().unwrap();
    let error = pd.register(Buffer::new(65536).unwrap(), Access::LOCAL_WRITE).unwrap_err();
    assert_eq!(error.source.errno_name(), "ENOMEM");
    assert!(error.to_string().contains("ulimit -l unlimited"), "{error}");
    let error = pd.register(Buffer::new(64).unwrap(), Access::LOCAL_WRITE).unwrap_err();
    assert!(!error.to_string().contains("ulimit"), "{error}");
}

#[test]
fn a_device_that_fails_ends_every_wait() {
    let Some(context) = opened("FAILS") else { return };
    let began = Instant::now();
    let channel = context.create_comp_channel().unwrap();
    let error = channel.wait(None).unwrap_err();
    assert_eq!(error.source.errno_name(), "EIO");
    assert_eq!(context.next_async_event(None).unwrap(), Some(AsyncEvent::DeviceFatal));
    assert_eq!(context.next_async_event(None).unwrap_err().source.errno_name(), "EIO");
    assert!(began.elapsed() < Duration::from_secs(30));
}
