//! Names and hints to addresses (`rdma_getaddrinfo(3)`).

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use std::net::SocketAddr;

use softrnic_model::verbs::QpType;

use super::devices;
use super::layout::rdma_addrinfo;
use super::sockaddr::{Storage, read};
use super::space::{RDMA_PS_IB, RDMA_PS_IPOIB, RDMA_PS_TCP, RDMA_PS_UDP};
use crate::convert::put_if_wanted;
use crate::errno::{Errno, Result, guarded};

const RAI_PASSIVE: c_int = 1;
const RAI_NUMERICHOST: c_int = 1 << 1;
const RAI_NOROUTE: c_int = 1 << 2;
const RAI_FAMILY: c_int = 1 << 3;

/// Why there is no answer: an errno, after which C sees −1, or a number of `getaddrinfo(3)`.
enum Failure {
    Errno(Errno),
    Name(c_int),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// What is asked for, or what is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Answer {
    passive: bool,
    no_route: bool,
    qp_type: c_int,
    port_space: c_int,
    source: Option<SocketAddr>,
    destination: Option<SocketAddr>,
    canonical: Option<Vec<u8>>,
}

const RC: c_int = QpType::Rc as c_int;
const UD: c_int = QpType::Ud as c_int;
const TCP: c_int = RDMA_PS_TCP.cast_signed();
const UDP: c_int = RDMA_PS_UDP.cast_signed();
const IB: c_int = RDMA_PS_IB.cast_signed();
const IPOIB: c_int = RDMA_PS_IPOIB.cast_signed();

/// The kind of service that hints ask for; 0 is for any. Datagrams and the TCP port space do not go
/// together.
fn service_kind(qp_type: c_int, port_space: c_int) -> core::result::Result<c_int, Failure> {
    let by_space = match port_space {
        0 | IB => 0,
        TCP => libc::SOCK_STREAM,
        UDP | IPOIB => libc::SOCK_DGRAM,
        _ => return Err(Failure::Name(libc::EAI_SERVICE)),
    };
    let by_type = match qp_type {
        0 => 0,
        UD => libc::SOCK_DGRAM,
        _ => libc::SOCK_STREAM,
    };
    match (by_type, by_space) {
        (one, 0) | (0, one) => Ok(one),
        (one, other) if one == other => Ok(one),
        _ => Err(Failure::Name(libc::EAI_SOCKTYPE)),
    }
}

/// Fills in what the hints leave open.
const fn completed(kind: c_int, qp_type: c_int, port_space: c_int) -> (c_int, c_int) {
    let datagrams = kind == libc::SOCK_DGRAM;
    let qp_type = if qp_type != 0 {
        qp_type
    } else if datagrams {
        UD
    } else {
        RC
    };
    let port_space = if port_space != 0 {
        port_space
    } else if datagrams {
        UDP
    } else {
        TCP
    };
    (qp_type, port_space)
}

/// The list that the C library makes, until it is dropped.
struct Names(*mut libc::addrinfo);

impl Names {
    #[expect(unsafe_code, reason = "asks the C library")]
    fn ask(
        node: *const c_char,
        service: *const c_char,
        hints: &libc::addrinfo,
    ) -> core::result::Result<Self, Failure> {
        let mut list = null_mut();
        // SAFETY: C vouches for its texts, and the rest is ours.
        match unsafe { libc::getaddrinfo(node, service, hints, &raw mut list) } {
            0 => Ok(Self(list)),
            number => Err(Failure::Name(number)),
        }
    }

    /// The first address, and the canonical name.
    #[expect(unsafe_code, reason = "reads what the C library made")]
    fn first(&self) -> core::result::Result<(SocketAddr, Option<Vec<u8>>), Failure> {
        // SAFETY: a list that was made has at least one entry, whose name is a text or absent.
        let (address, name) = unsafe {
            let first = self.0.as_ref().ok_or(Failure::Name(libc::EAI_NONAME))?;
            let name = (!first.ai_canonname.is_null())
                .then(|| CStr::from_ptr(first.ai_canonname).to_bytes_with_nul().to_vec());
            (first.ai_addr.cast_const(), name)
        };
        Ok((read(address.cast())?, name))
    }
}

impl Drop for Names {
    #[expect(unsafe_code, reason = "gives back what the C library made")]
    fn drop(&mut self) {
        // SAFETY: it came from `getaddrinfo`, and nobody else has it.
        unsafe { libc::freeaddrinfo(self.0) };
    }
}

fn hinted(address: *const Storage, len: u32) -> Result<Option<SocketAddr>> {
    if len == 0 { Ok(None) } else { read(address).map(Some) }
}

