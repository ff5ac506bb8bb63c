//! Runs of sessions over UDP, and all that they are judged by.

use std::fs::File;
use std::path::Path;
use std::sync::LazyLock;

use softrnic_conformance::judge::Right;
use softrnic_conformance::lab::{Connection, Endpoint, Family, Loopback, VerbsLab, Waits};
use softrnic_conformance::scenario::{
    Observation, Roles, Scenario, Session, Side, Stage, sessions,
};
use softrnic_model::verbs::AsyncEvent;
use softrnic_model::wire::{Packet, RoceFrame};

use crate::capture::{Names, Scene, scenes};
use crate::pcapng::frames_in;
use crate::wire;
use crate::world::{Judged, RXE, SPEC, judge_answers, recording};

/// What is run.
pub(crate) struct Plan {
    /// For the names of files.
    pub(crate) title: &'static str,
    pub(crate) family: Family,
    pub(crate) judged: Judged,
    pub(crate) roles: Roles,
    pub(crate) sessions: Vec<Session>,
}

/// What one scenario is judged by but the packets.
pub(crate) struct Told {
    pub(crate) observation: Observation,
    /// By [`Side`].
    pub(crate) events: [Vec<AsyncEvent>; 2],
}

/// A session that ran.
pub(crate) struct Ran {
    pub(crate) connection: Connection,
    /// By [`Side`].
    pub(crate) ends: [Endpoint; 2],
    pub(crate) names: Names,
    /// Of each scenario; an error is what a device refused that is to work.
    pub(crate) told: Vec<(&'static str, Result<Told, String>)>,
}

/// A plan that was run.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) sessions: Vec<Ran>,
    /// What each device has recorded.
    pub(crate) captures: [Capture; 2],
    /// What each device and its link have counted.
    pub(crate) counters: [Vec<(String, u64)>; 2],
}

/// A capture file.
pub(crate) struct Capture {
    /// The file itself: another run of these tests may put its own in this place.
    pub(crate) file: File,
    pub(crate) frames: Vec<Vec<u8>>,
}

impl Plan {
    /// All sessions as they were recorded.
    pub(crate) fn straight(family: Family, judged: Judged) -> Self {
        let title = judged.profile.name;
        Self { title, family, judged, roles: Roles::Straight, sessions: sessions() }
    }

    pub(crate) fn run(self) -> Run {
        let Self { title, family, .. } = self;
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let name = |device| format!("{title}-{family:?}-{device}");
        // Another run of these tests may be under way.
        let process = std::process::id();
        let files = [0, 1].map(|d| directory.join(format!("{}-{process}.pcapng", name(d))));
        let loopback =
            Loopback { family, profile: self.judged.profile, captures: Some(files.clone()) };
        let devices = loopback.open().unwrap_or_else(|error| panic!("{error}"));
        let mut lab = VerbsLab::new(devices, Waits::REAL);
        let sessions =
            self.sessions.iter().map(|session| self.session(&mut lab, session)).collect();
        let counters = [0, 1].map(|device| {
            let counters = lab.device(device).counters().expect("emulated devices count");
            counters.into_iter().map(|counter| (counter.name.into_owned(), counter.value)).collect()
        });
        // Closing the devices completes the files.
        drop(lab);
        let captures = [0, 1].map(|device| {
            let frames = frames_in(&files[device]);
            let file = File::open(&files[device]).expect("it was read just now");
            // Where it stays, for whoever wants to look at it.
            let path = directory.join(format!("{}.pcapng", name(device)));
            std::fs::rename(&files[device], path).expect("it is our own directory");
            Capture { file, frames }
        });
        Run { plan: self, sessions, captures, counters }
    }

    fn session(&self, lab: &mut VerbsLab, session: &Session) -> Ran {
        let at = format!("session of {} ({})", session.scenarios[0].name, self.title);
        let opened = Stage::open(lab, &session.connection, self.roles);
        let mut stage = opened.unwrap_or_else(|why| panic!("{at}: it does not connect: {why}"));
        let ends = stage.ends(self.roles);
        let names = wire::names(&ends, stage.psn(self.roles));
        let step = |scenario: &Scenario| {
            let told = self.step(&mut stage, scenario, &ends);
            (scenario.name, told.map_err(|error| error.to_string()))
        };
        let told = session.scenarios.iter().map(step).collect();
        stage.close().unwrap_or_else(|why| panic!("{at}: it cannot be destroyed: {why}"));
        Ran { connection: session.connection, ends, names, told }
    }

