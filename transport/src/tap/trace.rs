//! One line of text per frame.
//!
//! ```text
//! 12.004us tx 10.0.0.1>10.0.0.2 qp 0x000012 RC RDMA_WRITE_ONLY psn 0x00002a ack va 0x7000 rkey 0x00001f01 len 64 data 64
//! 12.104us rx 10.0.0.2>10.0.0.1 qp 0x000011 RC ACKNOWLEDGE psn 0x00002a ack credits 31 msn 9
//! ```
//!
//! The order is always the same: time, direction, addresses, queue pair (with the source where a
//! packet names it), opcode, PSN, flags that are set, extension headers, bytes of payload. What has
//! its usual value (default partition, no pad, version 0) is left out.

use std::fmt::{self, Write as _};
use std::io;

use softrnic_model::Instant;
use softrnic_model::wire::{Bth, Packet, Route, Syndrome};

use super::{Direction, Watch, Watcher};
use crate::link::Link;

/// One frame as one line, without the line break.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// When it passed.
    pub at: Instant,
    /// Which way.
    pub direction: Direction,
    /// Its addressing.
    pub route: &'a Route,
    /// From the BTH to the end of the pad.
    pub packet: &'a [u8],
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.at.as_ns();
        let direction = match self.direction {
            Direction::Sent => "tx",
            Direction::Received => "rx",
        };
        let Route { src, dst, .. } = self.route;
        write!(f, "{}.{:03}us {direction} {src}>{dst} ", ns / 1000, ns % 1000)?;
        match Packet::parse(self.packet) {
            Ok(packet) => {
                write_transport(f, &packet, self.route)?;
                write_extensions(f, &packet)?;
                if !packet.payload.is_empty() {
                    write!(f, " data {}", packet.payload.len())?;
                }
                Ok(())
            }
            Err(error) => {
                write!(f, "malformed, {error}: {} bytes", self.packet.len())?;
                for byte in self.packet.iter().take(size_of::<Bth>()) {
                    write!(f, " {byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

/// Queue pairs, opcode, PSN and flags.
fn write_transport(f: &mut fmt::Formatter<'_>, packet: &Packet<'_>, route: &Route) -> fmt::Result {
    let bth = &packet.bth;
    f.write_str("qp ")?;
    if let Some(deth) = packet.deth() {
        write!(f, "{:#08x}>", deth.src_qp().get())?;
    }
    let qp = bth.dest_qp().get();
    write!(f, "{qp:#08x} {:?} psn {:#08x}", packet.opcode, bth.psn().get())?;
    let flags = [
        (bth.ack_req(), "ack"),
        (bth.solicited(), "se"),
        (bth.migreq(), "mig"),
        (bth.fecn(), "fecn"),
        (bth.becn(), "becn"),
        (route.congestion_experienced(), "ce"),
    ];
    for (_, name) in flags.iter().filter(|(set, _)| *set) {
        write!(f, " {name}")?;
    }
    if bth.pad() != 0 {
        write!(f, " pad {}", bth.pad())?;
    }
    if bth.pkey() != Bth::DEFAULT_PKEY {
        write!(f, " pkey {:#06x}", bth.pkey())?;
    }
    if bth.transport_version() != 0 {
        write!(f, " version {}", bth.transport_version())?;
    }
    Ok(())
}

fn write_extensions(f: &mut fmt::Formatter<'_>, packet: &Packet<'_>) -> fmt::Result {
    if let Some(deth) = packet.deth() {
        write!(f, " qkey {:#010x}", deth.qkey())?;
    }
    if let Some(xrc) = packet.xrc_eth() {
        write!(f, " srq {:#08x}", xrc.srq())?;
    }
    if let Some(feth) = packet.feth() {
        write!(f, " flush {:#x} {:#x}", feth.placement(), feth.selectivity())?;
    }
    if let Some(reth) = packet.reth() {
        write!(f, " va {:#x} rkey {:?} len {}", reth.va(), reth.rkey(), reth.len())?;
    }
    if let Some(atomic) = packet.atomic_eth() {
        write!(f, " va {:#x} rkey {:?}", atomic.va(), atomic.rkey())?;
        write!(f, " swap_or_add {:#x} compare {:#x}", atomic.swap_or_add(), atomic.compare())?;
    }
    if let Some(aeth) = packet.aeth() {
        match aeth.syndrome() {
            Syndrome::Ack { credits } => write!(f, " ack credits {credits}")?,
            Syndrome::RnrNak { timer } => write!(f, " rnr timer {timer}")?,
            Syndrome::Nak(code) => write!(f, " nak {code:?}")?,
            Syndrome::Reserved(byte) => write!(f, " syndrome {byte:#04x}")?,
        }
        write!(f, " msn {}", aeth.msn())?;
    }
    if let Some(ack) = packet.atomic_ack_eth() {
        write!(f, " original {:#x}", ack.original())?;
    }
    if let Some(imm) = packet.imm_dt() {
        write!(f, " imm {:#010x}", imm.data())?;
    }
    if let Some(ieth) = packet.ieth() {
        write!(f, " invalidate {:?}", ieth.rkey())?;
    }
    Ok(())
}

/// A link that prints every frame that passes.
pub type Trace<L, W> = Watch<L, Printer<W>>;

/// Prints frames, a line each.
#[derive(Debug)]
pub struct Printer<W> {
    /// Where lines go; nowhere after an error.
    out: Option<W>,
    error: Option<io::Error>,
    line: String,
}

impl<L: Link, W: io::Write + Send> Watch<L, Printer<W>> {
    /// Prints what passes `inner` to `out`, one `write` per line.
    pub fn new(inner: L, out: W) -> Self {
        Self::around(inner, Printer { out: Some(out), error: None, line: String::new() })
    }

    /// Why lines are no longer printed, if so. The link goes on without.
    #[must_use]
    pub const fn error(&self) -> Option<&io::Error> {
        self.watcher.error.as_ref()
    }
}

impl<W: io::Write + Send> Watcher for Printer<W> {
    fn saw(&mut self, line: &Line<'_>, damage: Option<u32>) {
        let Some(out) = &mut self.out else { return };
        self.line.clear();
        // writing to a String cannot fail
        let _always_ok = match damage {
            None => writeln!(self.line, "{line}"),
            Some(bit) => writeln!(self.line, "{line} damaged in bit {bit}"),
        };
        if let Err(error) = out.write_all(self.line.as_bytes()) {
            self.error = Some(error);
            self.out = None;
        }
    }
}
