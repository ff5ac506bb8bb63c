//! The sockets of one address: a group of which the kernel chooses by slot.
//!
//! A packet goes to the socket at the position that a small filter program makes of the
//! destination queue pair number, its high 8 bits; numbers of no slot and of multicast go to
//! position 0, which is the service's own. Positions follow the order in which the sockets were
//! bound, and move when one is closed: so they are made in the order of the slots and none is
//! closed before all are.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use socket2::SockRef;

use super::slots::{ClientId, Slots};
use super::sys::{self, Instruction};
use super::{Place, Refusal, channel};
use crate::udp::{Relay, new_socket, with_scope};
use crate::{UdpConfig, UdpLink, interfaces};

/// Receive buffer to ask for at the service's own socket, in bytes. One peer that asks without end
/// must not crowd out the requests of others before they are told apart.
const OWN_BUFFER: usize = 4 << 20;
/// Buffer of a relay in bytes, and of the socket that it reads.
const RELAY_BUFFER: usize = 4 << 20;
/// Datagrams that are thrown away from a socket at most before it goes to its next owner: who
/// sends faster than they can be thrown away cannot stop the service.
const STALE_MAX: usize = 1 << 16;

/// The group of one address.
#[derive(Debug)]
pub(super) struct Group {
    place: Place,
    at: SocketAddr,
    /// By slot. The group keeps a copy of each, whoever else has one.
    sockets: Vec<UdpSocket>,
    pub(super) slots: Slots,
    /// Where packets of slots go on to whose owners do not get the socket itself.
    relays: BTreeMap<u8, OwnedFd>,
    /// Receives what is for slot 0; none while the host does not have the address.
    pub(super) link: Option<UdpLink>,
}

impl Group {
    /// Makes the group. Nobody else may have the port there, not even the same user with a group
    /// of his own.
    pub(super) fn open(place: Place, port: u16) -> Result<Self, Refusal> {
        let at = with_scope(place.ip, port, place.scope);
        let own = new_socket(place.ip).map_err(|error| refusal(&error, at))?;
        own.bind(&at.into()).map_err(|error| refusal(&error, at))?;
        // Only now, so that the first socket cannot join a group of others.
        own.set_reuse_port(true).map_err(|error| refusal(&error, at))?;
        let mut group = Self::around(place, port, vec![own.into()]);
        group.grow()?;
        Ok(group)
    }

    /// The group again, from the sockets of all its slots in their order.
    pub(super) fn around(place: Place, port: u16, sockets: Vec<UdpSocket>) -> Self {
        let at = with_scope(place.ip, port, place.scope);
        let mut slots = Slots::new();
        sockets.iter().for_each(|_| slots.grow());
        let relays = BTreeMap::new();
        let mut group = Self { place, at, sockets, slots, relays, link: None };
        group.listen();
        group
    }

    /// Receives what is for slot 0, if it does not yet.
    pub(super) fn listen(&mut self) {
        if self.link.is_some() {
            return;
        }
        let Some(Ok(own)) = self.sockets.first().map(UdpSocket::try_clone) else { return };
        let mut config = UdpConfig::new(self.place.ip).with_port(self.at.port());
        config.source_ports = 1;
        config.receive_buffer = OWN_BUFFER;
        if self.place.scope != 0 {
            let all = interfaces::all().unwrap_or_default();
            let named = all.into_iter().find(|interface| interface.index == self.place.scope);
            config.interface = named.map(|interface| interface.name);
        }
        self.link = UdpLink::adopt(own, &config).ok();
    }

    pub(super) const fn place(&self) -> Place {
        self.place
    }

