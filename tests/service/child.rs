//! A process with a device: what it does, and how a test tells it to.
//!
//! It is told by lines on its standard input and answers with lines that begin with `> `.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::{self, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use softrnic_model::verbs::{AsyncEvent, Gid, Key, QpNum, WcStatus};
use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::cm::{Connection, Connector, Listener, Options};
use softrnic_verbs::emulated::{self, EmulatedConfig, OpenError, Sharing};
use softrnic_verbs::{
    Access, ConnectOptions, Context, Cq, Endpoint, Mr, Pd, Qp, QpType, RemoteAddress, SendFlags,
    SendOp, SendWr,
};

use super::world::SERVICE;

/// Says that this is a child: its port and its address or interface.
const CHILD: &str = "SOFTRNIC_TEST_CHILD";
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
/// Bytes of its region; the first half is for peers, the second its own.
const LEN: usize = 1 << 16;
const HALF: u64 = LEN as u64 / 2;
/// Options of unshare(1): a PID namespace, which ends with it.
pub(crate) const PID_NAMESPACE: [&str; 4] = ["--pid", "--fork", "--mount-proc", "--kill-child"];
const QKEY: u32 = 0x1111_1111;

/// A process with a device, as the test sees it. It is killed when this goes.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    out: BufReader<ChildStdout>,
    pub(crate) endpoint: Option<Endpoint>,
    /// Where its peers may write.
    pub(crate) target: RemoteAddress,
}

impl Child {
    /// Starts a process and waits until it has its device.
    pub(crate) fn new(port: u16, at: &str) -> Self {
        let mut child = Self::start(port, at, None);
        child.ready().unwrap();
        child
    }

    /// The same for a process of another user; or what went wrong.
    pub(crate) fn of_user(port: u16, at: &str, uid: u32) -> Result<Self, String> {
        let mut child = Self::start(port, at, Some(uid));
        child.ready().map(|()| child)
    }

    /// The same for a process of a PID namespace of its own, as in another container of this host's
    /// network.
    pub(crate) fn in_pid_namespace(port: u16, at: &str) -> Self {
        let mut command = Command::new("unshare");
        command.args(PID_NAMESPACE).arg(std::env::current_exe().unwrap());
        let mut child = Self::from_command(command, port, at, None);
        child.ready().unwrap();
        child
    }

    /// Starts a process.
    pub(crate) fn start(port: u16, at: &str, uid: Option<u32>) -> Self {
        let command = Command::new(std::env::current_exe().unwrap());
        Self::from_command(command, port, at, uid)
    }

    fn from_command(mut command: Command, port: u16, at: &str, uid: Option<u32>) -> Self {
        command
            .args(["--exact", "child::child", "--nocapture"])
            .env(CHILD, format!("{port} {at}"))
            .env("SOFTRNIC_SERVICE", SERVICE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(uid) = uid {
            command.uid(uid).gid(uid).current_dir("/");
        }
        let mut process = command.spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let target = RemoteAddress { addr: 0, rkey: Key(0) };
        Self { process, out, endpoint: None, target }
    }

    /// Waits until it has its device; or what went wrong.
    pub(crate) fn ready(&mut self) -> Result<(), String> {
        let said = self.hear();
        if let Some(error) = said.strip_prefix("error ") {
            return Err(error.into());
        }
        let mut words = said.split(' ');
        assert_eq!(words.next(), Some("ready"), "{said}");
        self.endpoint = Some(words.next().unwrap().parse().unwrap());
        let mut number = || words.next().unwrap().parse::<u64>().unwrap();
        let addr = number();
        self.target = RemoteAddress { addr, rkey: Key(u32::try_from(number()).unwrap()) };
        Ok(())
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn slot(&self) -> u8 {
        self.endpoint.unwrap().qp_num.slot()
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line that it says.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it has ended");
            // The test harness writes the name of the test in front of the first one.
            if let Some((_, said)) = line.split_once("> ") {
                return said.trim_end().into();
            }
        }
    }

    /// Tells it something, and what it answers.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }

    /// Ends it without giving it time for anything.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// Connects two processes, patient ones.
pub(crate) fn connect(a: &mut Child, b: &mut Child) {
    let (end_a, end_b) = (a.endpoint.unwrap(), b.endpoint.unwrap());
    assert_eq!(a.ask(&format!("connect {end_b} 17 7")), "connected");
    assert_eq!(b.ask(&format!("connect {end_a} 17 7")), "connected");
}

/// Has `a` write to `b` so many times; the last thing that it says.
pub(crate) fn write(a: &mut Child, b: &Child, count: u32) -> String {
    start_write(a, b, count);
    a.hear()
}

/// The same without waiting for the end.
pub(crate) fn start_write(a: &mut Child, b: &Child, count: u32) {
    let RemoteAddress { addr, rkey } = b.target;
    a.say(&format!("write {count} {addr} {}", rkey.0));
    assert_eq!(a.hear(), "begun");
}

/// The process itself; nothing in the test program proper.
#[test]
fn child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (port, at) = told.split_once(' ').unwrap();
    let device = match Device::open(port.parse().unwrap(), at) {
        Ok(device) => device,
        Err(error) => return say(&format!("error {error}")),
    };
    let target = device.mr.remote(0);
    let endpoint = device.qp.endpoint().unwrap();
    say(&format!("ready {endpoint} {} {}", target.addr, target.rkey.0));
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let answer = device.obey(&line.split(' ').collect::<Vec<_>>());
        say(&answer);
    }
}

