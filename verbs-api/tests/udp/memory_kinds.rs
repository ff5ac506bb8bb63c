//! Kinds of memory besides what is registered: none, the device's own, all of the program's.

use softrnic_verbs::provider::{Advice, MemoryRange, OdpCapabilities, Reregistration, Verb};
use softrnic_verbs::{Access, BindInfo, Key, QpType, RemoteAddress, Sge, WcStatus, WindowType};

use crate::world::{ALL, End, World, connect, pair, patient};

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ENOMEM: i32 = 12;
const EFAULT: i32 = 14;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;

fn errno<T>(result: Verb<T>) -> i32 {
    result.err().map_or(0, |error| error.errno())
}

fn failed<T>(result: softrnic_verbs::Result<T>) -> i32 {
    result.err().map_or(0, |error| error.source.errno())
}

/// Registers raw memory for the rest of the test.
#[expect(unsafe_code, reason = "what is registered is not touched otherwise meanwhile")]
fn register(end: &End, base: usize, len: usize, access: Access) -> Verb<Key> {
    let memory = MemoryRange { base: std::ptr::with_exposed_provenance_mut(base), len };
    // SAFETY: tests use it for memory that lives until they end, or that is none.
    let keys = unsafe { end.context.verbs().reg_mr(end.pd.id(), memory, base as u64, access) };
    keys.map(|keys| keys.lkey)
}

#[test]
fn of_nothing_comes_nothing() {
    let World { near, far } = World::new(QpType::Rc);
    let nothing = near.pd.alloc_null_mr().unwrap();
    far.mr.buffer().fill(7).unwrap();
    near.qp.write(1, nothing.sge(1000), far.mr.remote(0)).unwrap();
    near.success();
    assert!(far.bytes(0, 1001) == [vec![0; 1000], vec![7]].concat());
    // What is read or received goes nowhere, and what is next to it is in its place.
    let before = near.bytes(0, 8);
    near.qp.read(2, nothing.sge(5000), far.mr.remote(0)).unwrap();
    near.qp.fetch_add(3, nothing.sge(8), far.mr.remote(8000), 1).unwrap();
    near.qp.recv(4, nothing.sge(5000)).unwrap();
    far.qp.send(5, far.sge(0, 5000)).unwrap();
    for _ in 0..3 {
        near.success();
    }
    assert_eq!(near.bytes(0, 8), before);

    // Nobody else may use it, bind it or make something else of it.
    let verbs = near.context.verbs();
    let lkey = nothing.sge(1).lkey;
    let change = Reregistration { access: Some(ALL), ..Reregistration::default() };
    #[expect(unsafe_code, reason = "it has no memory")]
    // SAFETY: there is no memory that it could be about.
    let refused = unsafe { verbs.rereg_mr(lkey, &change) };
    assert_eq!(errno(refused), EINVAL);
    let window = verbs.alloc_mw(near.pd.id(), WindowType::Type1).unwrap();
    let access = Access::REMOTE_READ;
    let info = BindInfo { mr_lkey: lkey, addr: 0, length: 8, access };
    let bind = softrnic_verbs::provider::MwBind {
        wr_id: 9,
        flags: softrnic_verbs::SendFlags::SIGNALED,
        info,
    };
    verbs.bind_mw(near.qp.num(), window, &bind).unwrap();
    near.failure(WcStatus::MwBindError);
    let World { near: other, far: attacker } = World::of(QpType::Rc, (near.context, far.context));
    let nothing = other.pd.alloc_null_mr().unwrap();
    let rkey = nothing.sge(1).lkey;
    attacker.qp.write(1, attacker.sge(0, 8), RemoteAddress { addr: 0, rkey }).unwrap();
    attacker.failure(WcStatus::RemoteAccessError);
}

