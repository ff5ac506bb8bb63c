//! Registration: what is refused, what changes, and what it costs to forget something.

use softrnic_model::verbs::{
    Access, AddressVector, PdId, QpState, SrqAttributes, VerbError, WcStatus, WindowType,
};

use crate::case::{Case, Outcome, Problem, verbs};
use crate::lab::{ALL_RIGHTS, Connection};
use crate::program::Region;
use crate::stage::{Stage, wr};
use crate::{ensure, same};

use WcStatus::{RemoteAccessError, Success};

pub(super) fn cases() -> Vec<Case> {
    let mut all = vec![
        verbs("protection/register-zero-length", "gives-nothing", zero_length),
        verbs("protection/register-limit", "one-too-many", one_too_many),
        verbs("protection/rereg-access", "right-taken", right_taken),
        verbs("protection/rereg-access", "right-given", right_given),
        verbs("protection/rereg-pd", "peer-loses-it", other_domain),
        verbs("protection/dereg-busy", "reregister", reregister_bound),
        verbs("protection/key-not-reused-early", "one-index", |stage| reuse(stage, 255)),
    ];
    for (variant, access, errno) in ACCESS {
        all.push(verbs(
            if *errno == Some("EINVAL") && variant.contains("alone") {
                "protection/register-write-needs-local"
            } else {
                "protection/register-unknown-bits"
            },
            *variant,
            move |stage| registers(stage, *access, *errno),
        ));
    }
    for (variant, make) in MEMBERS {
        all.push(verbs("protection/pd-busy", *variant, move |stage| {
            let pd = stage.verbs(0).alloc_pd()?;
            let undo = make(stage, pd)?;
            let refused = stage.verbs(0).dealloc_pd(pd).err().map(VerbError::errno_name);
            same!(refused, Some("EBUSY"), "the refusal");
            undo(stage)?;
            Ok(stage.verbs(0).dealloc_pd(pd)?)
        }));
    }
    all
}

/// Rights, and the errno that they are refused with.
const ACCESS: &[(&str, Access, Option<&str>)] = &[
    ("remote-write-alone", Access::REMOTE_WRITE, Some("EINVAL")),
    ("remote-atomic-alone", Access::REMOTE_ATOMIC, Some("EINVAL")),
    ("remote-write-with-local", Access::REMOTE_WRITE.union(Access::LOCAL_WRITE), None),
    ("remote-read", Access::REMOTE_READ, None),
    ("unknown-bit", Access::from_bits_retain(1 << 19), Some("EINVAL")),
    ("optional-bit", Access::from_bits_retain(1 << 29), None),
    ("relaxed-ordering", Access::RELAXED_ORDERING, None),
];

fn registers(stage: &Stage, access: Access, errno: Option<&str>) -> Outcome {
    let pd = stage.verbs(0).alloc_pd()?;
    let made = Region::new(stage.verbs(0), pd, 64, access);
    same!(made.err().map(VerbError::errno_name), errno, "the refusal of {access:?}");
    Ok(())
}

fn zero_length(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    let empty = match Region::new(stage.verbs(1), b.pd, 0, ALL_RIGHTS) {
        Ok(empty) => empty,
        Err(error) => {
            same!(error.errno_name(), "EINVAL", "the refusal");
            return Ok(());
        }
    };
    let (remote_addr, rkey) = (empty.addr(), empty.rkey());
    let op = softrnic_model::verbs::SendOp::Read { remote_addr, rkey };
    stage.post(&a, &wr(1, op).at(0, 1))?;
    stage.completes(&a, 1, RemoteAccessError)?;
    Ok(())
}

/// More regions than this are not made to see where a device ends.
const TRIED: u32 = 70_000;

fn one_too_many(stage: &mut Stage) -> Outcome {
    let verbs = stage.verbs(0);
    let limit = verbs.query_device()?.max_mr;
    if limit > TRIED {
        return Err(Problem::NotApplicable(format!("the device has {limit} regions")));
    }
    let pd = verbs.alloc_pd()?;
    let mut made = Vec::new();
    let refusal = loop {
        match Region::new(verbs, pd, 64, ALL_RIGHTS) {
            Ok(region) => made.push(region),
            Err(error) => break error,
        }
        ensure!(made.len() <= limit as usize, "{} regions were registered", made.len());
    };
    same!(refusal.errno_name(), "ENOMEM", "the refusal");
    Ok(())
}

fn right_taken(stage: &mut Stage) -> Outcome {
    let [a, mut b] = stage.connect(&Connection::RC)?;
    stage.post(&a, &wr(1, a.write(&b, 0)).at(100, 8))?;
    stage.completes(&a, 1, Success)?;
    let key = b.region.rkey();
    b.region.reregister(None, Some(Access::LOCAL_WRITE | Access::REMOTE_READ))?;
    same!(b.region.rkey(), key, "the key");
    stage.post(&a, &wr(2, a.write(&b, 0)).at(200, 8))?;
    stage.completes(&a, 2, RemoteAccessError)?;
    same!(b.bytes(0, 8)?, a.bytes(100, 8)?, "memory");
    Ok(())
}

