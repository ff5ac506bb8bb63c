//! The messages of the connection manager (IBA 12.6 to 12.11). Each is one table of fields, by
//! which it is read and written; reserved bits are not looked at and sent as zeros.

pub mod cell;

use core::net::IpAddr;

use super::ip::IpHeader;
use super::mad::{Body, Mad, MadHeader, NotCm};
use super::{RejectReason, ServiceId};
use crate::verbs::{Gid, Psn, QpNum};
use cell::{Bytes, Cell, CommId, Guid, Place};

macro_rules! place {
    ($byte:literal) => {
        Place::byte($byte)
    };
    ($byte:literal . $bit:literal + $width:literal) => {
        Place::bits($byte, $bit, $width)
    };
}

/// Messages: name, attribute, and for each field its place: the byte where it begins, or
/// `byte . bit + width`.
macro_rules! messages {
    ($(
        $(#[$doc:meta])*
        $name:ident = $attribute:literal {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = [$($place:tt)+];)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, Eq)]
            pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

            impl $name {
                fn read(body: &Body) -> Self {
                    Self { $($field: Cell::get(body, place!($($place)+)),)* }
                }

                fn write(&self, body: &mut [u8]) {
                    $(self.$field.put(body, place!($($place)+));)*
                }
            }
        )*

        /// A message.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Message {
            $($(#[$doc])* $name($name),)*
        }

        $(impl From<$name> for Message {
            fn from(message: $name) -> Self {
                Self::$name(message)
            }
        })*

        impl Message {
            /// Reads a datagram.
            ///
            /// # Errors
            /// See [`NotCm`].
            pub fn parse(bytes: &[u8]) -> Result<(MadHeader, Self), NotCm> {
                let (header, body) = MadHeader::parse(bytes)?;
                let message = match header.attribute {
                    $($attribute => Self::$name($name::read(body)),)*
                    _ => return Err(NotCm::Class),
                };
                Ok((header, message))
            }

            /// The datagram of exchange `transaction`, with options `modifier`.
            #[must_use]
            pub fn to_mad(&self, transaction: u64, modifier: u32) -> Mad {
                let attribute = match self { $(Self::$name(_) => $attribute,)* };
                let header = MadHeader { transaction, attribute, modifier, ..MadHeader::default() };
                let mut mad = header.to_mad();
                if let Some(body) = mad.get_mut(super::mad::HEADER_LEN..) {
                    match self { $(Self::$name(message) => message.write(body),)* }
                }
                mad
            }

            /// Its name, as the specification writes it.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => stringify!($name),)* }
            }
        }
    };
}

