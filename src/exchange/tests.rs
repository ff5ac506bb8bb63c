//! Both ends over real TCP on the loopback address, and strangers that misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::thread;

use softrnic_model::verbs::{Gid, Key, Psn, QpNum};

use super::message::{Purpose, QueuePairInfo, RegionInfo};
use super::*;
use crate::error::{Failure, Kind};

const HOST: &str = "127.0.0.1";
const SOON: Duration = Duration::from_secs(5);

fn queue_pair(n: u32) -> QueuePairInfo {
    let gid = Gid::from_v4([10, 0, 0, 1]);
    QueuePairInfo {
        qpn: QpNum::new(n),
        psn: Psn::new(0xff_fff0 + n),
        gid,
        qkey: Some(7),
        read_depth: 16,
    }
}

fn hello(size: u64) -> Hello {
    Hello {
        purpose: Purpose::Pingpong,
        settings: Settings::from_pairs([("--size", size.to_string()), ("--mtu", "1024".into())]),
        queue_pairs: vec![queue_pair(1)],
        regions: vec![RegionInfo { addr: u64::MAX - 8, length: 8, rkey: Key(0x1f01) }],
    }
}

/// Runs `server` and `client` against each other.
fn both<S: Send, C>(
    server: impl FnOnce(Exchange) -> S + Send,
    client: impl FnOnce(Exchange) -> C,
) -> (S, C) {
    let listener = Listener::bind(0).unwrap();
    let port = listener.port();
    thread::scope(|scope| {
        let server = scope.spawn(move || server(listener.accept(Some(SOON)).unwrap()));
        let client = client(Exchange::connect(HOST, port).unwrap());
        (server.join().unwrap(), client)
    })
}

/// What our server makes of a client that sends `bytes` and then closes, and what it answers.
fn stranger_calls(bytes: &[u8]) -> (ExchangeError, String) {
    let listener = Listener::bind(0).unwrap();
    let port = listener.port();
    thread::scope(|scope| {
        let answer = scope.spawn(move || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            // The server may close before it has read everything.
            _ = stream.write_all(bytes);
            _ = stream.shutdown(Shutdown::Write);
            let mut answer = String::new();
            _ = stream.read_to_string(&mut answer);
            answer
        });
        let mut exchange = listener.accept(Some(SOON)).unwrap();
        let error = exchange.introduce(&hello(64)).unwrap_err();
        drop(exchange);
        (error, answer.join().unwrap())
    })
}

#[test]
fn both_ends_learn_of_each_other_and_meet() {
    let server_hello = Hello { regions: Vec::new(), queue_pairs: vec![queue_pair(2)], ..hello(64) };
    let expected = server_hello.clone();
    let (seen_by_server, seen_by_client) = both(
        move |mut exchange| {
            let theirs = exchange.introduce(&server_hello).unwrap();
            exchange.meet("connected", SOON).unwrap();
            exchange.meet("done", SOON).unwrap();
            theirs
        },
        |mut exchange| {
            let theirs = exchange.introduce(&hello(64)).unwrap();
            exchange.meet("connected", SOON).unwrap();
            exchange.meet("done", SOON).unwrap();
            theirs
        },
    );
    assert_eq!(seen_by_server, hello(64));
    assert_eq!(seen_by_client, expected);
}

#[test]
fn the_longest_introduction_fits_a_line() {
    let most = Hello {
        queue_pairs: vec![
            QueuePairInfo {
                gid: Gid([0xab; 16]),
                qkey: Some(u32::MAX),
                ..queue_pair(15)
            };
            256
        ],
        ..hello(64)
    };
    let client_most = most.clone();
    let (seen, _) = both(
        move |mut exchange| exchange.introduce(&most).unwrap().queue_pairs.len(),
        move |mut exchange| exchange.introduce(&client_most).unwrap(),
    );
    assert_eq!(seen, 256);
}

#[test]
fn what_is_told_arrives_as_it_was_and_can_be_looked_for() {
    let (heard, client) = both(
        |mut exchange| {
            let mut looks = 0_u64;
            while !exchange.has_spoken().unwrap() {
                looks += 1;
                thread::sleep(LOOK_AGAIN);
            }
            let first: Vec<u64> = exchange.hear_told(SOON).unwrap();
            let wrong = exchange.hear_told::<String>(SOON).unwrap_err().to_string();
            exchange.give_up("enough");
            (first, wrong, looks)
        },
        |mut exchange| {
            thread::sleep(LOOK_AGAIN * 4);
            exchange.tell(&[1_u64, u64::MAX]).unwrap();
            exchange.tell(&5).unwrap();
            loop {
                match exchange.has_spoken() {
                    Ok(spoken) => assert!(!spoken),
                    Err(error) => break error.to_string(),
                }
            }
        },
    );
    assert_eq!(heard.0, [1, u64::MAX]);
    assert!(heard.1.contains("does not hold what it must"), "{}", heard.1);
    assert!(heard.2 > 0 && client.contains("gave up: enough"), "{client}");
}