/// What a request says that is to be taken.
const TAKE_ME: u8 = 0x5a;

fn serve(listener: &Listener, pd: &Pd, cq: &Cq) {
    while let Ok(request) = listener.request(None) {
        let Some(request) = request else { continue };
        if request.private_data().first() != Some(&TAKE_ME) {
            _ = request.reject(&[]);
        } else if let Ok(connection) =
            request.accept(&Options::default(), |_| pd.create_qp(QpType::Rc, cq).build())
        {
            _ = connection.wait_closed(PATIENCE);
        }
    }
}

fn say(line: &str) {
    let mut text = String::new();
    writeln!(text, "> {line}").unwrap();
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).unwrap();
    out.flush().unwrap();
}

struct Device {
    context: Context,
    pd: Pd,
    cq: Cq,
    qp: Qp,
    mr: Mr,
    connector: Connector,
    listeners: RefCell<Vec<Listener>>,
    connections: RefCell<Vec<Connection>>,
}

impl Device {
    fn open(port: u16, at: &str) -> Result<Self, OpenError> {
        let mut config = match at.parse::<IpAddr>() {
            Ok(address) => EmulatedConfig::new(address),
            Err(_) => EmulatedConfig::on_interface(at),
        };
        config = config.with_port(port);
        config.sharing = Sharing::Service;
        let context = emulated::open(config)?;
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(64).unwrap();
        let qp = pd.create_qp(QpType::Rc, &cq).build().unwrap();
        let bytes: Vec<u8> = (0..LEN).map(|at| (at * 7 + at / 251).to_le_bytes()[0]).collect();
        let buffer = Buffer::copy_of(&bytes).unwrap().into_shared();
        let access = Access::LOCAL_WRITE.union(Access::REMOTE);
        let mr = pd.register(buffer, access).unwrap();
        let connector = Connector::new(std::slice::from_ref(&context)).unwrap();
        let (listeners, connections) = (RefCell::default(), RefCell::default());
        Ok(Self { context, pd, cq, qp, mr, connector, listeners, connections })
    }

    fn obey(&self, words: &[&str]) -> String {
        match *words {
            ["connect", endpoint, timeout, retry_count] => {
                let (timeout, retry_count) =
                    (timeout.parse().unwrap(), retry_count.parse().unwrap());
                let options = ConnectOptions { timeout, retry_count, ..ConnectOptions::default() };
                self.qp.connect_with(&endpoint.parse().unwrap(), &options).unwrap();
                "connected".into()
            }
            ["write", count, addr, rkey] => {
                say("begun");
                let rkey = Key(rkey.parse().unwrap());
                let to = RemoteAddress { addr: addr.parse().unwrap(), rkey };
                match self.write(count.parse().unwrap(), to) {
                    Ok(()) => "done".into(),
                    Err(status) => format!("failed {status:?}"),
                }
            }
            ["counter", name] => {
                let counters = self.context.counters().unwrap();
                let counter = counters.iter().find(|counter| counter.name == name);
                counter.unwrap().value.to_string()
            }
            ["listen", group] => {
                let group = Gid::from(group.parse::<IpAddr>().unwrap());
                let qp = self.datagrams();
                qp.recv(1, self.mr.sge(0, 2048)).unwrap();
                let membership = qp.join(group).unwrap();
                say("listening");
                let heard = self.cq.wait_success(PATIENCE).unwrap();
                drop(membership);
                format!("heard {}", heard.imm_data)
            }
            ["tell", group, imm] => {
                let group = Gid::from(group.parse::<IpAddr>().unwrap());
                let qp = self.datagrams();
                let ah = self.pd.create_ah(&qp.path_to(group)).unwrap();
                let op = SendOp::SendTo {
                    ah: ah.id(),
                    remote_qpn: QpNum::MULTICAST,
                    remote_qkey: QKEY,
                    imm: Some(imm.parse().unwrap()),
                };
                let sges = &[self.mr.sge(0, 100)];
                let flags = SendFlags::SIGNALED;
                let wr = SendWr { wr_id: 1, op, flags, sges, ..SendWr::default() };
                qp.post_send(&[wr]).unwrap();
                self.cq.wait_success(PATIENCE).unwrap();
                "told".into()
            }
            // What happens to the device, as an asynchronous event.
            ["failure", seconds] => {
                let deadline = Instant::now() + Duration::from_secs(seconds.parse().unwrap());
                loop {
                    let left = deadline.saturating_duration_since(Instant::now());
                    match self.context.next_async_event(Some(left)) {
                        Ok(Some(AsyncEvent::DeviceFatal)) => return "DeviceFatal".into(),
                        Ok(Some(_)) => {}
                        other => return format!("{other:?}"),
                    }
                }
            }
            // As a program ends that forgets to clean up.
            ["exit"] => process::exit(0),
            _ => self.manage(words),
        }
    }

