//! Coming back after the port service and its keeper were killed in the same moment.
//!
//! The positions of the sockets that are left have moved, so packets would go to the wrong processes.
//! Every member lets go of its sockets; the first one that has done so starts a service, and when all
//! have, it gives each the slot, the ports and new sockets that it asks for. Peers notice a moment
//! without answers.

use std::io;
use std::time::Duration;

use softrnic_model::Instant;

use super::config::EmulatedConfig;
use super::engine::Shared;
use crate::machine::addresses::Address;

/// How long it is tried; a member that does not let go of its sockets keeps all others out.
const PATIENCE_NS: u64 = 10_000_000_000;
/// How long to wait between two tries.
const AGAIN_NS: u64 = 50_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Comeback {
    /// Since when the service is gone, and when to try next.
    under_way: Option<(Instant, Instant)>,
}

impl Comeback {
    /// How long until it is time to try; `None` if there is nothing to come back to.
    pub(super) fn until_try(&self, now: Instant) -> Option<Duration> {
        self.under_way.map(|(_, next)| Duration::from_nanos(next.ns_since(now)))
    }

    /// Tries if it is time to. A device that does not get back what it had has failed.
    ///
    /// # Errors
    /// Its sockets cannot be waited for.
    pub(super) fn try_if_due(
        &mut self,
        shared: &Shared,
        config: &EmulatedConfig,
    ) -> io::Result<()> {
        if !shared.is_lost() {
            return Ok(());
        }
        let now = shared.now();
        let (since, next) = *self.under_way.get_or_insert((now, now));
        if next > now {
            return Ok(());
        }
        let addresses = let_go(shared);
        shared.watch_sockets()?;
        if addresses.is_empty() {
            // Nothing can be asked for until the host has one of its addresses again.
            let next = shared.now().plus_ns(AGAIN_NS);
            self.under_way = Some((next, next));
            return Ok(());
        }
        let again = shared.membership().rejoin(config, &addresses);
        match again {
            Ok((links, will)) => {
                let mut core = shared.lock();
                for (address, link) in links {
                    if let Some(set) = core.link.as_set() {
                        set.insert(address.ip.into(), Box::new(link));
                    }
                }
                if let Some(will) = will {
                    core.communication.entrust(will);
                }
                drop(core);
                self.under_way = None;
                shared.is_back()?;
                shared.watch_sockets()
            }
            Err(_) if now.ns_since(since) < PATIENCE_NS => {
                self.under_way = Some((since, shared.now().plus_ns(AGAIN_NS)));
                Ok(())
            }
            Err(why) => {
                let why = format!("the port service was killed with its keeper: {why}");
                shared.lock().fail(io::Error::other(why));
                self.under_way = None;
                Ok(())
            }
        }
    }
}

/// Closes the links of all addresses, which the device keeps.
fn let_go(shared: &Shared) -> Vec<Address> {
    let mut core = shared.lock();
    let addresses: Vec<Address> = core.addresses.live().collect();
    if let Some(set) = core.link.as_set() {
        addresses.iter().for_each(|address| set.remove(address.ip.into()));
    }
    addresses
}
