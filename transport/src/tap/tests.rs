//! What taps write, read back by others.

use std::io::{self, Write};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use pcap_parser::pcapng::{Block, EnhancedPacketBlock, OptionCode};
use pcap_parser::{PcapNGSlice, traits::PcapNGPacketBlock};
use softrnic_model::Instant;
use softrnic_model::verbs::{Gid, Key, Psn, QpNum};
use softrnic_model::wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, HeaderBuf, Ieth, ImmDt, NakCode, Opcode, Reth,
    RoceFrame, Route, Syndrome,
};

use super::*;
use crate::link::{Link, Outgoing};
use crate::udp::{UdpConfig, UdpLink};

/// A packet of `opcode` to queue pair 0x12 with telling extension headers and `data` bytes.
fn packet(opcode: u8, change: impl FnOnce(Bth) -> Bth, data: usize) -> Vec<u8> {
    let bth = change(Bth::new(Opcode(opcode), QpNum::new(0x12), Psn::new(0x2a)));
    let mut out = HeaderBuf::new();
    out.push(&bth);
    match opcode {
        0x06 | 0x0a | 0x0c => out.push(&Reth::new(0x7000, Key(0x1f01), 64)),
        0x0b => {
            out.push(&Reth::new(u64::MAX, Key(1), 0));
            out.push(&ImmDt::new(0xdead_beef));
        }
        0x10 | 0x11 => out.push(&Aeth::new(Syndrome::ACK, 9)),
        0x12 => {
            out.push(&Aeth::new(Syndrome::ACK, 0x00ff_ffff));
            out.push(&AtomicAckEth::new(77));
        }
        0x13 => out.push(&AtomicEth::new(0x8000, Key(0x1f01), 1, 2)),
        0x17 => out.push(&Ieth::new(Key(0x33))),
        0x64 => out.push(&Deth::new(0x1111_1111, QpNum::new(0x34))),
        _ => {}
    }
    let mut bytes = out.as_slice().to_vec();
    bytes.extend((0..data).map(|i| i.to_le_bytes()[0]));
    bytes
}

fn plain(opcode: u8, data: usize) -> Vec<u8> {
    packet(opcode, |bth| bth, data)
}

fn route(traffic_class: u8) -> Route {
    let (src, dst) = (Gid::from_v4([10, 0, 0, 1]), Gid::from_v4([10, 0, 0, 2]));
    Route { src, dst, src_port: 0xc123, traffic_class, hop_limit: 64, ..Route::default() }
}

fn line(packet: &[u8]) -> String {
    let (at, direction) = (Instant::from_ns(12_004), Direction::Sent);
    let text = Line { at, direction, route: &route(0), packet }.to_string();
    text.strip_prefix("12.004us tx 10.0.0.1>10.0.0.2 ").unwrap().to_owned()
}