fn answer(
    node: *const c_char,
    service: *const c_char,
    hints: Option<&rdma_addrinfo>,
) -> core::result::Result<Answer, Failure> {
    let flags = hints.map_or(0, |hints| hints.ai_flags);
    let [qp_type, port_space] =
        hints.map_or([0, 0], |hints| [hints.ai_qp_type, hints.ai_port_space]);
    let kind = service_kind(qp_type, port_space)?;
    let mut found = Answer {
        passive: flags & RAI_PASSIVE != 0,
        no_route: flags & RAI_NOROUTE != 0,
        ..Answer::default()
    };
    if node.is_null() && service.is_null() {
        let hints = hints.ok_or(Errno::INVALID)?;
        found.source = hinted(hints.ai_src_addr, hints.ai_src_len)?;
        found.destination = hinted(hints.ai_dst_addr, hints.ai_dst_len)?;
    } else {
        let flag = |of: c_int, then: c_int| if flags & of != 0 { then } else { 0 };
        let family = hints.filter(|_| flags & RAI_FAMILY != 0).map_or(0, |hints| hints.ai_family);
        let wanted = libc::addrinfo {
            ai_flags: flag(RAI_PASSIVE, libc::AI_PASSIVE)
                | flag(RAI_NUMERICHOST, libc::AI_NUMERICHOST)
                | if node.is_null() { 0 } else { libc::AI_CANONNAME },
            ai_family: family,
            ai_socktype: kind,
            ai_protocol: 0,
            ai_addrlen: 0,
            ai_addr: null_mut(),
            ai_canonname: null_mut(),
            ai_next: null_mut(),
        };
        let (address, canonical) = Names::ask(node, service, &wanted)?.first()?;
        found.canonical = canonical;
        if found.passive {
            found.source = Some(address);
        } else {
            found.destination = Some(address);
            found.source =
                hints.map_or(Ok(None), |hints| hinted(hints.ai_src_addr, hints.ai_src_len))?;
        }
    }
    (found.qp_type, found.port_space) = completed(kind, qp_type, port_space);
    if found.passive {
        found.destination = None;
    } else if !found.no_route && found.source.is_none() {
        // That there is none is for who resolves the address to say.
        found.source = found.destination.and_then(devices::source_for);
    }
    Ok(found)
}

#[expect(unsafe_code, reason = "memory of the C library")]
fn copied(bytes: &[u8]) -> Result<*mut c_void> {
    // SAFETY: fresh memory of that many bytes, if it is not NULL.
    unsafe {
        let copy = libc::malloc(bytes.len());
        if copy.is_null() {
            return Err(Errno::NO_MEMORY);
        }
        copy.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        Ok(copy)
    }
}

/// Makes an answer into one that `rdma_freeaddrinfo` takes back. What C has of it is freed with it, so
/// that nothing is lost if memory runs out on the way.
fn for_c(answer: &Answer) -> Result<*mut rdma_addrinfo> {
    let mut info = Made(rdma_addrinfo {
        ai_flags: if answer.passive { RAI_PASSIVE } else { 0 }
            | if answer.no_route { RAI_NOROUTE } else { 0 },
        ai_family: 0,
        ai_qp_type: answer.qp_type,
        ai_port_space: answer.port_space,
        ai_src_len: 0,
        ai_dst_len: 0,
        ai_src_addr: null_mut(),
        ai_dst_addr: null_mut(),
        ai_src_canonname: null_mut(),
        ai_dst_canonname: null_mut(),
        ai_route_len: 0,
        ai_route: null_mut(),
        ai_connect_len: 0,
        ai_connect: null_mut(),
        ai_next: null_mut(),
    });
    let family =
        |address: SocketAddr| if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    for (address, is_source) in [(answer.source, true), (answer.destination, false)] {
        let Some(address) = address else { continue };
        let storage = Storage::from(address);
        let copy = copied(&storage.0)?.cast();
        let len = u32::try_from(storage.address_len())?;
        info.0.ai_family = family(address);
        if is_source {
            (info.0.ai_src_addr, info.0.ai_src_len) = (copy, len);
        } else {
            (info.0.ai_dst_addr, info.0.ai_dst_len) = (copy, len);
        }
    }
    if let Some(name) = &answer.canonical {
        let copy = copied(name)?.cast();
        if answer.passive {
            info.0.ai_src_canonname = copy;
        } else {
            info.0.ai_dst_canonname = copy;
        }
    }
    info.into_c()
}

/// An answer that frees what it has if it does not get to C.
struct Made(rdma_addrinfo);

impl Made {
    #[expect(unsafe_code, reason = "memory of the C library")]
    fn into_c(mut self) -> Result<*mut rdma_addrinfo> {
        // SAFETY: a struct of integers and addresses, seen as bytes.
        let bytes = unsafe {
            core::slice::from_raw_parts(
                (&raw const self.0).cast::<u8>(),
                size_of::<rdma_addrinfo>(),
            )
        };
        let copy = copied(bytes)?.cast::<rdma_addrinfo>();
        // C has it all now.
        let parts = [
            (&raw mut self.0.ai_src_addr).cast::<*mut c_void>(),
            (&raw mut self.0.ai_dst_addr).cast(),
            (&raw mut self.0.ai_src_canonname).cast(),
            (&raw mut self.0.ai_dst_canonname).cast(),
        ];
        for part in parts {
            put_if_wanted(part, null_mut());
        }
        Ok(copy)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        release_parts(&self.0);
    }
}

