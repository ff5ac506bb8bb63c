//! Multicast groups over IPv4 loopback.

use softrnic_verbs::{Ah, Gid, Qp, QpNum, QpType, SendOp};

use crate::world::{End, World, builder};

const GROUP: Gid = Gid::from_v4([239, 77, 3, 9]);

fn send(end: &End, ah: &Ah, imm: u32) {
    let (remote_qpn, remote_qkey) = (QpNum::MULTICAST, 0x1111_1111);
    let op = SendOp::SendTo { ah: ah.id(), remote_qpn, remote_qkey, imm: Some(imm) };
    end.post(0, op, end.sge(0, 32));
    end.success();
}

fn another(end: &End) -> Qp {
    let qp = builder(&end.pd, QpType::Ud, &end.cq).build().unwrap();
    qp.activate().unwrap();
    qp
}

#[test]
fn every_member_on_every_device_gets_a_copy_until_it_leaves() {
    let World { near, far } = World::new(QpType::Ud);
    let far_other = another(&far);
    let near_member = another(&near);
    let ah = near.pd.create_ah(&near.qp.path_to(GROUP)).unwrap();
    let receive = |qp: &Qp, end: &End, wr_id| {
        qp.recv(wr_id, end.sge(1000 * wr_id, 100)).unwrap();
    };

    let memberships =
        [far.qp.join(GROUP), far_other.join(GROUP), near_member.join(GROUP)].map(Result::unwrap);
    receive(&far.qp, &far, 1);
    receive(&far_other, &far, 2);
    receive(&near_member, &near, 3);
    // A member that does not want what its own device sends: nothing of this comes there.
    let deaf = builder(&near.pd, QpType::Ud, &near.cq).block_self_multicast().build().unwrap();
    deaf.activate().unwrap();
    let _deaf_membership = deaf.join(GROUP).unwrap();
    receive(&deaf, &near, 9);
    send(&near, &ah, 1);
    let mut members: Vec<_> =
        [far.success(), far.success(), near.success()].map(|wc| (wc.wr_id, wc.src_qp)).into();
    members.sort_unstable();
    assert_eq!(members, [1, 2, 3].map(|wr_id| (wr_id, near.qp.num())));
    for (end, at) in [(&far, 1000), (&far, 2000), (&near, 3000)] {
        assert_eq!(end.bytes(at + 40, 32), near.bytes(0, 32));
    }

    // One member leaves; the others stay.
    let [first, second, third] = memberships;
    drop(first);
    receive(&far.qp, &far, 4);
    receive(&far_other, &far, 5);
    receive(&near_member, &near, 6);
    send(&near, &ah, 2);
    assert_eq!((far.success().wr_id, near.success().wr_id), (5, 6));

    // The last of the device leaves, joins again, and hears what is sent then.
    drop(second);
    send(&near, &ah, 3);
    let again = far_other.join(GROUP).unwrap();
    receive(&far_other, &far, 7);
    send(&near, &ah, 4);
    let heard = far.success();
    assert_eq!((heard.wr_id, heard.imm_data), (7, 4));
    assert!(far.is_idle());
    drop((again, third));
}
