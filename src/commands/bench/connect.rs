//! `softrnic bench connect`: how many connections a second the connection manager makes, and how many
//! may live at one time.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use clap::Args;
use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::cm::{ConnectError, Connection, Connector, Listener, Options};
use softrnic_verbs::{Access, Context, Cq, Mr, Pd, Qp, QpType};

use crate::child::{self, Second};
use crate::cli::Shared;
use crate::device::Settings;
use crate::error::Failure;
use crate::meter::Meter;
use crate::output::Report;

const AFTER_HELP: &str = "\
Examples:
  softrnic bench connect                     server: wait for clients
  softrnic bench connect alpha               client: 1000 connections, one after the other
  softrnic bench connect --local             both ends on this host, two processes
  softrnic bench connect --local --live 10000    and so many at one time";

/// Connections per second, queue pairs and all
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct ConnectArgs {
    /// The server's name or address; without it, be the server
    #[arg(value_name = "HOST")]
    host: Option<String>,

    /// Be both ends: start a server on this host and measure against it
    #[arg(long, conflicts_with = "host")]
    local: bool,

    /// The server of `--local` meets its client at this TCP port
    #[arg(long, hide = true, value_name = "PORT", conflicts_with_all = ["host", "local"])]
    meet: Option<u16>,

    /// How many connections, one after the other
    #[arg(
        long, short = 'n', value_name = "NUMBER", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..=10_000_000)
    )]
    iters: u32,

    /// How many connections at one time, after those
    #[arg(
        long, value_name = "NUMBER", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=60_000)
    )]
    live: u32,

    /// Port of the connection manager at which the server listens
    #[arg(long, value_name = "PORT", default_value_t = 7471)]
    cm_port: u16,
}

/// What the client says with a request.
const ONE: u8 = 1;
const STAYS: u8 = 2;
const LAST: u8 = 3;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(args: &ConnectArgs, shared: &Shared) -> Result<(), Failure> {
    raise_descriptors();
    if let Some(meet) = args.meet {
        child::end_with_parent();
        let device = open(&Settings::second(shared)?, shared)?;
        let address = address_of(&device)?;
        let listener = listen(&device, SocketAddr::new(address, 0))?;
        let mut parent = TcpStream::connect(("127.0.0.1", meet)).map_err(unmet)?;
        writeln!(parent, "{}", listener.local()).map_err(unmet)?;
        return serve(&listener, &device, true);
    }
    if args.local {
        let meeting = TcpListener::bind("127.0.0.1:0").map_err(unmet)?;
        let port = meeting.local_addr().map_err(unmet)?.port();
        let arguments = std::env::args_os().skip(1);
        let arguments = arguments.map(|argument| {
            if argument == "--local" { format!("--meet={port}").into() } else { argument }
        });
        let second = Second::start(arguments)?;
        let (stream, _) = meeting.accept().map_err(unmet)?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).map_err(unmet)?;
        let server = line.trim().parse().map_err(|_| Failure::plain("the server has failed"))?;
        let device = open(&Settings::new(shared)?, shared)?;
        let report = measure(args, &device, server)?;
        second.finish(PATIENCE)?;
        return Ok(report.print(shared.json)?);
    }
    let settings = Settings::new(shared)?;
    match &args.host {
        Some(host) => {
            let reach = |server: SocketAddr| {
                let device = match &shared.address {
                    None => settings.open_for_peer(None, source_for(server.ip())?, server.ip())?,
                    Some(_) => open(&settings, shared)?,
                };
                measure(args, &device, server)
            };
            Ok(at_one_of(addresses_of(host, args.cm_port)?, reach)?.print(shared.json)?)
        }
        None => {
            let device = open(&settings, shared)?;
            let listener = listen(&device, SocketAddr::new(address_of(&device)?, args.cm_port))?;
            eprintln!("listening at {}", listener.local());
            serve(&listener, &device, false)
        }
    }
}

/// The addresses of a host. Those of IPv4 come first: a device that was opened without being told where
/// has one, and nobody says no at an address that no device has.
fn addresses_of(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|error| Failure::plain(format!("host {host:?}: {error}")))?;
    let mut addresses: Vec<SocketAddr> = found.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    Ok(addresses)
}

/// Does it at the first address where it can be done; the failure is that of the first one.
fn at_one_of<T>(
    addresses: Vec<SocketAddr>,
    act: impl Fn(SocketAddr) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut first = None;
    for address in addresses {
        match act(address) {
            Ok(done) => return Ok(done),
            Err(failure) => first = first.or(Some(failure)),
        }
    }
    Err(first.unwrap_or_else(|| Failure::plain("the host has no address")))
}

/// The own address by which packets to `host` leave.
fn source_for(host: IpAddr) -> Result<IpAddr, Failure> {
    let any: IpAddr = if host.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let found = std::net::UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((host, 9))?;
        socket.local_addr()
    });
    let found = found.map_err(|error| Failure::plain(format!("no way to {host}: {error}")))?;
    Ok(found.ip())
}

fn open(settings: &Settings, shared: &Shared) -> Result<Context, Failure> {
    match &shared.address {
        Some(address) => settings.open(address),
        None => settings.open_anywhere(),
    }
}