#[test]
fn lines_say_what_a_frame_is() {
    let nak = |syndrome| {
        let mut out = HeaderBuf::new();
        out.push(&Bth::new(Opcode(0x11), QpNum::new(0x12), Psn::new(0x2a)));
        out.push(&Aeth::new(syndrome, 3));
        out.as_slice().to_vec()
    };
    let start = "qp 0x000012 RC";
    for (packet, expected) in [
        (plain(0x04, 0), format!("{start} SEND_ONLY psn 0x00002a")),
        (plain(0x04, 8), format!("{start} SEND_ONLY psn 0x00002a data 8")),
        (
            packet(0x0a, |bth| bth.with_ack_req(true), 64),
            format!(
                "{start} RDMA_WRITE_ONLY psn 0x00002a ack va 0x7000 rkey 0x00001f01 len 64 data 64"
            ),
        ),
        (
            packet(0x0b, |bth| bth.with_solicited(true).with_pad(3), 4),
            format!(
                "{start} RDMA_WRITE_ONLY_WITH_IMMEDIATE psn 0x00002a se pad 3 \
                 va 0xffffffffffffffff rkey 0x00000001 len 0 imm 0xdeadbeef data 1"
            ),
        ),
        (plain(0x11, 0), format!("{start} ACKNOWLEDGE psn 0x00002a ack credits 31 msn 9")),
        (
            nak(Syndrome::Nak(NakCode::RemoteAccess)),
            format!("{start} ACKNOWLEDGE psn 0x00002a nak RemoteAccess msn 3"),
        ),
        (
            nak(Syndrome::RnrNak { timer: 12 }),
            format!("{start} ACKNOWLEDGE psn 0x00002a rnr timer 12 msn 3"),
        ),
        (
            plain(0x12, 0),
            format!(
                "{start} ATOMIC_ACKNOWLEDGE psn 0x00002a ack credits 31 msn 16777215 original 0x4d"
            ),
        ),
        (
            plain(0x13, 0),
            format!(
                "{start} COMPARE_SWAP psn 0x00002a va 0x8000 rkey 0x00001f01 \
                 swap_or_add 0x1 compare 0x2"
            ),
        ),
        (
            plain(0x17, 4),
            format!("{start} SEND_ONLY_WITH_INVALIDATE psn 0x00002a invalidate 0x00000033 data 4"),
        ),
        (
            plain(0x64, 4),
            "qp 0x000034>0x000012 UD SEND_ONLY psn 0x00002a qkey 0x11111111 data 4".to_owned(),
        ),
        (
            packet(
                0x81,
                |bth| bth.with_fecn(true).with_becn(true).with_migreq(true).with_pkey(0x7fff),
                0,
            ),
            "qp 0x000012 CNP psn 0x00002a mig fecn becn pkey 0x7fff".to_owned(),
        ),
        (
            packet(0x1f, |bth| bth.with_transport_version(2), 4),
            "qp 0x000012 opcode 0x1f psn 0x00002a version 2 data 4".to_owned(),
        ),
        (
            vec![1, 2, 3],
            "malformed, shorter than a base transport header: 3 bytes 01 02 03".to_owned(),
        ),
    ] {
        assert_eq!(line(&packet), expected);
    }
    let marked = Line {
        at: Instant::ZERO,
        direction: Direction::Received,
        route: &route(3),
        packet: &plain(0x04, 0),
    };
    assert_eq!(
        marked.to_string(),
        "0.000us rx 10.0.0.1>10.0.0.2 qp 0x000012 RC SEND_ONLY psn 0x00002a ce"
    );
}

/// Something to write to that can be looked at meanwhile, and can be made to fail.
#[derive(Clone, Debug, Default)]
struct Sheet(Arc<Mutex<(Vec<u8>, bool)>>);

impl Sheet {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().0.clone()
    }

    fn break_it(&self) {
        self.0.lock().unwrap().1 = true;
    }
}

impl Write for Sheet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sheet = self.0.lock().unwrap();
        if sheet.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        sheet.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Two links on this host, on a port of their own.
fn links(net: u8) -> (UdpLink, UdpLink) {
    static RESERVED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let reserved = UdpSocket::bind("127.255.0.2:0").unwrap();
    let port = reserved.local_addr().unwrap().port();
    RESERVED.lock().unwrap().push(reserved);
    let open =
        |host| UdpLink::open(&UdpConfig::new([127, 78, net, host].into()).with_port(port)).unwrap();
    (open(1), open(2))
}

fn send(link: &mut impl Link, route: Route, packet: &[u8], damage: Option<u32>) {
    let frame = Outgoing { route, len: packet.len(), damage };
    let fill = &mut |out: &mut [u8]| {
        out.copy_from_slice(packet);
        true
    };
    link.transmit(Instant::from_ns(5_000), frame, fill).unwrap();
    link.flush(Instant::from_ns(5_000)).unwrap();
}

fn receive(link: &mut impl Link, count: usize) -> usize {
    let (mut got, started) = (0, std::time::Instant::now());
    while got < count && started.elapsed() < Duration::from_secs(2) {
        got += link.receive(Instant::from_ns(6_000), &mut |_, _| ()).unwrap();
    }
    got
}

#[test]
fn traces_show_both_directions_and_damage() {
    let (a, b) = links(1);
    let there = Route { src: a.gid(), dst: b.gid(), ..route(0) };
    let sheet = Sheet::default();
    let mut a = Trace::new(a, sheet.clone());
    let mut b = Trace::new(b, sheet.clone());
    send(&mut a, there, &plain(0x04, 8), None);
    send(&mut a, there, &plain(0x04, 8), Some(100));
    a.transmit(Instant::ZERO, Outgoing { route: there, len: 16, damage: None }, &mut |_| false)
        .unwrap();
    send(&mut a, there, &plain(0x11, 0), None);
    assert_eq!(receive(&mut b, 2), 2);
    let text = String::from_utf8(sheet.bytes()).unwrap();
    let send_only = "127.78.1.1>127.78.1.2 qp 0x000012 RC SEND_ONLY psn 0x00002a data 8";
    let ack = "127.78.1.1>127.78.1.2 qp 0x000012 RC ACKNOWLEDGE psn 0x00002a ack credits 31 msn 9";
    let expected = [
        format!("5.000us tx {send_only}"),
        format!("5.000us tx {send_only} damaged in bit 100"),
        format!("5.000us tx {ack}"),
        format!("6.000us rx {send_only}"),
        format!("6.000us rx {ack}"),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);

    sheet.break_it();
    send(&mut a, there, &plain(0x04, 8), None);
    assert_eq!(a.error().unwrap().kind(), io::ErrorKind::StorageFull);
    assert_eq!(receive(&mut b, 1), 1, "the link goes on");
}

