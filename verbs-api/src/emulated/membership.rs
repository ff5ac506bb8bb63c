//! How a device has its addresses: it owns the port there, or has a slot of the port service.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;

use polling::Poller;
#[cfg(target_os = "linux")]
use polling::{Event, PollMode};
#[cfg(target_os = "linux")]
use softrnic_model::cm::{ListenAt, ServiceId};
#[cfg(target_os = "linux")]
use softrnic_model::wire::Route;
#[cfg(target_os = "linux")]
use softrnic_transport::ports::Reservation;
#[cfg(target_os = "linux")]
use softrnic_transport::service::{
    Conversation, Granted, JoinError, Member, Notice, Place, Refusal, Status, Will,
};
use softrnic_transport::{UdpLink, udp};

use super::config::{EmulatedConfig, OpenError, Sharing};
#[cfg(target_os = "linux")]
use crate::cm::{Cm, CmError};
use crate::machine::addresses::Address;

/// The slot of a device that has its addresses alone.
pub(super) const SLOT_ALONE: u8 = 1;

/// See the module.
#[derive(Debug)]
pub(super) enum Membership {
    /// It owns the port itself.
    Alone,
    /// It is a member of the port service.
    #[cfg(target_os = "linux")]
    Member(Member),
    /// Service and keeper have both ended; this one wants to come back ([`Membership::rejoin`]).
    #[cfg(target_os = "linux")]
    Lost(Member),
}

/// What is opened at one time.
type Links = Vec<(Address, UdpLink)>;

impl Membership {
    /// Opens the links of addresses in the way that the configuration says. An address that is
    /// not usable yet is left out, for instance one of IPv6 whose uniqueness is still being found
    /// out.
    pub(super) fn open(
        config: &EmulatedConfig,
        addresses: &[Address],
    ) -> Result<(Self, Links), OpenError> {
        #[cfg(target_os = "linux")]
        if config.sharing == Sharing::Service && !addresses.is_empty() {
            let places: Vec<Place> = addresses.iter().map(place).collect();
            match Member::join(config.port, &config.name, &places) {
                Ok((member, granted)) => {
                    let links = adopt_all(config, addresses, granted)?;
                    return Ok((Self::Member(member), links));
                }
                Err(JoinError::NoService(why)) => {
                    let links = open_links(config, addresses);
                    let links = links.map_err(|error| {
                        let no_service = JoinError::NoService(why).to_string();
                        OpenError::Unshared(error, no_service)
                    })?;
                    return Ok((Self::Alone, links));
                }
                // None of them is usable yet.
                Err(JoinError::Refused(Refusal::AddressNotHere)) => {
                    return Ok((Self::Alone, Vec::new()));
                }
                // A process has the port for itself: which one, the port tells.
                Err(JoinError::Refused(Refusal::AddressInUse(uid))) if !is_of_others(uid) => {}
                Err(error) => return Err(OpenError::Sharing(error.to_string())),
            }
        }
        #[cfg(not(target_os = "linux"))]
        let (Sharing::Alone | Sharing::Service) = config.sharing;
        Ok((Self::Alone, open_links(config, addresses)?))
    }

    /// The slot of the device's queue pair numbers.
    pub(super) const fn slot(&self) -> u8 {
        match self {
            Self::Alone => SLOT_ALONE,
            #[cfg(target_os = "linux")]
            Self::Member(member) | Self::Lost(member) => member.slot(),
        }
    }

    /// Opens the link of one more address, if it can be had now.
    pub(super) fn open_one(
        &mut self,
        config: &EmulatedConfig,
        address: Address,
    ) -> Option<(Address, UdpLink)> {
        match self {
            Self::Alone => open_links(config, &[address]).ok()?.pop(),
            #[cfg(target_os = "linux")]
            Self::Member(member) => {
                let socket = member.attach(place(&address)).ok()?.ok()?;
                let link = UdpLink::adopt(socket, &config.udp(address.ip)).ok()?;
                Some((address, link))
            }
            #[cfg(target_os = "linux")]
            Self::Lost(_) => None,
        }
    }

