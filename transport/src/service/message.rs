//! What a process and the service say to each other: one message per datagram of a connected
//! sequenced-packet socket, a header of 4 bytes and a body.
//!
//! ```text
//! version u8 | kind u8 | sequence u16 | body
//! ```
//!
//! A request carries a sequence number of the client's choice, its answer the same one. What the
//! service says unasked carries 0.

use softrnic_model::cm::{ListenAt, ServiceId};
use softrnic_model::planted;
use softrnic_model::wire::Route;

use super::codec::{Reader, Writer};
use super::{CONVERSATIONS_MAX, Conversation, Place, Refusal, Row, Status};
use crate::link::PACKET_LEN_MAX;
use crate::ports::Reservation;

/// Changes with the meaning of any message.
pub(super) const VERSION: u8 = 3;
/// The most addresses that one request names, and that one device has.
pub(super) const PLACES_MAX: usize = 64;
/// So many rows fit a message, however many addresses they have.
pub(super) const ROWS_MAX: usize = 1;
/// No message is longer: a datagram for the connection manager with its route.
pub(super) const MESSAGE_MAX: usize = PACKET_LEN_MAX + 64;

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// The receiving sockets of these addresses. Answered with [`Answer::Attached`], and again in
    /// the same way for an address that is attached already. A client that had a slot before the
    /// service was lost wants that one; 0 is any.
    Attach { program: String, device: String, slot: u8, places: Vec<Place> },
    /// An address is not used any more. Not answered.
    Detach(Place),
    /// Datagrams to the general services queue pair of its addresses that name its slot, or a
    /// service that it listens to, are wanted, or no more. Answered with [`Answer::Done`]; if they are
    /// wanted the file of its will comes with that.
    Gsi(bool),
    /// What [`Answer::StatusWanted`] asks for. Not answered.
    Status(Status, Vec<Conversation>),
    /// A port of the connection manager; port 0 is any. Answered with [`Answer::Reserved`], and again
    /// for one that it has already, to listen there.
    Reserve(Reservation),
    /// A port is not used any more. Not answered.
    Release(ServiceId, ListenAt),
    /// All clients: any number of [`Answer::Rows`], then [`Answer::Listed`].
    List,
    /// The end of the client. Not answered; a copy of the connection that a forked child still
    /// holds does not count.
    Leave,
}

/// What the service says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// For each address in the order of the request; the sockets of those that were granted
    /// come with it, in that order.
    Attached { slot: u8, granted: Vec<Result<(), Refusal>> },
    /// The request as a whole is refused.
    Refused(Refusal),
    /// Done.
    Done,
    /// The port, or other service, is the client's.
    Reserved(ServiceId),
    /// A datagram for queue pair 1, its ICRC checked and removed.
    Gsi { route: Route, packet: Vec<u8> },
    /// Unasked: how is it going? See [`Request::Status`].
    StatusWanted,
    /// Some of the clients, at most [`ROWS_MAX`].
    Rows(Vec<Row>),
    /// That were all; and the processes of service and keeper.
    Listed { service: u32, keeper: u32 },
}

impl Request {
    pub(super) fn to_bytes(&self, sequence: u16) -> Vec<u8> {
        let mut out = Writer::default();
        let mut head = |kind| {
            out.u8(VERSION).u8(kind).u16(sequence);
            std::mem::take(&mut out)
        };
        let mut out;
        match self {
            Self::Attach { program, device, slot, places } => {
                out = head(1);
                out.name(program).name(device).u8(*slot).list(places, Writer::place);
            }
            Self::Detach(place) => {
                out = head(2);
                out.place(*place);
            }
            Self::Gsi(wanted) => {
                out = head(3);
                out.u8((*wanted).into());
            }
            Self::Status(status, conversations) => {
                out = head(4);
                out.status(status).list(conversations, Writer::conversation);
            }
            Self::List => out = head(5),
            Self::Leave => out = head(6),
            Self::Reserve(wanted) => {
                out = head(7);
                out.reservation(*wanted);
            }
            Self::Release(service, at) => {
                out = head(8);
                out.u64(service.0).listen_at(*at);
            }
        }
        out.0
    }

    /// The request and its sequence number.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<(u16, Self), Refusal> {
        let (kind, sequence, mut body) = head(bytes)?;
        let body = &mut body;
        let read = |body: &mut Reader<'_>| {
            Some(match kind {
                1 => Self::Attach {
                    program: body.name()?,
                    device: body.name()?,
                    slot: body.u8()?,
                    places: body.list(Reader::place)?,
                },
                2 => Self::Detach(body.place()?),
                3 => Self::Gsi(match body.u8()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                }),
                4 => Self::Status(body.status()?, body.list(Reader::conversation)?),
                5 => Self::List,
                6 => Self::Leave,
                7 => Self::Reserve(body.reservation()?),
                8 => Self::Release(ServiceId(body.u64()?), body.listen_at()?),
                _ => return None,
            })
        };
        let request = read(body).filter(|_| at_end(body)).ok_or(Refusal::Malformed)?;
        if let Self::Attach { places, .. } = &request
            && !(1..=PLACES_MAX).contains(&places.len())
        {
            return Err(Refusal::Malformed);
        }
        if let Self::Status(_, conversations) = &request
            && conversations.len() > CONVERSATIONS_MAX
        {
            return Err(Refusal::Malformed);
        }
        Ok((sequence, request))
    }
}