#[test]
fn a_peer_that_is_gone_is_noticed_without_waiting() {
    let (error, ()) = both(
        |mut exchange| loop {
            if let Err(error) = exchange.has_spoken() {
                break error.to_string();
            }
        },
        drop,
    );
    assert!(error.contains("closed the connection"), "{error}");
}

#[test]
fn a_difference_is_named_at_both_ends() {
    let (server, client) = both(
        |mut exchange| exchange.introduce(&hello(64)).unwrap_err().to_string(),
        |mut exchange| exchange.introduce(&hello(128)).unwrap_err().to_string(),
    );
    assert!(server.contains("--size: 128 at 127.0.0.1:") && server.contains("64 here"), "{server}");
    assert!(client.contains("--size: 64 at 127.0.0.1:") && client.contains("128 here"), "{client}");
}

#[test]
fn another_command_and_another_number_of_queue_pairs_are_told() {
    let bench = Hello { purpose: Purpose::Bench, ..hello(64) };
    let (server, _) = both(
        |mut exchange| exchange.introduce(&hello(64)).unwrap_err().to_string(),
        move |mut exchange| exchange.introduce(&bench).unwrap_err(),
    );
    assert!(server.contains("`softrnic bench`"), "{server}");
    let two = Hello { queue_pairs: vec![queue_pair(1), queue_pair(2)], ..hello(64) };
    let (server, _) = both(
        |mut exchange| exchange.introduce(&hello(64)).unwrap_err().to_string(),
        move |mut exchange| exchange.introduce(&two).unwrap_err(),
    );
    assert!(server.contains("number of queue pairs: 2 at"), "{server}");
}

#[test]
fn a_setting_that_only_one_end_has_is_a_difference() {
    let some = Settings::from_pairs([("--size", "1".into())]);
    let more = Settings::from_pairs([("--size", "1".into()), ("--new", "x".into())]);
    assert_eq!(some.first_difference(&some), None);
    assert_eq!(some.first_difference(&more).unwrap().ours, "not given");
    assert_eq!(more.first_difference(&some).unwrap().theirs, "not given");
}

#[test]
fn a_peer_that_gives_up_is_quoted_without_control_characters() {
    let (_, client) = both(
        |mut exchange| {
            exchange.introduce(&hello(64)).unwrap();
            exchange.give_up("no memory\u{1b}[2J");
        },
        |mut exchange| {
            exchange.introduce(&hello(64)).unwrap();
            exchange.meet("connected", SOON).unwrap_err()
        },
    );
    let failure = Failure::from(client);
    assert_eq!(failure.kind(), Kind::Failed);
    assert!(failure.to_string().contains("gave up: no memory [2J"), "{failure}");
}

#[test]
fn ends_at_different_points_do_not_go_on() {
    let (server, client) = both(
        |mut exchange| {
            exchange.introduce(&hello(64)).unwrap();
            exchange.meet("connected", SOON).unwrap_err()
        },
        |mut exchange| {
            exchange.introduce(&hello(64)).unwrap();
            exchange.meet("done", SOON).unwrap_err()
        },
    );
    assert!(matches!(server, ExchangeError::OutOfStep { heard, .. } if heard == "done"));
    assert!(matches!(client, ExchangeError::OutOfStep { heard, .. } if heard == "connected"));
}

