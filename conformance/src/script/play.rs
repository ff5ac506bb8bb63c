//! Playing a script on a bench.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use softrnic_model::verbs::QpNum;
use softrnic_model::wire::Route;

use super::packet::{PairFacts, Symbols, different_bytes};
use super::{Act, At, DoneSpec, PacketSpec, Script, Step};
use crate::case::Verdict;
use crate::program::{Action, Answer, Command, Completion, QpSetup, Refusal};
use crate::text::{from_hex, to_hex};
use crate::wire::{Bench, Caught, Crafted, Rung, in_words};

/// What came of a script.
#[derive(Clone, Debug)]
pub struct Played {
    /// How it went.
    pub verdict: Verdict,
    /// What happened, in order.
    pub ladder: Vec<Rung>,
}

/// Plays a script.
pub fn play(script: &Script, bench: &mut dyn Bench) -> Played {
    let began_ns = bench.now_ns();
    let mut player = Player {
        bench,
        began_ns,
        last_ns: began_ns,
        names: Names::default(),
        completions: Vec::new(),
        receives: BTreeSet::new(),
        events: Vec::new(),
        welcome: Vec::new(),
        ladder: Vec::new(),
        bad_icrc: 0,
        last_port: None,
    };
    player.bad_icrc = player.bench.bad_icrc();
    let verdict = match player.run(script) {
        Ok(()) => Verdict::Pass,
        Err(End::Wrong(why)) => Verdict::Fail(why),
        Err(End::NotApplicable(why)) => Verdict::NotApplicable(why),
    };
    // What it made goes, whatever came of it. A device that is dead has been judged already.
    let _ = player.command("close");
    Played { verdict, ladder: player.ladder }
}

/// Why a script ends early.
enum End {
    Wrong(String),
    NotApplicable(String),
}

type Outcome<T> = Result<T, End>;

fn wrong<T>(why: impl Into<String>) -> Outcome<T> {
    Err(End::Wrong(why.into()))
}

struct Player<'a> {
    bench: &'a mut dyn Bench,
    began_ns: u64,
    /// When the last line was done with.
    last_ns: u64,
    names: Names,
    completions: Vec<Completion>,
    /// Numbers of receives that were posted; sends have others.
    receives: BTreeSet<u64>,
    events: Vec<String>,
    /// Packets that may leave, in any place from here on.
    welcome: Vec<PacketSpec>,
    ladder: Vec<Rung>,
    bad_icrc: u64,
    /// From which UDP port the device has sent last.
    last_port: Option<u16>,
}

/// What names stand for.
#[derive(Default)]
struct Names {
    pairs: BTreeMap<String, PairFacts>,
    keys: BTreeMap<String, (u64, u32)>,
}

impl Symbols for Names {
    fn pair(&self, name: &str) -> Option<PairFacts> {
        self.pairs.get(name).copied()
    }

    fn key(&self, name: &str) -> Option<(u64, u32)> {
        self.keys.get(name).copied()
    }
}

/// The number of the script's first queue pair; the others follow.
const PEER_QP: u32 = 0x01_c001;
/// Between two looks for what is to be seen soon, in nanoseconds.
const LOOK_AFTER_NS: u64 = 200_000;
/// The bit that is flipped in a frame whose ICRC shall be wrong: of the ICRC's own, behind the packet.
const ICRC_BIT: u32 = 3;