impl Answer {
    pub(super) fn to_bytes(&self, sequence: u16) -> Vec<u8> {
        let kind = match self {
            Self::Attached { .. } => 65,
            Self::Refused(_) => 66,
            Self::Done => 67,
            Self::Gsi { .. } => 68,
            Self::StatusWanted => 69,
            Self::Rows(_) => 70,
            Self::Listed { .. } => 71,
            Self::Reserved(_) => 72,
        };
        let mut out = Writer::default();
        out.u8(VERSION).u8(kind).u16(sequence);
        match self {
            Self::Attached { slot, granted } => {
                out.u8(*slot).list(granted, |out, granted| put_refusal(out, granted.err()));
            }
            Self::Refused(why) => {
                put_refusal(&mut out, Some(*why));
            }
            Self::Done | Self::StatusWanted => {}
            Self::Gsi { route, packet } => {
                out.route(route).bytes(packet);
            }
            Self::Reserved(service) => {
                out.u64(service.0);
            }
            Self::Rows(rows) => {
                let rows: Vec<&Row> = rows.iter().collect();
                out.list(&rows, put_row);
            }
            Self::Listed { service, keeper } => {
                out.u32(*service).u32(*keeper);
            }
        }
        out.0
    }

    /// The answer and its sequence number.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<(u16, Self), Refusal> {
        let (kind, sequence, mut body) = head(bytes)?;
        let body = &mut body;
        let read = |body: &mut Reader<'_>| {
            Some(match kind {
                65 => Self::Attached {
                    slot: body.u8()?,
                    granted: body.list(|body| Some(take_refusal(body)?.map_or(Ok(()), Err)))?,
                },
                66 => Self::Refused(take_refusal(body)??),
                67 => Self::Done,
                68 => Self::Gsi { route: body.route()?, packet: body.rest().to_vec() },
                69 => Self::StatusWanted,
                70 => Self::Rows(body.list(take_row)?),
                72 => Self::Reserved(ServiceId(body.u64()?)),
                71 => Self::Listed { service: body.u32()?, keeper: body.u32()? },
                _ => return None,
            })
        };
        let answer = read(body).filter(|_| at_end(body)).ok_or(Refusal::Malformed)?;
        Ok((sequence, answer))
    }
}

/// Whether nothing is left over.
fn at_end(body: &Reader<'_>) -> bool {
    body.is_empty() || planted::has(planted::Fault::LeftOver)
}

/// Kind, sequence number and body.
fn head(bytes: &[u8]) -> Result<(u8, u16, Reader<'_>), Refusal> {
    let mut reader = Reader(bytes);
    let version = reader.u8().ok_or(Refusal::Malformed)?;
    if version != VERSION {
        return Err(Refusal::Version(version));
    }
    let (Some(kind), Some(sequence)) = (reader.u8(), reader.u16()) else {
        return Err(Refusal::Malformed);
    };
    Ok((kind, sequence, reader))
}

fn put_row<'a>(out: &'a mut Writer, row: &Row) -> &'a mut Writer {
    out.u32(row.pid).u32(row.uid).u8(row.slot).name(&row.program).name(&row.device);
    out.list(&row.places, Writer::place).u8(row.status.is_some().into());
    out.status(&row.status.unwrap_or_default()).list(&row.conversations, Writer::conversation)
}

fn take_row(body: &mut Reader<'_>) -> Option<Row> {
    Some(Row {
        pid: body.u32()?,
        uid: body.u32()?,
        slot: body.u8()?,
        program: body.name()?,
        device: body.name()?,
        places: body.list(Reader::place)?,
        status: {
            let known = body.u8()? == 1;
            let status = body.status()?;
            known.then_some(status)
        },
        conversations: body.list(Reader::conversation)?,
    })
}

fn put_refusal(out: &mut Writer, why: Option<Refusal>) -> &mut Writer {
    let (code, detail) = why.map_or((0, 0), Refusal::code);
    out.u8(code).u32(detail)
}