#[expect(unsafe_code, reason = "memory of the C library")]
fn release(memory: *mut c_void) {
    // SAFETY: it comes from the C library, or is NULL.
    unsafe { libc::free(memory) };
}

fn release_parts(info: &rdma_addrinfo) {
    release(info.ai_src_addr.cast());
    release(info.ai_dst_addr.cast());
    release(info.ai_src_canonname.cast());
    release(info.ai_dst_canonname.cast());
    release(info.ai_route);
    release(info.ai_connect);
}

pub(crate) extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: Option<&rdma_addrinfo>,
    list: *mut *mut rdma_addrinfo,
) -> c_int {
    let made = guarded(|| {
        Ok(match answer(node, service, hints) {
            Ok(answer) => for_c(&answer).map_err(Failure::Errno),
            Err(failure) => Err(failure),
        })
    });
    let (end, number) = match made {
        Ok(Ok(info)) => (info, 0),
        Ok(Err(Failure::Name(number))) => (null_mut(), number),
        Ok(Err(Failure::Errno(errno))) | Err(errno) => {
            errno.set();
            (null_mut(), -1)
        }
    };
    put_if_wanted(list, end);
    number
}

pub(crate) extern "C" fn freeaddrinfo(list: *mut rdma_addrinfo) {
    let mut next = list;
    while let Some(info) = entry(next) {
        release_parts(&info);
        let this = next;
        next = info.ai_next;
        release(this.cast());
    }
}

#[expect(unsafe_code, reason = "C passes a list")]
fn entry(at: *const rdma_addrinfo) -> Option<rdma_addrinfo> {
    // SAFETY: C vouches that it is an entry that we made, or NULL.
    unsafe { at.as_ref() }.copied()
}

#[cfg(test)]
mod tests {
    use core::ptr::null;

    use super::*;

    fn asked(
        node: Option<&CStr>,
        service: Option<&CStr>,
        hints: Option<(c_int, c_int, c_int)>,
    ) -> core::result::Result<Answer, c_int> {
        let text = |text: Option<&CStr>| text.map_or(null(), CStr::as_ptr);
        let hints = hints.map(|(flags, qp_type, port_space)| {
            let answer = Answer { qp_type, port_space, ..Answer::default() };
            let made = for_c(&answer).unwrap();
            let mut info = entry(made).unwrap();
            freeaddrinfo(made);
            info.ai_flags = flags;
            info
        });
        answer(text(node), text(service), hints.as_ref()).map_err(|failure| match failure {
            Failure::Name(number) => number,
            Failure::Errno(Errno(errno)) => errno,
        })
    }

    #[test]
    fn passive_answers_have_a_source_and_active_ones_a_destination() {
        let flags = RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE;
        let passive = asked(Some(c"10.0.0.1"), Some(c"7471"), Some((flags, 0, TCP))).unwrap();
        assert_eq!(
            (passive.source, passive.destination),
            (Some("10.0.0.1:7471".parse().unwrap()), None)
        );
        assert_eq!((passive.qp_type, passive.port_space), (RC, TCP));
        let flags = RAI_NUMERICHOST | RAI_NOROUTE;
        let active = asked(Some(c"fd00::1"), Some(c"7471"), Some((flags, UD, 0))).unwrap();
        assert_eq!(
            (active.source, active.destination),
            (None, Some("[fd00::1]:7471".parse().unwrap()))
        );
        assert_eq!((active.qp_type, active.port_space), (UD, UDP));
    }

    #[test]
    fn what_cannot_be_says_why() {
        assert_eq!(asked(None, None, None), Err(libc::EINVAL));
        let numeric = Some((RAI_NUMERICHOST, 0, TCP));
        assert_eq!(asked(Some(c"not.a.number"), None, numeric), Err(libc::EAI_NONAME));
        assert_eq!(asked(Some(c"10.0.0.1"), None, Some((0, UD, TCP))), Err(libc::EAI_SOCKTYPE));
        assert_eq!(asked(Some(c"10.0.0.1"), None, Some((0, 0, 77))), Err(libc::EAI_SERVICE));
    }

    #[test]
    fn an_answer_goes_to_c_and_comes_back() {
        let answer = Answer {
            passive: true,
            qp_type: RC,
            port_space: TCP,
            source: Some("10.0.0.1:5".parse().unwrap()),
            canonical: Some(b"name\0".to_vec()),
            ..Answer::default()
        };
        let made = for_c(&answer).unwrap();
        let info = entry(made).unwrap();
        assert_eq!(
            (info.ai_flags, info.ai_family, info.ai_src_len),
            (RAI_PASSIVE, libc::AF_INET, 16)
        );
        assert_eq!(read(info.ai_src_addr), Ok("10.0.0.1:5".parse().unwrap()));
        assert!(info.ai_dst_addr.is_null() && !info.ai_src_canonname.is_null());
        freeaddrinfo(made);
        freeaddrinfo(null_mut());
    }
}
