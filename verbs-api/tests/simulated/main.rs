//! Simulated devices: the verbs over a fabric with virtual time, and what can befall it.

#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

mod faults;
mod layout;
mod time;
mod verbs;

use std::time::Duration;

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::simulated::{Fabric, NodeId};
use softrnic_verbs::{Access, ConnectOptions, Context, Cq, Mr, Pd, Qp, QpType};

/// A queue pair with all that it needs.
struct End {
    context: Context,
    pd: Pd,
    cq: Cq,
    qp: Qp,
    region: Mr,
}

const LEN: usize = 1 << 16;
const SECOND: Option<Duration> = Some(Duration::from_secs(1));

impl End {
    fn new(fabric: &Fabric, host: NodeId, qp_type: QpType) -> Self {
        let context = fabric.open(host).unwrap();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(256).unwrap();
        let qp = pd.create_qp(qp_type, &cq).build().unwrap();
        let access = Access::LOCAL_WRITE | Access::REMOTE;
        let region = pd.register(Buffer::new(LEN).unwrap(), access).unwrap();
        Self { context, pd, cq, qp, region }
    }

    fn ok(&self) -> softrnic_verbs::Wc {
        self.cq.wait_success(SECOND).unwrap()
    }
}

/// Two ends that are connected.
fn pair(fabric: &Fabric, a: NodeId, b: NodeId, qp_type: QpType) -> [End; 2] {
    let ends = [a, b].map(|host| End::new(fabric, host, qp_type));
    let options = ConnectOptions::default();
    ends[0].qp.connect_with(&ends[1].qp.endpoint().unwrap(), &options).unwrap();
    ends[1].qp.connect_with(&ends[0].qp.endpoint().unwrap(), &options).unwrap();
    ends
}

fn star(hosts: usize) -> (Fabric, Vec<NodeId>) {
    let fabric = Fabric::star(hosts, 7);
    let nodes = fabric.hosts();
    (fabric, nodes)
}
