//! The scenarios under other circumstances.

use softrnic_conformance::lab::{Connection, Family};
use softrnic_conformance::scenario::{Roles, Session, sessions};
use softrnic_model::verbs::{Event, Mtu, Psn};

use super::world::{Plan, Ran, Run};
use crate::script;
use crate::variations::{events_of_responder, steps_of_compare_and_swap};
use crate::world::{RXE, SPEC};

pub(super) fn roles_swapped(family: Family) {
    let plan = Plan::straight(family, SPEC);
    let run = Plan { title: "swapped", roles: Roles::Swapped, ..plan }.run();
    run.check_all();
    run.check_packets();
}

pub(super) fn sequence_numbers_wrap(family: Family) {
    let plan = Plan::straight(family, SPEC);
    let wrapping = |session: Session| session.starting_at(Psn::new(0xff_fffe));
    let sessions = sessions().into_iter().map(wrapping).collect();
    let run = Plan { title: "wrapping", sessions, ..plan }.run();
    run.check_all();
    run.check_packets();
}

/// Runs all sessions with a path MTU; the packets must be those that follow from the work requests.
fn path_mtu(family: Family, title: &'static str, mtu: Mtu) {
    let sessions = sessions().into_iter().map(|session| session.with_path_mtu(mtu)).collect();
    let run = Plan { title, sessions, ..Plan::straight(family, SPEC) }.run();
    run.check_all();
    run.sessions.iter().for_each(|ran| check_script(&run, ran));
}

fn check_script(run: &Run, ran: &Ran) {
    let lines = |packets: Vec<Vec<u8>>| -> Vec<_> {
        packets.iter().map(|packet| script::line(packet, &ran.names)).collect()
    };
    let mut expected = [Vec::new(), Vec::new()];
    let mut at = 0;
    for (_, told) in &ran.told {
        let observation = &told.as_ref().expect("it was checked before").observation;
        let of_scenario = script::expected(observation, &ran.connection, at);
        expected.iter_mut().zip(of_scenario).for_each(|(all, more)| all.extend(more));
        at += script::psns(&observation.scenario.work, &ran.connection);
    }
    assert_eq!(run.packets(ran).map(lines), expected);
}

pub(super) fn path_mtu_256(family: Family) {
    path_mtu(family, "mtu-256", Mtu::B256);
}

pub(super) fn path_mtu_512(family: Family) {
    path_mtu(family, "mtu-512", Mtu::B512);
}

pub(super) fn path_mtu_1024(family: Family) {
    path_mtu(family, "mtu-1024", Mtu::B1024);
}

pub(super) fn path_mtu_2048(family: Family) {
    path_mtu(family, "mtu-2048", Mtu::B2048);
}

pub(super) fn path_mtu_4096(family: Family) {
    path_mtu(family, "mtu-4096", Mtu::B4096);
}

pub(super) fn compare_and_swap_that_hits(family: Family) {
    let scenarios = steps_of_compare_and_swap().map(|(scenario, _)| scenario).to_vec();
    for judged in [SPEC, RXE] {
        let sessions = vec![Session { connection: Connection::RC, scenarios: scenarios.clone() }];
        Plan { title: "swap", sessions, ..Plan::straight(family, judged) }.run().check_all();
    }
}

pub(super) fn refused_access_raises_an_event(family: Family) {
    for (ran, name, told) in Run::straight(family, &SPEC).scenarios() {
        let told = told.as_ref().expect("its own test says why not");
        let raised = told.events.clone().map(|events| events.into_iter().map(Event::Async));
        let [requester, responder] = raised.map(Iterator::collect::<Vec<_>>);
        assert_eq!(requester, [], "{name}: the requester has its completion");
        assert_eq!(responder, events_of_responder(&told.observation, ran.ends[1].qp), "{name}");
    }
}
