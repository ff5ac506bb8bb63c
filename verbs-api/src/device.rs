//! Devices, listed and opened.

use std::fmt;
use std::sync::Arc;

use softrnic_model::verbs::{AsyncEvent, DeviceAttributes, Gid, PortAttributes, VerbError};

use crate::completion::{CompletionChannel, Cq};
use crate::device_memory::DeviceMemory;
use crate::domain::Pd;
use crate::error::{Error, Result};
use crate::provider::{
    self, Counter, DeviceInfo, GidEntry, GidType, OpenFailure, Provider, Timeout,
};
use crate::xrc::Xrcd;

/// The only port that a device has here; hardware may have others, which the handles do not use.
pub const PORT: u8 = 1;

/// A device in a list.
#[derive(Clone)]
pub struct Device {
    provider: Arc<dyn Provider>,
    info: DeviceInfo,
}

impl Device {
    /// The devices that a provider has now.
    ///
    /// # Errors
    /// As [`Provider::devices`].
    pub fn list(provider: &Arc<dyn Provider>) -> Result<Vec<Self>> {
        let infos = provider.devices().map_err(Error::of("get_device_list"))?;
        let device = |info| Self { provider: Arc::clone(provider), info };
        Ok(infos.into_iter().map(device).collect())
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// All that is known before it is opened.
    #[must_use]
    pub const fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Opens it.
    ///
    /// # Errors
    /// As [`Provider::open`].
    pub fn open(&self) -> core::result::Result<Context, OpenFailure> {
        self.provider.open(&self.info.name).map(Context::new)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.info.name).finish()
    }
}

/// An open device. A clone is the same device.
#[derive(Clone, Debug)]
pub struct Context {
    verbs: Arc<dyn provider::Context>,
    source: Option<u8>,
}

impl Context {
    /// Wraps a device that a provider has opened.
    #[must_use]
    pub const fn new(verbs: Arc<dyn provider::Context>) -> Self {
        Self { verbs, source: None }
    }

    /// The same device, with the entry of the GID table that [`Context::first_gid`] is to give.
    #[must_use]
    pub fn with_source(mut self, index: u8) -> Self {
        self.source = Some(index);
        self
    }

    /// The verbs themselves, for what the handles do not offer.
    #[must_use]
    pub const fn verbs(&self) -> &Arc<dyn provider::Context> {
        &self.verbs
    }

    /// What the device can do.
    ///
    /// # Errors
    /// As [`provider::Context::query_device`].
    pub fn attributes(&self) -> Result<DeviceAttributes> {
        self.verbs.query_device().map_err(Error::of("query_device"))
    }

    /// The state of the port.
    ///
    /// # Errors
    /// As [`provider::Context::query_port`].
    pub fn port(&self) -> Result<PortAttributes> {
        self.verbs.query_port(PORT).map_err(Error::of("query_port"))
    }

    /// An entry of the GID table.
    ///
    /// # Errors
    /// As [`provider::Context::query_gid`].
    pub fn gid(&self, index: u8) -> Result<GidEntry> {
        self.verbs.query_gid(PORT, index.into()).map_err(Error::of("query_gid"))
    }

    /// The first entry of the GID table that RoCEv2 packets can carry, and its index. IPv4
    /// addresses go before IPv6 ones, and link-local ones come last; all behind the one that was chosen
    /// by [`Context::with_source`].
    ///
    /// # Errors
    /// `ENETUNREACH`: the device has no address.
    pub fn first_gid(&self) -> Result<(u8, Gid)> {
        if let Some(index) = self.source {
            return Ok((index, self.gid(index)?.gid));
        }
        let len = self.port()?.gid_tbl_len.min(256);
        let usable = (0..=u8::MAX).take(len as usize).filter_map(|index| {
            let entry = self.gid(index).ok()?;
            let good = entry.gid_type == GidType::RoceV2 && entry.gid != Gid::default();
            good.then_some((index, entry.gid))
        });
        let preference = |(index, gid): &(u8, Gid)| match gid.0 {
            _ if gid.as_v4().is_some() => (0, *index),
            [0xfe, 0x80, ..] => (2, *index),
            _ => (1, *index),
        };
        usable.min_by_key(preference).ok_or(Error {
            verb: "query_gid",
            source: VerbError::Unreachable("the device has no address that RoCEv2 can use"),
        })
    }

    /// An entry of the P_Key table, host order.
    ///
    /// # Errors
    /// As [`provider::Context::query_pkey`].
    pub fn pkey(&self, index: u16) -> Result<u16> {
        self.verbs.query_pkey(PORT, index).map_err(Error::of("query_pkey"))
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    /// As [`provider::Context::alloc_pd`].
    pub fn alloc_pd(&self) -> Result<Pd> {
        Pd::new(self)
    }

    /// Allocates zeroed memory of the device.
    ///
    /// # Errors
    /// As [`provider::Context::alloc_dm`].
    pub fn alloc_dm(&self, len: usize) -> Result<DeviceMemory> {
        DeviceMemory::new(self, len)
    }

    /// Makes an XRC domain.
    ///
    /// # Errors
    /// As [`provider::Context::open_xrcd`].
    pub fn open_xrcd(&self) -> Result<Xrcd> {
        Xrcd::new(self)
    }

    /// Makes a completion queue that is polled.
    ///
    /// # Errors
    /// As [`provider::Context::create_cq`].
    pub fn create_cq(&self, entries: u32) -> Result<Cq> {
        Cq::new(self, entries, None)
    }

    /// Makes a completion queue whose completions say when they completed, in nanoseconds of
    /// [`Context::clock_ns`] (`Wc::timestamp`). Its events go to `channel`, if there is one.
    ///
    /// # Errors
    /// As [`provider::Context::create_cq_ex`].
    pub fn create_cq_with_timestamps(
        &self,
        entries: u32,
        channel: Option<&CompletionChannel>,
    ) -> Result<Cq> {
        Cq::with_timestamps(self, entries, channel)
    }

    /// The device's clock now, in nanoseconds since some instant.
    ///
    /// # Errors
    /// As [`provider::Context::query_clock`] and [`provider::Context::query_device`].
    pub fn clock_ns(&self) -> Result<u64> {
        let khz = self.attributes()?.core_clock_khz.max(1);
        let ticks = self.verbs.query_clock().map_err(Error::of("query_rt_values"))?;
        let ns = u128::from(ticks) * 1_000_000 / u128::from(khz);
        Ok(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Makes a channel for the events of completion queues.
    ///
    /// # Errors
    /// As [`provider::Context::create_comp_channel`].
    pub fn create_comp_channel(&self) -> Result<CompletionChannel> {
        CompletionChannel::new(self)
    }

    /// Waits for an asynchronous event; `None` when the time is over.
    ///
    /// # Errors
    /// As [`provider::Context::get_async_event`].
    pub fn next_async_event(&self, timeout: Timeout) -> Result<Option<AsyncEvent>> {
        self.verbs.get_async_event(timeout).map_err(Error::of("get_async_event"))
    }

    /// What the device has counted.
    ///
    /// # Errors
    /// As [`provider::Context::counters`].
    pub fn counters(&self) -> Result<Vec<Counter>> {
        self.verbs.counters().map_err(Error::of("counters"))
    }
}
