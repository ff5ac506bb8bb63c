//! What a kernel with RDMA would show of the devices in `/sys/class` and `/dev`: a tree of small
//! files, made before the program starts.
//!
//! The files hold what does not change while a program runs: names, GUIDs, GID types. Their names
//! and contents are those of Linux (`Documentation/ABI/stable/sysfs-class-infiniband`).

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use softrnic_verbs::Gid;
use softrnic_verbs::emulated::{EmulatedConfig, EmulatedProvider, private_directory};
use softrnic_verbs::provider::{DeviceInfo, Provider};

use super::library::label;
use crate::error::Failure;

/// A tree that is there.
#[derive(Debug)]
pub(super) struct Tree(PathBuf);

impl Tree {
    /// The tree of these devices. It is made once and used by all who run with the same devices.
    pub(super) fn of(provider: &EmulatedProvider) -> Result<Self, Failure> {
        let refused = |error| Failure::plain(format!("the devices cannot be listed: {error}"));
        let configs = provider.configs().map_err(refused)?;
        let devices = provider.devices().map_err(refused)?;
        let files: Vec<_> = (0..)
            .zip(configs.iter().zip(&devices))
            .flat_map(|(number, (config, device))| files_of(number, config, device))
            .collect();
        make(&files).map(Self).map_err(|error| {
            Failure::failed(
                format!("the tree for /sys/class/infiniband cannot be made: {error}"),
                "set XDG_RUNTIME_DIR or TMPDIR to a folder where files can be made, or use \
                 --fake-sysfs=none",
            )
        })
    }

    /// The folder that holds `class` and `dev`.
    pub(super) fn root(&self) -> &Path {
        &self.0
    }
}

/// A file and what is in it.
type File = (PathBuf, String);

fn files_of(number: u32, config: &EmulatedConfig, device: &DeviceInfo) -> Vec<File> {
    let mut files = Vec::new();
    let mut put = |path: String, content: String| files.push((path.into(), content));
    let guid = guid(device.node_guid);
    let class = format!("class/infiniband/{}", device.name);
    put(format!("{class}/node_guid"), guid.clone());
    put(format!("{class}/sys_image_guid"), guid);
    put(format!("{class}/node_type"), "1: CA".into());
    put(format!("{class}/node_desc"), device.name.clone());
    put(format!("{class}/device/numa_node"), "-1".into());
    let interface = config.interface.clone().unwrap_or_default();
    if !interface.is_empty() {
        put(format!("{class}/device/net/{interface}/name"), interface.clone());
    }
    let port = format!("{class}/ports/1");
    put(format!("{port}/link_layer"), "Ethernet".into());
    put(format!("{port}/lid"), "0x0".into());
    put(format!("{port}/pkeys/0"), "0xffff".into());
    for (index, address) in config.addresses.iter().enumerate() {
        put(format!("{port}/gids/{index}"), colons(Gid::from(*address)));
        put(format!("{port}/gid_attrs/types/{index}"), "RoCE v2".into());
        put(format!("{port}/gid_attrs/ndevs/{index}"), interface.clone());
    }
    let verbs = format!("class/infiniband_verbs/uverbs{number}");
    put(format!("{verbs}/ibdev"), device.name.clone());
    put(format!("{verbs}/abi_version"), "1".into());
    // The version of the interface to user space that Linux has had since 2005.
    put("class/infiniband_verbs/abi_version".into(), "6".into());
    put(format!("dev/infiniband/uverbs{number}"), String::new());
    files
}

/// `0252:52ff:fe00:0000`.
fn guid(bytes: [u8; 8]) -> String {
    groups(&bytes)
}

/// Eight groups, none left out.
fn colons(gid: Gid) -> String {
    groups(&gid.0)
}

fn groups(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (index, pair) in bytes.chunks(2).enumerate() {
        if index > 0 {
            text.push(':');
        }
        for byte in pair {
            // Writing to a string cannot fail.
            _ = write!(text, "{byte:02x}");
        }
    }
    text
}

