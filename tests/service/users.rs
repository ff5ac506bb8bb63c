//! Several users. Only root can start processes of others; elsewhere these tests say so and pass.

use std::process::{Command, Stdio};

use softrnic_testing::not_run;
use softrnic_transport::service::Refusal;

use crate::child::{Child, PID_NAMESPACE, connect, start_write, write};
use crate::world::{Foreground, SERVICE, free_port, service_of, services, signal, until};

pub(crate) const NOBODY: u32 = 65534;
const SOMEBODY: u32 = 1000;

/// Whether processes of other users can be started, and can reach the programs.
pub(crate) fn can_change_user() -> bool {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(SERVICE);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).current_dir("/");
    let can = command.uid(SOMEBODY).gid(SOMEBODY).status().is_ok_and(|status| status.success());
    if !can {
        not_run("only root can start processes of other users, in a folder of theirs");
    }
    can
}

#[test]
fn an_address_of_another_users_service_is_refused_with_the_reason() {
    if !can_change_user() {
        return;
    }
    let (port, at) = (free_port(), "127.0.66.21");
    let _owner = Child::of_user(port, at, NOBODY).unwrap();
    let told = Child::of_user(port, at, SOMEBODY).unwrap_err();
    assert!(told.contains("user 65534 has the port at this address"), "{told}");
    assert!(told.contains("softrnic service --allow-uid"), "{told}");
    // Another address is another matter.
    let other = Child::of_user(port, "127.0.66.22", SOMEBODY).unwrap();
    assert_eq!(other.slot(), 1);
    let uids: Vec<_> = services(port).iter().map(|listed| listed.uid).collect();
    assert_eq!(uids, [SOMEBODY, NOBODY]);
    // Each answers its own user and root only.
    let ps = |uid| {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(SERVICE);
        command.args(["ps", "--json", "--udp-port", &port.to_string()]).current_dir("/");
        let output = command.uid(uid).gid(uid).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(ps(SOMEBODY).contains("127.0.66.22") && !ps(SOMEBODY).contains("127.0.66.21"));
    assert!(ps(0).contains("127.0.66.22") && ps(0).contains("127.0.66.21"));
}

#[test]
fn users_who_are_allowed_share_an_address_and_others_do_not() {
    if !can_change_user() {
        return;
    }
    let (port, at) = (free_port(), "127.0.66.23");
    let _service = Foreground::start(port, "--allow-uid 65534");
    let mut a = Child::of_user(port, at, NOBODY).unwrap();
    let mut b = Child::new(port, at);
    connect(&mut a, &mut b);
    assert_eq!(write(&mut a, &b, 50), "done");
    assert_eq!(write(&mut b, &a, 50), "done");
    let told = Child::of_user(port, at, SOMEBODY).unwrap_err();
    assert!(told.contains("does not serve this user") || told.contains("user 0 has"), "{told}");
    // A slot that another user has had is not given to this one.
    let slot = a.slot();
    a.kill();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let c = Child::new(port, at);
    assert_ne!(c.slot(), slot);
    let again = Child::of_user(port, at, NOBODY).unwrap();
    assert_eq!(again.slot(), slot);
    let all = services(port);
    let shared = all.iter().find(|listed| listed.uid == 0).unwrap();
    assert_eq!(shared.listing.as_ref().unwrap().members.len(), 3);
}

/// The sockets that are bound to a UDP port, as links of `/proc/PID/fd` name them.
fn sockets_at(port: u16) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let at = format!(":{port:04X}");
    let lines = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let bound = lines.filter(|fields| fields[1].ends_with(&at));
    bound.map(|fields| format!("socket:[{}]", fields[9])).collect()
}

fn holds_one_of(pid: u32, sockets: &[String]) -> bool {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.into_iter().any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))
}

