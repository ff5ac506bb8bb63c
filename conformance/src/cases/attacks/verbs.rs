//! Attacks on, and by, programs on the device itself.

use std::collections::BTreeSet;
use std::time::Duration;

use softrnic_model::verbs::{PdId, QpState, VerbError, WcStatus};

use crate::case::{Case, Outcome, Problem, verbs};
use crate::lab::{ALL_RIGHTS, Connection};
use crate::program::Region;
use crate::stage::{End, Stage, wr};
use crate::{ensure, same};

use WcStatus::Success;

pub(super) fn cases() -> Vec<Case> {
    vec![
        verbs("attacks/key-reuse-after-dereg", "no-key-comes-back", no_key_comes_back),
        verbs("attacks/key-reuse-after-dereg", "old-key-leads-nowhere", old_key_leads_nowhere),
        verbs("attacks/key-space-shared", "keys-of-two-domains-differ", keys_of_two_domains),
        verbs("attacks/key-space-shared", "domain-makes-them-useless", useless_across_domains),
        verbs("attacks/dereg-in-flight", "writes-of-a-peer", |stage| in_flight(stage, false)),
        verbs("attacks/dereg-in-flight", "reads-into-it", |stage| in_flight(stage, true)),
        verbs("attacks/wqe-changed", "elements-after-post", elements_after_post),
        verbs("attacks/wqe-changed", "memory-after-post", memory_after_post),
        verbs("attacks/wqe-changed", "inline-after-post", inline_after_post),
        verbs("attacks/exhaustion", "domains", |stage| exhaust(stage, &Domains)),
        verbs("attacks/exhaustion", "completion-queues", |stage| exhaust(stage, &CompletionQueues)),
        verbs("attacks/exhaustion", "address-handles", |stage| exhaust(stage, &AddressHandles)),
        verbs("attacks/exhaustion", "windows", |stage| exhaust(stage, &Windows)),
        verbs("attacks/read-flood", "others-go-on", others_go_on),
    ]
}

/// More objects than this are not made to see where a device ends.
const TRIED: u32 = 70_000;

fn no_key_comes_back(stage: &mut Stage) -> Outcome {
    let verbs = stage.verbs(0);
    let pd = verbs.alloc_pd()?;
    let mut seen = BTreeSet::new();
    for round in 0..1000 {
        let mut region = Region::new(verbs, pd, 64, ALL_RIGHTS)?;
        for key in BTreeSet::from([region.lkey(), region.rkey()]) {
            ensure!(seen.insert(key.0), "key {:#x} came back in round {round}", key.0);
        }
        region.deregister()?;
    }
    Ok(())
}

fn old_key_leads_nowhere(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    let verbs = stage.verbs(1);
    let mut old = Region::new(verbs, b.pd, 64, ALL_RIGHTS)?;
    old.deregister()?;
    // Others come to be registered in its place.
    let _others =
        (0..8).map(|_| Region::new(verbs, b.pd, 64, ALL_RIGHTS)).collect::<Result<Vec<_>, _>>()?;
    let op = softrnic_model::verbs::SendOp::Write {
        remote_addr: old.addr(),
        rkey: old.rkey(),
        imm: None,
    };
    stage.post(&a, &wr(1, op).at(0, 8))?;
    stage.completes(&a, 1, WcStatus::RemoteAccessError)?;
    Ok(())
}

fn keys_of_two_domains(stage: &mut Stage) -> Outcome {
    let verbs = stage.verbs(0);
    let domains = [verbs.alloc_pd()?, verbs.alloc_pd()?];
    let mut regions = Vec::new();
    let mut seen = BTreeSet::new();
    for _ in 0..64 {
        for pd in domains {
            let region = Region::new(verbs, pd, 64, ALL_RIGHTS)?;
            ensure!(seen.insert(region.rkey().0), "{:?} is the key of two regions", region.rkey());
            regions.push(region);
        }
    }
    Ok(())
}

fn useless_across_domains(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    let other = stage.verbs(1).alloc_pd()?;
    let foreign = Region::new(stage.verbs(1), other, 64, ALL_RIGHTS)?;
    let (remote_addr, rkey) = (foreign.addr(), foreign.rkey());
    let op = softrnic_model::verbs::SendOp::Read { remote_addr, rkey };
    stage.post(&a, &wr(1, op).at(0, 8))?;
    stage.completes(&a, 1, WcStatus::RemoteAccessError)?;
    stage.gets_into(&b, QpState::Err)
}

/// Traffic into a region of device 1 while it is deregistered: what it holds when the verb has
/// returned it holds for good.
fn in_flight(stage: &Stage, by_reads: bool) -> Outcome {
    const LEN: u32 = 32_768;
    let [a, mut b] = stage.connect(&Connection::RC)?;
    for id in 0..16 {
        if by_reads {
            stage.post(&b, &wr(id, b.read(&a, 0)).at(0, LEN))?;
        } else {
            stage.post(&a, &wr(id, a.write(&b, 0)).at(0, LEN))?;
        }
    }
    a.store(0, &[0xaa; 64])?;
    stage.pass(Duration::from_micros(20));
    b.region.deregister()?;
    let when_returned = b.bytes(0, LEN as usize)?;
    a.store(0, &vec![0xbb; LEN as usize])?;
    for _ in 0..20 {
        stage.settle();
        same!(b.bytes(0, LEN as usize)?, when_returned, "memory after deregistering returned");
    }
    Ok(())
}

