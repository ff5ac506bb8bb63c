//! Memory windows of both types.

use softrnic_verbs::{
    Access, Key, Qp, QpType, RemoteAddress, SendFlags, SendOp, SendWr, WcFlags, WcOpcode, WcStatus,
    WindowRange, WindowType,
};

use crate::world::{World, builder, connect, patient};

const RIGHTS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

/// Binds a window of the far end to its bytes 4096 to 8191.
fn lend(world: &World, window_type: WindowType) -> (softrnic_verbs::Mw, RemoteAddress) {
    let far = &world.far;
    let window = far.pd.alloc_mw(window_type).unwrap();
    let range = WindowRange { region: &far.mr, offset: 4096, length: 4096, access: RIGHTS };
    let lent = window.bind(&far.qp, 7, SendFlags::SIGNALED, range).unwrap();
    let bound = far.success();
    assert_eq!((bound.wr_id, bound.opcode), (7, WcOpcode::BindMw));
    (window, lent)
}

#[test]
fn a_window_shows_its_range_and_nothing_else() {
    for window_type in [WindowType::Type1, WindowType::Type2B] {
        for (offset, length, status) in [
            (0, 4096, WcStatus::Success),
            (4095, 1, WcStatus::Success),
            (4095, 2, WcStatus::RemoteAccessError),
            (u64::MAX, 1, WcStatus::RemoteAccessError),
        ] {
            let world = World::new(QpType::Rc);
            let (_window, lent) = lend(&world, window_type);
            let World { near, far } = &world;
            near.qp.write(1, near.sge(0, length), lent.plus(offset)).unwrap();
            assert_eq!(near.completion().status, status, "{window_type:?} {offset} {length}");
            if status == WcStatus::Success {
                let at = 4096 + usize::try_from(offset).unwrap();
                assert_eq!(far.bytes(at, length as usize), near.bytes(0, length as usize));
                // It gives no right to atomics, although the region does.
                near.qp.fetch_add(2, near.sge(0, 8), lent, 1).unwrap();
                near.failure(WcStatus::RemoteAccessError);
            }
        }
    }
}

#[test]
fn a_window_that_is_gone_shows_nothing() {
    let ways: [fn(&World, softrnic_verbs::Mw, Key); 3] = [
        |_, window, _| drop(window),
        |world, _window, key| {
            let op = SendOp::LocalInvalidate { key };
            let flags = SendFlags::SIGNALED;
            let wr = SendWr { wr_id: 8, op, flags, sges: &[], ..SendWr::default() };
            world.far.qp.post_send(&[wr]).unwrap();
            assert_eq!(world.far.success().opcode, WcOpcode::LocalInvalidate);
        },
        |world, _window, key| {
            world.far.qp.recv(9, world.far.sge(0, 8)).unwrap();
            let op = SendOp::Send { imm: None, invalidate: Some(key) };
            world.near.post(1, op, world.near.sge(0, 8));
            world.near.success();
            let told = world.far.success();
            assert_eq!((told.flags, told.invalidated_rkey), (WcFlags::WITH_INV, key));
        },
    ];
    for (way, end) in ways.iter().enumerate() {
        let world = World::new(QpType::Rc);
        let (window, lent) = lend(&world, WindowType::Type2B);
        world.near.qp.read(1, world.near.sge(0, 64), lent).unwrap();
        world.near.success();
        end(&world, window, lent.rkey);
        world.near.qp.read(2, world.near.sge(0, 64), lent).unwrap();
        let refused = world.near.completion();
        assert_eq!(refused.status, WcStatus::RemoteAccessError, "way {way}");
    }
}

#[test]
fn a_type_2b_window_is_for_its_queue_pair_and_a_type_1_window_for_the_domain() {
    for (window_type, status) in
        [(WindowType::Type1, WcStatus::Success), (WindowType::Type2B, WcStatus::RemoteAccessError)]
    {
        let world = World::new(QpType::Rc);
        let (_window, lent) = lend(&world, window_type);
        let World { near, far } = &world;
        let other = |end: &crate::world::End| -> Qp {
            builder(&end.pd, QpType::Rc, &end.cq).build().unwrap()
        };
        let (near_other, far_other) = (other(near), other(far));
        connect(&near_other, &far_other, &patient());
        near_other.read(1, near.sge(0, 64), lent).unwrap();
        assert_eq!(near.completion().status, status, "{window_type:?}");
    }
}

#[test]
fn a_window_keeps_its_region() {
    let world = World::new(QpType::Rc);
    let (window, _) = lend(&world, WindowType::Type1);
    let verbs = world.far.context.verbs();
    assert_eq!(verbs.dereg_mr(world.far.mr.lkey()).unwrap_err().errno(), 16);
    drop(window);
}
