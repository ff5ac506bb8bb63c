//! Messages of all lengths, and the arithmetic of the longest.

use softrnic_model::counters::Counter;
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::QpState::Rts;
use softrnic_model::verbs::WcStatus::Success;
use softrnic_model::verbs::{Access, Key, Mtu};
use softrnic_model::wire::Place;
use softrnic_model::{FrameOut, Memory, MemoryFault, MemoryId};

use crate::bench::{A, B, BASE, Bench, EndId, Forge, Remote, Setup, send, send_imm, wr};

/// One message of each kind and of this length; the sequence numbers pass their end.
fn all_kinds(mtu: Mtu, len: u64) {
    let half = (len + 8).next_multiple_of(1 << 12);
    let memory = 2 * half as usize;
    let setup = Setup { mtu, first_psn: [0xff_ffff, 0xff_fffe], memory, ..super::setup() };
    let mut bench = setup.pair();
    let b = bench.remote(B);
    bench.recv(B, 7, half..half + len);
    bench.recv(B, 8, 0..0);
    bench.recv(B, 9, 0..len);
    bench.post(A, wr(1, send_imm(1)).at(0..len));
    bench.post(A, wr(2, b.write_imm(0, 2)).at(0..len));
    bench.post(A, wr(3, send()).at(half..half + len));
    bench.post(A, wr(4, b.read(half)).at(half..half + len));
    bench.post(A, wr(5, b.write(half)).at(0..len));
    bench.run();
    assert_eq!(bench.sends(A), [1, 2, 3, 4, 5].map(|id| (id, Success)));
    let lengths: Vec<u32> = bench.received(B).iter().map(|wc| wc.byte_len).collect();
    assert_eq!(lengths, [len as u32; 3]);
    let packets = len.div_ceil(u64::from(mtu.bytes())).max(1);
    assert_eq!(bench.bytes(A, 0..len), bench.bytes(B, half..half + len), "{mtu:?} {len}");
    assert_eq!(bench.bytes(A, half..half + len), bench.bytes(A, 0..len), "what was read");
    let requests = bench.tap.take().iter().filter(|text| text.starts_with("A ")).count();
    assert!(requests as u64 >= 4 * packets);
}

#[test]
fn around_the_mtu() {
    for mtu in Mtu::ALL {
        let m = u64::from(mtu.bytes());
        for len in [0, 1, 3, 4, m - 1, m, m + 1, 2 * m - 1, 2 * m, 2 * m + 3, 7 * m] {
            all_kinds(mtu, len);
        }
    }
}

#[test]
fn some_megabytes() {
    for mtu in Mtu::ALL {
        all_kinds(mtu, (3 << 20) + 5);
    }
}

/// A region of 2 GiB and more, of which only the first 64 KiB are there.
fn huge(bench: &mut Bench, end: EndId) -> Key {
    let of = bench.end(end);
    let access = Access::LOCAL_WRITE | Access::REMOTE;
    let spec = RegionSpec {
        pd: of.pd,
        memory: of.memory,
        memory_offset: 0,
        addr: BASE,
        length: 1 << 32,
        access,
    };
    bench.device(end).register(spec).unwrap()
}

#[test]
fn the_longest_read_takes_half_of_all_sequence_numbers() {
    for first_psn in [[0x00_1000, 0], [0x80_0000, 0], [0xff_ffff, 0]] {
        let mut bench = Setup { mtu: Mtu::B256, first_psn, ..super::setup() }.pair();
        let key = huge(&mut bench, B);
        bench.inject(A, &Forge::read(0, 0, key, 1 << 31));
        // Its numbers are taken, and the next one is 2^23 further on.
        bench.inject(A, &Forge::read(0, 0, key, 1 << 31));
        assert_eq!(bench.count(B, Counter::DuplicateRequest), 1, "as old as can be");
        bench.inject(A, &Forge::write(Place::Only, (1 << 23) - 1).range(0, key, 0));
        assert_eq!(bench.count(B, Counter::DuplicateRequest), 2);
        bench.inject(A, &Forge::write(Place::Only, 1 << 23).range(8, key, 4).count_up(1, 4));
        assert_eq!(bench.bytes(B, 8..12), [1, 2, 3, 4]);
        assert_eq!(bench.count(B, Counter::OutOfSequenceRequest), 0);
        assert_eq!(bench.state(B), Rts);
    }
}

#[test]
fn a_repeated_part_at_the_end_of_the_longest_read() {
    let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
    let key = huge(&mut bench, B);
    bench.inject(A, &Forge::read(0, 0, key, 1 << 31));
    let last = (1 << 23) - 1;
    bench.inject(A, &Forge::read(last, (1 << 31) - 256, key, 256));
    bench.inject(A, &Forge::read(last, (1 << 31) - 256, key, 257));
    bench.inject(A, &Forge::read(last, (1 << 31) - 512, key, 256));
    assert_eq!(bench.count(B, Counter::DuplicateRequest), 3);
    assert_eq!(bench.count(B, Counter::DropInvalidDuplicate), 2);
}