    /// What is about the connection manager.
    fn manage(&self, words: &[&str]) -> String {
        match *words {
            ["cm-listen", at] => match self.connector.listen(at.parse().unwrap()) {
                Ok(listener) => {
                    let local = listener.local();
                    self.listeners.borrow_mut().push(listener);
                    format!("listening {local}")
                }
                Err(error) => format!("error {error}"),
            },
            // At the listener that was made last.
            ["cm-accept"] => {
                let listeners = self.listeners.borrow();
                let listener = listeners.last().unwrap();
                match listener.accept(&Options::default(), |_| self.connected()) {
                    Ok(connection) => {
                        self.connections.borrow_mut().push(connection);
                        "accepted".into()
                    }
                    Err(error) => format!("error {error}"),
                }
            }
            ["cm-connect", at] => {
                let at = at.parse().unwrap();
                match self.connector.connect(at, &Options::default(), |_| self.connected()) {
                    Ok(connection) => {
                        // Its queue pairs do, too.
                        let (from, to) = (self.mr.sge(0, 0), self.mr.remote(0));
                        connection.qp().write(1, from, to).unwrap();
                        self.cq.wait_success(PATIENCE).unwrap();
                        self.connections.borrow_mut().push(connection);
                        "connected".into()
                    }
                    Err(error) => format!("error {error}"),
                }
            }
            // Of the connection that was made last.
            ["cm-closed", seconds] => {
                let connections = self.connections.borrow();
                let patience = Duration::from_secs(seconds.parse().unwrap());
                match connections.last().unwrap().wait_closed(Some(patience)) {
                    Ok(true) => "closed".into(),
                    Ok(false) => "open".into(),
                    Err(error) => format!("error {error}"),
                }
            }
            // At the listener that was made last, from now on: takes who says so, refuses all others.
            ["cm-serve"] => {
                let listener = self.listeners.borrow_mut().pop().unwrap();
                let (pd, cq) = (self.pd.clone(), self.cq.clone());
                std::thread::spawn(move || serve(&listener, &pd, &cq));
                "serving".into()
            }
            ["cm-burst", at, count] => self.burst(at.parse().unwrap(), count.parse().unwrap()),
            _ => panic!("{words:?}"),
        }
    }

    /// Connects so often, one after the other: how many times it went well, and how long it took.
    fn burst(&self, at: SocketAddr, count: u32) -> String {
        let mut times = Vec::new();
        for _ in 0..count {
            let begun = Instant::now();
            let connected =
                self.connector.connect(at, &Options::saying([TAKE_ME]), |_| self.connected());
            if connected.is_ok() {
                times.push(begun.elapsed());
            }
        }
        times.sort_unstable();
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
        let longest = times.last().copied().unwrap_or_default();
        let good = times.len();
        format!(
            "{good} of {count} connected; half within {:?}, 99 % within {:?}, all within {longest:?}",
            at(50),
            at(99)
        )
    }

    fn connected(&self) -> softrnic_verbs::Result<Qp> {
        self.pd.create_qp(QpType::Rc, &self.cq).build()
    }

    fn datagrams(&self) -> Qp {
        let qp = self.pd.create_qp(QpType::Ud, &self.cq).build().unwrap();
        qp.activate().unwrap();
        qp
    }

    /// Writes messages of several packets, reads the last one back and compares.
    fn write(&self, count: u32, to: RemoteAddress) -> Result<(), WcStatus> {
        const MESSAGE: u32 = 3000;
        let done = || {
            let completion = self.cq.wait_one(PATIENCE).unwrap().expect("a completion comes");
            if completion.status == WcStatus::Success { Ok(()) } else { Err(completion.status) }
        };
        for round in 0..count {
            let from = HALF + u64::from(round % 1000);
            self.qp.write(1, self.mr.sge(from, MESSAGE), to).unwrap();
            done()?;
        }
        let (mut sent, mut found) = (vec![0; MESSAGE as usize], vec![0; MESSAGE as usize]);
        let last = HALF + u64::from(count.wrapping_sub(1) % 1000);
        let last = usize::try_from(last).unwrap();
        self.mr.buffer().read(last, &mut sent).unwrap();
        self.qp.read(2, self.mr.sge(HALF + 8192, MESSAGE), to).unwrap();
        done()?;
        self.mr.buffer().read(usize::try_from(HALF).unwrap() + 8192, &mut found).unwrap();
        assert_eq!(sent, found);
        Ok(())
    }
}
