//! Programs that look at paths, with the library before them.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// The library, built from what is here now: cargo does not do it for the tests of a `cdylib`.
fn library() -> &'static Path {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = std::env::current_exe().unwrap();
        let folder = test.ancestors().nth(2).unwrap();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "-p", "softrnic-sysfs-shim"]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        cargo.env("CARGO_TARGET_DIR", folder.parent().unwrap());
        assert!(cargo.status().unwrap().success(), "the library does not build");
        folder.join("libsoftrnic_sysfs.so")
    });
    &BUILT
}

/// A tree of one device, removed at the end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let root =
            std::env::temp_dir().join(format!("softrnic-shim-{name}-{}", std::process::id()));
        let types = root.join("class/infiniband/soft0/ports/1/gid_attrs/types");
        std::fs::create_dir_all(&types).unwrap();
        std::fs::create_dir_all(root.join("dev/infiniband")).unwrap();
        std::fs::write(types.join("0"), "RoCE v2\n").unwrap();
        std::fs::write(root.join("dev/infiniband/uverbs0"), "").unwrap();
        Self(root)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new(program)
            .args(arguments)
            .env("LD_PRELOAD", library())
            .env("SOFTRNIC_SYSFS", &self.0)
            .env("LC_ALL", "C")
            .output()
            .unwrap()
    }

    fn text(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.run(program, arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {error}");
        text.trim().to_owned()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

const TYPE: &str = "/sys/class/infiniband/soft0/ports/1/gid_attrs/types/0";

#[test]
fn files_of_the_tree_are_read_listed_and_examined() {
    let tree = Tree::new("read");
    assert_eq!(tree.text("cat", &[TYPE]), "RoCE v2");
    assert_eq!(tree.text("ls", &["/sys/class/infiniband"]), "soft0");
    assert_eq!(tree.text("stat", &["-c", "%F", "/sys/class/infiniband/soft0"]), "directory");
    assert_eq!(tree.text("sh", &["-c", &format!("read line < {TYPE}; echo \"$line\"")]), "RoCE v2");
    assert!(!tree.run("cat", &["/sys/class/infiniband/soft1"]).status.success());
}

#[test]
fn a_node_is_a_character_device_that_may_be_used() {
    let tree = Tree::new("node");
    let node = "/dev/infiniband/uverbs0";
    assert_eq!(tree.text("stat", &["-L", "-c", "%F", node]), "character special file");
    assert_eq!(
        tree.text("sh", &["-c", &format!("test -r {node} && test -w {node} && echo yes")]),
        "yes"
    );
    assert_eq!(tree.text("ls", &["/dev/infiniband"]), "uverbs0");
    assert!(!tree.run("stat", &["/dev/infiniband/uverbs1"]).status.success(), "not in the tree");
}

#[test]
fn everything_else_is_left_alone() {
    let tree = Tree::new("else");
    for arguments in [["/sys/class/net"], ["/dev/null"], ["/dev/infinibandits"], ["/"]] {
        let plain = Command::new("ls").args(arguments).env("LC_ALL", "C").output().unwrap();
        let shown = tree.run("ls", &arguments);
        assert_eq!((shown.status, shown.stdout), (plain.status, plain.stdout), "{arguments:?}");
    }
    // Longer than any path: refused by the call, and by nothing here.
    let long = format!("/sys/class/infiniband/{}", "x".repeat(5000));
    assert!(!tree.run("cat", &[&long]).status.success());
}

#[test]
fn without_a_tree_paths_mean_themselves() {
    for root in [None, Some("relative"), Some("")] {
        let mut command = Command::new("ls");
        command.arg("/sys/class/infiniband").env("LD_PRELOAD", library()).env("LC_ALL", "C");
        command.env_remove("SOFTRNIC_SYSFS");
        if let Some(root) = root {
            command.env("SOFTRNIC_SYSFS", root);
        }
        let found = command.output().unwrap().status.success();
        assert_eq!(found, Path::new("/sys/class/infiniband").is_dir(), "{root:?}");
    }
}