messages! {
    /// Request for a connection (REQ, IBA 12.6.5).
    Req = 0x0010 {
        /// The sender's ID of the connection.
        local_comm_id: CommId = [0];
        /// Whose options the attribute modifier holds (enhanced connection establishment).
        vendor_id: u32 = [5 . 0 + 24];
        /// What is asked for.
        service_id: ServiceId = [8];
        /// The sender's adapter.
        local_ca_guid: Guid = [16];
        /// The sender's Q_Key.
        local_qkey: u32 = [28];
        /// The sender's queue pair.
        local_qpn: QpNum = [32];
        /// READs and atomics that the receiver may have outstanding at the sender.
        responder_resources: u8 = [35];
        /// The sender's end-to-end context.
        local_eecn: u32 = [36 . 0 + 24];
        /// READs and atomics that the sender would have outstanding at the receiver.
        initiator_depth: u8 = [39];
        /// The receiver's end-to-end context.
        remote_eecn: u32 = [40 . 0 + 24];
        /// How soon the receiver is expected to answer: 4.096 µs · 2^t.
        remote_response_timeout: u8 = [43 . 0 + 5];
        /// 0 is RC, 1 UC, 2 RD, 3 another one that `extended_transport` names.
        transport: u8 = [43 . 5 + 2];
        /// The sender has end-to-end flow control.
        flow_control: bool = [43 . 7 + 1];
        /// The first PSN that the receiver of this message sends.
        starting_psn: Psn = [44];
        /// How soon the sender answers.
        local_response_timeout: u8 = [47 . 0 + 5];
        /// Retries of the queue pair.
        retry_count: u8 = [47 . 5 + 3];
        /// The partition.
        pkey: u16 = [48];
        /// Path MTU code.
        mtu: u8 = [50 . 0 + 4];
        /// A reliable datagram channel exists.
        rdc_exists: bool = [50 . 4 + 1];
        /// RNR retries of the queue pair.
        rnr_retry_count: u8 = [50 . 5 + 3];
        /// How often the sender repeats a message.
        max_cm_retries: u8 = [51 . 0 + 4];
        /// The sender's receives come from a shared queue.
        srq: bool = [51 . 4 + 1];
        /// 1 is XRC.
        extended_transport: u8 = [51 . 5 + 3];
        /// LID of the sender; 0xffff on RoCE.
        primary_local_lid: u16 = [52];
        /// LID of the receiver; 0xffff on RoCE.
        primary_remote_lid: u16 = [54];
        /// The sender's GID.
        primary_local_gid: Gid = [56];
        /// The receiver's GID.
        primary_remote_gid: Gid = [72];
        /// Flow label of the connection's packets.
        primary_flow_label: u32 = [88 . 0 + 20];
        /// Rate of the path.
        primary_packet_rate: u8 = [91 . 2 + 6];
        /// Traffic class of the connection's packets.
        primary_traffic_class: u8 = [92];
        /// Their hop limit.
        primary_hop_limit: u8 = [93];
        /// Their service level.
        primary_sl: u8 = [94 . 0 + 4];
        /// The path is within one subnet.
        primary_subnet_local: bool = [94 . 4 + 1];
        /// Local ACK timeout code of the receiver's queue pair.
        primary_local_ack_timeout: u8 = [95 . 0 + 5];
        /// The same of the alternate path: LID of the sender.
        alternate_local_lid: u16 = [96];
        /// LID of the receiver.
        alternate_remote_lid: u16 = [98];
        /// The sender's GID; zero if there is no alternate path.
        alternate_local_gid: Gid = [100];
        /// The receiver's GID.
        alternate_remote_gid: Gid = [116];
        /// Flow label.
        alternate_flow_label: u32 = [132 . 0 + 20];
        /// Rate.
        alternate_packet_rate: u8 = [135 . 2 + 6];
        /// Traffic class.
        alternate_traffic_class: u8 = [136];
        /// Hop limit.
        alternate_hop_limit: u8 = [137];
        /// Service level.
        alternate_sl: u8 = [138 . 0 + 4];
        /// Within one subnet.
        alternate_subnet_local: bool = [138 . 4 + 1];
        /// Local ACK timeout code.
        alternate_local_ack_timeout: u8 = [139 . 0 + 5];
        /// What the program says; of the port spaces it begins with the IP addressing header.
        private_data: Bytes<92> = [140];
    }
    /// Message receipt acknowledgement: the answer takes longer (MRA, IBA 12.6.6).
    Mra = 0x0011 {
        /// The sender's ID of the connection.
        local_comm_id: CommId = [0];
        /// The receiver's.
        remote_comm_id: CommId = [4];
        /// What was received: see [`Answered`].
        message: u8 = [8 . 0 + 2];
        /// How much longer it may take: 4.096 µs · 2^t.
        service_timeout: u8 = [9 . 0 + 5];
        /// What the program says.
        private_data: Bytes<222> = [10];
    }
    /// Reject (REJ, IBA 12.6.7).
    Rej = 0x0012 {
        /// The sender's ID of the connection, 0 if it has none.
        local_comm_id: CommId = [0];
        /// The receiver's, 0 if the sender does not know it.
        remote_comm_id: CommId = [4];
        /// What is refused: see [`Answered`].
        message: u8 = [8 . 0 + 2];
        /// Bytes of additional information.
        info_length: u8 = [9 . 0 + 7];
        /// Why.
        reason: RejectReason = [10];
        /// Additional information, which depends on the reason.
        info: Bytes<72> = [12];
        /// What the program says.
        private_data: Bytes<148> = [84];
    }
    /// Reply: a request is taken (REP, IBA 12.6.8).
    Rep = 0x0013 {
        /// The sender's ID of the connection.
        local_comm_id: CommId = [0];
        /// The receiver's.
        remote_comm_id: CommId = [4];
        /// The sender's Q_Key.
        local_qkey: u32 = [8];
        /// The sender's queue pair.
        local_qpn: QpNum = [12];
        /// Whose options the attribute modifier holds, the high byte; the others follow.
        vendor_id_high: u8 = [15];
        /// The sender's end-to-end context.
        local_eecn: u32 = [16 . 0 + 24];
        /// The middle byte.
        vendor_id_middle: u8 = [19];
        /// The first PSN that the receiver of this message sends.
        starting_psn: Psn = [20];
        /// The low byte.
        vendor_id_low: u8 = [23];
        /// READs and atomics that the receiver may have outstanding at the sender.
        responder_resources: u8 = [24];
        /// READs and atomics that the sender will have outstanding at the receiver.
        initiator_depth: u8 = [25];
        /// How long the sender's adapter takes to acknowledge.
        target_ack_delay: u8 = [26 . 0 + 5];
        /// Whether the alternate path is taken: 0 is yes, or there was none.
        failover: u8 = [26 . 5 + 2];
        /// The sender has end-to-end flow control.
        flow_control: bool = [26 . 7 + 1];
        /// RNR retries of the receiver's queue pair.
        rnr_retry_count: u8 = [27 . 0 + 3];
        /// The sender's receives come from a shared queue.
        srq: bool = [27 . 3 + 1];
        /// The sender's adapter.
        local_ca_guid: Guid = [28];
        /// What the program says.
        private_data: Bytes<196> = [36];
    }
    /// Ready to use (RTU, IBA 12.6.9).
    Rtu = 0x0014 {
        /// The sender's ID of the connection.
        local_comm_id: CommId = [0];
        /// The receiver's.
        remote_comm_id: CommId = [4];
        /// What the program says.
        private_data: Bytes<224> = [8];
    }
    /// Request for disconnection (DREQ, IBA 12.6.10).
    Dreq = 0x0015 {
        /// The sender's ID of the connection.
        local_comm_id: CommId = [0];
        /// The receiver's.
        remote_comm_id: CommId = [4];
        /// The receiver's queue pair.
        remote_qpn: QpNum = [8];
        /// What the program says.
        private_data: Bytes<220> = [12];
    }
    /// Reply to a request for disconnection (DREP, IBA 12.6.11).
    Drep = 0x0016 {
        /// The sender's ID of the connection.
        local_comm_id: CommId = [0];
        /// The receiver's.
        remote_comm_id: CommId = [4];
        /// What the program says.
        private_data: Bytes<224> = [8];
    }
    /// Service ID resolution request (SIDR_REQ, IBA 12.11.1).
    SidrReq = 0x0017 {
        /// The sender's ID of the exchange.
        request_id: CommId = [0];
        /// The partition.
        pkey: u16 = [4];
        /// What is asked for.
        service_id: ServiceId = [8];
        /// What the program says; of the port spaces it begins with the IP addressing header.
        private_data: Bytes<216> = [16];
    }
    /// Service ID resolution response (SIDR_REP, IBA 12.11.2).
    SidrRep = 0x0018 {
        /// The receiver's ID of the exchange.
        request_id: CommId = [0];
        /// See [`SidrStatus`].
        status: u8 = [4];
        /// Bytes of additional information.
        info_length: u8 = [5];
        /// Whose options the attribute modifier holds, the high bytes; the low one follows.
        vendor_id_high: u16 = [6];
        /// The queue pair of the service.
        qpn: QpNum = [8];
        /// The low byte.
        vendor_id_low: u8 = [11];
        /// Which service it is.
        service_id: ServiceId = [12];
        /// Its Q_Key.
        qkey: u32 = [20];
        /// Additional information, which depends on the status.
        info: Bytes<72> = [24];
        /// What the program says.
        private_data: Bytes<136> = [96];
    }
    /// Load alternate path (LAP, IBA 12.8.1).
    Lap = 0x0019 {
        /// The sender's ID of the connection.
        local_comm_id: CommId = [0];
        /// The receiver's.
        remote_comm_id: CommId = [4];
        /// The receiver's queue pair.
        remote_qpn: QpNum = [12];
        /// How soon the receiver is expected to answer.
        remote_response_timeout: u8 = [15 . 0 + 5];
        /// LID of the sender.
        local_lid: u16 = [20];
        /// LID of the receiver.
        remote_lid: u16 = [22];
        /// The sender's GID.
        local_gid: Gid = [24];
        /// The receiver's GID.
        remote_gid: Gid = [40];
        /// Flow label.
        flow_label: u32 = [56 . 0 + 20];
        /// Traffic class.
        traffic_class: u8 = [59];
        /// Hop limit.
        hop_limit: u8 = [60];
        /// Rate.
        packet_rate: u8 = [61 . 2 + 6];
        /// Service level.
        sl: u8 = [62 . 0 + 4];
        /// Within one subnet.
        subnet_local: bool = [62 . 4 + 1];
        /// Local ACK timeout code.
        local_ack_timeout: u8 = [63 . 0 + 5];
        /// What the program says.
        private_data: Bytes<168> = [64];
    }
    /// Alternate path response (APR, IBA 12.8.2).
    Apr = 0x001a {
        /// The sender's ID of the connection.
        local_comm_id: CommId = [0];
        /// The receiver's.
        remote_comm_id: CommId = [4];
        /// Bytes of additional information.
        info_length: u8 = [8];
        /// 0 is yes; see [`Apr::NOT_SUPPORTED`].
        status: u8 = [9];
        /// Additional information, which depends on the status.
        info: Bytes<72> = [12];
        /// What the program says.
        private_data: Bytes<148> = [84];
    }
}

