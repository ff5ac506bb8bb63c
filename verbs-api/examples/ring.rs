//! A stream of messages through a ring in the receiver's memory: WRITE with immediate, and credits.
//!
//! The sender places each message itself, so nothing is copied at the receiver's end. The immediate
//! says how long it is, and takes a receive of the receiver, which has no memory of its own to
//! offer: it only makes a completion. The receiver gives room back by WRITING how many messages it
//! has taken into a word of the sender, which the sender looks at before it writes on. So the ring
//! never overflows, and neither end waits for the other while there is room.
//!
//! ```console
//! $ cargo run --release -p softrnic-verbs --example ring
//! ```

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::{
    Access, Backend, Context, Cq, Endpoint, Mr, Qp, QpType, RecvWr, RemoteAddress, Wc, WcFlags,
    WcOpcode, open_pair, successful,
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const MESSAGES: u32 = 5000;
/// Places of the ring.
const PLACES: u32 = 16;
/// Bytes of a place, the longest message.
const PLACE: u32 = 2048;
/// Behind the ring is the word with the credit.
const CREDIT: u32 = PLACES * PLACE;
const BYTES: usize = CREDIT as usize + 8;
/// After how many messages room is given back.
const BATCH: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(30);

/// A message that only this number has; the lengths go through all there are.
fn message(number: u32) -> Vec<u8> {
    let len = number * 37 % (PLACE + 1);
    (0..len).map(|at| (number * 31 + at * 7).to_le_bytes()[0]).collect()
}

/// Where in the ring a message lies.
const fn place_of(number: u32) -> u32 {
    number % PLACES * PLACE
}

/// What both ends have.
struct End {
    cq: Cq,
    qp: Qp,
}

impl End {
    fn new(device: &Context) -> Result<(Self, softrnic_verbs::Pd)> {
        let pd = device.alloc_pd()?;
        let cq = device.create_cq(2 * PLACES)?;
        let qp = pd.create_qp(QpType::Rc, &cq).build()?;
        Ok((Self { cq, qp }, pd))
    }

    fn poll(&self) -> Result<Option<Wc>> {
        Ok(self.cq.poll_one()?.map(successful).transpose()?)
    }
}

/// The sending end: messages are made in a ring of its own, and the last word is the credit.
struct Sender {
    end: End,
    memory: Mr,
    ring: RemoteAddress,
}

impl Sender {
    fn run(&self, peer: &Endpoint) -> Result<u32> {
        self.end.qp.connect(peer)?;
        let (mut sent, mut done, mut waits) = (0, 0, 0);
        let mut last_progress = Instant::now();
        while done < MESSAGES {
            let taken = u32::try_from(self.memory.buffer().load_u64(CREDIT as usize)?)?;
            assert!(taken <= sent, "no more is taken than was sent");
            // A place is free at both ends when its message was taken and its WRITE has completed.
            let room = sent < MESSAGES && sent - taken < PLACES && sent - done < PLACES;
            if room {
                self.send(sent)?;
                sent += 1;
            } else {
                waits += u32::from(sent - taken == PLACES);
            }
            while self.end.poll()?.is_some() {
                done += 1;
                last_progress = Instant::now();
            }
            if last_progress.elapsed() > PATIENCE {
                return Err("the receiver is silent".into());
            }
        }
        Ok(waits)
    }

    fn send(&self, number: u32) -> Result<()> {
        let (place, message) = (place_of(number), message(number));
        let len = u32::try_from(message.len())?;
        self.memory.buffer().write(place as usize, &message)?;
        let (from, to) = (self.memory.sge(place.into(), len), self.ring.plus(place.into()));
        Ok(self.end.qp.write_with_imm(number.into(), from, to, len)?)
    }
}

/// The receiving end: the ring, and behind it the count that it tells the sender.
struct Receiver {
    end: End,
    ring: Mr,
    credit: RemoteAddress,
}

impl Receiver {
    /// One more message may complete.
    fn post_receive(&self) -> Result<()> {
        Ok(self.end.qp.post_recv(&[RecvWr { wr_id: 0, sges: &[] }])?)
    }

    fn run(&self, peer: &Endpoint) -> Result<()> {
        (0..PLACES).try_for_each(|_| self.post_receive())?;
        self.end.qp.connect(peer)?;
        let (mut taken, mut telling) = (0, false);
        let mut last_progress = Instant::now();
        // It ends when the last count has arrived as well.
        while taken < MESSAGES || telling {
            match self.end.poll()? {
                Some(arrived) if arrived.opcode == WcOpcode::RecvRdmaWithImm => {
                    assert!(arrived.flags.contains(WcFlags::WITH_IMM));
                    self.check(taken, arrived.imm_data)?;
                    taken += 1;
                    self.post_receive()?;
                    last_progress = Instant::now();
                }
                Some(_) => telling = false,
                None => {}
            }
            // The word that is being sent must not change before it has arrived.
            let told = u32::try_from(self.ring.buffer().load_u64(CREDIT as usize)?)?;
            if !telling && (taken >= told + BATCH || (taken == MESSAGES && told < MESSAGES)) {
                self.ring.buffer().store_u64(CREDIT as usize, taken.into())?;
                self.end.qp.write(1, self.ring.sge(CREDIT.into(), 8), self.credit)?;
                telling = true;
            }
            if last_progress.elapsed() > PATIENCE {
                return Err("the sender is silent".into());
            }
        }
        Ok(())
    }

    fn check(&self, number: u32, len: u32) -> Result<()> {
        let mut got = vec![0; len as usize];
        self.ring.buffer().read(place_of(number) as usize, &mut got)?;
        assert_eq!(got, message(number), "message {number}");
        Ok(())
    }
}

fn main() -> Result<()> {
    let (near, far) = open_pair(Backend::from_environment()?)?;
    let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let ((near, near_pd), (far, far_pd)) = (End::new(&near)?, End::new(&far)?);
    let memory = near_pd.register(Buffer::new(BYTES)?, rights)?;
    let ring = far_pd.register(Buffer::new(BYTES)?, rights)?;
    let (near_at, far_at) = (near.qp.endpoint()?, far.qp.endpoint()?);
    let credit = memory.remote(CREDIT.into());
    let sender = Sender { end: near, memory, ring: ring.remote(0) };
    let receiver = Receiver { end: far, ring, credit };
    let waits = thread::scope(|scope| {
        let receives = scope.spawn(|| receiver.run(&near_at));
        let waits = sender.run(&far_at)?;
        receives.join().map_err(|_| "the receiver panicked")??;
        Ok::<_, Box<dyn Error + Send + Sync>>(waits)
    })?;
    println!("{MESSAGES} messages of up to {PLACE} bytes through {PLACES} places, all in order");
    println!("the sender found the ring full {waits} times");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