    fn step(
        &self,
        stage: &mut Stage<'_, VerbsLab>,
        scenario: &Scenario,
        ends: &[Endpoint; 2],
    ) -> Result<Told, softrnic_model::verbs::VerbError> {
        let recording = recording(self.family);
        let due = Side::ALL.map(|side| {
            let right = Right::of(scenario.name, side, recording, self.judged.declared);
            right.is_some_and(|right| right.is_completion())
        });
        let observation = stage.run(scenario, self.roles, due)?;
        let [requester, responder] = ends.each_ref().map(|end| stage.lab.take_events(end.device));
        Ok(Told { observation, events: [requester?, responder?] })
    }
}

impl Run {
    /// The run of all sessions as they were recorded.
    pub(crate) fn straight(family: Family, judged: &Judged) -> &'static Self {
        static RUNS: [LazyLock<Run>; 4] = [
            LazyLock::new(|| Plan::straight(Family::V4, SPEC).run()),
            LazyLock::new(|| Plan::straight(Family::V6, SPEC).run()),
            LazyLock::new(|| Plan::straight(Family::V4, RXE).run()),
            LazyLock::new(|| Plan::straight(Family::V6, RXE).run()),
        ];
        let of_profile = if judged.profile == SPEC.profile { 0 } else { 2 };
        &RUNS[of_profile + usize::from(family == Family::V6)]
    }

    /// All scenarios, with their sessions.
    pub(crate) fn scenarios(
        &self,
    ) -> impl Iterator<Item = (&Ran, &'static str, &Result<Told, String>)> {
        self.sessions
            .iter()
            .flat_map(|ran| ran.told.iter().map(move |(name, told)| (ran, *name, told)))
    }

    /// Judges the answers, memory and states of one scenario.
    pub(crate) fn check(&self, scenario: &str) {
        let found = self.scenarios().find(|(_, name, _)| *name == scenario);
        let (ran, name, told) = found.expect("every scenario is in a session");
        self.check_one(ran, name, told);
    }

    /// Judges those of all scenarios, packets and links.
    pub(crate) fn check_all(&self) {
        self.scenarios().for_each(|(ran, name, told)| self.check_one(ran, name, told));
        self.check_links();
    }

    fn check_one(&self, ran: &Ran, name: &str, told: &Result<Told, String>) {
        match told {
            Ok(told) => {
                let qp_type = ran.connection.qp_type;
                judge_answers(&told.observation, qp_type, &self.plan.judged, self.plan.family);
            }
            Err(why) => panic!("{name}: {why}"),
        }
    }

    /// Holds the packets of every session against the recorded ones.
    pub(crate) fn check_packets(&self) {
        for ran in &self.sessions {
            let recorded = |(name, _): &(&'static str, _)| &scenes(self.plan.family)[*name];
            let frames = ran.told.iter().flat_map(|told| recorded(told).frames.clone()).collect();
            let scene = Scene { names: recorded(&ran.told[0]).names, frames };
            let declared = self.plan.judged.wire.iter();
            let mut here = declared.filter(|difference| {
                ran.told.iter().any(|(name, _)| difference.scenarios.contains(name))
            });
            let right = here.next().map(|difference| difference.right);
            assert!(right.is_none() || ran.told.len() == 1, "errors have a session each");
            let problems = wire::compare(&self.packets(ran), &ran.names, &scene, right);
            let first = ran.told[0].0;
            assert!(problems.is_empty(), "session of {first}:\n{}", problems.join("\n"));
        }
    }

    /// The packets of a session by the side that sent them, in order, repetitions left out.
    pub(crate) fn packets(&self, ran: &Ran) -> [Vec<Vec<u8>>; 2] {
        let requester = ran.ends[0].device;
        wire::distinct(self.captures[requester].frames.iter().filter_map(|bytes| {
            let frame = RoceFrame::parse(bytes).expect("devices record what they sent");
            let packet = Packet::parse(frame.packet).expect("devices send packets");
            let from =
                if frame.route.src == ran.ends[0].gid { Side::Requester } else { Side::Responder };
            let is_of_session = packet.bth.dest_qp() == ran.ends[from.other() as usize].qp;
            is_of_session.then(|| (from, frame.packet.to_vec()))
        }))
    }

    /// Everything that arrived was whole, and every bit of every ICRC was checked.
    pub(crate) fn check_links(&self) {
        for counters in &self.counters {
            let value = |name: &str| counters.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
            for name in ["rx_bad_length", "rx_bad_icrc", "rx_icrc_solved", "tx_failed"] {
                assert_eq!(value(name), Some(0), "{name} of {counters:?}");
            }
            assert!(value("rx_packets").is_some_and(|packets| packets > 0));
            assert_eq!(value("rx_icrc_full"), value("rx_packets"), "{counters:?}");
        }
    }
}
