//! The handles, seen from the device.

use super::*;
use crate::buffer::Buffer;
use crate::queue_pair::Qp;
use crate::window::WindowRange;
use softrnic_model::verbs::{Psn, QpState, QpType, SendFlags};

fn qp(context: &Context, qp_type: QpType) -> Qp {
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(10).unwrap();
    pd.create_qp(qp_type, &cq).first_psn(Psn::new(7)).build().unwrap()
}

/// The destroying verbs among what was asked.
fn destroyed(recorder: &Recorder) -> Vec<String> {
    let mut said = recorder.said();
    said.retain(|verb| verb.starts_with("de"));
    said
}

#[test]
fn children_go_before_their_parents_however_they_are_dropped() {
    let (recorder, context) = Recorder::new();
    let pd = context.alloc_pd().unwrap();
    let channel = context.create_comp_channel().unwrap();
    let cq = channel.create_cq(10).unwrap();
    assert_eq!(cq.entries(), 16);
    let srq = pd.create_srq(&SrqAttributes::default()).unwrap();
    let ah = pd.create_ah(&AddressVector::default()).unwrap();
    let mr = pd.register(Buffer::new(8).unwrap(), Access::MW_BIND).unwrap();
    let mw = pd.alloc_mw(WindowType::Type1).unwrap();
    let qp = pd.create_qp(QpType::Ud, &cq).srq(&srq).build().unwrap();
    let group = qp.join(Gid::default()).unwrap();
    let range = WindowRange { region: &mr, offset: 0, length: 8, access: Access::empty() };
    mw.bind(&qp, 0, SendFlags::empty(), range).unwrap();
    drop((pd, channel, cq, srq, context, qp, mr));
    assert_eq!(destroyed(&recorder), [""; 0], "children hold their parents");
    drop(group);
    let qp_gone = ["detach_mcast", "destroy_qp", "destroy_cq", "destroy_comp_channel"];
    assert_eq!(destroyed(&recorder), [&qp_gone[..], &["destroy_srq"]].concat());
    drop(mw);
    assert_eq!(destroyed(&recorder), ["dealloc_mw", "dereg_mr"]);
    drop(ah);
    assert_eq!(destroyed(&recorder), ["destroy_ah", "dealloc_pd"]);
}

#[test]
fn a_queue_pair_that_cannot_be_set_up_is_destroyed() {
    let (recorder, context) = Recorder::new();
    *recorder.refused.lock().unwrap() = "modify_qp";
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(1).unwrap();
    let error = pd.create_qp(QpType::Rc, &cq).build().unwrap_err();
    assert_eq!(error.verb, "modify_qp");
    assert_eq!(destroyed(&recorder), ["destroy_qp"]);
}

#[test]
fn objects_of_two_devices_do_not_mix() {
    let ((_, here), (_, there)) = (Recorder::new(), Recorder::new());
    let cq = there.create_cq(1).unwrap();
    let error = here.alloc_pd().unwrap().create_qp(QpType::Rc, &cq).build().unwrap_err();
    assert_eq!((error.verb, error.source.errno()), ("create_qp", 22));
}

