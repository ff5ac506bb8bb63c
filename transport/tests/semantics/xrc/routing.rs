//! Which queue, which memory and which completion queue a request gets to.

use softrnic_model::MemoryId;
use softrnic_model::counters::Counter;
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::QpState::{Err, Rts};
use softrnic_model::verbs::WcStatus::{
    RemoteAccessError, RemoteInvalidRequest, RemoteOperationError, Success, WorkRequestFlushed,
};
use softrnic_model::verbs::{
    Access, AsyncEvent, CqId, Key, Mtu, PdId, SrqAttributes, SrqId, SrqInit, SrqNum, WcOpcode,
    XrcSrq, XrcdId,
};
use softrnic_model::wire::Place::{First, Last, Middle, Only};

use crate::bench::{A, B, BASE, Bench, Forge, Remote, Setup, send, send_imm, wr};

/// A shared receive queue of B with a protection domain, memory and a completion queue of its own.
struct Branch {
    pd: PdId,
    cq: CqId,
    srq: SrqId,
    number: SrqNum,
    memory: MemoryId,
    key: Key,
}

const BYTES: u64 = 4096;

impl Branch {
    fn new(bench: &mut Bench, xrcd: XrcdId) -> Self {
        let host = bench.end(B).host;
        let memory = bench.fabric.host(host).memory.add(vec![0; BYTES as usize]);
        let device = bench.device(B);
        let (pd, cq) = (device.alloc_pd().unwrap(), device.create_cq(16).unwrap());
        let access = Access::LOCAL_WRITE | Access::REMOTE;
        let spec = RegionSpec { pd, memory, memory_offset: 0, addr: BASE, length: BYTES, access };
        let key = device.register(spec).unwrap();
        let attributes = SrqAttributes { max_wr: 8, max_sge: 1, srq_limit: 0 };
        let init = SrqInit { pd, attributes, xrc: Some(XrcSrq { xrcd, cq }) };
        let srq = device.create_srq_ex(&init).unwrap();
        let number = device.srq_number(srq).unwrap();
        Self { pd, cq, srq, number, memory, key }
    }

    fn recv(&self, bench: &mut Bench, id: u64, length: u32) {
        let request = wr(id, send()).sge(BASE, length, self.key);
        request.with_recv(self.key, |wr| bench.device(B).post_srq_recv(self.srq, wr)).unwrap();
    }

    fn bytes(&self, bench: &Bench, len: usize) -> Vec<u8> {
        bench.fabric.host(bench.end(B).host).memory.bytes(self.memory)[..len].to_vec()
    }
}

/// A, connected to B, whose domain has some queues more than the bench has made.
fn branches(setup: &Setup, count: usize) -> (Bench, Vec<Branch>) {
    let mut bench = setup.pair();
    let xrcd = bench.end(B).xrcd.unwrap();
    let branches = (0..count).map(|_| Branch::new(&mut bench, xrcd)).collect();
    (bench, branches)
}

#[test]
fn one_connection_reaches_every_queue_of_the_domain() {
    let (mut bench, branches) = branches(&Setup::xrc(), 5);
    let target = bench.end(B).target;
    for (n, branch) in (0..).zip(&branches) {
        branch.recv(&mut bench, 100 + n, 64);
        branch.recv(&mut bench, 200 + n, 64);
        let b = Remote { key: branch.key };
        bench.write(A, 0, &[n as u8 + 1; 16]);
        bench.post(A, wr(n, send_imm(n as u32)).at(0..16).to(branch.number));
        bench.post(A, wr(n, b.write_imm(1000, 7)).at(0..16).to(branch.number));
        bench.run();
    }
    for (n, branch) in (0..).zip(&branches) {
        let got = bench.poll(B, branch.cq);
        let told: Vec<_> =
            got.iter().map(|wc| (wc.wr_id, wc.opcode, wc.imm_data, wc.qp_num)).collect();
        let expected = [
            (100 + n, WcOpcode::Recv, n as u32, target),
            (200 + n, WcOpcode::RecvRdmaWithImm, 7, target),
        ];
        assert_eq!(told, expected);
        assert_eq!(branch.bytes(&bench, 16), [n as u8 + 1; 16]);
        assert_eq!(branch.bytes(&bench, 1016)[1000..], [n as u8 + 1; 16]);
    }
    assert_eq!(bench.received(B), [], "the queue that nobody named");
    assert_eq!(bench.sends(A).len(), 10);
}