impl Req {
    /// The sender of this one understands no reliable datagrams.
    pub const RELIABLE_CONNECTION: u8 = 0;
    /// Unreliable connection.
    pub const UNRELIABLE_CONNECTION: u8 = 1;
    /// See `extended_transport`.
    pub const EXTENDED: u8 = 3;
    /// Extended reliable connection.
    pub const XRC: u8 = 1;
}

impl Apr {
    /// The receiver has no alternate paths.
    pub const NOT_SUPPORTED: u8 = 2;
}

impl Rep {
    /// Whose options the attribute modifier holds.
    #[must_use]
    pub fn vendor_id(&self) -> u32 {
        u32::from_be_bytes([0, self.vendor_id_high, self.vendor_id_middle, self.vendor_id_low])
    }

    /// Sets the three bytes of it.
    pub fn set_vendor_id(&mut self, vendor: u32) {
        [_, self.vendor_id_high, self.vendor_id_middle, self.vendor_id_low] = vendor.to_be_bytes();
    }
}

impl SidrRep {
    /// Whose options the attribute modifier holds.
    #[must_use]
    pub fn vendor_id(&self) -> u32 {
        u32::from(self.vendor_id_high) << 8 | u32::from(self.vendor_id_low)
    }

    /// Sets its three bytes.
    pub fn set_vendor_id(&mut self, vendor: u32) {
        let [_, high, middle, low] = vendor.to_be_bytes();
        (self.vendor_id_high, self.vendor_id_low) = (u16::from_be_bytes([high, middle]), low);
    }
}