/// A request that waits in SQD, changed by `change`, and what the peer gets then.
fn waits_and_changes(
    stage: &Stage,
    request: impl FnOnce(&End, &End) -> crate::stage::Wr,
    change: impl FnOnce(&End) -> Outcome,
) -> Outcome<Vec<u8>> {
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.move_to(&a, QpState::Sqd)?;
    let request = request(&a, &b);
    stage.post(&a, &request)?;
    drop(request);
    change(&a)?;
    stage.move_to(&a, QpState::Rts)?;
    stage.completes(&a, 1, Success)?;
    b.bytes(0, 8)
}

fn elements_after_post(stage: &mut Stage) -> Outcome {
    // The list of elements is gone when the device gets to the request.
    let got = waits_and_changes(stage, |a, b| wr(1, a.write(b, 0)).at(100, 8), |_| Ok(()))?;
    same!(got, (100..108).collect::<Vec<u8>>(), "what was written");
    Ok(())
}

fn memory_after_post(stage: &mut Stage) -> Outcome {
    let request = |a: &End, b: &End| wr(1, a.write(b, 0)).at(100, 8);
    let got = waits_and_changes(stage, request, |a| a.store(100, &[0x77; 8]))?;
    // Whatever the device sends is from there, then or now.
    let (then, now) = ((100..108).collect::<Vec<u8>>(), vec![0x77; 8]);
    ensure!(got == then || got == now, "what was written is from elsewhere: {got:?}");
    Ok(())
}

fn inline_after_post(stage: &mut Stage) -> Outcome {
    let request = |a: &End, b: &End| wr(1, a.write(b, 0)).inline(&[0x66; 8]);
    let got = waits_and_changes(stage, request, |a| a.store(0, &[0x77; 64]))?;
    same!(got, vec![0x66; 8], "what was written");
    Ok(())
}

/// Something that a device has a limited number of.
trait Object {
    /// How many.
    fn limit(&self, stage: &Stage) -> Outcome<u32>;
    /// Makes one.
    fn make(&self, stage: &Stage, pd: PdId) -> Result<(), VerbError>;
}

struct Domains;
struct CompletionQueues;
struct AddressHandles;
struct Windows;

impl Object for Domains {
    fn limit(&self, stage: &Stage) -> Outcome<u32> {
        Ok(stage.verbs(0).query_device()?.max_pd)
    }

    fn make(&self, stage: &Stage, _: PdId) -> Result<(), VerbError> {
        stage.verbs(0).alloc_pd().map(|_| ())
    }
}

impl Object for CompletionQueues {
    fn limit(&self, stage: &Stage) -> Outcome<u32> {
        Ok(stage.verbs(0).query_device()?.max_cq)
    }

    fn make(&self, stage: &Stage, _: PdId) -> Result<(), VerbError> {
        stage.verbs(0).create_cq(1, None).map(|_| ())
    }
}

impl Object for AddressHandles {
    fn limit(&self, stage: &Stage) -> Outcome<u32> {
        Ok(stage.verbs(0).query_device()?.max_ah)
    }

    fn make(&self, stage: &Stage, pd: PdId) -> Result<(), VerbError> {
        let failed = |_| VerbError::Invalid("the device has no address");
        let (sgid_index, gid) = stage.address(0).map_err(failed)?;
        let path = softrnic_model::verbs::AddressVector {
            dgid: gid,
            sgid_index,
            hop_limit: 64,
            ..Default::default()
        };
        stage.verbs(0).create_ah(pd, &path).map(|_| ())
    }
}

impl Object for Windows {
    fn limit(&self, stage: &Stage) -> Outcome<u32> {
        Ok(stage.verbs(0).query_device()?.max_mw)
    }

    fn make(&self, stage: &Stage, pd: PdId) -> Result<(), VerbError> {
        stage.verbs(0).alloc_mw(pd, softrnic_model::verbs::WindowType::Type1).map(|_| ())
    }
}

/// Takes all that there are. What others have goes on working.
fn exhaust(stage: &Stage, object: &dyn Object) -> Outcome {
    let limit = object.limit(stage)?;
    if limit > TRIED {
        return Err(Problem::NotApplicable(format!("the device has {limit} of them")));
    }
    let [a, b] = stage.connect(&Connection::RC)?;
    let mut made = 0_u32;
    let refusal = loop {
        match object.make(stage, a.pd) {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
        ensure!(made <= limit, "{made} were made, more than the {limit} that the device reports");
    };
    same!(refusal.errno_name(), "ENOMEM", "the refusal of number {made}");
    stage.post(&a, &wr(1, a.write(&b, 0)).at(100, 8))?;
    stage.completes(&a, 1, Success)?;
    same!(b.bytes(0, 8)?, a.bytes(100, 8)?, "what was written");
    Ok(())
}

/// One peer READs as much as it may, again and again; another one gets through.
fn others_go_on(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    let [c, d] = stage.connect(&Connection::RC)?;
    for id in 0..48 {
        stage.post(&a, &wr(id, a.read(&b, 0)).at(0, 65_536))?;
    }
    stage.post(&c, &wr(1, c.write(&d, 0)).at(100, 8))?;
    stage.completes(&c, 1, Success)?;
    same!(d.bytes(0, 8)?, c.bytes(100, 8)?, "what was written");
    for id in 0..48 {
        stage.completes(&a, id, Success)?;
    }
    Ok(())
}
