//! Requests that come before anybody listens. Programs that are started together, or that close a
//! listener and open it again, are often asked a moment too early; so a request for nobody waits for a
//! moment before it is refused.

use std::time::{Duration, Instant};

use softrnic_model::wire::Route;

use super::Server;
use crate::service::Place;

/// How long a request waits; far less than the timeout of who asks.
const PATIENCE: Duration = Duration::from_millis(100);
/// Requests that wait; others are refused at once.
const EARLY_MAX: usize = 64;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Early {
    place: Place,
    route: Route,
    packet: Vec<u8>,
    until: Instant,
}

impl Server {
    /// Whether there is room for one more that waits.
    pub(super) fn has_patience(&self) -> bool {
        self.early.len() < EARLY_MAX
    }

    /// Lets a request wait.
    pub(super) fn hold(&mut self, place: Place, route: Route, packet: Vec<u8>) {
        let until = Instant::now() + PATIENCE;
        self.early.push(Early { place, route, packet, until });
    }

    /// When the first of them has waited for long enough.
    pub(super) fn patience_ends(&self) -> Option<Instant> {
        self.early.iter().map(|early| early.until).min()
    }

    /// Somebody listens who did not before: perhaps it was meant for them.
    pub(super) fn hand_early(&mut self) {
        for early in std::mem::take(&mut self.early) {
            match self.listener_of(early.place, &early.route, &early.packet) {
                Some(id) => self.hand_on(id, &early.route, &early.packet),
                None => self.early.push(early),
            }
        }
    }

    /// Refuses those who have waited for long enough.
    pub(super) fn refuse_early(&mut self, now: Instant) {
        let (over, left) =
            std::mem::take(&mut self.early).into_iter().partition(|early| early.until <= now);
        self.early = left;
        for Early { place, route, packet, .. } in over {
            self.refuse(place, &route, &packet);
        }
    }
}