#[test]
fn another_user_gets_packets_but_no_socket_of_the_port() {
    if !can_change_user() {
        return;
    }
    let (port, at) = (free_port(), "127.0.66.25");
    let _service = Foreground::start(port, "--allow-uid 65534,1000");
    let mut a = Child::of_user(port, at, NOBODY).unwrap();
    let mut b = Child::of_user(port, at, SOMEBODY).unwrap();
    let c = Child::new(port, at);
    // With such a socket one could have the packets of others.
    let sockets = sockets_at(port);
    assert!(holds_one_of(c.id(), &sockets));
    assert!(!holds_one_of(a.id(), &sockets) && !holds_one_of(b.id(), &sockets));
    connect(&mut a, &mut b);
    start_write(&mut a, &b, 3000);
    // The service is on the way of their packets: they are sent again when it is back.
    let before = service_of(port).unwrap();
    signal("KILL", before.service);
    until("it is replaced", || (service_of(port)?.service != before.service).then_some(()));
    assert_eq!(a.hear(), "done");
    assert_eq!(write(&mut b, &a, 300), "done");
    // What is left of it in the background ends as the one in the foreground would. (As long as there
    // are members, they would start another one.)
    drop((a, b, c));
    until("they are gone", || service_of(port)?.members.is_empty().then_some(()));
    signal("TERM", service_of(port).unwrap().service);
    until("it is gone", || service_of(port).is_none().then_some(()));
}

#[test]
fn who_takes_the_name_of_anothers_service_is_found_out() {
    if !can_change_user() {
        return;
    }
    let port = free_port();
    // The other user runs a service, under the name that is the victim's.
    let squatter = Squatter::start(port, SOMEBODY, NOBODY);
    let told = Child::of_user(port, "127.0.66.24", SOMEBODY).unwrap_err();
    let expected = format!("of user {NOBODY} has the name of this user's port service");
    assert!(told.contains(&expected) && told.contains("SOFTRNIC_SERVICE=off"), "{told}");
    drop(squatter);
    Child::of_user(port, "127.0.66.24", SOMEBODY).unwrap();
}

/// A process of another PID namespace has the number 0.
#[test]
fn containers_that_share_a_network_share_an_address() {
    let tried = Command::new("unshare").args(PID_NAMESPACE).arg("true").output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        not_run("unshare(1) is missing, or only root can make PID namespaces");
        return;
    }
    let (port, at) = (free_port(), "127.0.66.26");
    let mut outside = Child::new(port, at);
    let mut one = Child::in_pid_namespace(port, at);
    let mut other = Child::in_pid_namespace(port, at);
    assert_eq!([outside.slot(), one.slot(), other.slot()], [1, 2, 3]);
    connect(&mut one, &mut other);
    assert_eq!(write(&mut one, &other, 50), "done");
    assert_eq!(write(&mut other, &one, 50), "done");
    let mut third = Child::in_pid_namespace(port, at);
    connect(&mut outside, &mut third);
    assert_eq!(write(&mut outside, &third, 50), "done");
    // With the service in a container.
    let (port, at) = (free_port(), "127.0.66.27");
    let mut one = Child::in_pid_namespace(port, at);
    let mut other = Child::in_pid_namespace(port, at);
    connect(&mut one, &mut other);
    assert_eq!(write(&mut one, &other, 50), "done");
    let (mut outside, mut third) = (Child::new(port, at), Child::in_pid_namespace(port, at));
    connect(&mut outside, &mut third);
    assert_eq!(write(&mut outside, &third, 50), "done");
}

#[test]
fn refusals_are_told_in_words() {
    let told = Refusal::AddressInUse(Some(7)).to_string();
    assert!(told.contains("user 7"), "{told}");
}

/// A process of user `uid` that listens under the name of `victim`'s service.
struct Squatter(std::process::Child);

impl Squatter {
    fn start(port: u16, victim: u32, uid: u32) -> Self {
        use std::io::{BufRead, BufReader};
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "users::squatter", "--nocapture"]).current_dir("/");
        command.env(SQUAT, format!("softrnic/{port}/{victim}"));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).uid(uid).gid(uid);
        let mut process = command.spawn().unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening") {
            line.clear();
            assert_ne!(out.read_line(&mut line).unwrap(), 0, "it has ended");
        }
        Self(process)
    }
}

impl Drop for Squatter {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

const SQUAT: &str = "SOFTRNIC_TEST_SQUAT";

/// The process itself; nothing in the test program proper.
#[test]
fn squatter() {
    use socket2::{Domain, SockAddr, Socket, Type};
    let Ok(name) = std::env::var(SQUAT) else { return };
    let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    // An abstract name begins with a zero byte.
    socket.bind(&SockAddr::unix(format!("\0{name}")).unwrap()).unwrap();
    socket.listen(5).unwrap();
    println!("listening");
    _ = std::io::stdin().lines().count();
}