/// The enhanced packet blocks of a capture file.
fn each_packet(file: &[u8], mut look: impl FnMut(&EnhancedPacketBlock<'_>)) {
    for block in PcapNGSlice::from_slice(file).unwrap() {
        if let pcap_parser::PcapBlockOwned::NG(Block::EnhancedPacket(packet)) = block.unwrap() {
            look(&packet);
        }
    }
}

fn option<'a>(packet: &'a EnhancedPacketBlock<'_>, code: OptionCode) -> &'a [u8] {
    let option = packet.options.iter().find(|option| option.code == code).unwrap();
    // the value is given with its pad
    &option.value[..usize::from(option.len)]
}

/// One of every opcode that is known, with data where it may have some.
fn one_of_each() -> Vec<Vec<u8>> {
    (0..=u8::MAX)
        .filter_map(|opcode| {
            let facts = Opcode(opcode).facts()?;
            let bth = Bth::new(Opcode(opcode), QpNum::new(0x12), Psn::new(opcode.into()));
            let mut bytes = zerocopy::IntoBytes::as_bytes(&bth).to_vec();
            bytes.resize(facts.header_len(), 0);
            bytes.resize(bytes.len() + if facts.payload { 20 } else { 0 }, 7);
            Some(bytes)
        })
        .collect()
}

#[test]
fn a_capture_is_read_back_with_every_icrc_right() {
    let (a, b) = links(2);
    let there = Route { src: a.gid(), dst: b.gid(), ..route(2) };
    let sheet = Sheet::default();
    let origin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let file = CaptureFile::to(sheet.clone(), origin);
    let mut a = Capture::new(a, &file, "a");
    let mut b = Capture::new(b, &file, "b");
    let packets = one_of_each();
    for packet in &packets {
        send(&mut a, there, packet, None);
    }
    send(&mut a, there, &plain(0x04, 8), Some(100));
    assert_eq!(receive(&mut b, packets.len()), packets.len());
    file.write().unwrap();
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    each_packet(&sheet.bytes(), |block| {
        let frame = RoceFrame::parse(block.packet_data()).unwrap();
        let damaged = frame.expected_icrc() != frame.icrc;
        let comment = std::str::from_utf8(option(block, OptionCode::Comment)).unwrap();
        assert!(comment.starts_with(&format!("process {} (", std::process::id())), "{comment}");
        assert!(comment.contains("qp 0x000012") || comment.contains(">0x000012"), "{comment}");
        assert_eq!(comment.ends_with("damaged in bit 100"), damaged, "{comment} {frame:?}");
        let inbound = option(block, OptionCode(2))[0] == 1;
        assert_eq!(block.if_id, u32::from(inbound));
        let time = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
        assert_eq!(time, 1_700_000_000_000_000_000 + if inbound { 6_000 } else { 5_000 });
        assert_eq!(
            (frame.route.src, frame.route.dst, frame.route.traffic_class),
            (there.src, there.dst, 2)
        );
        if !damaged {
            if inbound { &mut received } else { &mut sent }.push(frame.packet.to_vec());
        }
    });
    assert_eq!(sent, packets);
    assert_eq!(received, packets);
}

#[test]
fn a_capture_over_v6_has_v6_headers() {
    let sheet = Sheet::default();
    let file = CaptureFile::to(sheet.clone(), SystemTime::UNIX_EPOCH);
    let interface = file.add_interface("fabric");
    let v6 = |last| {
        let mut bytes = [0; 16];
        (bytes[0], bytes[15]) = (0xfd, last);
        Gid(bytes)
    };
    let route = Route { src: v6(1), dst: v6(2), flow_label: 0xabcde, ..route(0) };
    for (n, damage) in [(0, None), (1, Some(0)), (2, Some(12 * 8 + 31))] {
        let now = Instant::from_ns(n);
        file.record(interface, now, Direction::Sent, &route, &plain(0x04, 0), damage);
    }
    file.write().unwrap();
    let mut seen = Vec::new();
    each_packet(&sheet.bytes(), |block| {
        let frame = RoceFrame::parse(block.packet_data()).unwrap();
        assert_eq!(frame.route.flow_label, 0xabcde);
        seen.push((frame.packet == plain(0x04, 0), frame.icrc == frame.expected_icrc()));
    });
    assert_eq!(seen, [(true, true), (false, false), (true, false)]);
}

#[test]
fn what_waits_is_written_in_whole_blocks_when_there_is_time() {
    let (a, b) = links(3);
    let there = Route { src: a.gid(), dst: b.gid(), ..route(0) };
    let sheet = Sheet::default();
    let file = CaptureFile::to(sheet.clone(), SystemTime::UNIX_EPOCH);
    let mut a = Capture::new(a, &file, "a");
    let count = |sheet: &Sheet| {
        let mut count = 0;
        each_packet(&sheet.bytes(), |_| count += 1);
        count
    };
    assert_eq!(a.next_deadline(), None);
    send(&mut a, there, &plain(0x04, 8), None);
    assert!(sheet.bytes().is_empty(), "not at once");
    assert_eq!(a.next_deadline(), Some(Instant::from_ns(5_000 + 10_000_000)));
    assert_eq!(a.receive(Instant::from_ns(5_001), &mut |_, _| ()).unwrap(), 0);
    assert_eq!(count(&sheet), 1, "when nothing arrives");
    send(&mut a, there, &plain(0x04, 8), None);
    a.flush(a.next_deadline().unwrap()).unwrap();
    assert_eq!(count(&sheet), 2, "when it has waited long");
    for _ in 0..100 {
        send(&mut a, there, &plain(0x04, 1000), None);
    }
    let written = count(&sheet);
    assert!(written > 40, "when there is much: {written}");
    drop((a, file));
    assert_eq!(count(&sheet), 102, "at the end");
}

#[test]
fn a_file_that_cannot_be_written_does_not_stop_the_link() {
    let (a, b) = links(4);
    let there = Route { src: a.gid(), dst: b.gid(), ..route(0) };
    let sheet = Sheet::default();
    let file = CaptureFile::to(sheet.clone(), SystemTime::UNIX_EPOCH);
    let (mut a, mut b) = (Capture::new(a, &file, "a"), b);
    sheet.break_it();
    for _ in 0..3 {
        send(&mut a, there, &plain(0x04, 8), None);
        assert_eq!(receive(&mut a, 0), 0);
    }
    assert_eq!(receive(&mut b, 3), 3);
    assert_eq!(file.write().unwrap_err().kind(), io::ErrorKind::StorageFull);
    let error = CaptureFile::create(Path::new("/no/such/folder/x.pcapng"), SystemTime::now());
    let text = error.unwrap_err().to_string();
    assert!(text.starts_with("could not create the capture file /no/such/folder/x.pcapng: "));
}

/// A file that is removed at the end of the test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_file(&self.0);
    }
}

