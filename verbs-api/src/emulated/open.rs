//! Opening and closing an emulated device.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::thread::JoinHandle;

use softrnic_model::Device;
use softrnic_model::verbs::AsyncEvent;
use softrnic_transport::tap::{Capture, CaptureFile, FaultRules, Faults, Trace, Watch, Watcher};
use softrnic_transport::{Link, interfaces, udp};

use super::communication::chance;
use super::config::{EmulatedConfig, OpenError};
use super::engine::{self, Shared};
use super::membership::Membership;
use super::notices::Notices;
#[cfg(unix)]
use super::published::Publication;
use super::surroundings::{Surroundings, View, joined};
use crate::machine::addresses::GidTable;
use crate::machine::communication::Communication;
use crate::machine::core::Core;
use crate::machine::events::EventQueue;
use crate::provider::DeviceInfo;

/// An open emulated device. It is closed when this is dropped.
///
/// # Fork
///
/// A device belongs to the process that opened it. After `fork(2)` the child has no engine thread
/// and shares the sockets: it must neither post nor poll, and every other verb is refused with
/// `EINVAL`. Objects may be dropped there, which does nothing, and the child may open devices of
/// its own. One that calls `execve(2)` is not affected: it inherits no descriptor.
#[derive(Debug)]
pub struct EmulatedContext {
    pub(super) info: DeviceInfo,
    pub(super) shared: Arc<Shared>,
    pub(super) asynchronous: Arc<EventQueue<AsyncEvent>>,
    engine: Option<JoinHandle<()>>,
    #[cfg(unix)]
    publication: Option<Publication>,
    pub(super) process: u32,
}

impl EmulatedContext {
    /// Opens a device: binds its port and starts its engine.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: EmulatedConfig) -> Result<Self, OpenError> {
        Self::open_around(config, |link| link)
    }

    /// The same, and `watcher` sees every frame that passes, under the lock of the device.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_watched(
        config: EmulatedConfig,
        watcher: impl Watcher + 'static,
    ) -> Result<Self, OpenError> {
        Self::open_around(config, |link| Box::new(Watch::around(link, watcher)))
    }

    /// Opens a device; `decorate` sees its link first.
    fn open_around(
        config: EmulatedConfig,
        decorate: impl FnOnce(Box<dyn Link>) -> Box<dyn Link>,
    ) -> Result<Self, OpenError> {
        // First of all, so that no change after the list goes unnoticed. Without them the engine
        // asks from time to time.
        let notices = Notices::new().ok();
        let all = interfaces::all()
            .map_err(|error| OpenError::System("the interfaces cannot be listed", error))?;
        let config = config.resolved(&all)?;
        let view = View::of(&config, &all);
        // An address that the host does not have is for the link to explain.
        if config.interface.is_none()
            && let Some(address) =
                config.addresses.iter().find(|ip| view.addresses.iter().all(|a| a.ip != **ip))
        {
            udp::UdpLink::open(&config.udp(*address))?;
        }
        let (membership, links) = Membership::open(&config, &view.addresses)?;
        if links.is_empty() {
            return Err(OpenError::Setting(match &config.interface {
                Some(name) => format!("interface {name:?} has no address that can be used yet"),
                None => "a device needs at least one address".into(),
            }));
        }
        // What the kernel keeps where it does not say how much.
        const UNKNOWN_BUFFER: usize = 212_992;
        let granted = |link: &udp::UdpLink| link.granted_receive_buffer().unwrap_or(UNKNOWN_BUFFER);
        let receive_buffer = links.iter().map(|(_, link)| granted(link)).min().unwrap_or(0);
        let (table, set) = joined(links);
        let link = tapped(&config, decorate(Box::new(set)))?;
        Self::start(config, &view, table, link, receive_buffer, notices, membership)
    }

    /// Makes the device around a link and starts its engine.
    pub(super) fn start(
        config: EmulatedConfig,
        view: &View,
        table: GidTable,
        link: Box<dyn Link>,
        receive_buffer: usize,
        notices: Option<Notices>,
        membership: Membership,
    ) -> Result<Self, OpenError> {
        let system = |what| move |error| OpenError::System(what, error);
        let asynchronous = Arc::new(EventQueue::new().map_err(system("event descriptor"))?);
        let mut device =
            Device::new(config.device(membership.slot(), table.gids(), view.mtu, receive_buffer));
        device.set_port_state(view.state);
        // How it is at the beginning is no event.
        while device.next_event().is_some() {}
        let info = Self::info_of(&config);
        let (told, complete) = (notices.is_some(), table.come(&view.addresses).is_empty());
        let communication = Communication::new(config.node_guid(), membership.slot(), chance());
        let core = Core::new(device, link, table, Arc::clone(&asynchronous), communication);
        let shared =
            Shared::new(core, notices, membership).map_err(system("waiting for packets"))?;
        let shared = Arc::new(shared);
        #[cfg(unix)]
        let publication =
            config.publish.then(|| Publication::start(&config, &shared).ok()).flatten();
        let surroundings = Surroundings::new(config, told, complete);
        let engine = engine::start(&shared, surroundings).map_err(system("engine thread"))?;
        Ok(Self {
            info,
            shared,
            asynchronous,
            engine: Some(engine),
            #[cfg(unix)]
            publication,
            process: std::process::id(),
        })
    }

    /// How a device with this configuration is listed.
    pub(super) fn info_of(config: &EmulatedConfig) -> DeviceInfo {
        DeviceInfo { name: config.name.clone(), node_guid: config.node_guid() }
    }

    /// Why the device failed ([`AsyncEvent::DeviceFatal`]), if it did.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.shared.lock().failure().map(ToString::to_string)
    }
}

impl Drop for EmulatedContext {
    fn drop(&mut self) {
        let engine = self.engine.take();
        if std::process::id() != self.process {
            // A forked child: there is no engine, and closing would disturb the parent's poller.
            let _ = ManuallyDrop::new((Arc::clone(&self.shared), engine));
            #[cfg(unix)]
            let _ = ManuallyDrop::new(self.publication.take());
            return;
        }
        // It asks for counters, so it goes first.
        #[cfg(unix)]
        drop(self.publication.take());
        self.shared.close();
        if let Some(engine) = engine {
            // A panic there has been dealt with when it happened.
            let _ = engine.join();
        }
    }
}

/// Wraps the link in what the configuration asks for: what is captured and traced is what was on
/// the wire, so faults are nearest to the device.
fn tapped(config: &EmulatedConfig, mut link: Box<dyn Link>) -> Result<Box<dyn Link>, OpenError> {
    if let Some(path) = &config.capture {
        let file = CaptureFile::create(path, std::time::SystemTime::now())
            .map_err(|error| OpenError::Setting(error.to_string()))?;
        link = Box::new(Capture::new(link, &file, &config.name));
    }
    if config.trace {
        link = Box::new(Trace::new(link, std::io::stderr()));
    }
    if let Some(rules) = &config.faults {
        let rules = FaultRules::parse(rules)
            .map_err(|error| OpenError::Setting(format!("faults: {error}")))?;
        link = Box::new(Faults::new(link, rules));
    }
    Ok(link)
}