#[test]
fn device_memory_is_memory_whose_addresses_count_from_zero() {
    let World { near, far } = World::new(QpType::Rc);
    let memory = far.context.alloc_dm(4096).unwrap();
    let mut got = [1; 16];
    memory.read(0, &mut got).unwrap();
    assert_eq!(got, [0; 16]);
    memory.write(1024, b"device memory").unwrap();
    let region = memory.register(&far.pd, 1024, 1024, ALL).unwrap();
    near.qp.read(1, near.sge(0, 13), region.remote(0)).unwrap();
    near.success();
    assert_eq!(near.bytes(0, 13), b"device memory");
    near.qp.write(2, near.sge(0, 13), region.remote(1011)).unwrap();
    near.qp.fetch_add(3, near.sge(64, 8), region.remote(512), 5).unwrap();
    near.success();
    near.success();
    let mut tail = [0; 13];
    memory.read(2035, &mut tail).unwrap();
    assert_eq!(&tail, b"device memory");
    memory.read(1536, &mut got).unwrap();
    assert_eq!(got[..8], 5_u64.to_ne_bytes());
    // It serves the local side as well.
    far.qp.send(4, region.sge(0, 13)).unwrap();
    near.qp.recv(5, near.sge(100, 64)).unwrap();
    far.success();
    near.success();
    assert_eq!(near.bytes(100, 13), b"device memory");

    let verbs = far.context.verbs();
    let dm = verbs.alloc_dm(64, 12).unwrap();
    let register =
        |offset, len, access| errno(verbs.reg_dm_mr(far.pd.id(), dm, offset, len, access));
    let zero_based = Access::ZERO_BASED;
    assert_eq!(register(0, 64, Access::LOCAL_WRITE), EINVAL, "not zero based");
    assert_eq!(register(0, 65, zero_based), EINVAL);
    assert_eq!(register(65, 0, zero_based), EINVAL);
    assert_eq!(register(u64::MAX, 1, zero_based), EINVAL);
    assert_eq!(register(0, 64, zero_based | Access::REMOTE_WRITE), EINVAL, "no local write");
    assert_eq!(errno(verbs.memcpy_to_dm(dm, 60, &[0; 5])), EFAULT);
    assert_eq!(errno(verbs.memcpy_from_dm(dm, u64::MAX, &mut [0; 5])), EFAULT);
    let keys = verbs.reg_dm_mr(far.pd.id(), dm, 0, 64, zero_based).unwrap();
    assert_eq!(errno(verbs.free_dm(dm)), EBUSY);
    verbs.dereg_mr(keys.lkey).unwrap();
    verbs.free_dm(dm).unwrap();
    assert_eq!(errno(verbs.free_dm(dm)), EINVAL, "gone");
    assert_eq!(errno(verbs.alloc_dm(0, 0)), EINVAL);
    assert_eq!(errno(verbs.alloc_dm(8, 13)), EINVAL);
    let max = usize::try_from(verbs.query_memory().unwrap().max_dm_size).unwrap();
    assert_eq!(errno(verbs.alloc_dm(max + 1, 0)), ENOMEM);
    assert_eq!(failed(far.context.alloc_dm(max)), ENOMEM, "some is in use");
    drop((region, memory));
    verbs.free_dm(verbs.alloc_dm(max, 0).unwrap()).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_region_may_span_all_memory_whatever_is_mapped() {
    let World { near, far } = World::new(QpType::Rc);
    let can = far.context.verbs().query_memory().unwrap();
    assert!(can.on_demand && can.implicit_on_demand && can.rc.contains(OdpCapabilities::ATOMIC));
    assert_eq!(errno(register(&far, 0, usize::MAX, ALL)), EFAULT, "only on demand");
    let everything = register(&far, 0, usize::MAX, ALL | Access::ON_DEMAND).unwrap();
    let place = |offset: usize| RemoteAddress {
        addr: (far.mr.buffer().range().base.expose_provenance() + offset) as u64,
        rkey: everything,
    };
    near.qp.write(1, near.sge(0, 10_000), place(100)).unwrap();
    near.qp.fetch_add(2, near.sge(20_000, 8), place(0), 1).unwrap();
    near.success();
    near.success();
    assert!(far.bytes(108, 9992) == near.bytes(8, 9992));
    // Where nothing is mapped the access fails, and only that.
    near.qp.read(3, near.sge(0, 8), RemoteAddress { addr: 8, rkey: everything }).unwrap();
    near.failure(WcStatus::RemoteOperationError);
    let end = RemoteAddress { addr: u64::MAX - 7, rkey: everything };
    let (near, far) = (near.context, far.context);
    let World { near, far } = World::of(QpType::Rc, (near, far));
    near.qp.read(3, near.sge(0, 8), end).unwrap();
    near.failure(WcStatus::RemoteAccessError);
    drop(far);
}

#[test]
fn pages_on_demand_are_looked_for_when_they_are_used() {
    let (near, far) = pair();
    let (near, far) = (End::new(near, QpType::Rc, 1), End::new(far, QpType::Rc, 2));
    connect(&near.qp, &far.qp, &patient());
    assert_eq!(errno(register(&near, 4096, 64, Access::empty())), EFAULT);
    let nowhere = register(&near, 4096, 64, Access::ON_DEMAND).unwrap();
    near.qp.send(1, Sge { addr: 4096, length: 8, lkey: nowhere }).unwrap();
    near.failure(WcStatus::LocalProtectionError);
}

#[test]
fn advice_is_judged_and_followed() {
    let World { near, far } = World::new(QpType::Rc);
    let verbs = near.context.verbs();
    let (base, len) = (near.mr.buffer().range().base.expose_provenance(), 1 << 16);
    let on_demand = Access::ON_DEMAND;
    let key = register(&near, base, len, on_demand | Access::LOCAL_WRITE).unwrap();
    let read_only = register(&near, base, len, on_demand).unwrap();
    let nowhere = register(&near, 4096, 4096, on_demand | Access::LOCAL_WRITE).unwrap();
    let pd = near.pd.id();
    let sge = |lkey, offset: usize, length| Sge { addr: (base + offset) as u64, length, lkey };
    let all = [Advice::Prefetch, Advice::PrefetchWrite, Advice::PrefetchNoFault];
    for advice in all {
        let advise = |sges: &[Sge]| errno(verbs.advise_mr(pd, advice, sges));
        assert_eq!(advise(&[sge(key, 0, 1 << 16), sge(key, 77, 5)]), 0, "{advice:?}");
        assert_eq!(advise(&[]), EINVAL);
        let write = advice == Advice::PrefetchWrite;
        assert_eq!(advise(&[sge(read_only, 0, 8)]), if write { EPERM } else { 0 });
        assert_eq!(advise(&[sge(key, 0, (1 << 16) + 1)]), EFAULT, "beyond the region");
        assert_eq!(advise(&[Sge { addr: 4096, length: 8, lkey: nowhere }]), EFAULT, "no memory");
        assert_eq!(advise(&[sge(Key(key.0 ^ 1), 0, 8)]), ENOENT);
        assert_eq!(advise(&[near.sge(0, 8)]), EINVAL, "not on demand");
        let raw = verbs.alloc_mw(pd, WindowType::Type2B).unwrap();
        assert_eq!(advise(&[sge(raw, 0, 8)]), EINVAL, "a window");
        let other = near.context.alloc_pd().unwrap();
        assert_eq!(errno(verbs.advise_mr(other.id(), advice, &[sge(key, 0, 8)])), EPERM);
        verbs.dealloc_mw(raw).unwrap();
    }
    drop(far);
}
