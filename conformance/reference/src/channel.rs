//! One direction of a reliable connection: what was posted at one end, what completes there, and what
//! arrives at the other.
//!
//! * Requests complete in the order of posting; an unsignalled one is over when a later one
//!   completes.
//! * Each request that completes well was carried out once, and the messages among them arrive in
//!   order.
//! * The first that fails ends the connection: all behind it are flushed, each with a completion.
//!   What a peer has refused, and what comes behind it, is carried out nowhere; of requests that were
//!   never answered nobody knows.

use std::collections::VecDeque;

use crate::words::{Arrival, Completion, Fate, Kind, Received, Status, Violation, demand};

/// How a request must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Succeeds,
    /// Like this.
    Fails(Status),
    /// One or the other: something changes while it is under way.
    Either(Status),
}

/// A message that a request brings to a receive of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<T> {
    /// What it is.
    pub what: Received,
    /// What the caller wants to have again when it arrives.
    pub carries: T,
}

/// A send work request.
#[derive(Clone, Debug)]
pub struct Request<S, T> {
    /// The program's number; no other request of the channel has it.
    pub id: u64,
    /// What it is.
    pub kind: Kind,
    /// Whether its success is reported.
    pub signaled: bool,
    /// Bytes that the answer brings, if there is one with data.
    pub answer: Option<u32>,
    /// How it must end.
    pub outcome: Outcome,
    /// What it brings to a receive of the peer.
    pub delivers: Option<Delivery<T>>,
    /// What the caller wants to have again when it is over.
    pub carries: S,
}

/// A request that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retired<S> {
    /// The program's number.
    pub id: u64,
    /// What it was.
    pub kind: Kind,
    /// Whether it was carried out.
    pub fate: Fate,
    /// Whether it was flushed.
    pub flushed: bool,
    /// What the caller gave.
    pub carries: S,
}

#[derive(Clone, Debug)]
struct Open<S> {
    id: u64,
    kind: Kind,
    signaled: bool,
    answer: Option<u32>,
    outcome: Outcome,
    carries: S,
}

/// A message on its way.
#[derive(Clone, Debug)]
struct Coming<T> {
    id: u64,
    delivery: Delivery<T>,
    /// It need not arrive.
    optional: bool,
}

/// Faults that the requester finds by itself.
const fn is_local(status: Status) -> bool {
    matches!(status, Status::LocalProtection | Status::LocalOperation | Status::WindowBind)
}

/// See the module. `S` is what the caller has of each request, `T` of each message.
#[derive(Clone, Debug)]
pub struct Channel<S, T> {
    open: VecDeque<Open<S>>,
    coming: VecDeque<Coming<T>>,
    /// The fate of what is flushed, once a request has failed.
    broken: Option<Fate>,
    /// Requests may go without an answer: the peer, or what lies between, was cut off.
    silence: bool,
    /// The queue pair may have been put into error by something else than its own requests.
    interrupted: bool,
}

impl<S, T> Default for Channel<S, T> {
    fn default() -> Self {
        Self {
            open: VecDeque::new(),
            coming: VecDeque::new(),
            broken: None,
            silence: false,
            interrupted: false,
        }
    }
}

impl<S, T> Channel<S, T> {
    /// A request was posted.
    pub fn post(&mut self, request: Request<S, T>) {
        let Request { id, kind, signaled, answer, outcome, delivers, carries } = request;
        self.open.push_back(Open { id, kind, signaled, answer, outcome, carries });
        let optional = self.broken.is_some();
        self.coming.extend(delivers.map(|delivery| Coming { id, delivery, optional }));
    }

    /// From now on requests may go without an answer.
    pub const fn allow_silence(&mut self) {
        self.silence = true;
    }

    /// The queue pair may be in error from now on, for a reason that lies elsewhere: a request of the
    /// peer that it refuses, or the program itself.
    pub const fn interrupt(&mut self) {
        self.interrupted = true;
    }

    /// Whether the queue pair may be in error for a reason that lies elsewhere.
    #[must_use]
    pub const fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Whether a request has failed.
    #[must_use]
    pub const fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Requests that are not over.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Messages on their way that must arrive.
    #[must_use]
    pub fn expected(&self) -> usize {
        self.coming.iter().filter(|coming| !coming.optional).count()
    }

