//! A preload library for programs that look at `/sys/class/infiniband` and `/dev/infiniband` before
//! they believe that there is an RDMA device (UCX, Open MPI, NCCL, the tests of rdma-core).
//!
//! It stands before the C library (`LD_PRELOAD`) and changes one thing: a path below those two is
//! looked up in the tree that `SOFTRNIC_SYSFS` names, where `softrnic run` has described the
//! emulated devices. A device node of the tree is answered by `/dev/null`, for it has to be a
//! character device that may be read and written. All other calls pass through untouched.
//!
//! Programs that make system calls without the C library (static ones, Go) are not reached; a mount
//! namespace (`softrnic run --fake-sysfs=ns`) is for them.
#![cfg(target_os = "linux")]

mod next;
mod path;
mod wrapped;
