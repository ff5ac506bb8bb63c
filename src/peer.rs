//! The other end of a measurement: found over TCP, then waited for on a completion queue.

use std::time::{Duration, Instant};

use softrnic_verbs::{CompletionChannel, Context, Cq, Wc, WcStatus};

use crate::cli::Shared;
use crate::device::Settings;
use crate::error::Failure;
use crate::exchange::{Exchange, Listener};
use crate::words;

/// How long neither a completion nor a word may come. An unreliable service that lost a message
/// ends here.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the peer may take to come to the next point of a measurement: as long as it likes, for
/// one that is gone is noticed at once.
pub(crate) const POINT_WITHIN: Duration = Duration::from_secs(24 * 3600);
/// How often a wait looks whether the peer has spoken, given up, or gone.
const LOOK_AFTER: Duration = Duration::from_millis(50);
/// Empty polls between two looks at the clock.
const POLLS: u32 = 256;

/// Meets the peer (waits for it without `host`), opens the device, and does `act`. A failure is
/// told to the peer as well.
pub(crate) fn with_peer<T>(
    shared: &Shared,
    host: Option<&str>,
    act: impl FnOnce(&Context, &mut Exchange) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let settings = Settings::new(shared)?;
    // Where the address is known, mistakes show before anybody waits.
    let early = shared.address.as_ref().map(|address| settings.open(address)).transpose()?;
    let mut exchange = match host {
        Some(host) => Exchange::connect(host, shared.port)?,
        None => {
            let listener = Listener::bind(shared.port)?;
            if !shared.json {
                eprintln!("waiting for a client on TCP port {} ...", listener.port());
            }
            listener.accept(None)?
        }
    };
    let context = match early {
        Some(context) => Ok(context),
        None => exchange.local_ip().map_err(Failure::from).and_then(|reached| {
            settings.open_for_peer(shared.address.as_ref(), reached, exchange.peer().ip())
        }),
    };
    tell_failure(&mut exchange, |exchange| act(&context?, exchange))
}

/// Does `act`, and tells the peer when that fails.
pub(crate) fn tell_failure<T>(
    exchange: &mut Exchange,
    act: impl FnOnce(&mut Exchange) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let done = act(exchange);
    if let Err(failure) = &done {
        exchange.give_up(failure.what());
    }
    done
}

/// A completion queue, and how it is waited for: by polling, or asleep on a channel.
#[derive(Debug)]
pub(crate) struct Completions {
    cq: Cq,
    channel: Option<CompletionChannel>,
}

impl Completions {
    /// A queue of `entries`.
    pub(crate) fn new(context: &Context, entries: u32, asleep: bool) -> Result<Self, Failure> {
        let channel = asleep.then(|| context.create_comp_channel()).transpose()?;
        let cq = match &channel {
            Some(channel) => channel.create_cq(entries)?,
            None => context.create_cq(entries)?,
        };
        Ok(Self { cq, channel })
    }

    pub(crate) const fn cq(&self) -> &Cq {
        &self.cq
    }

    /// Takes completions, waiting until there is one; all of them must be of success.
    pub(crate) fn wait(&self, exchange: &mut Exchange, into: &mut [Wc]) -> Result<usize, Failure> {
        let mut since = None;
        loop {
            let count = self.wait_or_word(exchange, into)?;
            if count > 0 {
                return Ok(count);
            }
            // The peer is through already; what it has sent may still be on its way.
            give_up_after(PATIENCE, &mut since)?;
        }
    }

    /// The same, but 0 as soon as the peer has something to say that is to be heard.
    pub(crate) fn wait_or_word(
        &self,
        exchange: &mut Exchange,
        into: &mut [Wc],
    ) -> Result<usize, Failure> {
        let (mut since, mut looked) = (None, Instant::now());
        loop {
            let count = self.some(into)?;
            if count > 0 {
                return Ok(count);
            }
            if looked.elapsed() >= LOOK_AFTER {
                looked = Instant::now();
                if exchange.has_spoken()? {
                    return Ok(0);
                }
                give_up_after(PATIENCE, &mut since)?;
            }
        }
    }

    /// Takes what there is, after waiting a little if there is nothing.
    pub(crate) fn some(&self, into: &mut [Wc]) -> Result<usize, Failure> {
        let Some(channel) = &self.channel else {
            let mut polls = (0..POLLS).map(|_| self.take(into));
            return polls.find(|taken| !matches!(taken, Ok(0))).unwrap_or(Ok(0));
        };
        let count = self.take(into)?;
        if count > 0 {
            return Ok(count);
        }
        self.cq.arm(false)?;
        let count = self.take(into)?;
        if count == 0 {
            channel.wait(Some(LOOK_AFTER))?;
        }
        Ok(count)
    }

    /// Takes what there is. A completion of anything but success is an error.
    pub(crate) fn take(&self, into: &mut [Wc]) -> Result<usize, Failure> {
        let count = self.cq.poll(into)?;
        let failed = into.iter().take(count).find(|wc| wc.status != WcStatus::Success);
        match failed {
            None => Ok(count),
            Some(wc) => Err(failed_request(wc)),
        }
    }
}

/// An error after `patience`, counted from the first call.
pub(crate) fn give_up_after(
    patience: Duration,
    since: &mut Option<Instant>,
) -> Result<(), Failure> {
    if since.get_or_insert_with(Instant::now).elapsed() < patience {
        return Ok(());
    }
    Err(Failure::failed(
        format!("nothing has arrived for {} s", patience.as_secs()),
        "over UC and UD what is lost stays lost; `softrnic stat` shows where frames were dropped",
    ))
}

fn failed_request(wc: &Wc) -> Failure {
    let advice = if wc.status == WcStatus::RetryExceeded {
        "the peer does not answer: see whether it runs, and whether UDP port 4791 passes"
    } else {
        "see what the other end says"
    };
    let (status, code) = (words::status(wc.status), wc.vendor_err);
    Failure::failed(format!("a work request failed: {status} (vendor error {code:#x})"), advice)
}
