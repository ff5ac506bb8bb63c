//! A lab over the verbs of any two open devices, in real time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use softrnic_model::verbs::{
    AddressVector, AsyncEvent, QpInit, QpState, QpType, RecvWr, SendWr, VerbError, Wc,
};
use softrnic_verbs::buffer::Buffer as Memory;
use softrnic_verbs::{Context, Error, Mr, provider};

use super::{ALL_RIGHTS, Buffer, CAPABILITIES, Connection, Endpoint, Lab, Waits};

/// Two open devices that reach each other. Of what it makes, a domain and a region go by
/// themselves; everything else is made and destroyed by the plain verbs.
#[derive(Debug)]
pub struct VerbsLab {
    devices: [Context; 2],
    waits: Waits,
    /// The region of each buffer, by the number of its memory.
    regions: BTreeMap<u32, Mr>,
    next_memory: u32,
}

/// Completions that wait unseen in a completion queue.
const CQ_ENTRIES: u32 = 256;
/// Between two looks at an empty completion queue. The other device may need the processor.
const NAP: Duration = Duration::from_micros(50);

/// Enough for any network; a device may send 0 as it is.
const HOPS: u8 = 64;

impl VerbsLab {
    /// A lab of these devices; `waits` is in real time.
    #[must_use]
    pub fn new(devices: [Arc<dyn provider::Context>; 2], waits: Waits) -> Self {
        let devices = devices.map(Context::new);
        Self { devices, waits, regions: BTreeMap::new(), next_memory: 0 }
    }

    /// A device.
    #[must_use]
    pub const fn device(&self, device: usize) -> &Context {
        &self.devices[device]
    }

    /// The events that a device has raised since this was last asked, in order.
    ///
    /// # Errors
    /// As `ibv_get_async_event(3)`.
    pub fn take_events(&mut self, device: usize) -> Result<Vec<AsyncEvent>, VerbError> {
        let next = || self.verbs(device).get_async_event(Some(Duration::ZERO)).transpose();
        std::iter::from_fn(next).collect()
    }

    fn verbs(&self, device: usize) -> &dyn provider::Context {
        &**self.devices[device].verbs()
    }

    /// An end, and the index of its address.
    fn create(
        &mut self,
        device: usize,
        connection: &Connection,
    ) -> Result<(Endpoint, u8), VerbError> {
        let context = &self.devices[device];
        let (sgid_index, gid) = context.first_gid().map_err(cause)?;
        let domain = context.alloc_pd().map_err(cause)?;
        let memory = Memory::new(connection.buffer_len).map_err(cause)?;
        let region = domain.register(memory, ALL_RIGHTS).map_err(cause)?;
        let verbs = context.verbs();
        let (cq, _) = verbs.create_cq(CQ_ENTRIES, None)?;
        let (qp, _) = verbs.create_qp(&QpInit {
            pd: domain.id(),
            qp_type: connection.qp_type,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            cap: CAPABILITIES,
            signal_all: true,
            create_flags: softrnic_model::verbs::QpCreateFlags::empty(),
        })?;
        let buffer = Buffer {
            memory: self.next_memory,
            addr: region.remote(0).addr,
            len: connection.buffer_len,
            lkey: region.lkey(),
            rkey: region.rkey(),
        };
        self.next_memory += 1;
        self.regions.insert(buffer.memory, region);
        Ok((Endpoint { device, gid, pd: domain.id(), cq, qp, ah: None, buffer }, sgid_index))
    }
}

impl Lab for VerbsLab {
    fn waits(&self) -> Waits {
        self.waits
    }

    fn connect(&mut self, connection: &Connection) -> Result<[Endpoint; 2], VerbError> {
        let [(first, first_index), (second, second_index)] =
            [self.create(0, connection)?, self.create(1, connection)?];
        let mut ends = [first, second];
        for (own, sgid_index) in [(0, first_index), (1, second_index)] {
            let Endpoint { gid: dgid, qp: peer, .. } = ends[1 - own];
            let Endpoint { pd, qp, .. } = ends[own];
            let path = AddressVector { dgid, sgid_index, hop_limit: HOPS, ..Default::default() };
            let verbs = self.verbs(own);
            for step in connection.steps(own, path, peer) {
                verbs.modify_qp(qp, &step.attributes, step.mask)?;
            }
            if connection.qp_type == QpType::Ud {
                ends[own].ah = Some(verbs.create_ah(pd, &path)?);
            }
        }
        Ok(ends)
    }

    fn destroy(&mut self, at: &Endpoint) -> Result<(), VerbError> {
        let verbs = self.verbs(at.device);
        if let Some(ah) = at.ah {
            verbs.destroy_ah(ah)?;
        }
        verbs.destroy_qp(at.qp)?;
        verbs.destroy_cq(at.cq)?;
        self.regions.remove(&at.buffer.memory);
        Ok(())
    }

    fn post_send(&mut self, at: &Endpoint, wr: &SendWr<'_>) -> Result<(), VerbError> {
        self.verbs(at.device).post_send(at.qp, &[*wr]).map_err(|refusal| refusal.error)
    }

    fn post_recv(&mut self, at: &Endpoint, wr: &RecvWr<'_>) -> Result<(), VerbError> {
        self.verbs(at.device).post_recv(at.qp, &[*wr]).map_err(|refusal| refusal.error)
    }

    fn poll(&mut self, at: &Endpoint, want: usize, within: Duration) -> Result<Vec<Wc>, VerbError> {
        let started = Instant::now();
        let mut taken = vec![Wc::default(); want];
        let mut count = 0;
        loop {
            // Something may complete between the last look and the end of the time.
            let is_last = started.elapsed() >= within;
            count += self.verbs(at.device).poll_cq(at.cq, &mut taken[count..])?;
            if count == want || is_last {
                taken.truncate(count);
                return Ok(taken);
            }
            std::thread::sleep(NAP);
        }
    }

    fn state(&self, at: &Endpoint) -> Result<QpState, VerbError> {
        Ok(self.verbs(at.device).query_qp(at.qp)?.0.current_state)
    }

    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn read(&self, at: &Endpoint) -> Vec<u8> {
        let copy = self.regions.get(&at.buffer.memory).map(|region| region.buffer().to_vec());
        copy.and_then(Result::ok).unwrap_or_default()
    }

    fn write(&mut self, at: &Endpoint, offset: usize, bytes: &[u8]) {
        let region = self.regions.get(&at.buffer.memory);
        let written = region.map(|region| region.buffer().write(offset, bytes));
        debug_assert_eq!(written, Some(Ok(())), "the caller stays inside a buffer that is there");
    }
}

/// What the device said; which verb it was is of no interest here.
fn cause(error: Error) -> VerbError {
    error.source
}
