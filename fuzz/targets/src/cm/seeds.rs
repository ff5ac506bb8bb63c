//! What two hosts said to each other in the captures, from the point of view of each.

use softrnic_model::cm::message::{Apr, Dreq, Lap, Mra, Rep};
use softrnic_model::cm::{CommId, Message};
use softrnic_model::verbs::{Gid, QpNum};

use super::{command, kind, leave};
use crate::seeds::mads;

/// The steps of a run, in the making.
#[derive(Default)]
struct Steps(Vec<u8>);

impl Steps {
    /// A message of the peer arrives, and is made right.
    fn arrives(&mut self, mad: &[u8]) -> &mut Self {
        self.comes([kind::MESSAGE, 0, 0, 0], mad)
    }

    fn comes(&mut self, how: [u8; 4], mad: &[u8]) -> &mut Self {
        self.0.extend(how);
        self.0.extend((mad.len() as u16).to_le_bytes());
        self.0.extend(mad);
        self
    }

    fn says(&mut self, message: impl Into<Message>) -> &mut Self {
        self.arrives(&message.into().to_mad(1, 0))
    }

    fn command(&mut self, which: u8) -> &mut Self {
        self.0.extend([kind::COMMAND, which, 0]);
        self
    }

    fn connect(&mut self, is_datagram: bool) -> &mut Self {
        self.0.extend([kind::CONNECT, 0, u8::from(is_datagram)]);
        self
    }

    fn time(&mut self, ms: u16) -> &mut Self {
        self.0.push(kind::TIME);
        self.0.extend(ms.to_le_bytes());
        self
    }

    /// This end says the same.
    fn own(&mut self, message: &Message) -> &mut Self {
        match message {
            Message::Req(_) => self.connect(false),
            Message::SidrReq(_) => self.connect(true),
            Message::Rep(_) => self.command(command::ACCEPT),
            Message::Rtu(_) => self.command(command::READY),
            Message::Rej(_) => self.command(command::REJECT),
            Message::Dreq(_) | Message::Drep(_) => self.command(command::DISCONNECT),
            Message::SidrRep(_) => self.command(command::ANSWER),
            Message::Mra(_) | Message::Lap(_) | Message::Apr(_) => self,
        }
    }
}

/// A conversation begins with a request.
fn conversations() -> Vec<Vec<(Gid, Vec<u8>, Message)>> {
    let mut all: Vec<Vec<_>> = Vec::new();
    for (source, mad) in mads() {
        let Ok((_, message)) = Message::parse(&mad) else { continue };
        if all.is_empty() || matches!(message, Message::Req(_) | Message::SidrReq(_)) {
            all.push(Vec::new());
        }
        all.last_mut().unwrap().push((source, mad, message));
    }
    all
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![patience(), silence(), stranger()];
    for conversation in conversations() {
        let first = conversation[0].0;
        for asks in [true, false] {
            let mut steps = Steps::default();
            for (source, mad, message) in &conversation {
                if (*source == first) == asks {
                    steps.own(message);
                } else {
                    steps.arrives(mad);
                }
            }
            // What comes late, and the end of that.
            steps.arrives(&conversation[0].1).time(2000);
            seeds.push(steps.0);
        }
    }
    seeds
}

/// The messages that no capture has.
fn patience() -> Vec<u8> {
    let (local_comm_id, local_qpn) = (CommId(0x0900_0001), QpNum::new(0x77));
    let mut steps = Steps::default();
    steps.connect(false).says(Mra { service_timeout: 20, ..Mra::default() });
    steps.says(Rep { local_comm_id, local_qpn, ..Rep::default() }).command(command::READY);
    steps.says(Lap::default()).says(Apr::default()).command(command::RELEASE).time(5000);
    steps.0
}

/// Another address knows all there is to know.
fn stranger() -> Vec<u8> {
    let (local_comm_id, local_qpn) = (CommId(0x0900_0001), QpNum::new(0x77));
    let mut steps = Steps::default();
    steps
        .connect(false)
        .says(Rep { local_comm_id, local_qpn, ..Rep::default() })
        .command(command::READY);
    let dreq = Message::from(Dreq::default()).to_mad(1, 0);
    steps.comes([kind::MESSAGE, 1, 0, leave::SOURCE], &dreq).command(command::RELEASE);
    steps.0
}

/// Nobody answers.
fn silence() -> Vec<u8> {
    let mut steps = Steps::default();
    steps.connect(false).connect(true);
    (0..20).for_each(|_| {
        steps.time(10_000);
    });
    steps.0
}