#[test]
fn a_connection_is_three_steps_with_what_each_type_needs() {
    use QpAttributeMask as M;
    let (recorder, context) = Recorder::new();
    let mut peer = qp(&context, QpType::Rc).endpoint().unwrap();
    peer.responder_depth = 3;
    for (qp_type, rtr_more, rts_more) in [
        (
            QpType::Rc,
            M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER,
            M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC,
        ),
        (QpType::Uc, M::empty(), M::empty()),
    ] {
        recorder.modified.lock().unwrap().clear();
        qp(&context, qp_type).connect(&peer).unwrap();
        let steps = std::mem::take(&mut *recorder.modified.lock().unwrap());
        let [(init, init_mask), (rtr, rtr_mask), (rts, rts_mask)] = steps[..] else { panic!() };
        let states = [init.state, rtr.state, rts.state];
        assert_eq!(states, [QpState::Init, QpState::Rtr, QpState::Rts]);
        assert_eq!(init_mask, M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS);
        let path = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        assert_eq!(rtr_mask, path | rtr_more);
        assert_eq!(rts_mask, M::STATE | M::SQ_PSN | rts_more);
        assert_eq!((rtr.dest_qp, rtr.rq_psn, rts.sq_psn), (peer.qp_num, peer.psn, Psn::new(7)));
        assert_eq!((rtr.path.sgid_index, rtr.path.dgid), (2, peer.gid), "the IPv4 address");
        assert_eq!((rtr.max_dest_rd_atomic, rts.max_rd_atomic), (16, 3));
        assert_eq!(rtr.path_mtu, Mtu::B2048);
    }
    recorder.modified.lock().unwrap().clear();
    qp(&context, QpType::Ud).activate().unwrap();
    let masks: Vec<_> = recorder.modified.lock().unwrap().iter().map(|(_, m)| *m).collect();
    let init = M::STATE | M::PKEY_INDEX | M::PORT | M::QKEY;
    assert_eq!(masks, [init, M::STATE, M::STATE | M::SQ_PSN]);
}

#[test]
fn memory_that_the_device_keeps_is_never_freed() {
    let (recorder, context) = Recorder::new();
    let pd = context.alloc_pd().unwrap();
    let buffer = Buffer::new(64).unwrap().into_shared();
    let mr = pd.register(buffer.clone(), Access::LOCAL_WRITE).unwrap();
    drop(mr);
    let buffer = buffer.try_into_buffer().unwrap().into_shared();
    let mr = pd.register(buffer, Access::LOCAL_WRITE).unwrap();
    *recorder.refused.lock().unwrap() = "dereg_mr";
    let buffer = mr.into_buffer();
    assert!(buffer.try_into_buffer().is_err());
}

#[test]
fn a_scoped_region_ends_with_its_scope_even_in_a_panic() {
    let (recorder, context) = Recorder::new();
    let pd = context.alloc_pd().unwrap();
    let mut bytes = *b"0123456789abcdef";
    recorder.said();
    let sum = pd.register_scoped(&mut bytes[..], Access::LOCAL_WRITE, |region| {
        region.write(0, b"xy").unwrap();
        assert_eq!(recorder.said(), ["reg_mr"]);
        region.sge(4, 8).length
    });
    assert_eq!((sum.unwrap(), recorder.said()), (8, vec!["dereg_mr".into()]));
    assert_eq!(&bytes, b"xy23456789abcdef");
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = pd.register_scoped(&bytes[..], Access::empty(), |_| panic!("on purpose"));
    }));
    assert!(panic.is_err());
    assert_eq!(recorder.said(), ["reg_mr", "dereg_mr"]);
}

#[test]
fn borrowed_memory_keeps_its_rights() {
    let (recorder, context) = Recorder::new();
    let pd = context.alloc_pd().unwrap();
    let bytes = [1_u8; 8];
    for access in [Access::LOCAL_WRITE, Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
        assert!(pd.register_scoped(&bytes[..], access, |_| ()).is_err());
    }
    let bound = pd.register_scoped(&bytes[..], Access::MW_BIND, |_| ());
    assert_eq!(bound.unwrap_err().source.errno(), 22);
    recorder.said();
    let read = pd.register_scoped(&bytes[..], Access::REMOTE_READ, |region| {
        assert_eq!(region.write(0, &[2]), Err(crate::buffer::AccessError::OutOfRange));
        let mut two = [0; 2];
        region.read(6, &mut two).unwrap();
        two
    });
    assert_eq!(read.unwrap(), [1, 1]);
}