#[test]
fn wireshark_finds_nothing_malformed() {
    let name = format!("softrnic-{}-capture.pcapng", std::process::id());
    let path = Scratch(std::env::temp_dir().join(name));
    let file = CaptureFile::create(&path.0, SystemTime::now()).unwrap();
    let (first, second) = (file.add_interface("a"), file.add_interface("b"));
    let mut frames = 0;
    for packet in one_of_each() {
        for (interface, direction) in [(first, Direction::Sent), (second, Direction::Received)] {
            file.record(interface, Instant::from_ns(frames), direction, &route(0), &packet, None);
            frames += 1;
        }
    }
    drop(file);
    let tshark = |arguments: &[&str]| {
        let mut command = Command::new("tshark");
        // no settings of the user
        command.env("HOME", "/nonexistent").arg("-r").arg(&path.0).args(arguments);
        let output = command.output();
        output.map(|output| {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        })
    };
    let fields = [
        "-T",
        "fields",
        "-e",
        "infiniband.bth.opcode",
        "-e",
        "frame.comment",
        "-e",
        "frame.protocols",
    ];
    let Ok(all) = tshark(&fields) else {
        softrnic_testing::not_installed("there is no tshark on this host");
        return;
    };
    assert_eq!(all.lines().count() as u64, frames);
    for line in all.lines() {
        let [opcode, comment, protocols] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert!(!opcode.is_empty(), "{line}");
        assert!(comment.starts_with("process "), "{line}");
        assert!(protocols.starts_with("eth:ethertype:ip:udp:infiniband"), "{line}");
    }
    let wrong = "_ws.malformed or ip.checksum.status == 0 or udp.checksum.status == 0";
    assert_eq!(tshark(&["-Y", wrong]).unwrap(), "");
}