/// Which message a REJ or MRA answers (IBA tables 107 and 108).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Answered {
    /// A REQ.
    Req = 0,
    /// A REP.
    Rep = 1,
    /// Neither, or none.
    Other = 2,
}

/// What becomes of a service ID resolution (IBA table 121).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SidrStatus {
    /// Queue pair and Q_Key are good.
    Valid = 0,
    /// Nobody offers it.
    NotSupported = 1,
    /// The program says no.
    Rejected = 2,
    /// There is no queue pair.
    NoQp = 3,
}

/// Where a message is to go, for who hands them on and keeps no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To who listens to this service.
    Service(ServiceId),
    /// To who has given this ID.
    Connection(CommId),
}

impl Message {
    /// Where it is to go. A REJ without the receiver's ID answers nothing that could be found.
    #[must_use]
    pub const fn target(&self) -> Target {
        match self {
            Self::Req(req) => Target::Service(req.service_id),
            Self::SidrReq(req) => Target::Service(req.service_id),
            Self::SidrRep(rep) => Target::Connection(rep.request_id),
            Self::Mra(Mra { remote_comm_id, .. })
            | Self::Rej(Rej { remote_comm_id, .. })
            | Self::Rep(Rep { remote_comm_id, .. })
            | Self::Rtu(Rtu { remote_comm_id, .. })
            | Self::Dreq(Dreq { remote_comm_id, .. })
            | Self::Drep(Drep { remote_comm_id, .. })
            | Self::Lap(Lap { remote_comm_id, .. })
            | Self::Apr(Apr { remote_comm_id, .. }) => Target::Connection(*remote_comm_id),
        }
    }