impl Player<'_> {
    fn run(&mut self, script: &Script) -> Outcome<()> {
        let makes_own = |step: &Step| {
            let Act::Does(Command { action: Action::Region(setup), .. }) = &step.act else {
                return false;
            };
            setup.name == "buf"
        };
        if !script.steps.iter().any(makes_own) {
            self.must("region buf")?;
        }
        for step in &script.steps {
            self.wait_for(step);
            self.step(step).map_err(|end| match end {
                End::Wrong(why) => {
                    End::Wrong(format!("line {}, `{}`: {why}", step.line, step.text))
                }
                End::NotApplicable(why) => End::NotApplicable(why),
            })?;
            self.last_ns = self.bench.now_ns();
        }
        self.nothing_left()
    }

    /// Lets time pass until a line's time has come. What must leave is waited for otherwise.
    fn wait_for(&mut self, step: &Step) {
        if matches!(step.act, Act::Leaves(_)) {
            return;
        }
        if let Some(ns) = self.due(step) {
            self.bench.pass_until(ns);
        }
    }

    fn due(&self, step: &Step) -> Option<u64> {
        step.at.map(|at| match at {
            At::Since(ns) => self.began_ns.saturating_add(ns),
            At::After(ns) => self.last_ns.saturating_add(ns),
        })
    }

    fn step(&mut self, step: &Step) -> Outcome<()> {
        match &step.act {
            Act::Arrives(spec) => self.arrives(spec),
            Act::Leaves(spec) => self.leaves(spec, self.due(step), &step.text),
            Act::MayLeave(spec) => {
                self.welcome.push(spec.clone());
                Ok(())
            }
            Act::Does(command) => self.does(command).map(|_| ()),
            Act::Refused(errno, command) => self.is_refused(errno, command),
            Act::Done(spec) => self.done(spec, &step.text),
            Act::Idle => self.idle(),
            Act::Holds(command, bytes) => self.holds(command, bytes),
            Act::In(command, state) => self.is_in(command, state),
            Act::Event(name) => self.event(name),
            Act::NoEvent(name) => {
                self.take_events()?;
                if !self.events.contains(name) {
                    return Ok(());
                }
                let why = format!("the event {name} was raised");
                self.differs(name.clone(), "no such event".into(), why)
            }
            Act::Quiet(ns) => self.quiet(*ns),
            Act::Wait(ns) => {
                self.bench.pass_until(self.bench.now_ns().saturating_add(*ns));
                Ok(())
            }
            Act::Needs(capability) => self.needs(capability),
        }
    }

    fn note(&mut self, at_ns: u64, who: &str, what: impl Into<String>) {
        let at_ns = at_ns.saturating_sub(self.began_ns);
        self.ladder.push(Rung { at_ns, who: who.into(), what: what.into(), expected: None });
    }

    fn note_wrong(&mut self, at_ns: u64, who: &str, what: String, expected: String) {
        let at_ns = at_ns.saturating_sub(self.began_ns);
        self.ladder.push(Rung { at_ns, who: who.into(), what, expected: Some(expected) });
    }

    /// The judge finds `got` where there should be something else; `why` is the same as a sentence.
    fn differs(&mut self, got: String, expected: String, why: impl Into<String>) -> Outcome<()> {
        self.note_wrong(self.bench.now_ns(), "judge", got, expected);
        wrong(why)
    }

    fn arrives(&mut self, spec: &PacketSpec) -> Outcome<()> {
        let packet = spec.build(&self.names).map_err(End::Wrong)?;
        let src = if spec.stranger {
            let none = || End::NotApplicable("there is no second address to send from".into());
            self.bench.stranger().ok_or_else(none)?
        } else {
            self.bench.peer()
        };
        let route = Route {
            src,
            dst: self.bench.device(),
            src_port: 0xc000,
            hop_limit: 64,
            traffic_class: spec.ecn.unwrap_or(0),
            flow_label: 0,
        };
        let behind = u32::try_from(packet.len() * 8).unwrap_or(0);
        let damage = spec.bad_icrc.then_some(behind + ICRC_BIT).or(spec.flip);
        let mut words = in_words(&route, &packet);
        if let Some(bit) = damage {
            words.push_str(&format!(", bit {bit} flipped under way"));
        }
        self.note(self.bench.now_ns(), "peer", words);
        let crafted = Crafted { route, packet, damage };
        self.bench.send(&crafted).map_err(|why| End::Wrong(format!("it cannot be sent: {why}")))
    }

    fn patience(&self) -> u64 {
        self.bench.now_ns().saturating_add(nanoseconds(self.bench.waits().patience))
    }

    fn leaves(&mut self, spec: &PacketSpec, due: Option<u64>, text: &str) -> Outcome<()> {
        let expected = text.trim_start_matches('>').trim().to_owned();
        let until = due.unwrap_or(0).max(self.patience());
        let Some(caught) = self.next_due(until, Some(spec))? else {
            self.note_wrong(self.bench.now_ns(), "device", "nothing".into(), expected);
            return wrong("nothing left the device");
        };
        let words = in_words(&caught.route, &caught.packet);
        let mut found = spec.compare(&caught.packet, &self.names).map_err(End::Wrong)?;
        if let Some(due) = due.filter(|due| caught.at_ns < *due) {
            let early = due - caught.at_ns;
            found.push(format!("it left {} us too early", early / 1000));
        }
        found.extend(self.addressing(&caught));
        let ecn = caught.route.traffic_class & 0b11;
        if spec.ecn.is_some_and(|expected| expected != ecn) {
            found.push(format!("its ECN bits are {ecn}"));
        }
        let port = self.last_port.replace(caught.route.src_port);
        if spec.same_port && port != self.last_port {
            found.push(format!("it leaves from port {}, not {port:?}", caught.route.src_port));
        }
        if found.is_empty() {
            self.note(caught.at_ns, "device", words);
            return Ok(());
        }
        let why = found.join("; ");
        self.note_wrong(caught.at_ns, "device", words, expected);
        wrong(why)
    }

    /// What every packet of the device has to satisfy.
    fn addressing(&self, caught: &Caught) -> Option<String> {
        let Route { src, dst, .. } = caught.route;
        let right = src == self.bench.device() && (dst == self.bench.peer() || dst.is_multicast());
        (!right).then(|| format!("it goes from {src} to {dst}"))
    }

    /// The next packet that is not one of those that may leave as well, each once.
    fn next_due(&mut self, until: u64, due: Option<&PacketSpec>) -> Outcome<Option<Caught>> {
        loop {
            let Some(caught) = self.bench.next(until) else { return Ok(None) };
            let fits = |spec: &PacketSpec| {
                spec.compare(&caught.packet, &self.names).map(|found| found.is_empty())
            };
            if let Some(due) = due
                && fits(due).map_err(End::Wrong)?
            {
                return Ok(Some(caught));
            }
            let mut welcome = None;
            for (at, spec) in self.welcome.iter().enumerate() {
                if fits(spec).map_err(End::Wrong)? {
                    welcome = Some(at);
                    break;
                }
            }
            let Some(at) = welcome else { return Ok(Some(caught)) };
            self.welcome.remove(at);
            self.note(caught.at_ns, "device", in_words(&caught.route, &caught.packet));
        }
    }

    fn quiet(&mut self, ns: Option<u64>) -> Outcome<()> {
        let ns = ns.unwrap_or_else(|| nanoseconds(self.bench.waits().quiet));
        let until = self.bench.now_ns().saturating_add(ns);
        let Some(caught) = self.next_due(until, None)? else { return Ok(()) };
        let words = in_words(&caught.route, &caught.packet);
        self.note_wrong(caught.at_ns, "device", words.clone(), "nothing".into());
        wrong(format!("{words} left, and nothing should"))
    }

    fn does(&mut self, command: &Command) -> Outcome<Answer> {
        match self.execute(command) {
            Ok(answer) => Ok(answer),
            Err(refusal) => match refusal.errno.as_deref() {
                Some("EOPNOTSUPP") => Err(End::NotApplicable(refusal.why)),
                Some(_) | None => wrong(format!("it was refused: {refusal}")),
            },
        }
    }

    fn is_refused(&mut self, errno: &str, command: &Command) -> Outcome<()> {
        match self.execute(command) {
            Ok(_) => {
                self.differs("done".into(), format!("refused with {errno}"), "it was not refused")
            }
            Err(refusal) if refusal.errno.as_deref() == Some(errno) => Ok(()),
            Err(refusal) => {
                let why = format!("it was refused otherwise: {refusal}");
                self.differs(refusal.to_string(), format!("refused with {errno}"), why)
            }
        }
    }

    /// Has the program do something, and remembers what came of it.
    fn execute(&mut self, command: &Command) -> Result<Answer, Refusal> {
        let is_loud = !matches!(
            command.action,
            Action::Poll | Action::Events | Action::State { .. } | Action::Memory { .. }
        );
        if is_loud {
            self.note(self.bench.now_ns(), "program", command.text.clone());
        }
        let answer = if let Action::Qp(setup) = &command.action {
            self.make_pair(command, setup)?
        } else {
            self.bench.program().execute(command)?
        };
        match (&command.action, &answer) {
            (Action::Region(setup), Answer::Key { addr, rkey }) => {
                self.names.keys.insert(setup.name.clone(), (*addr, *rkey));
            }
            (Action::Window(setup), Answer::Key { addr, rkey }) => {
                self.names.keys.insert(setup.name.clone(), (*addr, *rkey));
            }
            (Action::Post(post), Answer::Key { addr, rkey }) => {
                self.names.keys.insert(post.window.clone(), (*addr, *rkey));
            }
            (Action::Recv { id, .. }, _) => {
                self.receives.insert(*id);
            }
            _ => {}
        }
        Ok(answer)
    }

    /// Has the program make a queue pair whose peer is the script.
    fn make_pair(&mut self, command: &Command, setup: &QpSetup) -> Result<Answer, Refusal> {
        let index = u32::try_from(self.names.pairs.len()).unwrap_or(0);
        let peer_qp = QpNum::new(PEER_QP + index);
        let mut text = command.text.clone();
        for (key, value) in
            [("peer", self.bench.peer().to_string()), ("peerqp", peer_qp.get().to_string())]
        {
            // A script may lead a queue pair somewhere else.
            if !text.contains(&format!(" {key}=")) {
                text = format!("{text} {key}={value}");
            }
        }
        let command: Command = text.parse().map_err(Refusal::plain)?;
        let answer = self.bench.program().execute(&command)?;
        if let Answer::Qp { number, srq, .. } = &answer {
            let facts = PairFacts {
                qp_type: setup.qp_type,
                number: QpNum::new(*number),
                peer: peer_qp,
                rq_psn: setup.rq_psn.get(),
                sq_psn: setup.sq_psn.get(),
                qkey: setup.qkey,
                srq: srq.unwrap_or(0),
            };
            self.names.pairs.insert(setup.name.clone(), facts);
        }
        Ok(answer)
    }

    /// A command of the player's own.
    fn command(&mut self, text: &str) -> Result<Answer, Refusal> {
        let command: Command = text.parse().map_err(Refusal::plain)?;
        self.execute(&command)
    }

    fn must(&mut self, text: &str) -> Outcome<Answer> {
        self.command(text).map_err(|refusal| End::Wrong(format!("{text}: {refusal}")))
    }

    fn take_completions(&mut self) -> Outcome<()> {
        if let Answer::Completions(more) = self.must("poll")? {
            for completion in &more {
                self.note(self.bench.now_ns(), "device", format!("completes {completion}"));
            }
            self.completions.extend(more);
        }
        Ok(())
    }

    fn take_events(&mut self) -> Outcome<()> {
        if let Answer::Events(more) = self.must("events")? {
            for event in &more {
                self.note(self.bench.now_ns(), "device", format!("raises {event}"));
            }
            self.events.extend(more);
        }
        Ok(())
    }

    /// Asks again and again until the answer is yes, or patience ends. Packets of the device are kept.
    fn soon(&mut self, mut ask: impl FnMut(&mut Self) -> Outcome<bool>) -> Outcome<bool> {
        let until = self.patience();
        loop {
            let is_last = self.bench.now_ns() >= until;
            if ask(self)? {
                return Ok(true);
            }
            if is_last {
                return Ok(false);
            }
            self.bench.pass_until(self.bench.now_ns().saturating_add(LOOK_AFTER_NS));
        }
    }

    fn done(&mut self, spec: &DoneSpec, text: &str) -> Outcome<()> {
        let number = match &spec.qp {
            Some(name) => self.names.pair(name).map(|pair| pair.number.get()),
            None => None,
        };
        // Only completions of one work queue are in order.
        let receives = self.receives.clone();
        let is_it = |completion: &Completion| {
            let same_queue = |id| receives.contains(id) == receives.contains(&completion.id);
            number.is_none_or(|number| completion.qp == number)
                && spec.id.as_ref().is_none_or(same_queue)
        };
        let came = self.soon(|player| {
            player.take_completions()?;
            Ok(player.completions.iter().any(is_it))
        })?;
        let at = self.completions.iter().position(is_it);
        let (true, Some(at)) = (came, at) else {
            self.note_wrong(self.bench.now_ns(), "device", "no completion".into(), text.into());
            return wrong("nothing has completed");
        };
        let completion = self.completions.remove(at);
        let inv = match &spec.inv {
            Some(value) => {
                let base = value.name.as_ref().map_or(Some((0, 0)), |name| self.names.key(name));
                let plus = u32::try_from(value.plus & 0xffff_ffff).unwrap_or(0);
                base.map(|(_, key)| key.wrapping_add(plus))
            }
            None => None,
        };
        let found = spec.compare(&completion, inv);
        if found.is_empty() {
            return Ok(());
        }
        self.note_wrong(self.bench.now_ns(), "judge", completion.to_string(), text.into());
        wrong(format!("{completion} has completed: {}", found.join("; ")))
    }

    fn idle(&mut self) -> Outcome<()> {
        self.take_completions()?;
        match self.completions.first() {
            None => Ok(()),
            Some(completion) => {
                let got = completion.to_string();
                let why = format!("{got} has completed");
                self.differs(got, "no completion".into(), why)
            }
        }
    }

    fn holds(&mut self, command: &Command, expected: &[u8]) -> Outcome<()> {
        let mut got = Vec::new();
        let holds = self.soon(|player| {
            if let Answer::Memory(hex) = player.does(command)? {
                got = from_hex(&hex).unwrap_or_default();
            }
            Ok(got == expected)
        })?;
        if holds {
            return Ok(());
        }
        let (what, expected_words) = (short_hex(&got), short_hex(expected));
        self.note_wrong(self.bench.now_ns(), "judge", what, expected_words);
        wrong(different_bytes(&got, expected))
    }

    fn is_in(&mut self, command: &Command, expected: &str) -> Outcome<()> {
        let mut got = String::new();
        let is_in = self.soon(|player| {
            if let Answer::State(state) = player.does(command)? {
                got = state;
            }
            Ok(got == expected)
        })?;
        if is_in {
            return Ok(());
        }
        let why = format!("it is in {got}");
        self.differs(got, expected.into(), why)
    }

    fn event(&mut self, name: &str) -> Outcome<()> {
        let raised = self.soon(|player| {
            player.take_events()?;
            Ok(player.events.iter().any(|event| event == name))
        })?;
        let at = self.events.iter().position(|event| event == name);
        match (raised, at) {
            (true, Some(at)) => {
                self.events.remove(at);
                Ok(())
            }
            _ => {
                let why = format!("the event {name} was not raised");
                self.differs("no such event".into(), name.into(), why)
            }
        }
    }

    fn needs(&mut self, capability: &str) -> Outcome<()> {
        if let Answer::Capabilities(can) = self.must("capabilities")?
            && can.iter().any(|name| name == capability)
        {
            return Ok(());
        }
        Err(End::NotApplicable(format!("the device has no {capability}")))
    }

    /// Nothing more leaves, nothing has completed unseen, and every frame was whole.
    fn nothing_left(&mut self) -> Outcome<()> {
        self.quiet(None).map_err(|end| match end {
            End::Wrong(why) => End::Wrong(format!("at the end: {why}")),
            End::NotApplicable(why) => End::NotApplicable(why),
        })?;
        self.idle().map_err(|end| match end {
            End::Wrong(why) => End::Wrong(format!("at the end: {why}")),
            End::NotApplicable(why) => End::NotApplicable(why),
        })?;
        let bad = self.bench.bad_icrc() - self.bad_icrc;
        if bad == 0 {
            return Ok(());
        }
        let got = format!("{bad} frames had a wrong ICRC");
        self.differs(got.clone(), "none has".into(), got)
    }
}

