//! Words for kinds of memory.

/// Device memory (`ibv_dm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DmId(pub u32);

bitflags::bitflags! {
    /// What memory that is paged on demand may be used for, with the bits of
    /// `ibv_odp_transport_cap_bits`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct OdpCapabilities: u32 {
        /// Source of SENDs.
        const SEND = 1;
        /// Target of receives.
        const RECV = 1 << 1;
        /// Source and target of WRITEs.
        const WRITE = 1 << 2;
        /// Source and target of READs.
        const READ = 1 << 3;
        /// Target of atomics.
        const ATOMIC = 1 << 4;
        /// Target of receives of a shared queue.
        const SRQ_RECV = 1 << 5;
    }
}

/// Which kinds of memory there are besides what is registered and pinned
/// (`ibv_query_device_ex(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCapabilities {
    /// Bytes of device memory; 0 if there is none.
    pub max_dm_size: u64,
    /// Regions may be `ON_DEMAND`.
    pub on_demand: bool,
    /// And may span all addresses.
    pub implicit_on_demand: bool,
    /// What for, on reliable connections.
    pub rc: OdpCapabilities,
    /// On unreliable connections.
    pub uc: OdpCapabilities,
    /// For datagrams.
    pub ud: OdpCapabilities,
    /// On extended reliable connections.
    pub xrc: OdpCapabilities,
}

/// What a program expects to do with memory that is paged on demand (`ibv_advise_mr_advice`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Advice {
    /// Read it.
    Prefetch = 0,
    /// Write it.
    PrefetchWrite = 1,
    /// Use it, if it is there already.
    PrefetchNoFault = 2,
}