    /// Whether everything has been told that must be: nothing signalled is open, and no message is
    /// missing.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let waits = |open: &Open<S>| {
            open.signaled || self.broken.is_some() || matches!(open.outcome, Outcome::Fails(_))
        };
        self.expected() == 0 && !self.open.iter().any(waits)
    }

    /// Of a queue pair in error whose completions have all been polled: whether everything has been
    /// told. What is open then was done before, without a word.
    #[must_use]
    pub fn is_told(&self) -> bool {
        let silent = |open: &Open<S>| !open.signaled && !matches!(open.outcome, Outcome::Fails(_));
        self.open.is_empty() || (self.broken.is_none() && self.open.iter().all(silent))
    }

    /// A completion was polled. Calls `over` with each request that is over by it, in order.
    ///
    /// # Errors
    /// It cannot be.
    pub fn complete(
        &mut self,
        completion: &Completion,
        mut over: impl FnMut(Retired<S>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let Completion { id, status, .. } = *completion;
        loop {
            let next = self.open.pop_front();
            let open = next.ok_or_else(|| {
                Violation(format!("request {id} completes ({status:?}), but is not open"))
            })?;
            if open.id == id {
                let (fate, flushed) = self.judge(&open, completion)?;
                let Open { kind, carries, .. } = open;
                return over(Retired { id, kind, fate, flushed, carries });
            }
            self.judge_passed_over(&open, completion)?;
            let Open { id, kind, carries, .. } = open;
            over(Retired { id, kind, fate: Fate::Done, flushed: false, carries })?;
        }
    }

    /// A later request has completed: this one is done, without a word.
    fn judge_passed_over(&self, open: &Open<S>, later: &Completion) -> Result<(), Violation> {
        let Open { id, kind, signaled, outcome, .. } = open;
        demand(!signaled, || format!("{kind:?} {id} was signalled; {} overtook it", later.id))?;
        demand(self.broken.is_none(), || {
            format!("{kind:?} {id} was not flushed before {}", later.id)
        })?;
        demand(!matches!(outcome, Outcome::Fails(_)), || {
            format!("{kind:?} {id} must fail ({outcome:?}), and is passed over by {}", later.id)
        })
    }

    fn judge(
        &mut self,
        open: &Open<S>,
        completion: &Completion,
    ) -> Result<(Fate, bool), Violation> {
        let Open { id, kind, outcome, .. } = *open;
        let status = completion.status;
        if let Some(fate) = self.broken {
            demand(status == Status::Flushed, || {
                format!("{kind:?} {id} ends with {status:?} behind a failure")
            })?;
            return Ok((fate, true));
        }
        if status == Status::Success {
            demand(!matches!(outcome, Outcome::Fails(_)), || {
                format!("{kind:?} {id} succeeds; right is {outcome:?}")
            })?;
            demand(open.signaled, || format!("{kind:?} {id} completes, but was not signalled"))?;
            demand(completion.kind == kind, || {
                format!("{kind:?} {id} completes as {:?}", completion.kind)
            })?;
            let bytes = completion.bytes;
            demand(open.answer.is_none_or(|answer| answer == bytes), || {
                format!("{kind:?} {id} brought {bytes} bytes; right is {:?}", open.answer)
            })?;
            return Ok((Fate::Done, false));
        }
        let unanswered = matches!(status, Status::RetryExceeded | Status::RnrRetryExceeded);
        let foreseen = match outcome {
            Outcome::Fails(right) | Outcome::Either(right) => status == right,
            Outcome::Succeeds => false,
        };
        let local_behind = self
            .open
            .iter()
            .any(|behind| matches!(behind.outcome, Outcome::Fails(status) if is_local(status)));
        let allowed = foreseen
            || (unanswered && self.silence)
            || (status == Status::Flushed && (self.interrupted || local_behind));
        demand(allowed, || format!("{kind:?} {id} ends with {status:?}; right is {outcome:?}"))?;
        let (own, behind) = match (foreseen, status) {
            // It never left, or its peer has refused it: in both cases nothing behind it happens.
            (true, status) if is_local(status) && kind != Kind::Read => {
                (Fate::NotDone, Fate::NotDone)
            }
            // What a READ brought has no place: it was carried out, and maybe what is behind it.
            (true, status) if is_local(status) => (Fate::Unknown, Fate::Unknown),
            // Refused; a message of several packets may have been written in part before.
            (true, _) => (Fate::Unknown, Fate::NotDone),
            (false, _) => (Fate::Unknown, Fate::Unknown),
        };
        self.broken = Some(behind);
        self.end_from(id, behind != Fate::Unknown);
        Ok((own, status == Status::Flushed))
    }

    /// Messages of a request that failed and of those behind it need not arrive, or must not.
    fn end_from(&mut self, id: u64, never: bool) {
        let first = self.coming.iter().position(|coming| coming.id >= id);
        let from = first.unwrap_or(self.coming.len());
        if never {
            self.coming.truncate(from);
        }
        for coming in self.coming.iter_mut().skip(from) {
            coming.optional = true;
        }
    }

    /// A message has arrived at the peer.
    ///
    /// # Errors
    /// It is not the one that is due: it was never sent, has arrived before, or another one is
    /// missing.
    pub fn arrive(&mut self, received: &Received) -> Result<Delivery<T>, Violation> {
        let next = self.coming.pop_front();
        let due = next.ok_or_else(|| {
            Violation(format!("a message arrives that nobody has sent, or once more: {received:?}"))
        })?;
        demand(due.delivery.what == *received, || {
            format!("{received:?} arrives; due is {:?} of request {}", due.delivery.what, due.id)
        })?;
        Ok(due.delivery)
    }

    /// The connection is over: what is still open is given back, and its fate.
    pub fn end(&mut self) -> impl Iterator<Item = Retired<S>> {
        let fate = self.broken.unwrap_or(Fate::Unknown);
        let open = std::mem::take(&mut self.open);
        self.coming.clear();
        open.into_iter().map(move |Open { id, kind, carries, .. }| Retired {
            id,
            kind,
            fate,
            flushed: true,
            carries,
        })
    }

    /// Nothing is under way, nothing has failed: what is open is unsignalled, and done.
    pub fn settle(&mut self) -> impl Iterator<Item = Retired<S>> {
        let open = std::mem::take(&mut self.open);
        open.into_iter().map(|Open { id, kind, carries, .. }| Retired {
            id,
            kind,
            fate: Fate::Done,
            flushed: false,
            carries,
        })
    }
}

impl Received {
    /// A SEND of `len` bytes.
    #[must_use]
    pub const fn message(len: u32) -> Self {
        Self { arrival: Arrival::Message, len, imm: None, invalidated: None }
    }
}
