//! Bytes of messages and records: integers of little endian, texts and lists with their length in
//! front. What is read comes from others: nothing is believed.

use std::net::IpAddr;

use softrnic_model::cm::{CommId, ListenAt, ServiceId, State};
use softrnic_model::verbs::Gid;
use softrnic_model::wire::Route;

use super::{Conversation, Place, Status};
use crate::ports::Reservation;

/// The longest program or device name that is told, in bytes; the rest is cut off.
pub(super) const NAME_MAX: usize = 32;

/// The state of a listener.
const LISTENS: u8 = 0xff;

/// Appends values to a message.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn name(&mut self, name: &str) -> &mut Self {
        let bytes = &name.as_bytes()[..name.len().min(NAME_MAX)];
        self.u8(u8::try_from(bytes.len()).unwrap_or(0)).bytes(bytes)
    }

    pub(super) fn place(&mut self, place: Place) -> &mut Self {
        self.bytes(&Gid::from(place.ip).0).u32(place.scope)
    }

    /// A list of at most 255 elements.
    pub(super) fn list<T: Copy>(
        &mut self,
        items: &[T],
        each: impl Fn(&mut Self, T) -> &mut Self,
    ) -> &mut Self {
        let count = u8::try_from(items.len()).unwrap_or(u8::MAX);
        self.u8(count);
        for item in items.iter().take(count.into()) {
            each(self, *item);
        }
        self
    }

    pub(super) fn status(&mut self, status: &Status) -> &mut Self {
        status.fields().into_iter().fold(self, Self::u64)
    }

    pub(super) fn listen_at(&mut self, at: ListenAt) -> &mut Self {
        let (kind, ip) = match at {
            ListenAt::All => (0, None),
            ListenAt::V4 => (1, None),
            ListenAt::V6 => (2, None),
            ListenAt::One(ip) => (3, Some(ip)),
        };
        self.u8(kind).bytes(&ip.map_or_else(Gid::default, Gid::from).0)
    }

    pub(super) fn conversation(&mut self, one: Conversation) -> &mut Self {
        let state = State::ALL.iter().position(|state| Some(*state) == one.state);
        let state = state.and_then(|state| u8::try_from(state).ok()).unwrap_or(LISTENS);
        self.u8(state).u64(one.service.0).u8(one.active.into()).u32(one.id.0);
        self.bytes(&one.local.0).bytes(&one.peer.0)
    }

    pub(super) fn reservation(&mut self, one: Reservation) -> &mut Self {
        let flags = u8::from(one.reuse) | u8::from(one.listens) << 1;
        self.u64(one.service.0).listen_at(one.at).u8(flags)
    }

    pub(super) fn route(&mut self, route: &Route) -> &mut Self {
        self.bytes(&route.src.0)
            .bytes(&route.dst.0)
            .u16(route.src_port)
            .u8(route.traffic_class)
            .u8(route.hop_limit)
            .u32(route.flow_label)
    }
}

/// Takes values off the front of a message; `None` where it is too short or wrong.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    /// A name, without what would steer a terminal.
    pub(super) fn name(&mut self) -> Option<String> {
        let len = usize::from(self.u8()?);
        let bytes = self.take((len <= NAME_MAX).then_some(len)?)?;
        let text = String::from_utf8_lossy(bytes);
        Some(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    }

    pub(super) fn place(&mut self) -> Option<Place> {
        let ip = IpAddr::from(Gid(self.array()?));
        Some(Place::new(ip, self.u32()?))
    }

    pub(super) fn list<T>(&mut self, each: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u8()?;
        (0..count).map(|_| each(self)).collect()
    }

    pub(super) fn status(&mut self) -> Option<Status> {
        let mut status = Status::default();
        for field in status.fields_mut() {
            *field = self.u64()?;
        }
        Some(status)
    }

    pub(super) fn listen_at(&mut self) -> Option<ListenAt> {
        let (kind, ip) = (self.u8()?, IpAddr::from(Gid(self.array()?)));
        Some(match kind {
            0 => ListenAt::All,
            1 => ListenAt::V4,
            2 => ListenAt::V6,
            3 => ListenAt::One(ip),
            _ => return None,
        })
    }

    pub(super) fn conversation(&mut self) -> Option<Conversation> {
        let state = match self.u8()? {
            LISTENS => None,
            number => Some(*State::ALL.get(usize::from(number))?),
        };
        Some(Conversation {
            state,
            service: ServiceId(self.u64()?),
            active: self.u8()? == 1,
            id: CommId(self.u32()?),
            local: Gid(self.array()?),
            peer: Gid(self.array()?),
        })
    }

    pub(super) fn reservation(&mut self) -> Option<Reservation> {
        let (service, at) = (ServiceId(self.u64()?), self.listen_at()?);
        let flags = self.u8().filter(|flags| *flags < 4)?;
        Some(Reservation { service, at, reuse: flags & 1 != 0, listens: flags & 2 != 0 })
    }

    pub(super) fn route(&mut self) -> Option<Route> {
        Some(Route {
            src: Gid(self.array()?),
            dst: Gid(self.array()?),
            src_port: self.u16()?,
            traffic_class: self.u8()?,
            hop_limit: self.u8()?,
            flow_label: self.u32()?,
        })
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Whether nothing is left, as it should be at the end.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
