//! A real device of this host, through rdma-core.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use softrnic_model::profile::Profile;
use softrnic_verbs::provider::{Context, OpenFailure};

use super::{Asked, World};
use crate::case::Problem;
use crate::lab::Waits;
use crate::stage::{RealTime, Stage};
use crate::wire::Bench;

/// Opens the device of an end, 0 or 1; it may be the same, open twice.
pub type Opener = dyn Fn(usize) -> Result<Arc<dyn Context>, OpenFailure> + Send + Sync;

/// A device that talks to itself, or two of them. Packets cannot be put in front of it from here: scripts are for
/// [`super::Peer`].
pub struct Hardware {
    /// What it is called.
    pub device: String,
    /// Opens it.
    pub open: Box<Opener>,
}

impl fmt::Debug for Hardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hardware").field("device", &self.device).finish_non_exhaustive()
    }
}

/// A device may be a driver's software on an emulated processor.
const WAITS: Waits = Waits { patience: Duration::from_secs(10), quiet: Duration::from_millis(60) };

impl World for Hardware {
    fn name(&self) -> String {
        format!("hardware {}", self.device)
    }

    fn profile(&self) -> Option<Profile> {
        None
    }

    fn stage(&self, asked: &Asked) -> Result<Stage, Problem> {
        if let Some(profile) = asked.profile {
            let why = format!("the case is about devices of the profile {profile}");
            return Err(Problem::NotApplicable(why));
        }
        let open = |end| (self.open)(end).map_err(|failure| Problem::Failed(failure.reason));
        let stage = Stage::new([open(0)?, open(1)?], Box::new(RealTime::new(WAITS)), None);
        Ok(stage.over(asked.family))
    }

    fn bench(&self, _: &Asked) -> Result<Box<dyn Bench>, Problem> {
        Err(Problem::NotApplicable(
            "packets reach a real device from another host only: conform serve there, conform --peer here".into(),
        ))
    }
}