fn address_of(device: &Context) -> Result<IpAddr, Failure> {
    let (_, gid) = device.first_gid().map_err(|error| Failure::plain(error.to_string()))?;
    Ok(gid.into())
}

fn unmet(error: std::io::Error) -> Failure {
    Failure::plain(format!("the two processes do not meet: {error}"))
}

fn failed(error: ConnectError) -> Failure {
    Failure::plain(error.to_string())
}

/// A descriptor for each connection's events: more than programs usually need.
fn raise_descriptors() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        // If that is not to be had, connecting says so.
        _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}

/// What the queue pairs of one end share.
struct Parts {
    pd: Pd,
    cq: Cq,
    memory: Mr,
}

impl Parts {
    fn new(device: &Context) -> softrnic_verbs::Result<Self> {
        let pd = device.alloc_pd()?;
        let cq = device.create_cq(1 << 10)?;
        let memory = pd.register(Buffer::new(8)?, Access::LOCAL_WRITE | Access::REMOTE)?;
        Ok(Self { pd, cq, memory })
    }

    fn qp(&self) -> softrnic_verbs::Result<Qp> {
        self.pd.create_qp(QpType::Rc, &self.cq).build()
    }
}

fn listen(device: &Context, at: SocketAddr) -> Result<Listener, Failure> {
    Connector::new(std::slice::from_ref(device))
        .and_then(|connector| connector.listen(at))
        .map_err(failed)
}

/// Takes what is asked for; until a client says that it was the last, if that ends it.
fn serve(listener: &Listener, device: &Context, ends: bool) -> Result<(), Failure> {
    let parts = Parts::new(device).map_err(|error| Failure::plain(error.to_string()))?;
    let mut live: Vec<Connection> = Vec::new();
    loop {
        let Some(request) = listener.request(None).map_err(failed)? else { continue };
        let kind = request.private_data().first().copied().unwrap_or(0);
        if kind == LAST {
            // That is what the client waits for.
            _ = request.reject(&[]);
            live.clear();
            if ends {
                // The client's own ends are on their way.
                std::thread::sleep(Duration::from_millis(100));
                return Ok(());
            }
            continue;
        }
        // One that fails is the client's to report.
        let Ok(connection) = request.accept(&Options::default(), |_| parts.qp()) else { continue };
        if kind == STAYS {
            live.push(connection);
        } else {
            _ = connection.wait_closed(Some(PATIENCE));
        }
    }
}

fn measure(args: &ConnectArgs, device: &Context, server: SocketAddr) -> Result<Report, Failure> {
    let connector = Connector::new(std::slice::from_ref(device)).map_err(failed)?;
    let parts = Parts::new(device).map_err(|error| Failure::plain(error.to_string()))?;
    let connect = |kind: u8| connector.connect(server, &Options::saying([kind]), |_| parts.qp());
    let mut times = Vec::new();
    let begin = Instant::now();
    let mut meter = Meter::new("connections", "made");
    for done in 1..=args.iters {
        let started = Instant::now();
        drop(connect(ONE).map_err(failed)?);
        times.push(started.elapsed());
        meter.show(as_count(done), as_count(args.iters), "");
    }
    meter.finish();
    let elapsed = begin.elapsed();
    times.sort_unstable();
    let micros = |time: Option<&Duration>| time.map(|time| time.as_secs_f64() * 1e6);
    let mut report = Report::new("bench connect")
        .fact("server", "server", server.to_string())
        .fact("connections", "connections", u64::from(args.iters))
        .fact("rate", "connections/s", f64::from(args.iters) / elapsed.as_secs_f64())
        .fact("typical_us", "typical [us]", micros(times.get(times.len() / 2)))
        .fact("longest_us", "longest [us]", micros(times.last()));
    if args.live != 0 {
        let begin = Instant::now();
        let mut live = Vec::new();
        let mut meter = Meter::new("live connections", "made");
        for done in 1..=args.live {
            live.push(connect(STAYS).map_err(failed)?);
            meter.show(as_count(done), as_count(args.live), "");
        }
        meter.finish();
        let elapsed = begin.elapsed();
        // All of them work, with all others there.
        for connection in &live {
            works(connection, &parts)?;
        }
        report = report.fact("live", "live at one time", u64::from(args.live)).fact(
            "live_rate",
            "live connections/s",
            f64::from(args.live) / elapsed.as_secs_f64(),
        );
    }
    if args.local {
        match connect(LAST) {
            Err(ConnectError::Refused { .. }) => {}
            Err(error) => return Err(failed(error)),
            Ok(_) => return Err(Failure::plain("the server goes on")),
        }
    }
    Ok(report)
}

fn as_count(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A WRITE without bytes gets through.
fn works(connection: &Connection, parts: &Parts) -> Result<(), Failure> {
    let failure = |error: &dyn std::fmt::Display| {
        Failure::plain(format!("a live connection does not work: {error}"))
    };
    let written = connection.qp().write(1, parts.memory.sge(0, 0), parts.memory.remote(0));
    written.map_err(|error| failure(&error))?;
    parts.cq.wait_success(Some(PATIENCE)).map(drop).map_err(|error| failure(&error))
}
