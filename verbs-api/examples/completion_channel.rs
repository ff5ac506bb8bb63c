//! Sleeping until something completes: completion channels.
//!
//! The order matters. Arm the queue, then poll it until it is empty, and only then sleep: a
//! completion that came before the arming sends no event. A descriptor goes with the channel, so a
//! program can wait for a device and for its other sources at the same time; here that is shown
//! with `poll(2)`.
//!
//! ```console
//! $ cargo run --release -p softrnic-verbs --example completion_channel
//! ```

use std::error::Error;
use std::thread;
use std::time::Duration;

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::{Access, Backend, CompletionChannel, Cq, QpType, Wc, open_pair, successful};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const MESSAGES: u32 = 20;
const PATIENCE: Duration = Duration::from_secs(30);

/// How a program may sleep until a channel has an event.
type Sleep = fn(&CompletionChannel) -> Result<()>;

/// In the call itself.
fn in_the_call(channel: &CompletionChannel) -> Result<()> {
    channel.wait(Some(PATIENCE))?.ok_or("no event")?;
    Ok(())
}

/// On the descriptor, beside which there could be others.
#[cfg(unix)]
fn on_the_descriptor(channel: &CompletionChannel) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let descriptor = channel.descriptor()?;
    let mut sources = [PollFd::new(&descriptor, PollFlags::IN)];
    let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
    if poll(&mut sources, Some(&patience))? == 0 {
        return Err("no event".into());
    }
    // The event itself is taken by the call, which need not wait now.
    channel.wait(Some(Duration::ZERO))?.ok_or("the descriptor was wrong")?;
    Ok(())
}

#[cfg(not(unix))]
use in_the_call as on_the_descriptor;

/// Takes `count` completions, asleep in between. Returns how often it slept.
fn take(cq: &Cq, count: u32, sleep: Sleep, mut each: impl FnMut(Wc) -> Result<()>) -> Result<u32> {
    let channel = cq.channel().ok_or("the queue has no channel")?;
    let (mut taken, mut sleeps) = (0, 0);
    while taken < count {
        cq.arm(false)?;
        let before = taken;
        while let Some(completion) = cq.poll_one()? {
            each(successful(completion)?)?;
            taken += 1;
        }
        if taken == before {
            sleep(channel)?;
            sleeps += 1;
        }
    }
    Ok(sleeps)
}

fn run(name: &str, sleep: Sleep) -> Result<()> {
    let (near, far) = open_pair(Backend::from_environment()?)?;

    let far_pd = far.alloc_pd()?;
    let far_cq = far.create_comp_channel()?.create_cq(64)?;
    let far_qp = far_pd.create_qp(QpType::Rc, &far_cq).build()?;
    let inbox = far_pd.register(Buffer::new((8 * MESSAGES) as usize)?, Access::LOCAL_WRITE)?;
    (0..u64::from(MESSAGES)).try_for_each(|n| far_qp.recv(n, inbox.sge(8 * n, 8)))?;

    let pd = near.alloc_pd()?;
    let cq = near.create_comp_channel()?.create_cq(64)?;
    let qp = pd.create_qp(QpType::Rc, &cq).build()?;
    let outbox = pd.register(Buffer::new(8)?, Access::LOCAL_WRITE)?;

    qp.connect(&far_qp.endpoint()?)?;
    far_qp.connect(&qp.endpoint()?)?;

    let sleeps = thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut next = 0_u32;
            take(&far_cq, MESSAGES, sleep, |completion| {
                assert_eq!(completion.wr_id, u64::from(next));
                assert_eq!(inbox.buffer().load_u64(8 * next as usize)?, u64::from(next * next));
                next += 1;
                Ok(())
            })
        });
        for n in 0..MESSAGES {
            // Long enough for the far end to fall asleep.
            thread::sleep(Duration::from_millis(2));
            outbox.buffer().store_u64(0, (n * n).into())?;
            qp.send(n.into(), outbox.sge(0, 8))?;
            take(&cq, 1, sleep, |completion| {
                assert_eq!(completion.wr_id, u64::from(n));
                Ok(())
            })?;
        }
        receiver.join().map_err(|_| "the far end panicked")?
    })?;
    println!("{name}: {MESSAGES} messages, the receiver slept {sleeps} times");
    assert!(sleeps > 0, "a receiver that waits for a slow sender sleeps");
    Ok(())
}

fn main() -> Result<()> {
    run("asleep in the call", in_the_call)?;
    run("asleep on the descriptor", on_the_descriptor)
}

#[test]
fn it_runs() {
    main().unwrap();
}
