//! Query of one socket over netlink (sock_diag(7)).
//!
//! The message formats are those of the kernel's `linux/netlink.h` and `linux/inet_diag.h`: numbers in the
//! machine's byte order, addresses and ports in network byte order.
use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsRawFd as _,
};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

use super::{Row, UserId};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
/// Size of the receive buffer. The reply has less than 200 bytes; attributes beyond the buffer's end are not
/// read.
const MAX_REPLY: usize = 1024;
/// Offsets in the reply: after the header, `struct inet_diag_msg`.
const STATE: usize = HEADER + 1;
const PORTS: usize = HEADER + 4;
const USER: usize = HEADER + 64;
const INODE: usize = HEADER + 68;

/// Returns the user of the socket with this local and remote address; `None` if there is none.
pub(super) fn user_of(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<UserId>> {
    let kernel = socket(
        AddressFamily::Netlink,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        SockProtocol::NetlinkSockDiag,
    )?;
    sendto(
        kernel.as_raw_fd(),
        &request(local, remote),
        &NetlinkAddr::new(0, 0),
        MsgFlags::empty(),
    )?;
    // The kernel answers before `sendto` returns.
    let mut reply = [0; MAX_REPLY];
    let length = recv(kernel.as_raw_fd(), &mut reply, MsgFlags::empty())?;
    let reply = reply.get(..length).unwrap_or_default();
    Ok(row(reply, local.port(), remote.port()).and_then(Row::user))
}

fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER + REQUEST);
    let length = u32::try_from(HEADER + REQUEST).unwrap_or(0);
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and sender are zero: there is one request and one answer.
    message.extend_from_slice(&[0; 8]);
    let (family, interface) = match local {
        SocketAddr::V4(_) => (AF_INET, 0),
        SocketAddr::V6(v6) => (AF_INET6, v6.scope_id()),
    };
    message.extend_from_slice(&[family, IPPROTO_TCP, 0, 0]);
    // Sockets in all states.
    message.extend_from_slice(&u32::MAX.to_ne_bytes());
    message.extend_from_slice(&local.port().to_be_bytes());
    message.extend_from_slice(&remote.port().to_be_bytes());
    for ip in [local.ip(), remote.ip()] {
        let mut field = [0; 16];
        match ip {
            IpAddr::V4(v4) => field[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => field = v6.octets(),
        }
        message.extend_from_slice(&field);
    }
    message.extend_from_slice(&interface.to_ne_bytes());
    // INET_DIAG_NOCOOKIE, twice: any socket with these addresses.
    message.extend_from_slice(&[0xff; 8]);
    message
}

/// Parses the socket in a reply. If no connection matches, the kernel may answer with a listening socket of
/// the same port, which has another remote port.
fn row(reply: &[u8], local: u16, remote: u16) -> Option<Row> {
    let four = |at: usize| -> Option<[u8; 4]> { reply.get(at..at + 4)?.try_into().ok() };
    let kind = reply.get(4..6)?;
    let ports = [local.to_be_bytes(), remote.to_be_bytes()].concat();
    if kind != SOCK_DIAG_BY_FAMILY.to_ne_bytes() || four(PORTS)? != *ports {
        return None;
    }
    Some(Row {
        state: *reply.get(STATE)?,
        user: u32::from_ne_bytes(four(USER)?),
        inode: u32::from_ne_bytes(four(INODE)?).into(),
    })
}
