//! The GID table of a device whose addresses come and go.

use std::net::IpAddr;

use softrnic_model::verbs::Gid;
use softrnic_transport::interfaces::Interface;

/// An address that a device is to have, and the number of the interface that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) ip: IpAddr,
    pub(crate) interface: u32,
}

/// A place of the table. An address that has gone keeps its place until another one needs it, so
/// that it has the same index when it comes back.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: Address,
    live: bool,
}

/// Which address has which index, and which of them are there now.
#[derive(Debug, Default)]
pub(crate) struct GidTable(Vec<Entry>);

impl GidTable {
    /// The table as the device has it: an address that has gone is the zero GID.
    pub(crate) fn gids(&self) -> Vec<Gid> {
        let gid = |entry: &Entry| if entry.live { entry.address.ip.into() } else { Gid::default() };
        self.0.iter().map(gid).collect()
    }

    /// The interface of an entry, 0 if there is none.
    pub(crate) fn interface(&self, index: usize) -> u32 {
        self.0.get(index).filter(|entry| entry.live).map_or(0, |entry| entry.address.interface)
    }

    /// What is in the table and should not be.
    pub(crate) fn gone(&self, wanted: &[Address]) -> Vec<Address> {
        self.live().filter(|address| !wanted.contains(address)).collect()
    }

    /// What should be in the table and is not.
    pub(crate) fn come(&self, wanted: &[Address]) -> Vec<Address> {
        let known = |address: &&Address| !self.live().any(|live| live == **address);
        wanted.iter().filter(known).copied().collect()
    }

    /// Enters an address: where it was before, else in the first empty place, else at the end.
    pub(crate) fn insert(&mut self, address: Address) {
        let entry = Entry { address, live: true };
        let of_old = self.0.iter().position(|entry| entry.address.ip == address.ip);
        let empty = || self.0.iter().position(|entry| !entry.live);
        match of_old.or_else(empty).and_then(|index| self.0.get_mut(index)) {
            Some(place) => *place = entry,
            None => self.0.push(entry),
        }
    }

    /// Takes an address out; its place stays.
    pub(crate) fn remove(&mut self, address: Address) {
        for entry in self.0.iter_mut().filter(|entry| entry.address == address) {
            entry.live = false;
        }
    }

    /// What is in the table now.
    pub(crate) fn live(&self) -> impl Iterator<Item = Address> {
        self.0.iter().filter(|entry| entry.live).map(|entry| entry.address)
    }
}

/// Those of `addresses` that the host has now.
pub(crate) fn present(addresses: &[IpAddr], all: &[Interface]) -> Vec<Address> {
    let owner = |ip: &IpAddr| {
        let interface = all.iter().find(|interface| interface.owns(*ip))?;
        Some(Address { ip: *ip, interface: interface.index })
    };
    addresses.iter().filter_map(owner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8, interface: u32) -> Address {
        Address { ip: [10, 0, 0, last].into(), interface }
    }

    fn table(addresses: &[Address]) -> GidTable {
        let mut table = GidTable::default();
        addresses.iter().for_each(|address| table.insert(*address));
        table
    }

    /// Last bytes of the table's addresses, 0 where there is none.
    fn lasts(table: &GidTable) -> Vec<u8> {
        table.gids().iter().map(|gid| gid.0[15]).collect()
    }

    #[test]
    fn an_address_keeps_its_index() {
        let (a, b, c) = (address(1, 7), address(2, 7), address(3, 7));
        let mut table = table(&[a, b, c]);
        table.remove(b);
        assert_eq!((lasts(&table), table.interface(1)), (vec![1, 0, 3], 0));
        table.insert(b);
        assert_eq!((lasts(&table), table.interface(1)), (vec![1, 2, 3], 7));
    }

    #[test]
    fn a_new_address_takes_an_empty_place_before_it_makes_one() {
        let mut table = table(&[address(1, 7), address(2, 7)]);
        table.remove(address(1, 7));
        table.insert(address(4, 7));
        table.insert(address(5, 7));
        assert_eq!(lasts(&table), [4, 2, 5]);
    }

    #[test]
    fn what_has_come_and_gone_is_the_difference() {
        let (a, b) = (address(1, 7), address(2, 7));
        let table = table(&[a, b]);
        assert_eq!((table.gone(&[b, a]), table.come(&[b, a])), (vec![], vec![]));
        let moved = address(2, 8);
        let wanted = [address(3, 7), moved];
        assert_eq!(table.gone(&wanted), [a, b], "an address on another interface is another one");
        assert_eq!(table.come(&wanted), wanted);
    }
}
