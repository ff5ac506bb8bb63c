//! `softrnic demo`: a tour of the device for somebody who has never seen one.

use clap::Args;

use crate::error::Failure;

const AFTER_HELP: &str = "\
Examples:
  softrnic demo                              the tour
  softrnic demo --capture tour.pcapng        the same, and every frame for Wireshark
  softrnic demo --trace                      the same, and a line for every frame
  softrnic demo --faults SPEC                the same in bad weather";

/// Take a tour: two processes, every kind of operation, an access that is refused
///
/// Starts a second process on this host, connects a queue pair of each, and shows a SEND, an RDMA
/// WRITE, an RDMA READ and an atomic at work, then a WRITE past the end of a region and how both
/// sides learn that it was refused. Nothing has to be prepared.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DemoArgs {}

pub(crate) fn run(_args: &DemoArgs) -> Result<(), Failure> {
    Err(Failure::not_yet("demo"))
}
