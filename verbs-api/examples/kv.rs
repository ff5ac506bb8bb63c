//! A key-value store whose readers never disturb the server: one-sided READs.
//!
//! The server keeps a table of slots in memory that it has lent to its clients, and goes on
//! changing it. A client READs the slot of a key. The server may be writing at that moment, and no
//! NIC promises in which order the bytes of a READ are picked up; so a slot carries a version and
//! a checksum over all of it, and a torn slot is simply read again.
//!
//! How many look-ups there were in all is counted without the server too: each client takes a number
//! by FETCH ADD, and no two get the same.
//!
//! ```console
//! $ cargo run --release -p softrnic-verbs --example kv
//! ```

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use softrnic_verbs::buffer::{Buffer, SharedBuffer};
use softrnic_verbs::{Access, Backend, Context, Cq, Mr, Qp, QpType, RemoteAddress, open_pair};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const KEYS: u32 = 64;
const CLIENTS: u32 = 3;
const LOOKUPS: u32 = 400;
/// Words of a value: long enough to be seen half written.
const VALUE: usize = 125;
/// Words of a slot: version, key, value, checksum.
const SLOT: usize = VALUE + 3;
const SLOT_BYTES: u32 = 1024;
const _: () = assert!(SLOT_BYTES as usize == 8 * SLOT);
/// The number of the next look-up lies behind the table.
const NEXT_NUMBER: u32 = KEYS * SLOT_BYTES;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

/// What a slot holds.
#[derive(Debug, PartialEq, Eq)]
struct Slot {
    version: u64,
    key: u32,
    value: [u64; VALUE],
}

impl Slot {
    /// The value that a key has in a version, so that a reader can tell whether it is right.
    fn new(key: u32, version: u64) -> Self {
        let word = |at| mix(key.into(), version + at as u64);
        Self { version, key, value: std::array::from_fn(word) }
    }

    fn to_words(&self) -> [u64; SLOT] {
        let mut words = [0; SLOT];
        words[0] = self.version;
        words[1] = self.key.into();
        words[2..SLOT - 1].copy_from_slice(&self.value);
        words[SLOT - 1] = checksum(&words[..SLOT - 1]);
        words
    }

    /// None if the slot was being written while it was read.
    fn from_words(words: &[u64; SLOT]) -> Option<Self> {
        let (&sum, data) = words.split_last()?;
        let [version, key, value @ ..] = data else { return None };
        let (key, value) = (u32::try_from(*key).ok()?, value.try_into().ok()?);
        (sum == checksum(data)).then_some(Self { version: *version, key, value })
    }
}

fn mix(a: u64, b: u64) -> u64 {
    (a.rotate_left(32) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, &word| mix(sum, word).rotate_left(23) ^ word)
}

/// Raises a flag in the end, however that comes.
struct RaiseAtEnd<'a>(&'a AtomicBool);

impl Drop for RaiseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The server's work: every key gets one new value after the other.
fn keep_changing(table: &SharedBuffer, enough: &AtomicBool) -> Result<u64> {
    let mut version = 0;
    while !enough.load(Ordering::Relaxed) {
        version += 1;
        for key in 0..KEYS {
            put(table, &Slot::new(key, version))?;
        }
    }
    Ok(version)
}

fn put(table: &SharedBuffer, slot: &Slot) -> Result<()> {
    let at = (slot.key * SLOT_BYTES) as usize;
    for (word, value) in slot.to_words().into_iter().enumerate() {
        table.store_u64(at + 8 * word, value)?;
    }
    Ok(())
}

/// A client: a queue pair to the server, and room for a slot and a number.
struct Client {
    cq: Cq,
    qp: Qp,
    scratch: Mr,
    table: RemoteAddress,
    torn: u64,
}

