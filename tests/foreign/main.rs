//! Programs that other people wrote, unchanged, on the emulated device: `softrnic run -- PROGRAM`.
//!
//! A program that is not installed is not run, which is said on standard error; with
//! `SOFTRNIC_FOREIGN=required`, as in CI, that is a failure.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

mod container;
mod ends;
mod fake_sysfs;
mod ibverbs_utils;
mod installed;
mod ipv6;
mod meeting;
mod mixed;
mod mpi;
mod perftest;
mod qperf;
mod rdmacm_engines;
mod rdmacm_perftest;
mod rdmacm_utils;
mod recorded;
mod ucx;
mod whose_user;