#[test]
fn keys_are_judged_in_the_protection_domain_of_the_queue_that_is_named() {
    // Operations × (the key's branch, the named branch).
    for operation in 0..4 {
        for (of_key, named) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
            let (mut bench, branches) = branches(&Setup::xrc(), 2);
            let b = Remote { key: branches[of_key].key };
            let op = [b.write(0), b.read(0), b.add(0, 1), b.swap(0, 0, 1)][operation];
            bench.post(A, wr(1, op).at(0..8).to(branches[named].number));
            bench.run();
            let good = of_key == named;
            let status = if good { Success } else { RemoteAccessError };
            assert_eq!(bench.sends(A), [(1, status)], "{op:?} {of_key} {named}");
            let target = bench.end(B).target;
            let event = [AsyncEvent::QpAccessError(target)];
            assert_eq!(bench.async_events(B), if good { &[][..] } else { &event });
            assert_eq!(bench.state(B), if good { Rts } else { Err });
            if !good {
                assert_eq!(branches[of_key].bytes(&bench, 8), [0; 8]);
            }
        }
    }
}

#[test]
fn a_read_is_answered_from_the_domain_that_it_was_asked_under_also_again() {
    let (mut bench, branches) = branches(&Setup { mtu: Mtu::B256, ..Setup::xrc() }, 2);
    let named = branches[1].number;
    bench.inject(A, &Forge::read(0, 0, branches[1].key, 600).srq(named));
    let first = bench.frames();
    assert_eq!(first.len(), 3);
    bench.inject(A, &Forge::read(0, 0, branches[1].key, 600).srq(named));
    assert_eq!(bench.frames(), first);
}

/// What a request names that no request may name.
fn wrong_numbers(bench: &mut Bench) -> Vec<(&'static str, SrqNum)> {
    let xrcd = bench.end(B).xrcd.unwrap();
    let gone = Branch::new(bench, xrcd);
    bench.device(B).destroy_srq(gone.srq).unwrap();
    let other = bench.device(B).open_xrcd().unwrap();
    let foreign = Branch::new(bench, other);
    // The number that a basic queue would have.
    let attributes = SrqAttributes { max_wr: 8, max_sge: 1, srq_limit: 0 };
    let basic = bench.device(B).create_srq(foreign.pd, attributes).unwrap();
    let basic = SrqNum::new(basic.0 + (1 << 16));
    let own = bench.remote_srq(A);
    vec![
        ("destroyed", gone.number),
        ("of another domain", foreign.number),
        ("for no XRC", basic),
        ("of another generation", SrqNum::new(own.get() + (1 << 16))),
        ("beyond the table", SrqNum::new(0x01_ffff)),
        ("left out", SrqNum::new(0)),
    ]
}

#[test]
fn a_queue_that_is_none_is_an_invalid_request_whatever_is_asked() {
    for operation in 0..4 {
        for which in 0..6 {
            let mut bench = Setup::xrc().pair();
            bench.recv(B, 7, 0..8);
            let (what, number) = wrong_numbers(&mut bench)[which];
            let b = bench.remote(B);
            let op = [send(), b.write(0), b.read(0), b.add(0, 1)][operation];
            let before = bench.bytes(B, 0..64);
            bench.post(A, wr(1, op).at(0..8).to(number));
            bench.post(A, wr(2, send()).at(0..8));
            bench.run();
            let failed = [(1, RemoteInvalidRequest), (2, WorkRequestFlushed)];
            assert_eq!(bench.sends(A), failed, "{what} {op:?}");
            assert_eq!(bench.states(), (Err, Err));
            let target = bench.end(B).target;
            assert_eq!(bench.async_events(B), [AsyncEvent::QpRequestError(target)]);
            assert_eq!((bench.recvs(B), bench.bytes(B, 0..64)), (vec![], before), "{what}");
            // The queue serves others.
            assert_eq!(bench.count(B, Counter::ResponderRemoteInvalidRequest), 1);
        }
    }
}

#[test]
fn a_message_stays_with_the_queue_that_it_began_with() {
    for place in [Middle, Last] {
        for write in [false, true] {
            let (mut bench, branches) = branches(&Setup { mtu: Mtu::B256, ..Setup::xrc() }, 2);
            branches.iter().for_each(|branch| branch.recv(&mut bench, 1, 1000));
            let (first, next) = if write {
                let first = Forge::write(First, 0).range(0, branches[0].key, 1000);
                (first, Forge::write(place, 1))
            } else {
                (Forge::send(First, 0), Forge::send(place, 1))
            };
            bench.inject(A, &first.count_up(0, 256).srq(branches[0].number));
            bench.inject(A, &next.count_up(0, 256).srq(branches[1].number));
            assert_eq!(bench.frames(), ["B NAK InvalidRequest 1"], "{place:?} {write}");
            assert_eq!(branches[1].bytes(&bench, 8), [0; 8]);
            let flushed = if write { vec![] } else { vec![(1, WorkRequestFlushed)] };
            let polled = bench.poll(B, branches[0].cq);
            let polled: Vec<_> = polled.iter().map(|wc| (wc.wr_id, wc.status)).collect();
            assert_eq!(polled, flushed);
            assert_eq!(bench.poll(B, branches[1].cq), []);
        }
    }
}

