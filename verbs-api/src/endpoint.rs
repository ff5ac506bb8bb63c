//! What two programs tell each other before their queue pairs can talk.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use softrnic_model::verbs::{Gid, Mtu, Psn, QpNum};

/// One end of a connection. Exchange it by any means; as text it is one word:
/// `10.0.0.1,0x000011,0x00002a,4096,16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Address.
    pub gid: Gid,
    /// Queue pair.
    pub qp_num: QpNum,
    /// First PSN that it will send.
    pub psn: Psn,
    /// Largest path MTU that its port carries.
    pub mtu: Mtu,
    /// READs and atomics that it can answer at the same time.
    pub responder_depth: u8,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (qpn, psn) = (self.qp_num.get(), self.psn.get());
        let (mtu, depth) = (self.mtu.bytes(), self.responder_depth);
        write!(f, "{},{qpn:#08x},{psn:#08x},{mtu},{depth}", self.gid)
    }
}

/// A text is not an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointError(&'static str);

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "endpoint: {} (like 10.0.0.1,0x000011,0x00002a,4096,16)", self.0)
    }
}

impl core::error::Error for EndpointError {}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let mut parts = text.trim().split(',');
        let mut next = |what| parts.next().ok_or(EndpointError(what));
        let gid = next("the address is missing")?.parse::<IpAddr>();
        let qp_num = number(next("the queue pair is missing")?);
        let psn = number(next("the PSN is missing")?);
        let mtu = next("the MTU is missing")?.parse::<u32>();
        let depth = next("the depth is missing")?.parse();
        if parts.next().is_some() {
            return Err(EndpointError("too many parts"));
        }
        Ok(Self {
            gid: gid.map_err(|_| EndpointError("the address is not one"))?.into(),
            qp_num: QpNum::new(qp_num.ok_or(EndpointError("the queue pair has 24 bits"))?),
            psn: Psn::new(psn.ok_or(EndpointError("the PSN has 24 bits"))?),
            mtu: Mtu::ALL
                .into_iter()
                .find(|known| mtu.as_ref() == Ok(&known.bytes()))
                .ok_or(EndpointError("the MTU is 256, 512, 1024, 2048 or 4096"))?,
            responder_depth: depth.map_err(|_| EndpointError("the depth is a number up to 255"))?,
        })
    }
}

/// 24 bits, decimal or with `0x`.
fn number(text: &str) -> Option<u32> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().filter(|number| *number < 1 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_survives_as_text() {
        for (address, text) in [
            ("10.0.0.1", "10.0.0.1,0x000011,0x00002a,4096,16"),
            ("fe80::1", "fe80::1,0x000011,0x00002a,4096,16"),
        ] {
            let endpoint = Endpoint {
                gid: address.parse::<IpAddr>().unwrap().into(),
                qp_num: QpNum::new(0x11),
                psn: Psn::new(0x2a),
                mtu: Mtu::B4096,
                responder_depth: 16,
            };
            assert_eq!(endpoint.to_string(), text);
            assert_eq!(text.parse(), Ok(endpoint));
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for text in [
            "",
            "10.0.0.1",
            "10.0.0.1,17,42,4096",
            "10.0.0.1,17,42,4096,16,1",
            "host,17,42,4096,16",
            "10.0.0.1,0x1000000,42,4096,16",
            "10.0.0.1,17,-1,4096,16",
            "10.0.0.1,17,42,1500,16",
            "10.0.0.1,17,42,4096,256",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
        assert!(" 10.0.0.1,17,42,256,0\n".parse::<Endpoint>().is_ok());
    }
}