fn take_refusal(body: &mut Reader<'_>) -> Option<Option<Refusal>> {
    let (code, detail) = (body.u8()?, body.u32()?);
    if code == 0 { Some(None) } else { Refusal::from_code(code, detail).map(Some) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use softrnic_model::cm::{CommId, State};
    use softrnic_model::verbs::Gid;

    use super::*;

    fn places() -> Vec<Place> {
        let texts = [("127.0.0.1", 1), ("fe80::7", 3), ("fd00::1", 9)];
        texts.map(|(ip, scope)| Place::new(ip.parse().unwrap(), scope)).into()
    }

    fn requests() -> Vec<Request> {
        let status = Status { queue_pairs: 3, sent: u64::MAX, ..Status::default() };
        vec![
            Request::Attach { program: "p".into(), device: "é".into(), slot: 7, places: places() },
            Request::Detach(places()[1]),
            Request::Gsi(true),
            Request::Gsi(false),
            Request::Status(status, vec![conversation(); CONVERSATIONS_MAX]),
            Request::List,
            Request::Leave,
            Request::Reserve(reservations()[0]),
            Request::Reserve(reservations()[1]),
            Request::Release(ServiceId(7), ListenAt::V6),
        ]
    }

    fn conversation() -> Conversation {
        Conversation {
            state: Some(State::Timewait),
            service: ServiceId(0x0106_1234),
            active: true,
            id: CommId(7),
            local: Gid::from_v4([1; 4]),
            peer: Gid::from_v4([2; 4]),
        }
    }

    #[test]
    fn the_longest_row_fits_a_message() {
        let row = Row {
            pid: 1,
            uid: 1,
            slot: 1,
            program: "x".repeat(99),
            device: "x".repeat(99),
            places: vec![places()[1]; PLACES_MAX],
            status: None,
            conversations: vec![conversation(); CONVERSATIONS_MAX],
        };
        assert!(Answer::Rows(vec![row; ROWS_MAX]).to_bytes(1).len() <= MESSAGE_MAX);
    }

    fn reservations() -> [Reservation; 2] {
        let at = ListenAt::One("fd00::1".parse().unwrap());
        let service = ServiceId(0x0106_1234);
        [
            Reservation { service, at, reuse: true, listens: false },
            Reservation { service, at: ListenAt::All, reuse: false, listens: true },
        ]
    }

    fn answers() -> Vec<Answer> {
        let row = Row {
            pid: 4711,
            uid: 65534,
            slot: 255,
            program: "a".into(),
            device: String::new(),
            places: places(),
            status: Some(Status { regions: 7, ..Status::default() }),
            conversations: vec![conversation(); CONVERSATIONS_MAX],
        };
        let granted = vec![Ok(()), Err(Refusal::AddressInUse(Some(7))), Err(Refusal::System(22))];
        let route = Route { flow_label: 0xabcde, src_port: 50_000, ..Route::default() };
        vec![
            Answer::Attached { slot: 9, granted },
            Answer::Refused(Refusal::AddressInUse(None)),
            Answer::Done,
            Answer::Reserved(ServiceId(u64::MAX)),
            Answer::Gsi { route, packet: vec![1, 2, 3] },
            Answer::StatusWanted,
            Answer::Listed { service: 1, keeper: u32::MAX },
            Answer::Rows(vec![Row { status: None, ..row.clone() }, row]),
        ]
    }

    #[test]
    fn messages_are_read_as_written() {
        for request in requests() {
            assert_eq!(Request::from_bytes(&request.to_bytes(7)), Ok((7, request)));
        }
        for answer in answers() {
            assert_eq!(Answer::from_bytes(&answer.to_bytes(9)), Ok((9, answer)));
        }
    }

    #[test]
    fn what_is_cut_off_or_goes_on_is_refused() {
        for request in requests() {
            let bytes = request.to_bytes(1);
            for len in 0..bytes.len() {
                assert_eq!(Request::from_bytes(&bytes[..len]), Err(Refusal::Malformed));
            }
            assert_eq!(Request::from_bytes(&[&bytes[..], &[0]].concat()), Err(Refusal::Malformed));
        }
        for answer in answers() {
            let bytes = answer.to_bytes(1);
            let open_ended = matches!(answer, Answer::Gsi { .. });
            for len in 0..bytes.len() {
                assert!(open_ended || Answer::from_bytes(&bytes[..len]).is_err());
            }
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Request::List.to_bytes(1);
        bytes[0] = 9;
        assert_eq!(Request::from_bytes(&bytes), Err(Refusal::Version(9)));
    }

    #[test]
    fn a_request_names_one_address_at_least_and_not_too_many() {
        for count in [0, PLACES_MAX + 1, 255] {
            let places = vec![places()[0]; count];
            let (program, device) = ("p".into(), "d".into());
            let request = Request::Attach { program, device, slot: 0, places };
            assert_eq!(Request::from_bytes(&request.to_bytes(1)), Err(Refusal::Malformed));
        }
    }

    #[test]
    fn names_are_cut_and_steer_no_terminal() {
        let long = "x".repeat(100);
        let (device, places) = ("a\x1b[2Jb\n".into(), places());
        let request = Request::Attach { program: long, device, slot: 0, places };
        let Ok((_, Request::Attach { program, device, .. })) =
            Request::from_bytes(&request.to_bytes(1))
        else {
            panic!("it is read");
        };
        assert_eq!((program.len(), device.as_str()), (32, "a [2Jb "));
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind: u8) {
            let bytes = [&[VERSION, kind][..], &bytes].concat();
            let _ = (Request::from_bytes(&bytes), Answer::from_bytes(&bytes));
        }
    }
}
