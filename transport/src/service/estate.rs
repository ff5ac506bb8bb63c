//! All that a service owns, as records with a descriptor each, so that another process can hold it
//! and a new service can go on with it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::codec::{Reader, Writer};
use super::server::Settings;
use super::{Place, channel};
use crate::ports::Reservation;
use crate::service::message::MESSAGE_MAX;

/// What a record is about. There is one record for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// The socket where clients arrive.
    Listener,
    /// The socket of a slot of an address.
    Socket(Place, u8),
    /// The connection of a client.
    Client(u64),
    /// The service's end of the relay of a slot of an address.
    Relay(Place, u8),
    /// Ports of a client, some of them: the connection once more, and which part.
    Ports(u64, u8),
    /// The will of a client.
    Will(u64),
}

/// What is to be known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Listener(Settings),
    /// The user whose socket it is.
    Socket(Option<u32>),
    Client(ClientRecord),
    Relay,
    Ports(Vec<Reservation>),
    Will,
}

/// What a new service has to know of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientRecord {
    /// 0: none yet.
    pub(super) slot: u8,
    pub(super) program: String,
    pub(super) device: String,
    pub(super) places: Vec<Place>,
    pub(super) gsi: bool,
}

/// What service and keeper say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Hold this, in place of what was held under the key. A descriptor comes with it.
    Keep(Key, Record),
    /// Hold it no more.
    Forget(Key),
    /// The keeper has told all. Nothing of that is new to a service that goes on.
    Complete,
    /// The service ends as it should: let go of everything.
    Farewell,
}

/// Says one word.
///
/// # Errors
/// [`io::ErrorKind::BrokenPipe`], [`io::ErrorKind::ConnectionReset`]: the other end is gone.
pub(super) fn say(
    channel: &OwnedFd,
    word: &Word,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    channel::send(channel, &word.to_bytes(), descriptor.as_slice())
}

/// Hears one word with its descriptor, if it has one; `None` when the other end is gone.
///
/// # Errors
/// The other end talks nonsense.
pub(super) fn hear(channel: &OwnedFd) -> io::Result<Option<(Word, Option<OwnedFd>)>> {
    let mut buffer = [0; MESSAGE_MAX];
    let mut descriptors = Vec::new();
    let bytes = match channel::receive_with(&channel.as_fd(), &mut buffer, &mut descriptors) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
        Err(error) => return Err(error),
    };
    let word = Word::from_bytes(bytes).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Some((word, descriptors.pop())))
}

impl Word {
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Keep(key, record) => {
                out.u8(1);
                key.put(&mut out);
                record.put(&mut out);
            }
            Self::Forget(key) => {
                out.u8(2);
                key.put(&mut out);
            }
            Self::Complete => drop(out.u8(3)),
            Self::Farewell => drop(out.u8(4)),
        }
        out.0
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut body = Reader(bytes);
        let word = match body.u8()? {
            1 => {
                let key = Key::take(&mut body)?;
                Self::Keep(key, Record::take(key, &mut body)?)
            }
            2 => Self::Forget(Key::take(&mut body)?),
            3 => Self::Complete,
            4 => Self::Farewell,
            _ => return None,
        };
        body.is_empty().then_some(word)
    }
}

impl Key {
    fn put(self, out: &mut Writer) {
        match self {
            Self::Listener => out.u8(1),
            Self::Socket(place, slot) => out.u8(2).place(place).u8(slot),
            Self::Client(id) => out.u8(3).u64(id),
            Self::Relay(place, slot) => out.u8(4).place(place).u8(slot),
            Self::Ports(client, part) => out.u8(5).u64(client).u8(part),
            Self::Will(client) => out.u8(6).u64(client),
        };
    }

