//! A log on three hosts with one leader at a time, by one-sided WRITEs: on a simulated fabric.
//!
//! A leader writes each entry into the memory of the others and counts it as committed when a majority
//! has it. What keeps an old leader from writing on is the NIC: a host lets one leader reach its log,
//! through one queue pair, and puts that queue pair into error before it lets another one. So whoever
//! has the permission of a majority knows that nobody else can commit.
//!
//! A new leader READs the logs of its majority, takes over the longest one of the newest term, writes
//! it to all who follow it, and only then goes on.
//!
//! What is checked: an entry that was committed once stays at its place in every later leader's log,
//! and a leader that was replaced commits nothing more.
//!
//! ```console
//! $ cargo run --release -p softrnic-verbs --example replicated_log [SEED]
//! ```

use std::error::Error;
use std::time::Duration;

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::simulated::{Fabric, NodeId};
use softrnic_verbs::{Access, Context, Cq, Mr, Qp, QpState, QpType, WcStatus};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const HOSTS: usize = 3;
const MAJORITY: usize = 2;
const ENTRIES: usize = 512;
/// An entry: the term in which it was written, and its command.
const ENTRY: usize = 16;
const LOG: usize = ENTRIES * ENTRY;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    term: u64,
    command: u64,
}

/// A host: its own log, and room to read another one's.
struct Member {
    host: NodeId,
    device: Context,
    log: Mr,
    room: Mr,
    /// The queue pair through which the present leader reaches the log.
    leaders: Option<Qp>,
    promised: u64,
}

impl Member {
    fn start(fabric: &Fabric, host: NodeId) -> Result<Self> {
        let device = fabric.open(host)?;
        let pd = device.alloc_pd()?;
        let access = Access::LOCAL_WRITE | Access::REMOTE;
        let log = pd.register(Buffer::new(LOG)?, access)?;
        let room = pd.register(Buffer::new(LOG)?, Access::LOCAL_WRITE)?;
        Ok(Self { host, device, log, room, leaders: None, promised: 0 })
    }

    /// Lets the leader of `term`, and nobody else, reach the log. In a program this is a message and
    /// its answer.
    fn grant(&mut self, term: u64, leader: &Qp) -> Result<()> {
        assert!(term > self.promised, "nobody goes back to an older term");
        self.promised = term;
        if let Some(old) = self.leaders.take() {
            old.move_to(QpState::Err)?;
        }
        let cq = self.device.create_cq(1)?;
        let qp = self.log.pd().create_qp(QpType::Rc, &cq).build()?;
        qp.connect(&leader.endpoint()?)?;
        leader.connect(&qp.endpoint()?)?;
        self.leaders = Some(qp);
        Ok(())
    }
}

/// The entries of a log, as far as it is written.
fn entries(log: &Mr) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for at in (0..LOG).step_by(ENTRY) {
        let (term, command) = (log.buffer().load_u64(at)?, log.buffer().load_u64(at + 8)?);
        if term == 0 {
            break;
        }
        entries.push(Entry { term, command });
    }
    Ok(entries)
}

fn put(log: &Mr, index: usize, Entry { term, command }: Entry) -> Result<()> {
    log.buffer().store_u64(index * ENTRY + 8, command)?;
    Ok(log.buffer().store_u64(index * ENTRY, term)?)
}

/// One that leads, or has led.
struct Leader {
    own: usize,
    term: u64,
    cq: Cq,
    /// To each other member that has granted it; none when that has failed.
    followers: Vec<(usize, Option<Qp>)>,
    length: usize,
}

impl Leader {
    /// Gets the permission of those members that can be reached, and takes over their log.
    fn elect(members: &mut [Member], own: usize, reach: &[usize], term: u64) -> Result<Self> {
        let cq = members[own].device.create_cq(1024)?;
        members[own].promised = term;
        if let Some(old) = members[own].leaders.take() {
            old.move_to(QpState::Err)?;
        }
        let mut followers = Vec::new();
        for &other in reach.iter().filter(|other| **other != own) {
            let qp = members[own].log.pd().create_qp(QpType::Rc, &cq).build()?;
            members[other].grant(term, &qp)?;
            followers.push((other, Some(qp)));
        }
        let mut leader = Self { own, term, cq, followers, length: 0 };
        leader.take_over(members)?;
        Ok(leader)
    }