/// Makes the files in a folder that is named after all of them, unless they are there.
fn make(files: &[File]) -> io::Result<PathBuf> {
    let mut all = OsString::new();
    for (path, content) in files {
        all.push(path);
        all.push("\0");
        all.push(content);
        all.push("\0");
    }
    let above = private_directory()?.join("sysfs");
    std::fs::create_dir_all(&above)?;
    let folder = above.join(label(&all));
    // Whoever tidies up temporary files may have taken a part of it.
    let there = folder.is_dir();
    let whole = there && files.iter().all(|(path, _)| folder.join(path).exists());
    if there && !whole {
        std::fs::remove_dir_all(&folder)?;
    }
    if whole {
        // It is in use: this keeps it from being swept.
        return std::fs::File::open(&folder)?.set_modified(SystemTime::now()).map(|()| folder);
    }
    sweep(&above);
    // Nobody sees half a tree: it is made elsewhere and put in place whole.
    let fresh = above.join(format!(".{}.{}", label(&all), std::process::id()));
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh)?;
    }
    std::fs::create_dir_all(fresh.join("class/infiniband"))?;
    for (path, content) in files {
        let path = fresh.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let end = if content.is_empty() { "" } else { "\n" };
        std::fs::write(path, format!("{content}{end}"))?;
    }
    match std::fs::rename(&fresh, &folder) {
        Err(_) if folder.is_dir() => std::fs::remove_dir_all(&fresh)?,
        result => result?,
    }
    Ok(folder)
}

/// How long a tree stays that nobody starts a program with.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Removes trees that have not been used for long; that it cannot is no reason not to go on.
fn sweep(above: &Path) {
    let old = |folder: &Path| {
        let used = folder.symlink_metadata().and_then(|meta| meta.modified()).ok();
        used.and_then(|used| used.elapsed().ok()).is_some_and(|age| age > KEPT)
    };
    let folders = std::fs::read_dir(above).into_iter().flatten().flatten();
    for folder in folders.map(|entry| entry.path()).filter(|folder| old(folder)) {
        _ = std::fs::remove_dir_all(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_describes_each_device() {
        let mut config = EmulatedConfig::new([127, 0, 0, 9].into());
        config.addresses.push("::1".parse().unwrap());
        config.interface = Some("lo".into());
        let device = DeviceInfo { name: "soft0".into(), node_guid: [2, 0, 0, 0xff, 0xfe, 1, 2, 3] };
        let files = files_of(1, &config, &device);
        let text = |path: &str| {
            let found = files.iter().find(|(known, _)| known == Path::new(path));
            found.unwrap_or_else(|| panic!("no {path}")).1.clone()
        };
        assert_eq!(text("class/infiniband/soft0/node_guid"), "0200:00ff:fe01:0203");
        let port = "class/infiniband/soft0/ports/1";
        let gid = "0000:0000:0000:0000:0000:ffff:7f00:0009";
        assert_eq!(text(&format!("{port}/gids/0")), gid);
        assert_eq!(text(&format!("{port}/gid_attrs/types/1")), "RoCE v2");
        assert_eq!(text(&format!("{port}/gid_attrs/ndevs/0")), "lo");
        assert_eq!(text("class/infiniband_verbs/uverbs1/ibdev"), "soft0");
        assert_eq!(text("dev/infiniband/uverbs1"), "");
    }

    #[test]
    fn trees_that_nobody_uses_are_swept() {
        let above = std::env::temp_dir().join(format!("softrnic-sweep-{}", std::process::id()));
        let [old, new] = ["old", "new"].map(|name| above.join(name));
        for folder in [&old, &new] {
            std::fs::create_dir_all(folder.join("class")).unwrap();
        }
        let long_ago = SystemTime::now() - 2 * KEPT;
        std::fs::File::open(&old).unwrap().set_modified(long_ago).unwrap();
        sweep(&above);
        assert!(!old.exists() && new.exists());
        std::fs::remove_dir_all(above).unwrap();
    }

    #[test]
    fn a_tree_without_devices_can_be_made_and_a_damaged_one_is_made_again() {
        // A host whose interfaces are all down has no device.
        assert!(make(&[]).unwrap().join("class/infiniband").is_dir());
        let files = vec![("class/y".into(), format!("damaged {}", std::process::id()))];
        let folder = make(&files).unwrap();
        std::fs::remove_file(folder.join("class/y")).unwrap();
        assert_eq!(make(&files).unwrap(), folder);
        assert!(folder.join("class/y").is_file());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_same_devices_share_a_tree() {
        let files =
            |content: &str| vec![("class/x".into(), format!("{content} {}", std::process::id()))];
        let first = make(&files("a")).unwrap();
        assert_eq!(make(&files("a")).unwrap(), first);
        let other = make(&files("b")).unwrap();
        assert_ne!(other, first);
        for folder in [first, other] {
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}