    /// The sockets by slot.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.sockets.iter()
    }

    /// Makes the socket of the next slot, and steers to it.
    fn grow(&mut self) -> Result<(), Refusal> {
        let fail = |error: io::Error| refusal(&error, self.at);
        let socket = new_socket(self.place.ip).map_err(fail)?;
        socket.set_reuse_port(true).map_err(fail)?;
        socket.bind(&self.at.into()).map_err(fail)?;
        self.sockets.push(socket.into());
        self.slots.grow();
        self.steer().map_err(fail)
    }

    /// Makes sockets until `slot` has one. Returns the slots that are new.
    pub(super) fn grow_to(&mut self, slot: u8) -> Result<std::ops::Range<usize>, Refusal> {
        let before = self.sockets.len();
        while self.sockets.len() <= usize::from(slot) {
            self.grow()?;
        }
        Ok(before..self.sockets.len())
    }

    /// Steers by slot among the sockets that there are.
    pub(super) fn steer(&self) -> io::Result<()> {
        let count = u32::try_from(self.sockets.len()).unwrap_or(1);
        match self.sockets.first() {
            Some(socket) => sys::steer(socket, &program(count)),
            None => Ok(()),
        }
    }

    /// A copy of the socket of `slot` for its new owner.
    pub(super) fn hand_out(&self, slot: u8) -> Result<OwnedFd, Refusal> {
        let socket = self.emptied(slot)?;
        socket.as_fd().try_clone_to_owned().map_err(|error| refusal(&error, self.at))
    }

    /// The end of a relay of `slot` for its new owner, of another user: who has a socket of the
    /// group could have the packets of others.
    pub(super) fn hand_out_relay(&mut self, slot: u8) -> Result<OwnedFd, Refusal> {
        let fail = |error: io::Error| refusal(&error, self.at);
        Relay::prepare(self.emptied(slot)?, self.place.ip.is_ipv4(), RELAY_BUFFER).map_err(fail)?;
        let (ours, theirs) = channel::relay(RELAY_BUFFER).map_err(fail)?;
        self.relays.insert(slot, ours);
        Ok(theirs)
    }

    /// Goes on with the relay of `slot`.
    pub(super) fn restore_relay(&mut self, slot: u8, end: OwnedFd) {
        self.relays.insert(slot, end);
    }

    /// The relays by slot, with the sockets that they read.
    pub(super) fn relays(&self) -> impl Iterator<Item = (u8, &UdpSocket, &OwnedFd)> {
        let socket = |slot: u8| self.sockets.get(usize::from(slot));
        self.relays.iter().filter_map(move |(slot, end)| Some((*slot, socket(*slot)?, end)))
    }

    /// The relay of a slot.
    pub(super) fn relay(&self, slot: u8) -> Option<(&UdpSocket, &OwnedFd)> {
        Some((self.sockets.get(usize::from(slot))?, self.relays.get(&slot)?))
    }

    /// The socket of `slot`. What has come for its last owner is thrown away.
    fn emptied(&self, slot: u8) -> Result<&UdpSocket, Refusal> {
        let socket = self.sockets.get(usize::from(slot)).ok_or(Refusal::NoSlot)?;
        if self.slots.holder(slot).is_none() {
            let drain = SockRef::from(socket);
            let mut nothing: [std::mem::MaybeUninit<u8>; 0] = [];
            for _ in 0..STALE_MAX {
                match drain.recv_with_flags(&mut nothing, libc::MSG_DONTWAIT | libc::MSG_TRUNC) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Ok(_) | Err(_) => {}
                }
            }
        }
        Ok(socket)
    }

    /// Gives `slot` to a client.
    pub(super) fn take(&mut self, slot: u8, uid: u32, client: ClientId) {
        self.slots.take(slot, uid, Some(client));
    }

    /// A client is gone from this address.
    /// Returns the slots whose relay has ended with that.
    pub(super) fn free(&mut self, client: ClientId, now: Instant) -> Vec<u8> {
        let slots = &self.slots;
        let of_client = |slot: &u8| slots.holder(*slot) == Some(client);
        let ended: Vec<u8> = self.relays.keys().copied().filter(of_client).collect();
        self.slots.free(client, now);
        self.relays.retain(|slot, _| !ended.contains(slot));
        ended
    }
}