    /// The link of an address is gone.
    pub(super) fn close_one(&mut self, address: Address) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Member(member) => member.detach(place(&address)),
            #[cfg(target_os = "linux")]
            Self::Lost(_) => {}
            Self::Alone => {
                let _ = address;
            }
        }
    }

    /// Lets `poller` wake with `key` when the service says something.
    #[cfg_attr(
        target_os = "linux",
        expect(unsafe_code, reason = "the poller wants to be told before a socket goes")
    )]
    pub(super) fn watch(&self, poller: &Poller, key: usize) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Member(member) => {
                // SAFETY: the owner drops the poller before this, and a connection that is lost
                // is deleted from it before (`serve`).
                unsafe {
                    poller.add_with_mode(&member.as_fd(), Event::readable(key), PollMode::Level)
                }
            }
            #[cfg(target_os = "linux")]
            Self::Lost(_) => Ok(()),
            Self::Alone => {
                let _ = (poller, key);
                Ok(())
            }
        }
    }

    /// Answers what the service asks; `status` says how the device is doing. Returns the packets for
    /// queue pair 1 that the service has handed on.
    #[cfg(target_os = "linux")]
    pub(super) fn serve(
        &mut self,
        poller: &Poller,
        status: impl Fn() -> (Status, Vec<Conversation>),
    ) -> Vec<(Route, Vec<u8>)> {
        let mut packets = Vec::new();
        let Self::Member(member) = self else { return packets };
        loop {
            match member.notice() {
                Ok(Some(Notice::StatusWanted)) => {
                    let (status, conversations) = status();
                    member.report(&status, conversations);
                }
                Ok(Some(Notice::Gsi { route, packet })) => {
                    packets.push((route, packet));
                    if packets.len() >= PACKETS_MAX {
                        return packets;
                    }
                }
                Ok(None) => return packets,
                Err(_) => {
                    // It can only fail because the poller does not know it.
                    let _ = poller.delete(member.as_fd());
                    break;
                }
            }
        }
        *self = match std::mem::replace(self, Self::Alone) {
            Self::Member(member) => Self::Lost(member),
            other @ (Self::Lost(_) | Self::Alone) => other,
        };
        packets
    }

    /// Whether the service is gone and this one has not come back yet.
    #[cfg(target_os = "linux")]
    pub(super) const fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_))
    }

    /// Comes back to the next service, with the links of these addresses. The links that it had must
    /// be gone.
    #[cfg(target_os = "linux")]
    pub(super) fn rejoin(
        &mut self,
        config: &EmulatedConfig,
        addresses: &[Address],
    ) -> Result<(Links, Option<Will>), String> {
        let Self::Lost(lost) = self else { return Ok((Vec::new(), None)) };
        let places: Vec<Place> = addresses.iter().map(place).collect();
        let again = lost.rejoin(&places, REJOIN_PATIENCE).map_err(|error| error.to_string())?;
        let links = addresses.iter().zip(again.sockets).map(|(address, socket)| {
            let link = UdpLink::adopt(socket, &config.udp(address.ip));
            link.map(|link| (*address, link)).map_err(|error| error.to_string())
        });
        let links = links.collect::<Result<Links, String>>()?;
        *self = Self::Member(again.member);
        Ok((links, again.will))
    }
}

/// How long the next service may take to answer.
#[cfg(target_os = "linux")]
const REJOIN_PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

/// Packets that are taken over before the device has its turn.
#[cfg(target_os = "linux")]
const PACKETS_MAX: usize = 256;

#[cfg(target_os = "linux")]
impl Membership {
    /// Asks for packets to queue pair 1. Gives the place for what is to be said to peers when this
    /// process is gone; none where nobody would say it.
    pub(super) fn listen_gsi(&mut self) -> io::Result<Option<Will>> {
        match self {
            Self::Member(member) => member.listen_gsi().map(Some),
            Self::Alone => Ok(None),
            Self::Lost(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Has the host know that this process has a port; `None` if nobody else could have it.
    pub(super) fn reserve(&mut self, wanted: Reservation) -> Cm<Option<ServiceId>> {
        let member = match self {
            Self::Member(member) => member,
            Self::Alone => return Ok(None),
            Self::Lost(_) => {
                return Err(CmError::again(
                    "the port service has ended; the next one is on its way",
                ));
            }
        };
        let lost = |error| CmError::full(format!("the port service does not answer: {error}"));
        match member.reserve(wanted).map_err(lost)? {
            Ok(service) => Ok(Some(service)),
            Err(why @ Refusal::PortInUse(Some(_))) => Err(CmError::denied(why.to_string())),
            Err(why @ Refusal::PortInUse(None)) => Err(CmError::address_in_use(why.to_string())),
            Err(why) => Err(CmError::full(why.to_string())),
        }
    }

    /// Gives a port back.
    pub(super) fn release(&mut self, service: ServiceId, at: ListenAt) {
        // One that is lost does not ask for it again.
        if let Self::Member(member) | Self::Lost(member) = self {
            member.release(service, at);
        }
    }
}

/// Whether it is another user who has the port.
#[cfg(target_os = "linux")]
fn is_of_others(uid: Option<u32>) -> bool {
    uid.is_some_and(|uid| uid != rustix::process::geteuid().as_raw())
}

#[cfg(target_os = "linux")]
const fn place(address: &Address) -> Place {
    Place::new(address.ip, address.interface)
}

/// Links around the sockets that the service has handed out.
#[cfg(target_os = "linux")]
fn adopt_all(
    config: &EmulatedConfig,
    addresses: &[Address],
    granted: Vec<Granted>,
) -> Result<Links, OpenError> {
    let mut links = Vec::new();
    for (address, granted) in addresses.iter().zip(granted) {
        match granted {
            Ok(socket) => links.push((*address, UdpLink::adopt(socket, &config.udp(address.ip))?)),
            Err(Refusal::AddressNotHere) => {}
            Err(why) => return Err(OpenError::Sharing(format!("{}: {why}", address.ip))),
        }
    }
    Ok(links)
}

/// Links that own the port.
fn open_links(config: &EmulatedConfig, addresses: &[Address]) -> Result<Links, udp::OpenError> {
    let mut links = Vec::new();
    for address in addresses {
        match UdpLink::open(&config.udp(address.ip)) {
            Ok(link) => links.push((*address, link)),
            Err(udp::OpenError::Failed { source, .. })
                if source.kind() == io::ErrorKind::AddrNotAvailable => {}
            Err(error) => return Err(error),
        }
    }
    Ok(links)
}
