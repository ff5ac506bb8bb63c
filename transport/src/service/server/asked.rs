//! Who was handed which request. A request is repeated until it is answered, and by then its listener
//! may have gone: who got it first gets it again.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use softrnic_model::cm::ServiceId;
use softrnic_model::verbs::Gid;

use crate::service::slots::ClientId;

/// Requests that are remembered; each further one takes the place of the oldest.
const ASKED_MAX: usize = 4096;

/// Who asked, in which transaction, for what, at which address.
pub(super) type Request = (Gid, u64, ServiceId, Option<IpAddr>);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Asked {
    takers: BTreeMap<Request, ClientId>,
    order: VecDeque<Request>,
}

impl Asked {
    /// A request was handed on.
    pub(super) fn note(&mut self, request: Request, taker: ClientId) {
        if self.takers.insert(request, taker).is_some() {
            return;
        }
        if self.order.len() == ASKED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.takers.remove(&oldest);
        }
        self.order.push_back(request);
    }

    /// Who got it before.
    pub(super) fn taker(&self, request: &Request) -> Option<ClientId> {
        self.takers.get(request).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let mut asked = Asked::default();
        let request = |n: usize| (Gid([1; 16]), n as u64, ServiceId::default(), None);
        for n in 0..ASKED_MAX {
            asked.note(request(n), ClientId(7));
            asked.note(request(n), ClientId(7));
        }
        assert!(asked.taker(&request(0)).is_some());
        asked.note(request(ASKED_MAX), ClientId(7));
        assert_eq!(asked.taker(&request(0)), None);
        assert!(asked.taker(&request(1)).is_some());
        assert_eq!(asked.takers.len(), asked.order.len());
    }
}
