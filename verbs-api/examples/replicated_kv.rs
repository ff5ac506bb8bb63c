//! A key-value store on three replicas that survives lost packets, a partition and the death of any one
//! of them: on a simulated fabric, where all of that happens on purpose and the same way each time.
//!
//! The replicas lend their memory and do nothing else. A client puts a value by WRITEs to all of them
//! and waits for two; it gets one by READs of all, waits for two, and takes the newer version. Any two
//! of three have one in common, so what was put once is found for ever.
//!
//! What is checked after every step: a get finds the value that belongs to its version, and no version
//! older than the last one that was put or found before.
//!
//! ```console
//! $ cargo run --release -p softrnic-verbs --example replicated_kv [SEED]
//! ```

use std::error::Error;
use std::time::Duration;

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::simulated::{Fabric, NodeId};
use softrnic_verbs::{Access, Context, Cq, Mr, Qp, QpType, RemoteAddress, WcStatus};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const REPLICAS: usize = 3;
const MAJORITY: usize = 2;
const KEYS: u64 = 32;
/// A slot: version, value, and a sum that a torn slot does not have.
const SLOT: u64 = SLOT_LEN as u64;
const SLOT_LEN: u32 = 24;
/// Places for slots on their way. One that was posted is not used again before this many others: a
/// NIC that has to repeat a WRITE reads the memory again.
const STAGED: u64 = 4096;

