//! Values as people write them on a command line: sizes, durations, MTUs, hosts, addresses.
//!
//! Each parser gives an error that completes the sentence "invalid value 'X': ...".

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use softrnic_model::verbs::Mtu;

/// The largest message of a ping-pong or benchmark, in bytes.
pub(crate) const MESSAGE_MAX: u64 = 8 << 20;

/// Longest interface name of Linux: `IFNAMSIZ` less the final zero (netdevice(7)).
const INTERFACE_NAME_MAX: usize = 15;

/// Splits `512ms` into `512` and `ms`.
fn number_and_suffix(text: &str) -> Result<(u64, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    match digits.parse() {
        Ok(number) => Ok((number, suffix)),
        Err(_) if digits.is_empty() => Err("it must begin with a digit".into()),
        Err(_) => Err("the number is too large".into()),
    }
}

/// A number of bytes: `64`, `4K`, `8M`, `64KiB`; a suffix counts in powers of 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, suffix) = number_and_suffix(text)?;
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err(format!("`{suffix}` is no unit of size; use K, M or G, as in 64K")),
    };
    number.checked_mul(1 << shift).ok_or_else(|| "the number is too large".into())
}

/// A message size: [`size`] within 1 byte and [`MESSAGE_MAX`].
pub(crate) fn message_size(text: &str) -> Result<u64, String> {
    match size(text)? {
        0 => Err("a message has at least 1 byte".into()),
        n if n > MESSAGE_MAX => Err(format!("a message has at most {}", show_size(MESSAGE_MAX))),
        n => Ok(n),
    }
}

/// A time: `500ms`, `10s`, `2m`; a bare number counts seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, suffix) = number_and_suffix(text)?;
    let unit_ms = match suffix {
        "ms" => 1,
        "" | "s" => 1000,
        "m" | "min" => 60_000,
        _ => return Err(format!("`{suffix}` is no unit of time; use ms, s or m, as in 500ms")),
    };
    match number.checked_mul(unit_ms) {
        Some(0) => Err("it must be longer than 0".into()),
        Some(ms) if ms <= 24 * 3_600_000 => Ok(Duration::from_millis(ms)),
        Some(_) | None => Err("it must be at most a day".into()),
    }
}

/// A path MTU in bytes.
pub(crate) fn mtu(text: &str) -> Result<Mtu, String> {
    Mtu::ALL
        .into_iter()
        .find(|mtu| mtu.bytes().to_string() == text)
        .ok_or_else(|| "a path MTU is 256, 512, 1024, 2048 or 4096".into())
}

/// The host of a peer: a name or an address, without a port.
pub(crate) fn host(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err("a host is a name or an IP address".into());
    }
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.into());
    }
    let with_port = text.parse::<SocketAddr>().is_ok()
        || text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if with_port {
        return Err("a host has no port in it; give that with --port".into());
    }
    Ok(text.into())
}

/// Which addresses a device takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// These, at least one.
    Ips(Vec<IpAddr>),
    /// Several devices, each with a list of its own, where a command has several.
    Several(Vec<Vec<IpAddr>>),
    /// Those of the interface of this name.
    Interface(String),
}

impl Address {
    /// The addresses that are named, of all devices.
    pub(crate) fn ips(&self) -> impl Iterator<Item = &IpAddr> {
        let lists = match self {
            Self::Ips(ips) => std::slice::from_ref(ips),
            Self::Several(lists) => lists,
            Self::Interface(_) => &[],
        };
        lists.iter().flatten()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ips(ips) => f.write_str(&list(ips)),
            Self::Several(lists) => {
                f.write_str(&lists.iter().map(|ips| list(ips)).collect::<Vec<_>>().join(";"))
            }
            Self::Interface(name) => f.write_str(name),
        }
    }
}

