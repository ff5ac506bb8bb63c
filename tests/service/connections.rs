//! Connections of many processes of one address: ports, listeners, and who answers for whom.

use std::time::{Duration, Instant};

use softrnic_model::cm::State;
use softrnic_model::verbs::QpType;
use softrnic_verbs::Context;
use softrnic_verbs::cm::{Connector, Options};
use softrnic_verbs::emulated::{self, EmulatedConfig, Sharing};

use crate::child::Child;
use crate::users::{NOBODY, can_change_user};
use crate::world::{Foreground, free_port, kill, service_of, until};

/// The address at which a process listens now.
pub(crate) fn listen(child: &mut Child, at: &str) -> String {
    let said = child.ask(&format!("cm-listen {at}"));
    said.strip_prefix("listening ").unwrap_or_else(|| panic!("{said}")).into()
}

/// Connects two processes.
fn meet(client: &mut Child, server: &mut Child, at: &str) {
    server.say("cm-accept");
    assert_eq!(client.ask(&format!("cm-connect {at}")), "connected");
    assert_eq!(server.hear(), "accepted");
}

#[test]
fn a_port_is_one_processs_until_it_ends_and_requests_go_there() {
    let (port, ip) = (free_port(), "127.0.67.1");
    let (mut a, mut b, mut c) = (Child::new(port, ip), Child::new(port, ip), Child::new(port, ip));
    let at = listen(&mut a, &format!("{ip}:7471"));
    assert_eq!(at, format!("{ip}:7471"));
    for taken in [format!("{ip}:7471"), "0.0.0.0:7471".into()] {
        let said = b.ask(&format!("cm-listen {taken}"));
        assert!(said.ends_with("(EADDRINUSE)"), "{said}");
    }
    let any = listen(&mut b, &format!("{ip}:0"));
    meet(&mut c, &mut a, &at);
    meet(&mut c, &mut b, &any);
    meet(&mut b, &mut a, &at);
    meet(&mut a, &mut b, &any);
    // All of it is seen.
    let members = service_of(port).unwrap().members;
    let of = |child: &Child| members.iter().find(|row| row.slot == child.slot()).unwrap();
    let count = |child: &Child, state: Option<State>| {
        of(child).conversations.iter().filter(|one| one.state == state).count()
    };
    assert_eq!((count(&a, None), count(&a, Some(State::Established))), (1, 3));
    assert_eq!((count(&c, None), count(&c, Some(State::Established))), (0, 2));
    assert_eq!(of(&a).status.unwrap().connections, 3);
    // A killed process listens no more, and its port can be had again.
    a.kill();
    until("its slot is free", || (service_of(port)?.members.len() == 2).then_some(()));
    let said = c.ask(&format!("cm-connect {at}"));
    assert!(said.contains("nobody listens there"), "{said}");
    assert_eq!(listen(&mut b, &at), at);
    meet(&mut c, &mut b, &at);
}

/// Nothing is under way, so nobody would find out by himself.
#[test]
fn peers_are_told_when_a_process_ends_whatever_way() {
    let (port, ip) = (free_port(), "127.0.67.4");
    let mut stays = Child::new(port, ip);
    let own = listen(&mut stays, &format!("{ip}:0"));
    for (service_is_killed, kills) in [(false, true), (false, false), (true, true)] {
        // Whoever of the two has asked.
        let mut asks = Child::new(port, "127.0.67.5");
        meet(&mut asks, &mut stays, &own);
        end(&mut asks, kills, service_is_killed, port);
        assert_eq!(stays.ask("cm-closed 20"), "closed", "{service_is_killed} {kills}");
        let mut is_asked = Child::new(port, "127.0.67.6");
        let other = listen(&mut is_asked, "127.0.67.6:0");
        meet(&mut stays, &mut is_asked, &other);
        assert_eq!(stays.ask("cm-closed 1"), "open");
        end(&mut is_asked, kills, service_is_killed, port);
        assert_eq!(stays.ask("cm-closed 20"), "closed", "{service_is_killed} {kills}");
    }
}

fn end(child: &mut Child, kills: bool, service_is_killed: bool, port: u16) {
    if service_is_killed {
        let before = service_of(port).unwrap().service;
        kill(before);
        until("it is replaced", || (service_of(port)?.service != before).then_some(()));
    }
    if kills {
        child.kill();
    } else {
        child.say("exit");
    }
}

/// What comes by way of the service passes the taps of the device.
#[test]
fn faults_hit_messages_that_the_service_hands_on() {
    let (port, ip) = (free_port(), "127.0.67.7");
    let mut server = Child::new(port, ip);
    let at = listen(&mut server, &format!("{ip}:0")).parse().unwrap();
    let mut config = EmulatedConfig::new("127.0.67.8".parse().unwrap()).with_port(port);
    config.sharing = Sharing::Service;
    // The REP is lost, and the next one is not.
    config.faults = Some("drop=#1,side=rx".into());
    let context = emulated::open(config).unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(16).unwrap();
    let connector = Connector::new(std::slice::from_ref(&context)).unwrap();
    server.say("cm-accept");
    let begun = Instant::now();
    let make = |_: &Context| pd.create_qp(QpType::Rc, &cq).build();
    let connection = connector.connect(at, &Options::default(), make).unwrap();
    // The request is repeated a quarter of a second later, and the answer with it.
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    assert_eq!(server.hear(), "accepted");
    let counters = context.counters().unwrap();
    let counter = |name: &str| counters.iter().find(|one| one.name == name).unwrap().value;
    assert_eq!((counter("faults_dropped"), counter("rx_packets") >= 2), (1, true));
    drop(connection);
}

#[test]
fn a_service_that_is_started_anew_knows_who_listens() {
    let (port, ip) = (free_port(), "127.0.67.2");
    let (mut a, mut b) = (Child::new(port, ip), Child::new(port, ip));
    let at = listen(&mut a, &format!("{ip}:0"));
    meet(&mut b, &mut a, &at);
    let before = service_of(port).unwrap();
    kill(before.service);
    until("it is replaced", || (service_of(port)?.service != before.service).then_some(()));
    meet(&mut b, &mut a, &at);
    let said = b.ask(&format!("cm-listen {at}"));
    assert!(said.ends_with("(EADDRINUSE)"), "{said}");
}

#[test]
fn a_port_of_another_user_cannot_be_had() {
    if !can_change_user() {
        return;
    }
    let (port, ip) = (free_port(), "127.0.67.3");
    let _service = Foreground::start(port, &format!("--allow-uid {NOBODY}"));
    let mut a = Child::new(port, ip);
    let mut b = Child::of_user(port, ip, NOBODY).unwrap();
    let at = listen(&mut a, &format!("{ip}:0"));
    let said = b.ask(&format!("cm-listen {at}"));
    assert!(said.ends_with("(EACCES)"), "{said}");
    meet(&mut b, &mut a, &at);
    let other = listen(&mut b, &format!("{ip}:0"));
    meet(&mut a, &mut b, &other);
}