    fn take_over(&mut self, members: &[Member]) -> Result<()> {
        let me = &members[self.own];
        let mut best = entries(&me.log)?;
        for (other, qp) in &self.followers {
            let Some(qp) = qp else { continue };
            qp.read(0, me.room.sge(0, u32::try_from(LOG)?), members[*other].log.remote(0))?;
            self.cq.wait_success(Some(Duration::from_secs(60)))?;
            let theirs = entries(&me.room)?;
            let rank = |log: &[Entry]| (log.last().map_or(0, |entry| entry.term), log.len());
            if rank(&theirs) > rank(&best) {
                best = theirs;
            }
        }
        // What nobody of a majority has is committed nowhere.
        me.log.buffer().fill(0)?;
        for (index, entry) in best.iter().enumerate() {
            // Written again in this term, so that its rank is that of this leader.
            put(&me.log, index, Entry { term: self.term, ..*entry })?;
        }
        self.length = best.len();
        let all = u32::try_from(LOG)?;
        assert!(self.replicate(members, 0, all)?, "a new leader has just had its majority");
        Ok(())
    }

    /// Writes a part of the own log to all followers, and tells whether a majority has it now.
    fn replicate(&mut self, members: &[Member], from: u64, len: u32) -> Result<bool> {
        let me = &members[self.own];
        let mut open = 0;
        for (other, qp) in &self.followers {
            let Some(qp) = qp else { continue };
            let posted =
                qp.write(*other as u64, me.log.sge(from, len), members[*other].log.remote(from));
            open += usize::from(posted.is_ok());
        }
        let mut have = 1;
        while open > 0 && have < HOSTS {
            let Some(wc) = self.cq.wait_one(Some(Duration::from_secs(60)))? else { break };
            open -= 1;
            if wc.status == WcStatus::Success {
                have += 1;
            } else if let Some((_, qp)) =
                self.followers.iter_mut().find(|(other, _)| *other as u64 == wc.wr_id)
            {
                *qp = None;
            }
        }
        Ok(have >= MAJORITY)
    }

    /// Appends a command; whether it is committed.
    fn append(&mut self, members: &[Member], command: u64) -> Result<bool> {
        put(&members[self.own].log, self.length, Entry { term: self.term, command })?;
        let from = (self.length * ENTRY) as u64;
        self.length += 1;
        self.replicate(members, from, u32::try_from(ENTRY)?)
    }
}

/// Every command that was ever committed, in order.
fn check(members: &[Member], leader: &Leader, committed: &[u64]) -> Result<()> {
    let log = entries(&members[leader.own].log)?;
    let commands: Vec<u64> = log.iter().map(|entry| entry.command).collect();
    assert!(commands.len() >= committed.len(), "committed entries are gone");
    assert_eq!(&commands[..committed.len()], committed, "committed entries have changed");
    Ok(())
}

fn main() -> Result<()> {
    let seed = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(7);
    let fabric = Fabric::star(HOSTS, seed);
    let hosts = fabric.hosts();
    let mut members = Vec::new();
    for host in &hosts {
        members.push(Member::start(&fabric, *host)?);
    }
    fabric.set_faults_everywhere("drop=2%,duplicate=2%,reorder=3%,corrupt=1%")?;
    let mut committed: Vec<u64> = Vec::new();
    let (mut refused, mut term) = (0, 1);
    let mut leader = Leader::elect(&mut members, 0, &[0, 1, 2], term)?;
    for round in 0..6 {
        for _ in 0..30 {
            let command = fabric.draw() | 1;
            assert!(leader.append(&members, command)?, "the leader of all commits");
            committed.push(command);
        }
        check(&members, &leader, &committed)?;
        // The leader is cut off, but does not know; the others elect one of theirs.
        let lonely = leader.own;
        let others: Vec<usize> = (0..HOSTS).filter(|member| *member != lonely).collect();
        fabric.partition(&[&[members[lonely].host]]);
        term += 1;
        let next = others[usize::from(fabric.draw() % 2 == 1)];
        let mut new = Leader::elect(&mut members, next, &others, term)?;
        check(&members, &new, &committed)?;
        let command = fabric.draw() | 1;
        assert!(new.append(&members, command)?, "two of three commit");
        committed.push(command);
        if round % 2 == 0 {
            fabric.heal();
        }
        // Its packets arrive again, or do not: either way it has no permission any more.
        assert!(!leader.append(&members, 0xdead)?, "a leader that was replaced commits nothing");
        refused += 1;
        fabric.heal();
        check(&members, &new, &committed)?;
        // All of them again, the lonely one too.
        term += 1;
        let again = (next + 1) % HOSTS;
        leader = Leader::elect(&mut members, again, &[0, 1, 2], term)?;
        check(&members, &leader, &committed)?;
        assert!(entries(&members[again].log)?.iter().all(|entry| entry.command != 0xdead));
    }
    println!(
        "seed {seed}: {} entries committed by {term} leaders, none lost; {refused} attempts of \
         replaced leaders refused",
        committed.len()
    );
    println!(
        "{} events in {:?} of virtual time; event hash {:#018x}",
        fabric.events(),
        fabric.now(),
        fabric.event_hash().get()
    );
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