    /// What the bytes of the program hold for requests: the IP addressing header and more.
    #[must_use]
    pub const fn request_data(&self) -> Option<&[u8]> {
        match self {
            Self::Req(req) => Some(&req.private_data.0),
            Self::SidrReq(req) => Some(&req.private_data.0),
            Self::Mra(_)
            | Self::Rej(_)
            | Self::Rep(_)
            | Self::Rtu(_)
            | Self::Dreq(_)
            | Self::Drep(_)
            | Self::SidrRep(_)
            | Self::Lap(_)
            | Self::Apr(_) => None,
        }
    }
}

/// Where a datagram is to go and, of a request, to which address, from no more bytes of it than that
/// takes: for who hands many of them on.
///
/// # Errors
/// See [`NotCm`].
pub fn peek(bytes: &[u8]) -> Result<(Target, Option<IpAddr>), NotCm> {
    let (header, body) = MadHeader::parse(bytes)?;
    let request = |service: usize, private_data: usize| {
        let service_id = ServiceId::get(body, Place::byte(service));
        let address = body.get(private_data..).and_then(|data| IpHeader::parse(data).ok());
        (Target::Service(service_id), address.map(|header| header.destination))
    };
    match header.attribute {
        0x0010 => Ok(request(8, 140)),
        0x0017 => Ok(request(8, 16)),
        0x0018 => Ok((Target::Connection(CommId::get(body, Place::byte(0))), None)),
        0x0011..=0x001a => Ok((Target::Connection(CommId::get(body, Place::byte(4))), None)),
        _ => Err(NotCm::Class),
    }
}

/// What nobody's host answers: a request for a service that nobody offers is refused, and a
/// disconnection of a connection that is not there is agreed to. `None` for what needs no answer.
#[must_use]
pub fn answer_of_nobody(header: &MadHeader, message: &Message) -> Option<Mad> {
    let answer: Message = match message {
        Message::Req(req) => Rej {
            remote_comm_id: req.local_comm_id,
            message: Answered::Req as u8,
            reason: RejectReason::INVALID_SERVICE_ID,
            ..Rej::default()
        }
        .into(),
        Message::SidrReq(req) => SidrRep {
            request_id: req.request_id,
            status: SidrStatus::NotSupported as u8,
            service_id: req.service_id,
            ..SidrRep::default()
        }
        .into(),
        Message::Dreq(dreq) => Drep {
            local_comm_id: dreq.remote_comm_id,
            remote_comm_id: dreq.local_comm_id,
            ..Drep::default()
        }
        .into(),
        Message::Rep(rep) => Rej {
            local_comm_id: rep.remote_comm_id,
            remote_comm_id: rep.local_comm_id,
            message: Answered::Rep as u8,
            reason: RejectReason::INVALID_COMM_ID,
            ..Rej::default()
        }
        .into(),
        Message::Mra(_)
        | Message::Rej(_)
        | Message::Rtu(_)
        | Message::Drep(_)
        | Message::SidrRep(_)
        | Message::Lap(_)
        | Message::Apr(_) => return None,
    };
    Some(answer.to_mad(header.transaction, 0))
}