impl Client {
    fn new(device: &Context, server: &Qp, table: RemoteAddress) -> Result<Self> {
        let pd = device.alloc_pd()?;
        let cq = device.create_cq(16)?;
        let qp = pd.create_qp(QpType::Rc, &cq).build()?;
        let scratch = pd.register(Buffer::new(SLOT_BYTES as usize + 8)?, Access::LOCAL_WRITE)?;
        qp.connect(&server.endpoint()?)?;
        server.connect(&qp.endpoint()?)?;
        Ok(Self { cq, qp, scratch, table, torn: 0 })
    }

    fn get(&mut self, key: u32) -> Result<Slot> {
        loop {
            let place = self.scratch.sge(0, SLOT_BYTES);
            self.qp.read(key.into(), place, self.table.plus((key * SLOT_BYTES).into()))?;
            self.cq.wait_success(PATIENCE)?;
            let mut words = [0; SLOT];
            for (at, word) in words.iter_mut().enumerate() {
                *word = self.scratch.buffer().load_u64(8 * at)?;
            }
            match Slot::from_words(&words) {
                Some(slot) => return Ok(slot),
                None => self.torn += 1,
            }
        }
    }

    /// Takes the next number of the store.
    fn number(&self) -> Result<u64> {
        let place = self.scratch.sge(SLOT_BYTES.into(), 8);
        self.qp.fetch_add(0, place, self.table.plus(NEXT_NUMBER.into()), 1)?;
        self.cq.wait_success(PATIENCE)?;
        Ok(self.scratch.buffer().load_u64(SLOT_BYTES as usize)?)
    }

    /// Looks up many keys; returns the numbers that it got.
    fn run(&mut self, client: u32) -> Result<Vec<u64>> {
        let mut newest = [0; KEYS as usize];
        let mut numbers = Vec::new();
        for n in 0..LOOKUPS {
            let key = (n * 7 + client * 13) % KEYS;
            let slot = self.get(key)?;
            assert_eq!(slot, Slot::new(key, slot.version), "a value is whole");
            assert!(slot.version >= newest[key as usize], "versions never go back");
            newest[key as usize] = slot.version;
            numbers.push(self.number()?);
        }
        Ok(numbers)
    }
}

fn main() -> Result<()> {
    let (near, far) = open_pair(Backend::from_environment()?)?;
    let pd = far.alloc_pd()?;
    let cq = far.create_cq(16)?;
    let rights = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let table = pd.register(Buffer::new(NEXT_NUMBER as usize + 8)?, rights)?;
    for key in 0..KEYS {
        put(table.buffer(), &Slot::new(key, 0))?;
    }
    let enough = AtomicBool::new(false);
    let (numbers, torn, versions) = thread::scope(|scope| {
        let server = scope.spawn(|| keep_changing(table.buffer(), &enough));
        let end = RaiseAtEnd(&enough);
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let server_qp = pd.create_qp(QpType::Rc, &cq).build()?;
            let mut client = Client::new(&near, &server_qp, table.remote(0))?;
            clients.push(scope.spawn(move || {
                let numbers = client.run(number);
                drop(server_qp);
                numbers.map(|numbers| (numbers, client.torn))
            }));
        }
        let joined: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        drop(end);
        let versions = server.join().map_err(|_| "the server panicked")??;
        let (mut numbers, mut torn) = (BTreeSet::new(), 0);
        for client in joined {
            let (own, own_torn) = client.map_err(|_| "a client panicked")??;
            numbers.extend(own);
            torn += own_torn;
        }
        Ok::<_, Box<dyn Error + Send + Sync>>((numbers, torn, versions))
    })?;
    assert!(
        numbers.into_iter().eq(0..u64::from(CLIENTS * LOOKUPS)),
        "every number was given out once"
    );
    assert_eq!(table.buffer().load_u64(NEXT_NUMBER as usize)?, (CLIENTS * LOOKUPS).into());
    println!(
        "{} look-ups by {CLIENTS} clients, none of which the server noticed",
        CLIENTS * LOOKUPS
    );
    println!("it wrote {versions} versions of {KEYS} keys meanwhile; {torn} slots were read torn");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