/// The filter program for `count` sockets: the UDP payload begins with the BTH, whose second word
/// holds the destination queue pair number in its low 24 bits.
fn program(count: u32) -> [Instruction; 7] {
    const LOAD_WORD: u16 = 0x20;
    const AND: u16 = 0x54;
    const SHIFT_RIGHT: u16 = 0x74;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_NOT_LESS: u16 = 0x35;
    const RETURN_RESULT: u16 = 0x16;
    const RETURN: u16 = 0x06;
    const MULTICAST: u32 = softrnic_model::verbs::QpNum::MULTICAST.get();
    [
        (LOAD_WORD, 0, 0, 4),
        (AND, 0, 0, 0x00ff_ffff),
        (JUMP_IF_EQUAL, 3, 0, MULTICAST),
        (SHIFT_RIGHT, 0, 0, 16),
        (JUMP_IF_NOT_LESS, 1, 0, count),
        (RETURN_RESULT, 0, 0, 0),
        (RETURN, 0, 0, 0),
    ]
}

fn refusal(error: &io::Error, at: SocketAddr) -> Refusal {
    let kind = error.kind();
    if kind == io::ErrorKind::AddrInUse {
        Refusal::AddressInUse(crate::udp::user_of(at))
    } else if kind == io::ErrorKind::AddrNotAvailable {
        Refusal::AddressNotHere
    } else {
        Refusal::System(error.raw_os_error().unwrap_or(0).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a packet to a queue pair number, and says which sockets have received something.
    fn reaches(group: &Group, from: &UdpSocket, number: u32) -> Vec<usize> {
        let bytes = [[0; 4], number.to_be_bytes(), [0; 4], [0; 4]].concat();
        from.send_to(&bytes, group.at).unwrap();
        let got = |socket: &UdpSocket| socket.recv(&mut [0; 64]).is_ok();
        let got: Vec<bool> = group.sockets().map(got).collect();
        (0..got.len()).filter(|slot| got[*slot]).collect()
    }

    fn free_place() -> (Place, u16) {
        let ip = "127.86.0.1".parse().unwrap();
        let socket = UdpSocket::bind((ip, 0)).unwrap();
        (Place::new(ip, 0), socket.local_addr().unwrap().port())
    }

    #[test]
    fn a_packet_goes_to_the_socket_of_its_slot() {
        let (place, port) = free_place();
        let mut group = Group::open(place, port).unwrap();
        assert_eq!(group.grow_to(4).unwrap(), 2..5);
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        for (number, slot) in [
            (0, 0),
            (1, 0),
            (0x00_ffff, 0),
            (0x01_0000, 1),
            (0x02_1234, 2),
            (0x04_ffff, 4),
            (0x05_0001, 0),
            (0xff_0001, 0),
            (0xff_ffff, 0),
            // the byte before the number is not part of it
            (0xff02_0007, 2),
        ] {
            assert_eq!(reaches(&group, &from, number), [slot], "{number:#x}");
        }
        // Too short for a number.
        from.send_to(b"short", group.at).unwrap();
        assert!(group.sockets[0].recv(&mut [0; 64]).is_ok());
        group.grow_to(5).unwrap();
        assert_eq!(reaches(&group, &from, 0x05_0001), [5]);
    }

    #[test]
    fn a_socket_is_emptied_for_its_next_owner() {
        let (place, port) = free_place();
        let mut group = Group::open(place, port).unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..3 {
            from.send_to(&[0, 0, 0, 0, 0, 1, 0, 5, 1, 2, 3, 4], group.at).unwrap();
        }
        let socket = UdpSocket::from(group.hand_out(1).unwrap());
        assert!(socket.recv(&mut [0; 64]).is_err());
        group.take(1, 7, ClientId(1));
        from.send_to(&[0, 0, 0, 0, 0, 1, 0, 5, 1, 2, 3, 4], group.at).unwrap();
        let again = UdpSocket::from(group.hand_out(1).unwrap());
        assert!(again.recv(&mut [0; 64]).is_ok(), "what has come for its owner stays");
    }

    #[test]
    fn nobody_joins_a_group_by_the_back_door() {
        let (place, port) = free_place();
        let _group = Group::open(place, port).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(Group::open(place, port).unwrap_err(), Refusal::AddressInUse(Some(uid)));
        let elsewhere = Place::new("198.51.100.1".parse().unwrap(), 0);
        assert_eq!(Group::open(elsewhere, port).unwrap_err(), Refusal::AddressNotHere);
    }
}
