//! Simulated devices, on a fabric of hosts, switches and cables under virtual time: for tests of
//! programs that use RDMA.
//!
//! Everything happens in the process and on the thread that calls. A call of a verb takes no time; an
//! empty poll takes a microsecond ([`FabricConfig::poll_costs`]), and a call that waits moves the clock
//! to what it waits for. So a test that waits for a minute takes no minute, and the same program with
//! the same seed sees the same run: [`Fabric::event_hash`] tells.
//!
//! ```
//! use softrnic_verbs::simulated::Fabric;
//! use softrnic_verbs::{Access, QpType, buffer::Buffer};
//!
//! let fabric = Fabric::star(2, 7); // two hosts on a switch, seed 7
//! fabric.set_faults_everywhere("drop=10%,reorder=5%")?;
//! let [near, far] = [0, 1].map(|n| fabric.open(fabric.hosts()[n]).expect("a host of the fabric"));
//!
//! let (near_cq, far_cq) = (near.create_cq(16)?, far.create_cq(16)?);
//! let (near_pd, far_pd) = (near.alloc_pd()?, far.alloc_pd()?);
//! let qp = near_pd.create_qp(QpType::Rc, &near_cq).build()?;
//! let far_qp = far_pd.create_qp(QpType::Rc, &far_cq).build()?;
//! qp.connect(&far_qp.endpoint()?)?;
//! far_qp.connect(&qp.endpoint()?)?;
//!
//! let lent = far_pd.register(Buffer::new(4096)?, Access::LOCAL_WRITE | Access::REMOTE)?;
//! let own = near_pd.register(Buffer::copy_of(&[7; 4096])?, Access::empty())?;
//! qp.write(1, own.sge(0, 4096), lent.remote(0))?;
//! near_cq.wait_success(None)?; // whatever was lost has been repeated by then
//! assert_eq!(lent.buffer().to_vec()?, [7; 4096]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Events of simulated devices have no descriptors; completion channels are waited for by
//! [`CompletionChannel::wait`](crate::CompletionChannel::wait).

mod fabric;
mod home;
mod provider;
mod world;

pub use fabric::{Fabric, FabricConfig};
pub use home::SimulatedContext;
pub use provider::SimulatedProvider;
pub use softrnic_transport::sim::network::{
    Cable, Event, EventHash, LinkId, NodeId, Observer, What,
};
pub use softrnic_transport::tap::faults::{
    Effect, Fate, FaultRule, FaultRules, Match, Opcodes, ParseFaultsError, Pick, Rule, Seen,
};