/// The value of a version, so that everybody can tell whether one is right.
const fn value_of(key: u64, version: u64) -> u64 {
    (key << 32 | version).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

const fn sum_of(version: u64, value: u64) -> u64 {
    version.rotate_left(17) ^ value ^ 0x0073_756d
}

/// A process that lends its memory.
struct Replica {
    host: NodeId,
    device: Context,
    table: Mr,
}

impl Replica {
    fn start(fabric: &Fabric, host: NodeId) -> Result<Self> {
        let device = fabric.open(host)?;
        let pd = device.alloc_pd()?;
        let memory = Buffer::new(usize::try_from(KEYS * SLOT)?)?;
        let table = pd.register(memory, Access::LOCAL_WRITE | Access::REMOTE)?;
        Ok(Self { host, device, table })
    }
}

/// A client's way to a replica.
struct Session {
    qp: Qp,
    /// The replica's end, which must live as long.
    _far: Qp,
    table: RemoteAddress,
    alive: bool,
}

struct Client {
    cq: Cq,
    staging: Mr,
    sessions: Vec<Session>,
    next_operation: u64,
    next_place: u64,
    /// Of each key, the version that later gets must find at least.
    at_least: Vec<u64>,
}

impl Client {
    fn start(fabric: &Fabric, host: NodeId, replicas: &[Replica]) -> Result<Self> {
        let device = fabric.open(host)?;
        let cq = device.create_cq(1024)?;
        let pd = device.alloc_pd()?;
        let memory = Buffer::new(usize::try_from(STAGED * SLOT)?)?;
        let staging = pd.register(memory, Access::LOCAL_WRITE)?;
        let at_least = vec![0; usize::try_from(KEYS)?];
        let mut client =
            Self { cq, staging, sessions: Vec::new(), next_operation: 0, next_place: 0, at_least };
        for replica in replicas {
            let session = client.connect(replica)?;
            client.sessions.push(session);
        }
        Ok(client)
    }

    fn connect(&self, replica: &Replica) -> Result<Session> {
        let qp = self.staging.pd().create_qp(QpType::Rc, &self.cq).build()?;
        let far_cq = replica.device.create_cq(1)?;
        let far = replica.table.pd().create_qp(QpType::Rc, &far_cq).build()?;
        qp.connect(&far.endpoint()?)?;
        far.connect(&qp.endpoint()?)?;
        Ok(Session { qp, _far: far, table: replica.table.remote(0), alive: true })
    }

    fn place(&mut self) -> u64 {
        self.next_place = (self.next_place + 1) % STAGED;
        self.next_place * SLOT
    }

    fn slot(&self, place: u64) -> Result<[u64; 3]> {
        let place = usize::try_from(place)?;
        let at = |word: usize| self.staging.buffer().load_u64(place + word * 8);
        Ok([at(0)?, at(1)?, at(2)?])
    }

    /// Posts something to each replica that lives, waits until a majority has done it, and tells
    /// which.
    fn ask(&mut self, post: impl Fn(&Session, u64, usize) -> Result<()>) -> Result<Vec<usize>> {
        self.next_operation += 1;
        let operation = self.next_operation;
        for (number, session) in self.sessions.iter_mut().enumerate().filter(|(_, s)| s.alive) {
            // A queue pair that has failed meanwhile refuses, or flushes what it is given.
            session.alive = post(session, operation << 8 | number as u64, number).is_ok();
        }
        let mut done = Vec::new();
        while done.len() < MAJORITY {
            if self.sessions.iter().filter(|session| session.alive).count() < MAJORITY {
                return Err("a majority of the replicas is gone".into());
            }
            let Some(wc) = self.cq.wait_one(Some(Duration::from_secs(60)))? else {
                return Err("no replica answers, and none is given up".into());
            };
            let number = usize::try_from(wc.wr_id & 0xff)?;
            let of_this_session = wc.qp_num == self.sessions[number].qp.num();
            if wc.status != WcStatus::Success {
                self.sessions[number].alive &= !of_this_session;
            } else if wc.wr_id >> 8 == operation {
                done.push(number);
            }
        }
        Ok(done)
    }

    fn write(&mut self, key: u64, version: u64, value: u64) -> Result<()> {
        let place = self.place();
        let slot = [version, value, sum_of(version, value)];
        for (at, word) in (place..).step_by(8).zip(slot) {
            self.staging.buffer().store_u64(usize::try_from(at)?, word)?;
        }
        let from = self.staging.sge(place, SLOT_LEN);
        self.ask(|session, wr_id, _| {
            let RemoteAddress { addr, rkey } = session.table;
            let to = RemoteAddress { addr: addr + key * SLOT, rkey };
            Ok(session.qp.write(wr_id, from, to)?)
        })?;
        Ok(())
    }

    fn put(&mut self, key: u64, version: u64) -> Result<()> {
        self.write(key, version, value_of(key, version))?;
        self.at_least[usize::try_from(key)?] = version;
        Ok(())
    }

    fn get(&mut self, key: u64) -> Result<u64> {
        let places: Vec<u64> = (0..REPLICAS).map(|_| self.place()).collect();
        let into: Vec<_> = places.iter().map(|place| self.staging.sge(*place, SLOT_LEN)).collect();
        let done = self.ask(|session, wr_id, number| {
            let RemoteAddress { addr, rkey } = session.table;
            let from = RemoteAddress { addr: addr + key * SLOT, rkey };
            Ok(session.qp.read(wr_id, into[number], from)?)
        })?;
        let mut slots = Vec::new();
        for number in done {
            let [version, value, sum] = self.slot(places[number])?;
            let blank = [version, value, sum] == [0; 3];
            assert!(blank || sum == sum_of(version, value), "a slot of key {key} is torn");
            slots.push((version, value));
        }
        let (version, value) = slots.iter().copied().max().unwrap_or_default();
        assert!(version == 0 || value == value_of(key, version), "key {key}: a foreign value");
        let at_least = &mut self.at_least[usize::try_from(key)?];
        assert!(version >= *at_least, "key {key}: version {version} after {at_least}");
        *at_least = version;
        if slots.iter().any(|(seen, _)| *seen != version) {
            // Whoever gets it next must find it too.
            self.write(key, version, value)?;
        }
        Ok(version)
    }

    /// A replica has come back with nothing: it learns all keys before it counts.
    fn readmit(&mut self, number: usize, replica: &Replica) -> Result<()> {
        self.sessions[number] = self.connect(replica)?;
        self.sessions[number].alive = false;
        for key in 0..KEYS {
            let version = self.get(key)?;
            self.sessions[number].alive = true;
            let others: Vec<bool> = self.sessions.iter().map(|session| session.alive).collect();
            if version != 0 {
                self.write(key, version, value_of(key, version))?;
            }
            let still = self.sessions.iter().map(|session| session.alive).eq(others);
            assert!(still, "no replica is lost while another one comes back");
            self.sessions[number].alive = key + 1 == KEYS;
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let seed = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(7);
    let fabric = Fabric::star(REPLICAS + 2, seed);
    let hosts = fabric.hosts();
    let mut replicas = Vec::new();
    for host in &hosts[..REPLICAS] {
        replicas.push(Replica::start(&fabric, *host)?);
    }
    let mut writer = Client::start(&fabric, hosts[REPLICAS], &replicas)?;
    let mut reader = Client::start(&fabric, hosts[REPLICAS + 1], &replicas)?;
    fabric.set_faults_everywhere("drop=2%,duplicate=2%,reorder=3%,corrupt=1%,delay=3%:200us")?;

    let (mut puts, mut gets) = (0_u64, 0_u64);
    for round in 1..=600_u64 {
        match round {
            100 => fabric.crash(replicas[2].host),
            200 | 500 => {
                let number = if round == 200 { 2 } else { 0 };
                let host = replicas[number].host;
                fabric.restart(host);
                fabric.heal();
                replicas[number] = Replica::start(&fabric, host)?;
                writer.readmit(number, &replicas[number])?;
                reader.readmit(number, &replicas[number])?;
            }
            // This one lives on, but nobody reaches it.
            350 => fabric.partition(&[&[replicas[0].host]]),
            _ => {}
        }
        let key = fabric.draw() % KEYS;
        writer.put(key, round)?;
        puts += 1;
        // What one client has put, another one finds: also what it has not been told of.
        reader.at_least[usize::try_from(key)?] = round;
        for key in [key, fabric.draw() % KEYS] {
            reader.get(key)?;
            gets += 1;
        }
    }
    for key in 0..KEYS {
        assert_eq!(reader.get(key)?, writer.at_least[usize::try_from(key)?]);
    }
    println!("seed {seed}: {puts} puts and {gets} gets, none lost, none stale, none torn");
    println!(
        "through a crash, a partition and {} events in {:?} of virtual time; event hash {:#018x}",
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