#[test]
fn a_write_may_say_2_gib_and_no_more() {
    for (len, naked) in [(1 << 31, false), ((1 << 31) + 1, true)] {
        let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
        let key = huge(&mut bench, B);
        bench.inject(A, &Forge::write(Place::First, 0).range(0, key, len).count_up(0, 256));
        let refused = bench.frames().iter().any(|text| text.contains("NAK"));
        assert_eq!(refused, naked);
    }
}

/// Memory without end that holds nothing.
struct Void;

impl Memory for Void {
    fn read(&self, _: MemoryId, _: u64, _: &mut [u8]) -> Result<(), MemoryFault> {
        Ok(())
    }

    fn write(&self, _: MemoryId, _: u64, _: &[u8]) -> Result<(), MemoryFault> {
        Ok(())
    }

    fn compare_swap(&self, _: MemoryId, _: u64, _: u64, _: u64) -> Result<u64, MemoryFault> {
        Err(MemoryFault)
    }

    fn fetch_add(&self, _: MemoryId, _: u64, _: u64) -> Result<u64, MemoryFault> {
        Err(MemoryFault)
    }
}

#[test]
fn a_send_may_bring_2_gib_and_no_more() {
    for over in [0, 4] {
        let mut bench = Setup { mtu: Mtu::B4096, ..super::setup() }.pair();
        let (key, half) = (huge(&mut bench, B), 1 << 30);
        let receive = wr(7, send()).sge(BASE, half, key).sge(BASE, half, key);
        bench.try_recv(B, &receive).unwrap();
        let (now, route, first_psn) = (bench.fabric.now(), bench.route(A), bench.end(A).first_psn);
        let fit = (1 << 31) >> 12;
        let last = if over == 0 { fit - 1 } else { fit };
        let packet = |bench: &Bench, place, psn, len| {
            Forge::send(place, psn).quiet().count_up(0, len).bytes(bench, A)
        };
        let first = packet(&bench, Place::First, 0, 4096);
        bench.device(B).on_frame(now, &Void, &route, &first);
        let mut middle = packet(&bench, Place::Middle, 0, 4096);
        for number in 1..last {
            // Nothing but the sequence number, the last of the twelve bytes of the BTH, changes.
            middle[9..12].copy_from_slice(&first_psn.plus(number).get().to_be_bytes()[1..]);
            bench.device(B).on_frame(now, &Void, &route, &middle);
        }
        let len = if over == 0 { 4096 } else { over };
        let last = packet(&bench, Place::Last, last.cast_signed(), len);
        bench.device(B).on_frame(now, &Void, &route, &last);
        let refused = bench.frames().iter().any(|text| text.contains("NAK"));
        assert_eq!(refused, over > 0);
        if over == 0 {
            let all: Vec<_> = bench.received(B).iter().map(|wc| (wc.wr_id, wc.byte_len)).collect();
            assert_eq!(all, [(7, 1 << 31)]);
        }
    }
}

/// Lets two devices talk until neither has anything to say. Returns the packets of both.
fn talk(bench: &mut Bench) -> [u64; 2] {
    let routes = [A, B].map(|end| bench.route(end));
    let (mut bytes, mut packets) = ([0; 512], [0, 0]);
    let mut frame = FrameOut::default();
    let now = bench.fabric.now();
    loop {
        let before = packets;
        for from in [0, 1] {
            while bench.fabric.host_mut(from).device.next_frame(&mut frame) {
                let out = &mut bytes[..frame.len()];
                if bench.fabric.host_mut(from).device.fill(now, &Void, &frame, out) {
                    let to = &mut bench.fabric.host_mut(1 - from).device;
                    to.on_frame(now, &Void, &routes[from], out);
                    packets[from] += 1;
                }
            }
        }
        if packets == before {
            return packets;
        }
    }
}

#[test]
#[ignore = "moves 2^24 packets, which takes some seconds"]
fn two_gib_in_one_message() {
    for read in [false, true] {
        let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
        let keys = [A, B].map(|end| huge(&mut bench, end));
        let b = Remote { key: keys[1] };
        let op = if read { b.read(0) } else { b.write(0) };
        let half = 1 << 30;
        bench.post(A, wr(1, op).sge(BASE, half, keys[0]).sge(BASE + (1 << 30), half, keys[0]));
        bench.post(A, wr(2, b.write(0)).at(0..8));
        let packets = talk(&mut bench);
        assert!(packets[usize::from(read)] > 1 << 23, "{packets:?}");
        assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
    }
}
