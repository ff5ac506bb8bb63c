//! How hosts are joined.

use serde::{Deserialize, Serialize};
use softrnic_verbs::simulated::{Cable, Fabric, NodeId};

/// Switches, and which host is at which. Cables between switches have no rate: they are as fast as all
/// hosts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Topology {
    /// One switch.
    #[default]
    Star,
    /// Two switches with one cable between them, hosts by turns.
    Two,
    /// As many switches as hosts, at most eight, each with a cable to the next, the last one's to the
    /// first: some frames have two ways.
    Ring,
}

impl Topology {
    const fn switches(self, hosts: u32) -> u32 {
        match self {
            Self::Star => 1,
            Self::Two => 2,
            Self::Ring => {
                if hosts < 8 {
                    hosts
                } else {
                    8
                }
            }
        }
    }

    /// Lays switches and cables, and adds the hosts.
    pub(super) fn lay(self, fabric: &Fabric, hosts: u32, cable: Cable) -> Vec<NodeId> {
        let switches: Vec<NodeId> =
            (0..self.switches(hosts)).map(|_| fabric.add_switch()).collect();
        let trunk = Cable { rate_bps: None, ..cable };
        for pair in switches.windows(2) {
            fabric.connect(pair[0], pair[1], trunk);
        }
        // Of two switches the ring would be a second cable beside the first.
        if let (Self::Ring, [first, _, .., last]) = (self, switches.as_slice()) {
            fabric.connect(*last, *first, trunk);
        }
        let joined = |(number, switch): (u32, &NodeId)| {
            let host = fabric.add_host(&format!("host{number}"));
            fabric.connect(host, *switch, cable);
            host
        };
        (0..hosts).zip(switches.iter().cycle()).map(joined).collect()
    }
}
