//! Routes, neighbours and interfaces of the kernel, over netlink (rtnetlink(7)).
//!
//! The message formats are those of the kernel's `linux/netlink.h`, `linux/rtnetlink.h` and `linux/neighbour.h`:
//! numbers in the machine's byte order, addresses in network byte order.
use std::{
    io, iter,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::{AsRawFd as _, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
    },
};
use tokio::net::UnixDatagram;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_VIA: u16 = 18;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const IFLA_IFNAME: u16 = 3;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// Flags of nested and of byte-order attributes, which are no part of the type.
const ATTRIBUTE_TYPE: u16 = 0x3fff;
/// `RTMGRP_LINK`, `_IPV4_IFADDR`, `_IPV4_ROUTE`, `_IPV6_IFADDR` and `_IPV6_ROUTE`.
const CHANGES: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;
/// Sizes of `struct nlmsghdr`, `rtmsg`, `ndmsg` and `ifinfomsg`.
const HEADER: usize = 16;
const ROUTE: usize = 12;
const NEIGHBOUR: usize = 12;
const INTERFACE: usize = 16;
/// Receive buffer: the kernel sends at most 32 KiB at a time.
const BUFFER: usize = 32 * 1024;
/// Maximum number of datagrams of one answer: more than a thousand neighbours.
const MAX_DATAGRAMS: usize = 16;

/// The route to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Index of the interface.
    pub(super) interface: u32,
    /// The router; `None` if the destination is a neighbour itself.
    pub(super) router: Option<IpAddr>,
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    /// Its `ARPHRD_` type.
    pub(super) hardware: u16,
    pub(super) name: String,
}

/// Returns the route to `destination`; `None` if there is none.
pub(super) fn route_to(destination: IpAddr) -> io::Result<Option<Route>> {
    let (family, address) = octets(destination);
    let bits = u8::try_from(address.len() * 8).unwrap_or(u8::MAX);
    let mut message = vec![family, bits];
    message.resize(ROUTE, 0);
    push_attribute(&mut message, RTA_DST, &address);
    let mut found = None;
    ask(RTM_GETROUTE, 0, &message, |kind, payload| {
        if kind == RTM_NEWROUTE {
            found = found.or_else(|| route(payload));
        }
    })?;
    Ok(found)
}

/// Returns the hardware address of the neighbour `address` at an interface; `None` if the kernel does not know it.
pub(super) fn hardware_address(interface: u32, address: IpAddr) -> io::Result<Option<Vec<u8>>> {
    let (family, wanted) = octets(address);
    let mut message = vec![family];
    message.resize(NEIGHBOUR, 0);
    let mut found = None;
    ask(RTM_GETNEIGH, NLM_F_DUMP, &message, |kind, payload| {
        if kind == RTM_NEWNEIGH && found.is_none() {
            found = neighbour(payload, interface, &wanted);
        }
    })?;
    Ok(found)
}

/// Returns the interface with this index.
pub(super) fn interface(index: u32) -> io::Result<Option<Interface>> {
    let mut message = vec![0; 4];
    message.extend_from_slice(&index.to_ne_bytes());
    message.resize(INTERFACE, 0);
    let mut found = None;
    ask(RTM_GETLINK, 0, &message, |kind, payload| {
        if kind == RTM_NEWLINK && found.is_none() {
            found = interface_of(payload);
        }
    })?;
    Ok(found)
}

/// Notifications of changed interfaces, addresses and routes. The runtime has no type for netlink sockets; waiting
/// and receiving are the same for each socket of datagrams.
#[derive(Debug)]
pub(super) struct Notifications(UnixDatagram);

impl Notifications {
    /// Subscribes to the notifications. Must be called in the runtime that waits for them.
    pub(super) fn subscribe() -> io::Result<Self> {
        let kernel = open()?;
        bind(kernel.as_raw_fd(), &NetlinkAddr::new(0, CHANGES))?;
        UnixDatagram::from_std(kernel.into()).map(Self)
    }

    /// Waits for a change. Changes that arrive together count as one. Cancel safe.
    pub(super) async fn next(&self) -> io::Result<()> {
        self.0.readable().await?;
        let mut buffer = [0; 256];
        // The contents do not matter; of a message that does not fit, the kernel drops the rest.
        for _ in 0..BUFFER {
            match self.0.try_recv(&mut buffer) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Messages that did not fit the socket's buffer were changes, too.
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn open() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let kernel = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        flags,
        SockProtocol::NetlinkRoute,
    )?;
    Ok(kernel)
}

/// Sends a request and passes each message of the answer to `take`. The kernel answers before `sendto` returns,
/// and continues a dump when its last part was received.
fn ask(kind: u16, flags: u16, payload: &[u8], mut take: impl FnMut(u16, &[u8])) -> io::Result<()> {
    let kernel = open()?;
    let request = request(kind, flags | NLM_F_REQUEST, payload);
    sendto(
        kernel.as_raw_fd(),
        &request,
        &NetlinkAddr::new(0, 0),
        MsgFlags::empty(),
    )?;
    let mut buffer = vec![0; BUFFER];
    for _ in 0..MAX_DATAGRAMS {
        let length = match recv(kernel.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Ok(length) => length,
            Err(Errno::EAGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for (kind, payload) in messages(buffer.get(..length).unwrap_or_default()) {
            match kind {
                NLMSG_DONE => return Ok(()),
                // Also the answer to a destination without a route.
                NLMSG_ERROR => return Ok(()),
                _ => take(kind, payload),
            }
        }
        if flags & NLM_F_DUMP == 0 {
            break;
        }
    }
    Ok(())
}

fn request(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + payload.len()).unwrap_or(0);
    let mut message = Vec::with_capacity(HEADER + payload.len());
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&flags.to_ne_bytes());
    // Sequence number and sender are zero: there is one request and one answer.
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(payload);
    message
}

fn push_attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(4 + value.len()).unwrap_or(0);
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(value);
}