/// Addresses as one device has them.
pub(crate) fn list(ips: &[IpAddr]) -> String {
    ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// An [`Address`].
pub(crate) fn address(text: &str) -> Result<Address, String> {
    let ips = |list: &str| list.split(',').map(|item| item.trim().parse()).collect();
    if let Ok(mut lists) = text.split(';').map(ips).collect::<Result<Vec<Vec<IpAddr>>, _>>() {
        let mut all: Vec<_> = lists.iter().flatten().collect();
        all.sort();
        if let Some(twice) = all.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("{} is named twice", twice[0]));
        }
        return Ok(if lists.len() == 1 {
            Address::Ips(lists.remove(0))
        } else {
            Address::Several(lists)
        });
    }
    // A dot or colon, or digits alone, is a mistyped address more often than a name.
    let mistyped = text.contains([':', ',', ';'])
        || !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if mistyped {
        return Err("it is neither an IP address nor the name of an interface; several addresses \
                    have commas between them, several devices semicolons"
            .into());
    }
    let named = (1..=INTERFACE_NAME_MAX).contains(&text.len())
        && !text.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control());
    if named {
        return Ok(Address::Interface(text.into()));
    }
    Err(format!(
        "the name of an interface has 1 to {INTERFACE_NAME_MAX} bytes, no blank and no `/`"
    ))
}

/// The name of a device: as the struct of verbs has room for it, and no path.
pub(crate) fn device_name(text: &str) -> Result<String, String> {
    const MAX: usize = 63;
    let good = (1..=MAX).contains(&text.len())
        && !text.starts_with('.')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    if good {
        return Ok(text.into());
    }
    Err(format!("a name has 1 to {MAX} letters, digits, `_`, `-` or `.`, and no `.` in front"))
}

/// `bytes` in the largest unit that divides it: `64 KiB`, `100 B`.
pub(crate) fn show_size(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("1", 1), ("2B", 2), ("4k", 4096), ("64KiB", 65536), ("8M", 8 << 20), ("1g", 1 << 30)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "K", "-1", "4 K", "1.5K", "4kB", "99999999999999999999", "18446744073709551615K"]
        {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(message_size("8M"), Ok(MESSAGE_MAX));
        assert!(message_size("8388609").unwrap_err().contains("8 MiB"));
        assert!(message_size("0").is_err());
    }

    #[test]
    fn sizes_are_shown_in_the_unit_that_divides_them() {
        for (bytes, text) in
            [(0, "0 B"), (2, "2 B"), (1025, "1025 B"), (4096, "4 KiB"), (8 << 20, "8 MiB")]
        {
            assert_eq!(show_size(bytes), text);
        }
    }

    #[test]
    fn durations() {
        for (text, ms) in [("5", 5000), ("5s", 5000), ("250ms", 250), ("2m", 120_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "0", "0ms", "s", "5h", "1.5s", "25000m", "18446744073709551615"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn device_names() {
        for text in ["mlx5_0", "a", "softrnic0", "rdma.1-b"] {
            assert_eq!(device_name(text).as_deref(), Ok(text));
        }
        for text in ["", ".", "..", "../x", "a/b", "a b", &"x".repeat(64)] {
            assert!(device_name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn mtus() {
        assert_eq!(mtu("1024"), Ok(Mtu::B1024));
        for text in ["1500", "0", "", "01024", "1K"] {
            assert!(mtu(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts() {
        for text in ["localhost", "10.0.0.1", "::1", "fe80::1:2", "a.example"] {
            assert_eq!(host(text).as_deref(), Ok(text));
        }
        for text in ["", "a b", "10.0.0.1:18515", "[::1]:18515", "a.example:80"] {
            assert!(host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses() {
        let ips = |list: &[&str]| Address::Ips(list.iter().map(|ip| ip.parse().unwrap()).collect());
        assert_eq!(address("::1"), Ok(ips(&["::1"])));
        assert_eq!(address("10.0.0.1, ::1"), Ok(ips(&["10.0.0.1", "::1"])));
        assert_eq!(ips(&["10.0.0.1", "::1"]).to_string(), "10.0.0.1,::1");
        let several = address("10.0.0.1,::1; 10.0.0.2").unwrap();
        assert_eq!(several.to_string(), "10.0.0.1,::1;10.0.0.2");
        assert_eq!(several.ips().count(), 3);
        for text in ["eth0", "lo", "br-0a1b", "wg.7"] {
            assert_eq!(address(text), Ok(Address::Interface(text.into())));
        }
        for text in [
            "",
            "10.0.0",
            "10.0.0.256",
            "fe80:::1",
            "10.0.0.1,",
            "10.0.0.1;",
            "::1;::1",
            "::1,::1",
            "a/b",
            "a b",
            "sixteen-is-a-lot",
        ] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