impl DoneSpec {
    fn compare(&self, got: &Completion, inv: Option<u32>) -> Vec<String> {
        let mut found = Vec::new();
        let mut same = |what: &str, fits: bool, expected: String| {
            if !fits {
                found.push(format!("{what} should be {expected}"));
            }
        };
        let number = |value: Option<u32>| value.map_or_else(String::new, |n| format!("{n:#x}"));
        same("status", self.status == got.status, self.status.clone());
        let id = self.id.map_or_else(String::new, |id| id.to_string());
        same("id", self.id.is_none_or(|id| id == got.id), id);
        let opcode = self.opcode.as_ref();
        let text = opcode.cloned().unwrap_or_default();
        same("opcode", opcode.is_none_or(|opcode| *opcode == got.opcode), text);
        let flags = self.flags.as_ref();
        let text = format!("{:?}", self.flags);
        same("flags", flags.is_none_or(|flags| same_set(flags, &got.flags)), text);
        same("len", self.len.is_none_or(|len| len == got.len), number(self.len));
        same("imm", self.imm.is_none_or(|imm| imm == got.imm), number(self.imm));
        same("src", self.src.is_none_or(|src| src == got.src), number(self.src));
        same("vendor", self.vendor.is_none_or(|code| code == got.vendor), number(self.vendor));
        same("inv", inv.is_none_or(|inv| inv == got.inv), number(inv));
        found
    }
}

fn same_set(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && a.iter().all(|one| b.contains(one))
}

/// The first bytes.
fn short_hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 64;
    let dots = if bytes.len() > SHOWN { ".." } else { "" };
    format!("memory {}{dots}", to_hex(&bytes[..bytes.len().min(SHOWN)]))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