#[test]
fn a_stranger_is_recognised_by_what_it_says() {
    let (error, answer) = stranger_calls(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(error.to_string().contains("it said: GET / HTTP/1.1"), "{error}");
    assert!(answer.contains(r#""say":"failed""#), "{answer}");
    for line in [&b"{}\n"[..], b"[]\n", b"{\"softrnic\":\"1\"}\n", b"\xff\xfe\n", b"\n"] {
        let (error, _) = stranger_calls(line);
        assert!(matches!(error, ExchangeError::NotSoftrnic { .. }), "{error}");
    }
}

#[test]
fn another_version_is_told_from_nonsense() {
    let (error, answer) = stranger_calls(b"{\"softrnic\":2,\"say\":\"something new\"}\n");
    assert!(matches!(error, ExchangeError::OtherVersion { theirs: 2, .. }), "{error}");
    assert!(answer.contains("speaks version 2"), "{answer}");
}

#[test]
fn a_line_of_our_version_must_hold_what_it_should() {
    let head = r#"{"softrnic":1,"say":"hello","purpose":"pingpong","settings":[],"queue_pairs":"#;
    for (rest, why) in [
        (r#"[{"qpn":16777216,"psn":0,"gid":"::1"}]}"#, "more than 24 bits"),
        (r#"[{"qpn":1,"psn":16777216,"gid":"::1"}]}"#, "more than 24 bits"),
        (r#"[{"qpn":1,"psn":0,"gid":"10.0.0"}]}"#, "gid"),
        (r#"[{"qpn":1,"psn":0}]}"#, "gid"),
        (r#"[],"regions":[{"addr":18446744073709551615,"length":2,"rkey":1}]}"#, "wraps around"),
        (r#"[]"#, "EOF"),
    ] {
        let (error, _) = stranger_calls(format!("{head}{rest}\n").as_bytes());
        // The last case is not JSON at all, so even its version cannot be read.
        let expected = matches!(error, ExchangeError::Malformed { .. })
            || why == "EOF" && matches!(error, ExchangeError::NotSoftrnic { .. });
        assert!(expected, "{rest}: {error}");
        if let ExchangeError::Malformed { why: told, .. } = error {
            assert!(told.contains(why) || why == "gid", "{rest}: {told}");
        }
    }
}

#[test]
fn unknown_fields_are_a_later_minor_change() {
    let line = br#"{"softrnic":1,"say":"reached","point":"done","colour":"blue"}"#;
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    assert_eq!(message::parse(line, peer).unwrap(), Body::Reached { point: "done".into() });
}

#[test]
fn a_truncated_line_is_no_line() {
    let (error, _) = stranger_calls(b"{\"softrnic\":1,\"say\":\"reached\"");
    assert!(matches!(error, ExchangeError::Closed { arrived: 29, .. }), "{error:?}");
    let (error, _) = stranger_calls(b"");
    assert!(error.to_string().contains("without a word"), "{error}");
}

#[test]
fn a_line_without_end_is_cut_off() {
    let (error, _) = stranger_calls(&vec![b'x'; line::LINE_MAX + 5000]);
    assert!(matches!(error, ExchangeError::TooLong { peer: Some(_), .. }), "{error}");
    // As long as allowed, end included, is a line; that it means nothing is another matter.
    let mut longest = vec![b'x'; line::LINE_MAX - 1];
    longest.push(b'\n');
    let (error, _) = stranger_calls(&longest);
    assert!(matches!(error, ExchangeError::NotSoftrnic { .. }), "{error}");
}

#[test]
fn two_lines_in_one_segment_are_two_lines() {
    let listener = Listener::bind(0).unwrap();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, listener.port())).unwrap();
    let point =
        |name: &str| format!("{{\"softrnic\":1,\"say\":\"reached\",\"point\":\"{name}\"}}\r\n");
    stream.write_all((point("a") + &point("b")).as_bytes()).unwrap();
    let mut exchange = listener.accept(Some(SOON)).unwrap();
    exchange.meet("a", SOON).unwrap();
    exchange.meet("b", SOON).unwrap();
    let mut said = String::new();
    BufReader::new(stream).read_line(&mut said).unwrap();
    assert!(said.starts_with(r#"{"softrnic":1,"#), "{said}");
}

#[test]
fn a_silent_peer_and_a_dripping_one_take_too_long() {
    let short = Duration::from_millis(120);
    let listener = Listener::bind(0).unwrap();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, listener.port())).unwrap();
    let mut exchange = listener.accept(Some(SOON)).unwrap();
    let begun = Instant::now();
    let error = exchange.lines.receive(short).unwrap_err();
    assert!(matches!(error, ExchangeError::TimedOut { .. }), "{error}");
    let dripper = thread::spawn(move || {
        while stream.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(10));
        }
    });
    let error = exchange.lines.receive(short).unwrap_err();
    assert!(matches!(error, ExchangeError::TimedOut { .. }), "{error}");
    assert!(begun.elapsed() < SOON);
    drop(exchange);
    dripper.join().unwrap();
}

#[test]
fn nobody_there_is_told_with_what_to_do() {
    let port = {
        let listener = Listener::bind(0).unwrap();
        listener.port()
    };
    let failure = Failure::from(Exchange::connect(HOST, port).unwrap_err()).to_string();
    assert!(failure.contains(&format!("127.0.0.1:{port}")), "{failure}");
    assert!(failure.contains("start the server"), "{failure}");
}

#[test]
fn a_port_in_use_and_a_client_that_never_comes() {
    let listener = Listener::bind(0).unwrap();
    let error = Listener::bind(listener.port()).unwrap_err();
    assert!(Failure::from(error).to_string().contains("another program has the port"));
    let error = listener.accept(Some(Duration::from_millis(20))).unwrap_err();
    assert!(matches!(error, ExchangeError::NobodyCame { .. }), "{error}");
}

#[test]
fn an_unknown_host_is_told() {
    let error = Exchange::connect("no-such-host.invalid", 1).unwrap_err();
    assert!(error.to_string().contains("`no-such-host.invalid`"), "{error}");
}