#[test]
fn a_queue_that_goes_takes_its_messages_with_it() {
    let (mut bench, branches) = branches(&Setup { mtu: Mtu::B256, ..Setup::xrc() }, 1);
    let branch = &branches[0];
    branch.recv(&mut bench, 1, 1000);
    bench.inject(A, &Forge::send(First, 0).count_up(1, 256).srq(branch.number));
    bench.device(B).destroy_srq(branch.srq).unwrap();
    bench.inject(A, &Forge::send(Last, 1).count_up(1, 256).srq(branch.number));
    assert_eq!(bench.frames(), ["B NAK InvalidRequest 1"]);
    assert_eq!(bench.poll(B, branch.cq), []);
    let device = bench.device(B);
    device.destroy_cq(branch.cq).unwrap();
    device.deregister(branch.key).unwrap();
    device.dealloc_pd(branch.pd).unwrap();
}

#[test]
fn an_empty_queue_makes_the_connection_wait() {
    let (mut bench, branches) = branches(&Setup::xrc(), 2);
    branches[1].recv(&mut bench, 9, 64);
    bench.post(A, wr(1, send()).at(0..8).to(branches[0].number));
    bench.post(A, wr(2, send()).at(0..8).to(branches[1].number));
    bench.run_for(100_000);
    assert_eq!(bench.count(B, Counter::SentRnrNak), 1);
    assert_eq!(bench.poll(B, branches[1].cq), [], "it keeps the order");
    branches[0].recv(&mut bench, 8, 64);
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
    let ids = [0, 1].map(|n: usize| bench.poll(B, branches[n].cq)[0].wr_id);
    assert_eq!(ids, [8, 9]);
}

#[test]
fn the_limit_of_a_queue_is_reported() {
    let (mut bench, branches) = branches(&Setup::xrc(), 1);
    let branch = &branches[0];
    (0..3).for_each(|id| branch.recv(&mut bench, id, 8));
    bench.device(B).set_srq_limit(branch.srq, 3).unwrap();
    bench.post(A, wr(1, send()).at(0..8).to(branch.number));
    bench.run();
    assert_eq!(bench.async_events(B), [AsyncEvent::SrqLimitReached(branch.srq)]);
}

#[test]
fn a_completion_queue_that_overruns_ends_its_queues_and_no_others() {
    let (mut bench, branches) = branches(&Setup::xrc(), 2);
    let (bad, good) = (&branches[0], &branches[1]);
    bench.device(B).resize_cq(bad.cq, 1).unwrap();
    (0..3).for_each(|id| bad.recv(&mut bench, id, 8));
    good.recv(&mut bench, 5, 8);
    for id in 0..2 {
        bench.post(A, wr(id, send()).at(0..8).to(bad.number));
    }
    bench.run();
    let events = [AsyncEvent::CqError(bad.cq), AsyncEvent::SrqError(bad.srq)];
    assert_eq!(bench.async_events(B), events);
    assert_eq!(bench.state(B), Rts, "the target serves other queues");
    bench.post(A, wr(2, send()).at(0..8).to(good.number));
    bench.run();
    assert_eq!(bench.sends(A), [0, 1, 2].map(|id| (id, Success)));
    assert_eq!(bench.poll(B, good.cq).len(), 1);
    bench.post(A, wr(3, send()).at(0..8).to(bad.number));
    bench.run();
    assert_eq!(bench.sends(A), [(3, RemoteOperationError)]);
    let target = bench.end(B).target;
    assert_eq!(bench.async_events(B), [AsyncEvent::QpFatal(target)]);
}

#[test]
fn requests_are_for_targets_and_answers_for_initiators() {
    let mut bench = Setup::xrc().pair();
    bench.recv(B, 7, 0..8);
    let route = bench.route(A);
    // A request to the initiator, an answer to the target: both with the other's number.
    let (initiator, target) = (bench.end(B).qp, bench.end(B).target);
    let readdressed = |mut bytes: Vec<u8>, number: u32| {
        bytes[5..8].copy_from_slice(&number.to_be_bytes()[1..]);
        bytes
    };
    let request = Forge::send(Only, 0).count_up(0, 8).bytes(&bench, A);
    bench.deliver(B, &route, &readdressed(request, initiator.get()));
    let answer = Forge::acknowledge(0, softrnic_model::wire::Syndrome::ACK).bytes(&bench, A);
    bench.deliver(B, &route, &readdressed(answer, target.get()));
    assert_eq!(bench.count(B, Counter::DropWrongService), 2);
    assert_eq!(bench.frames(), Vec::<String>::new());
    assert_eq!(bench.recvs(B), []);
}
