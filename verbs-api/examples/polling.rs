//! Ping-pong by polling: the way to the lowest latency, at the price of a processor.
//!
//! Two devices in this process, a thread for each. Each end keeps receives posted, sends a message,
//! and spins on its completion queue until the answer is there. A poll also makes the device work,
//! so nothing else runs in between.
//!
//! ```console
//! $ cargo run --release -p softrnic-verbs --example polling
//! ```

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::{Access, Context, Cq, Endpoint, Mr, Qp, QpType, WcOpcode};
use softrnic_verbs::{Backend, open_pair, provider};

type Message = [u8; MESSAGE as usize];
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: u32 = 2000;
const MESSAGE: u32 = 64;
/// Receives that are kept posted.
const DEPTH: u32 = 8;
const PATIENCE: provider::Timeout = Some(Duration::from_secs(30));

/// One end: a queue pair, and a buffer of one place for sending and [`DEPTH`] for receiving.
struct End {
    cq: Cq,
    qp: Qp,
    region: Mr,
}

impl End {
    fn new(device: &Context) -> Result<Self> {
        let pd = device.alloc_pd()?;
        let cq = device.create_cq(64)?;
        let qp = pd.create_qp(QpType::Rc, &cq).build()?;
        let buffer = Buffer::new((MESSAGE * (1 + DEPTH)) as usize)?;
        let region = pd.register(buffer, Access::LOCAL_WRITE)?;
        let end = Self { cq, qp, region };
        (0..DEPTH).try_for_each(|place| end.post_receive(place))?;
        Ok(end)
    }

    /// Receives into a place; its number comes back with the completion.
    fn post_receive(&self, place: u32) -> Result<()> {
        let offset = MESSAGE * (1 + place);
        Ok(self.qp.recv(place.into(), self.region.sge(offset.into(), MESSAGE))?)
    }

    fn send(&self, message: &Message) -> Result<()> {
        self.region.buffer().write(0, message)?;
        Ok(self.qp.send(u64::MAX, self.region.sge(0, MESSAGE))?)
    }

    /// Spins until a message is there. Completions of sends pass by.
    fn receive(&self) -> Result<Message> {
        loop {
            let completion = self.cq.wait_success(PATIENCE)?;
            if completion.opcode != WcOpcode::Recv {
                continue;
            }
            assert_eq!(completion.byte_len, MESSAGE);
            let place = u32::try_from(completion.wr_id)?;
            let mut message = [0; MESSAGE as usize];
            self.region.buffer().read((MESSAGE * (1 + place)) as usize, &mut message)?;
            self.post_receive(place)?;
            return Ok(message);
        }
    }
}

/// A message that only this round has.
fn message(round: u32) -> Message {
    let [low, high, ..] = round.to_le_bytes();
    std::array::from_fn(|at| if at % 2 == 0 { low ^ at.to_le_bytes()[0] } else { high })
}

/// Sends back what comes.
fn echo(end: &End, peer: &Endpoint) -> Result<()> {
    end.qp.connect(peer)?;
    for _ in 0..ROUNDS {
        end.send(&end.receive()?)?;
    }
    // The last answer is on its way until the peer has acknowledged it.
    while end.cq.wait_success(PATIENCE)?.opcode != WcOpcode::Send {}
    Ok(())
}

fn main() -> Result<()> {
    let (near, far) = open_pair(Backend::from_environment()?)?;
    let (near, far) = (End::new(&near)?, End::new(&far)?);
    // In two processes these would travel as text.
    let (near_at, far_at) = (near.qp.endpoint()?, far.qp.endpoint()?);
    println!("near {near_at}\nfar  {far_at}");
    let took = thread::scope(|scope| {
        let echo = scope.spawn(|| echo(&far, &near_at));
        near.qp.connect(&far_at)?;
        let start = Instant::now();
        for round in 0..ROUNDS {
            near.send(&message(round))?;
            assert_eq!(near.receive()?, message(round), "what was sent comes back");
        }
        let took = start.elapsed();
        echo.join().map_err(|_| "the far end panicked")??;
        Ok::<_, Box<dyn Error + Send + Sync>>(took)
    })?;
    println!("{ROUNDS} round trips of {MESSAGE} bytes, {:?} each", took / ROUNDS);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