    fn take(body: &mut Reader<'_>) -> Option<Self> {
        Some(match body.u8()? {
            1 => Self::Listener,
            2 => Self::Socket(body.place()?, body.u8()?),
            3 => Self::Client(body.u64()?),
            4 => Self::Relay(body.place()?, body.u8()?),
            5 => Self::Ports(body.u64()?, body.u8()?),
            6 => Self::Will(body.u64()?),
            _ => return None,
        })
    }
}

impl Record {
    fn put(&self, out: &mut Writer) {
        match self {
            Self::Listener(Settings { port, allowed, idle }) => {
                let idle = idle.map_or(u64::MAX, |idle| {
                    u64::try_from(idle.as_millis()).unwrap_or(u64::MAX - 1)
                });
                out.u16(*port).u64(idle).list(allowed, Writer::u32);
            }
            Self::Socket(uid) => {
                out.u8(uid.is_some().into()).u32(uid.unwrap_or(0));
            }
            Self::Client(ClientRecord { slot, program, device, places, gsi }) => {
                out.u8(*slot).name(program).name(device).list(places, Writer::place);
                out.u8((*gsi).into());
            }
            Self::Relay | Self::Will => {}
            Self::Ports(some) => {
                out.list(some, Writer::reservation);
            }
        }
    }

    fn take(key: Key, body: &mut Reader<'_>) -> Option<Self> {
        Some(match key {
            Key::Listener => {
                let port = body.u16()?;
                let idle = body.u64().map(|ms| (ms != u64::MAX).then(|| Duration::from_millis(ms)));
                Self::Listener(Settings { port, idle: idle?, allowed: body.list(Reader::u32)? })
            }
            Key::Socket(..) => {
                let known = body.u8()? == 1;
                let uid = body.u32()?;
                Self::Socket(known.then_some(uid))
            }
            Key::Client(_) => Self::Client(ClientRecord {
                slot: body.u8()?,
                program: body.name()?,
                device: body.name()?,
                places: body.list(Reader::place)?,
                gsi: body.u8()? == 1,
            }),
            Key::Relay(..) => Self::Relay,
            Key::Ports(..) => Self::Ports(body.list(Reader::reservation)?),
            Key::Will(_) => Self::Will,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_heard_as_said() {
        let place = Place::new("fe80::1".parse().unwrap(), 7);
        let client = ClientRecord {
            slot: 9,
            program: "p".into(),
            device: "d".into(),
            places: vec![place],
            gsi: true,
        };
        let port = Reservation {
            service: softrnic_model::cm::ServiceId(7),
            at: softrnic_model::cm::ListenAt::One(place.ip),
            reuse: true,
            listens: false,
        };
        let settings = |idle| Settings { port: 4791, allowed: vec![0, 65534], idle };
        let (a, b) = channel::pair(Duration::from_secs(1)).unwrap();
        for word in [
            Word::Keep(Key::Listener, Record::Listener(settings(None))),
            Word::Keep(Key::Listener, Record::Listener(settings(Some(Duration::from_millis(70))))),
            Word::Keep(Key::Socket(place, 255), Record::Socket(Some(0))),
            Word::Keep(Key::Socket(place, 0), Record::Socket(None)),
            Word::Keep(Key::Client(u64::MAX), Record::Client(client)),
            Word::Keep(Key::Relay(place, 3), Record::Relay),
            Word::Keep(Key::Ports(9, 1), Record::Ports(vec![port; 64])),
            Word::Keep(Key::Will(9), Record::Will),
            Word::Forget(Key::Client(3)),
            Word::Complete,
            Word::Farewell,
        ] {
            say(&a, &word, Some(a.as_fd())).unwrap();
            let (heard, descriptor) = hear(&b).unwrap().unwrap();
            assert_eq!(heard, word);
            assert!(descriptor.is_some());
            let bytes = word.to_bytes();
            assert!((0..bytes.len()).all(|len| Word::from_bytes(&bytes[..len]).is_none()));
        }
        drop(a);
        assert!(hear(&b).unwrap().is_none());
    }
}
