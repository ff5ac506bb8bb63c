//! Access rights of regions, windows and queue pairs.

bitflags::bitflags! {
    /// Rights, with the bits of `ibv_access_flags` (`ibv_reg_mr(3)`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Access: u32 {
        /// The device may write for its own program: receives, READ results, atomic results.
        const LOCAL_WRITE = 1;
        /// A peer may WRITE. Needs `LOCAL_WRITE` on a region.
        const REMOTE_WRITE = 1 << 1;
        /// A peer may READ.
        const REMOTE_READ = 1 << 2;
        /// A peer may run atomics. Needs `LOCAL_WRITE` on a region.
        const REMOTE_ATOMIC = 1 << 3;
        /// Windows may be bound to the region.
        const MW_BIND = 1 << 4;
        /// Remote addresses count from 0 rather than from the program's address.
        const ZERO_BASED = 1 << 5;
        /// Pages are found at access rather than at registration.
        const ON_DEMAND = 1 << 6;
        /// A hint about huge pages; accepted, without effect.
        const HUGETLB = 1 << 7;
        /// A peer may FLUSH towards global visibility.
        const FLUSH_GLOBAL = 1 << 8;
        /// A peer may FLUSH towards persistence.
        const FLUSH_PERSISTENT = 1 << 9;
        /// Placement order is free; accepted, for placement here is always in order.
        const RELAXED_ORDERING = 1 << 20;
    }
}

impl Access {
    /// The rights that a peer exercises.
    pub const REMOTE: Self = Self::REMOTE_WRITE.union(Self::REMOTE_READ).union(Self::REMOTE_ATOMIC);
}