fn right_given(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    let mut region = Region::new(stage.verbs(1), b.pd, 64, Access::LOCAL_WRITE)?;
    region.reregister(None, Some(ALL_RIGHTS))?;
    let (remote_addr, rkey) = (region.addr(), region.rkey());
    let op = softrnic_model::verbs::SendOp::Write { remote_addr, rkey, imm: None };
    stage.post(&a, &wr(1, op).at(100, 8))?;
    stage.completes(&a, 1, Success)?;
    Ok(())
}

fn other_domain(stage: &mut Stage) -> Outcome {
    let [a, mut b] = stage.connect(&Connection::RC)?;
    let other = stage.verbs(1).alloc_pd()?;
    b.region.reregister(Some(other), None)?;
    let before = b.bytes(0, 8)?;
    stage.post(&a, &wr(1, a.write(&b, 0)).at(100, 8))?;
    stage.completes(&a, 1, RemoteAccessError)?;
    stage.gets_into(&b, QpState::Err)?;
    same!(b.bytes(0, 8)?, before, "memory");
    Ok(())
}

fn reregister_bound(stage: &mut Stage) -> Outcome {
    use softrnic_model::verbs::{BindInfo, Key, SendFlags};
    use softrnic_verbs::provider::MwBind;
    let [a, _b] = stage.connect(&Connection::RC)?;
    let mut region = Region::new(stage.verbs(0), a.pd, 64, ALL_RIGHTS)?;
    let window = stage.verbs(0).alloc_mw(a.pd, WindowType::Type1)?;
    let info = BindInfo {
        mr_lkey: region.lkey(),
        addr: region.addr(),
        length: 64,
        access: Access::REMOTE_READ,
    };
    let bind = MwBind { wr_id: 1, flags: SendFlags::SIGNALED, info };
    stage.verbs(0).bind_mw(a.qp, window, &bind)?;
    stage.completes(&a, 1, Success)?;
    let refused = region.reregister(None, Some(Access::LOCAL_WRITE)).err();
    same!(refused.map(VerbError::errno_name), Some("EBUSY"), "the refusal");
    let info = BindInfo { mr_lkey: Key(0), addr: 0, length: 0, access: Access::empty() };
    let unbind = MwBind { wr_id: 2, flags: SendFlags::SIGNALED, info };
    stage.verbs(0).bind_mw(a.qp, window, &unbind)?;
    stage.completes(&a, 2, Success)?;
    Ok(region.reregister(None, Some(Access::LOCAL_WRITE))?)
}

/// One region after the other: no key is there twice.
fn reuse(stage: &Stage, rounds: usize) -> Outcome {
    let verbs = stage.verbs(0);
    let pd = verbs.alloc_pd()?;
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..rounds {
        let mut region = Region::new(verbs, pd, 64, ALL_RIGHTS)?;
        ensure!(seen.insert(region.rkey().0), "round {round}: {:?} is there again", region.rkey());
        region.deregister()?;
    }
    Ok(())
}

/// Makes something in a domain, and tells how it goes away.
type Make = fn(&Stage, PdId) -> Outcome<Undo>;
type Undo = Box<dyn FnOnce(&Stage) -> Outcome>;

const MEMBERS: &[(&str, Make)] = &[
    ("region", |stage, pd| {
        let mut region = Region::new(stage.verbs(0), pd, 64, ALL_RIGHTS)?;
        Ok(Box::new(move |_| Ok(region.deregister()?)))
    }),
    ("window", |stage, pd| {
        let window = stage.verbs(0).alloc_mw(pd, WindowType::Type1)?;
        Ok(Box::new(move |stage| Ok(stage.verbs(0).dealloc_mw(window)?)))
    }),
    ("queue-pair", |stage, pd| {
        let end = stage.end_with(0, &Connection::UD, |init| init.pd = pd)?;
        Ok(Box::new(move |stage| Ok(stage.verbs(0).destroy_qp(end.qp)?)))
    }),
    ("shared-receive-queue", |stage, pd| {
        let attributes = SrqAttributes { max_wr: 4, max_sge: 1, srq_limit: 0 };
        let (srq, _) = stage.verbs(0).create_srq(pd, &attributes)?;
        Ok(Box::new(move |stage| Ok(stage.verbs(0).destroy_srq(srq)?)))
    }),
    ("address-handle", |stage, pd| {
        let (sgid_index, dgid) = stage.address(0)?;
        let path = AddressVector { dgid, sgid_index, hop_limit: 64, ..Default::default() };
        let ah = stage.verbs(0).create_ah(pd, &path)?;
        Ok(Box::new(move |stage| Ok(stage.verbs(0).destroy_ah(ah)?)))
    }),
];