fn octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AF_INET6, v6.octets().to_vec()),
    }
}

const fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The messages in a received datagram: type and payload.
fn messages(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(field(rest, 0)?)).ok()?;
        let kind = u16::from_ne_bytes(field(rest, 4)?);
        let payload = rest.get(HEADER..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// The attributes of a message after its fixed part: type and value.
fn attributes(payload: &[u8], fixed: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = payload.get(fixed..).unwrap_or_default();
    iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(field(rest, 0)?));
        let kind = u16::from_ne_bytes(field(rest, 2)?) & ATTRIBUTE_TYPE;
        let value = rest.get(4..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        return Some(Ipv4Addr::from(v4).into());
    }
    let v6 = <[u8; 16]>::try_from(octets).ok()?;
    Some(Ipv6Addr::from(v6).into())
}

fn route(payload: &[u8]) -> Option<Route> {
    let mut interface = None;
    let mut router = None;
    for (kind, value) in attributes(payload, ROUTE) {
        match kind {
            RTA_OIF => interface = field(value, 0).map(u32::from_ne_bytes),
            RTA_GATEWAY => router = address(value),
            // A router of the other family: the family precedes its address.
            RTA_VIA => router = value.get(2..).and_then(address),
            _ => {}
        }
    }
    Some(Route {
        interface: interface?,
        router,
    })
}

fn neighbour(payload: &[u8], interface: u32, wanted: &[u8]) -> Option<Vec<u8>> {
    if u32::from_ne_bytes(field(payload, 4)?) != interface {
        return None;
    }
    let mut is_wanted = false;
    let mut hardware = None;
    for (kind, value) in attributes(payload, NEIGHBOUR) {
        match kind {
            NDA_DST => is_wanted = value == wanted,
            NDA_LLADDR => hardware = Some(value.to_vec()),
            _ => {}
        }
    }
    hardware.filter(|_| is_wanted)
}

fn interface_of(payload: &[u8]) -> Option<Interface> {
    let hardware = u16::from_ne_bytes(field(payload, 2)?);
    let name = attributes(payload, INTERFACE).find(|(kind, _)| *kind == IFLA_IFNAME);
    let name = name.map(|(_, name)| name.strip_suffix(&[0]).unwrap_or(name));
    Some(Interface {
        hardware,
        name: String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernel_answers_for_loopback() {
        let route = route_to(Ipv4Addr::LOCALHOST.into()).unwrap().unwrap();
        assert_eq!(route.router, None);
        let found = interface(route.interface).unwrap().unwrap();
        // ARPHRD_LOOPBACK
        assert_eq!((found.name.as_str(), found.hardware), ("lo", 772));
        assert_eq!(interface(u32::MAX >> 1).unwrap(), None);
    }

    #[test]
    fn routes_and_neighbours_are_read_from_their_messages() {
        let mut message = vec![0; ROUTE];
        push_attribute(&mut message, RTA_OIF, &7_u32.to_ne_bytes());
        push_attribute(&mut message, RTA_GATEWAY, &[192, 0, 2, 1]);
        let expected = Route {
            interface: 7,
            router: Some(Ipv4Addr::new(192, 0, 2, 1).into()),
        };
        assert_eq!(route(&message), Some(expected));

        let router = [0xfe; 16];
        let mut message = vec![0; NEIGHBOUR];
        message[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        push_attribute(&mut message, NDA_DST, &router);
        push_attribute(&mut message, NDA_LLADDR, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(neighbour(&message, 7, &router), Some(vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(neighbour(&message, 8, &router), None);
        assert_eq!(neighbour(&message, 7, &[0; 16]), None);
    }

    proptest! {
        #[test]
        fn no_message_makes_the_parsers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for (_, payload) in messages(&bytes) {
                let _ = (route(payload), neighbour(payload, 1, &[0; 4]), interface_of(payload));
            }
            let _ = (route(&bytes), neighbour(&bytes, 1, &[0; 4]), interface_of(&bytes));
        }
    }
}
