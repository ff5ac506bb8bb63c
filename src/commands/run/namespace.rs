//! `--fake-sysfs=ns`: the program gets a mount namespace of its own in which `/sys/class` and `/dev`
//! have the devices in them (`user_namespaces(7)`, `mount_namespaces(7)`).

use std::io;
use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::process::{getgid, getuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::tree::Tree;
use crate::error::Failure;

/// Nodes and folders of `/dev` that programs expect; those that are not there are left out.
const NODES: [&str; 14] = [
    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "mqueue", "fd",
    "stdin", "stdout", "stderr",
];

/// Enters the namespace. From then on this process sees the devices, and so does what it starts.
pub(super) fn enter(tree: &Tree) -> Result<(), Failure> {
    separate().and_then(|()| show(tree.root())).map_err(|error| {
        Failure::failed(
            format!("no mount namespace can be made for the program: {error}"),
            "many containers forbid it: use --fake-sysfs=shim",
        )
    })
}

/// A user namespace in which we are who we were, for those who may not mount, and a mount namespace.
fn separate() -> io::Result<()> {
    let (uid, gid) = (getuid(), getgid());
    let new = if uid.is_root() {
        UnshareFlags::NEWNS
    } else {
        UnshareFlags::NEWUSER | UnshareFlags::NEWNS
    };
    #[expect(unsafe_code, reason = "the call may not leave threads with another view behind")]
    // SAFETY: of all that the call can take away from other threads we ask for none: descriptors
    // and memory stay shared; and there is no other thread here yet.
    unsafe {
        unshare_unsafe(new)?;
    }
    if new.contains(UnshareFlags::NEWUSER) {
        // Without giving up setgroups(2) no group may be mapped.
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("{0} {0} 1", uid.as_raw()))?;
        std::fs::write("/proc/self/gid_map", format!("{0} {0} 1", gid.as_raw()))?;
    }
    // What is mounted here stays here.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    Ok(())
}

fn show(root: &Path) -> io::Result<()> {
    let lower = format!("lowerdir={}:/sys/class", root.join("class").display());
    let lower = std::ffi::CString::new(lower).map_err(io::Error::other)?;
    mount("overlay", "/sys/class", "overlay", MountFlags::RDONLY, lower.as_c_str())?;

    // A device folder that is ours, with what the old one had: an overlay on /dev is refused. It is
    // made beside the tree and moved to its place.
    let fresh = root.join("dev-mount");
    std::fs::create_dir_all(&fresh)?;
    mount("tmpfs", &fresh, "tmpfs", MountFlags::NOSUID, c"mode=755")?;
    for name in NODES {
        let (old, new) = (Path::new("/dev").join(name), fresh.join(name));
        let Ok(meta) = old.symlink_metadata() else { continue };
        if meta.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&old)?, &new)?;
            continue;
        }
        place(&new, meta.is_dir())?;
        mount_bind_recursive(&old, &new)?;
    }
    std::fs::create_dir(fresh.join("infiniband"))?;
    for node in std::fs::read_dir(root.join("dev/infiniband"))? {
        let new = fresh.join("infiniband").join(node?.file_name());
        place(&new, false)?;
        mount_bind_recursive("/dev/null", &new)?;
    }
    rustix::mount::mount_move(&fresh, "/dev")?;
    Ok(())
}

/// Something to mount on.
fn place(path: &Path, folder: bool) -> io::Result<()> {
    if folder { std::fs::create_dir(path) } else { std::fs::write(path, "") }
}
