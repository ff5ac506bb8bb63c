//! Messages between processes and the port service: what is accepted means something, says the same
//! when it is written again, and keeps to the bounds.

use softrnic_model::planted::Fault;
use softrnic_transport::service::fuzz_entry::{VERSION, answer, request};

use crate::Target;
use crate::input::Input;
use crate::reach::{Reach, hit};

pub(crate) const TARGET: Target = Target {
    name: "message",
    run,
    reaches: &[Reach::RequestAccepted, Reach::AnswerAccepted],
    fault: Fault::LeftOver,
};

/// The kinds of requests and of answers.
const REQUESTS: core::ops::RangeInclusive<u8> = 1..=8;
const ANSWERS: core::ops::RangeInclusive<u8> = 65..=72;
/// Bytes of a name, and addresses of a request.
const NAME_MAX: usize = 32;
const PLACES_MAX: u8 = 64;

fn run(bytes: &[u8]) {
    if let Some(again) = request(bytes) {
        hit(Reach::RequestAccepted);
        settles(&again, request);
        whole(bytes, &again);
        assert!(REQUESTS.contains(&again[1]) && again[0] == VERSION, "{again:02x?}");
        if again[1] == 1 {
            attach(&again);
        }
    }
    if let Some(again) = answer(bytes) {
        hit(Reach::AnswerAccepted);
        settles(&again, answer);
        whole(bytes, &again);
        assert!(ANSWERS.contains(&again[1]) && again[0] == VERSION, "{again:02x?}");
    }
}

/// Of kinds without names nothing is lost.
fn whole(bytes: &[u8], again: &[u8]) {
    const NAMED: [u8; 2] = [1, 70];
    assert!(NAMED.contains(&bytes[1]) || bytes.len() == again.len(), "{bytes:02x?}");
}

/// Written once, a message is read as itself. A name that was no text is mended by the first two
/// times.
fn settles(once: &[u8], again: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    let twice = again(once).unwrap();
    assert_eq!(again(&twice).as_ref(), Some(&twice));
    assert_eq!(once.len(), twice.len(), "{once:02x?}");
}

/// A request for sockets, read by hand.
fn attach(bytes: &[u8]) {
    let mut body = Input(&bytes[4..]);
    for _ in ["program", "device"] {
        let len = usize::from(body.u8());
        assert!(len <= NAME_MAX, "a name of {len} bytes");
        body.take(len);
    }
    // Any slot may be wanted; the service knows which there are.
    body.u8();
    let count = body.u8();
    assert!((1..=PLACES_MAX).contains(&count), "{count} addresses");
    assert_eq!(body.0.len(), usize::from(count) * 20);
}

/// A message of each kind.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let place: Vec<u8> = (0..10).map(|_| 0).chain([0xff, 0xff, 127, 0, 0, 1, 0, 0, 0, 0]).collect();
    let name = [4, b'n', b'a', b'm', b'e'];
    let head = |kind| vec![VERSION, kind, 7, 0];
    let with = |kind, parts: &[&[u8]]| [&head(kind)[..], &parts.concat()].concat();
    let status = [1; 56];
    // A connection that waits: state, service, who has asked, ID, addresses.
    let conversation: Vec<u8> = [&[11][..], &[7; 8], &[1], &[3; 4], &[0xfd; 32]].concat();
    let head_of_row = [&[9; 9][..], &name, &name, &[1], &place, &[1], &status].concat();
    let row = [&head_of_row[..], &[1], &conversation].concat();
    // Which addresses: all, and one.
    let (all, one) = ([0; 17], [&[3][..], &[0xfd; 16]].concat());
    vec![
        with(1, &[&name, &name, &[9], &[2], &place, &place]),
        with(2, &[&place]),
        with(3, &[&[1]]),
        with(4, &[&status, &[2], &conversation, &conversation]),
        with(5, &[]),
        with(6, &[]),
        with(7, &[&[7; 8], &all, &[3]]),
        with(8, &[&[7; 8], &one]),
        with(65, &[&[3, 2, 0, 0, 0, 0, 0, 10, 22, 0, 0, 0]]),
        with(66, &[&[5, 0xff, 0xff, 0xff, 0xff]]),
        with(67, &[]),
        with(68, &[&[0xfd; 32], &[0; 8], b"datagram"]),
        with(69, &[]),
        with(70, &[&[1], &row]),
        with(71, &[&[1; 8]]),
        with(72, &[&[7; 8]]),
    ]
}