#[test]
fn places_in_regions_count_from_the_address_or_from_zero() {
    let (_, context) = Recorder::new();
    let pd = context.alloc_pd().unwrap();
    let buffer = Buffer::new(64).unwrap().into_shared();
    let base = buffer.range().base.addr() as u64;
    let mr = pd.register(buffer.clone(), Access::empty()).unwrap();
    assert_eq!((mr.sge(8, 4).addr, mr.sge(8, 4).lkey), (base + 8, mr.lkey()));
    assert_eq!((mr.remote(8).addr, mr.remote(8).rkey), (base + 8, mr.rkey()));
    let mr = pd.register(buffer, Access::ZERO_BASED).unwrap();
    assert_eq!((mr.sge(8, 4).addr, mr.remote(3).addr), (8, 3));
}

#[test]
fn a_window_takes_the_key_of_its_last_bind() {
    let (recorder, context) = Recorder::new();
    let qp = qp(&context, QpType::Rc);
    let mr = qp.pd().register(Buffer::new(8).unwrap(), Access::MW_BIND).unwrap();
    let range = WindowRange { region: &mr, offset: 4, length: 4, access: Access::ZERO_BASED };
    for (window_type, verb, step) in
        [(WindowType::Type1, "bind_mw", 3), (WindowType::Type2B, "post_send", 1)]
    {
        let mw = qp.pd().alloc_mw(window_type).unwrap();
        let before = mw.rkey();
        recorder.said();
        let place = mw.bind(&qp, 1, SendFlags::SIGNALED, range).unwrap();
        assert_eq!(recorder.said(), [verb]);
        let after = Key::from_parts(before.index(), before.variant().wrapping_add(step));
        assert_eq!((place.addr, place.rkey, mw.rkey()), (0, after, after));
        *recorder.refused.lock().unwrap() = verb;
        assert!(mw.bind(&qp, 1, SendFlags::SIGNALED, range).is_err());
        assert_eq!(mw.rkey(), after, "a refused bind changes nothing");
    }
}

#[test]
fn waiting_for_a_completion_ends_with_the_time() {
    let (recorder, context) = Recorder::new();
    let cq = context.create_cq(1).unwrap();
    let short = Some(std::time::Duration::from_millis(1));
    assert_eq!(cq.wait_one(short), Ok(None));
    let wc = Wc { wr_id: 5, ..Wc::default() };
    recorder.completions.lock().unwrap().push_back(wc);
    assert_eq!(cq.wait_one(short), Ok(Some(wc)));
}

#[cfg(unix)]
#[test]
fn a_channel_tells_which_queue_has_something() {
    let (recorder, context) = Recorder::new();
    let channel = context.create_comp_channel().unwrap();
    let [one, two] = [1, 2].map(|entries| channel.create_cq(entries).unwrap());
    recorder.raise(two.id());
    recorder.raise(one.id());
    assert_eq!(channel.wait(None), Ok(Some(two.id())));
    assert_eq!(channel.wait(None), Ok(Some(one.id())));
    assert_eq!(channel.wait(Some(std::time::Duration::ZERO)), Ok(None));
}

#[cfg(all(unix, feature = "tokio"))]
#[tokio::test]
async fn a_task_awaits_events_and_completions() {
    use crate::completion::AsyncChannel;
    use std::time::Duration;
    let (recorder, context) = Recorder::new();
    let channel = context.create_comp_channel().unwrap();
    let cq = channel.create_cq(1).unwrap();
    let channel = AsyncChannel::new(channel).unwrap();
    let nothing = tokio::time::timeout(Duration::from_millis(5), channel.next_event()).await;
    assert!(nothing.is_err(), "nothing has happened");
    recorder.raise(cq.id());
    recorder.raise(cq.id());
    assert_eq!(channel.next_event().await.unwrap(), cq.id());
    assert_eq!(channel.next_event().await.unwrap(), cq.id());
    recorder.said();
    let wc = Wc { wr_id: 9, ..Wc::default() };
    let later = async {
        tokio::task::yield_now().await;
        assert_eq!(recorder.said(), ["req_notify_cq"], "armed before it sleeps");
        recorder.completions.lock().unwrap().push_back(wc);
        recorder.raise(cq.id());
    };
    let (found, ()) = tokio::join!(channel.completion(&cq), later);
    assert_eq!(found.unwrap(), wc);
}
