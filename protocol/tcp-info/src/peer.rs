//! Determination of the user at the other end of an accepted TCP connection from this machine.
//!
//! Both ends of a connection from this machine are sockets of the same kernel, which knows their users. Linux
//! reports one socket over netlink (`sock_diag`, microseconds for any number of sockets); if netlink is
//! missing, `/proc/self/net/tcp` is read, for which the kernel walks its whole table (milliseconds).
//! Other systems have no safe interface; there every peer of this machine is [`Peer::Unreported`].
//!
//! A socket that its program has closed has no user any more: the kernel reports user 0 and inode 0, which
//! must not be mistaken for root. Such a peer is [`Peer::Closed`].
#[cfg(target_os = "linux")]
mod datagram_table;
#[cfg(target_os = "linux")]
mod diag;
#[cfg(target_os = "linux")]
mod table;

use std::net::{IpAddr, SocketAddr};

use crate::UserId;

/// The peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A program of this user, on this machine.
    User(UserId),
    /// A program of this machine that has closed its socket, or whose user cannot be determined.
    Closed,
    /// Another machine.
    OtherMachine,
    /// A program of this machine, on a system that does not report users.
    Unreported,
}

/// Determines the user of `peer`'s end of the connection that was accepted at `local`.
pub async fn find(local: SocketAddr, peer: SocketAddr) -> Peer {
    let (local, peer) = (canonical(local), canonical(peer));
    match user_of(peer, local).await {
        Ok(Some(user)) => Peer::User(user),
        Ok(None) if is_here(local.ip(), peer.ip()) => Peer::Closed,
        Ok(None) => Peer::OtherMachine,
        Err(Unreported) if is_here(local.ip(), peer.ip()) => Peer::Unreported,
        Err(Unreported) => Peer::OtherMachine,
    }
}

/// True if a datagram from this address, which is on this machine, was sent by a program of the user. Where the system
/// does not report users, the answer is always true, as for connections.
pub async fn owns_datagram_port(user: UserId, address: SocketAddr) -> bool {
    #[cfg(target_os = "linux")]
    {
        let address = canonical(address);
        tokio::task::spawn_blocking(move || datagram_table::owns(user, address))
            .await
            .unwrap_or(false)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let (_, _) = (user, address);
        true
    }
}

/// Error: the system does not report users.
#[derive(Clone, Copy, Debug)]
struct Unreported;

/// True if the peer is on this machine: a packet from a loopback address cannot come from elsewhere, and a
/// packet whose source equals its destination can only come from this machine.
fn is_here(local: IpAddr, peer: IpAddr) -> bool {
    peer.is_loopback() || peer == local
}

/// Converts IPv4-mapped IPv6 addresses, as dual-stack sockets show them, to IPv4 addresses.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        // The IPv6 address keeps its scope, which distinguishes link-local addresses.
        IpAddr::V6(_) => address,
    }
}

#[cfg(not(target_os = "linux"))]
async fn user_of(_local: SocketAddr, _remote: SocketAddr) -> Result<Option<UserId>, Unreported> {
    Err(Unreported)
}

/// True if this system reports the users of connections. The first call finds out how.
pub fn reports_users() -> bool {
    #[cfg(target_os = "linux")]
    {
        lookup_method() != LookupMethod::None
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

#[cfg(target_os = "linux")]
async fn user_of(local: SocketAddr, remote: SocketAddr) -> Result<Option<UserId>, Unreported> {
    /// Number of reads: the table is read in pieces and changes between them, so that a row may be missed.
    const TABLE_READS: usize = 3;
    match lookup_method() {
        // The kernel answers within the call. A second query would not change the result: both ends exist
        // before either program learns of the connection.
        LookupMethod::Diag => Ok(diag::user_of(local, remote).ok().flatten()),
        LookupMethod::Table => {
            for _ in 0..TABLE_READS {
                let looked = tokio::task::spawn_blocking(move || table::user_of(local, remote)).await;
                if let Ok(Some(user)) = looked {
                    return Ok(Some(user));
                }
            }
            Ok(None)
        }
        LookupMethod::None => Err(Unreported),
    }
}

/// Interface for finding users.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookupMethod {
    Diag,
    Table,
    /// A kernel that only resembles Linux.
    None,
}

/// Determines the interface that works on this machine. A kernel may be built or confined without netlink
/// (`RestrictAddressFamilies=`) and then reports that no socket matches; therefore it is tried with a connection of
/// this process.
#[cfg(target_os = "linux")]
fn lookup_method() -> LookupMethod {
    static METHOD: std::sync::OnceLock<LookupMethod> = std::sync::OnceLock::new();
    let try_all = || -> std::io::Result<LookupMethod> {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        let stream = std::net::TcpStream::connect(listener.local_addr()?)?;
        let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
        let own = Some(UserId::own());
        if diag::user_of(local, remote).ok().flatten() == own {
            return Ok(LookupMethod::Diag);
        }
        if table::user_of(local, remote) != own {
            return Ok(LookupMethod::None);
        }
        tracing::info!(
            "users of this machine are looked up in /proc/self/net/tcp, which is slower than netlink"
        );
        Ok(LookupMethod::Table)
    };
    // If the test itself fails, no user is found.
    *METHOD.get_or_init(|| try_all().unwrap_or(LookupMethod::Table))
}

/// The kernel's data of one socket.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    state: u8,
    user: u32,
    inode: u64,
}

#[cfg(target_os = "linux")]
impl Row {
    /// Returns the user if the socket belongs to a program and its connection is accepted.
    fn user(self) -> Option<UserId> {
        // Values of the `enum` in the kernel's net/tcp_states.h. TCP_SYN_SENT is excluded: it may be another
        // user's new connection from the same port.
        const ESTABLISHED: u8 = 1;
        const FIN_WAIT_1: u8 = 4;
        const FIN_WAIT_2: u8 = 5;
        const CLOSE_WAIT: u8 = 8;
        const LAST_ACK: u8 = 9;
        const CLOSING: u8 = 11;
        let is_accepted = matches!(
            self.state,
            ESTABLISHED | FIN_WAIT_1 | FIN_WAIT_2 | CLOSE_WAIT | LAST_ACK | CLOSING
        );
        (is_accepted && self.inode != 0).then_some(UserId::new(self.user))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Opens a connection from this test to itself; returns the client's end and the listener's end.
    fn connect(listen: &str, dial: &str) -> Option<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind(listen).ok()?;
        let port = listener.local_addr().ok()?.port();
        let client = TcpStream::connect(dial.replace("PORT", &port.to_string())).ok()?;
        Some((client, listener.accept().ok()?.0))
    }

    async fn find_end(end: &TcpStream) -> Peer {
        let ends = end.local_addr().ok().zip(end.peer_addr().ok());
        let Some((local, peer)) = ends else {
            panic!("it is no connection");
        };
        find(local, peer).await
    }

    #[tokio::test]
    async fn own_connections_are_recognised_in_every_address_family() {
        let own = UserId::own();
        for (listen, dial) in [
            ("127.0.0.1:0", "127.0.0.1:PORT"),
            ("0.0.0.0:0", "127.0.0.2:PORT"),
            // Dual-stack sockets, which show IPv4 addresses in mapped form.
            ("[::]:0", "127.0.0.1:PORT"),
            ("127.0.0.1:0", "[::ffff:127.0.0.1]:PORT"),
            ("[::1]:0", "[::1]:PORT"),
        ] {
            let Some((_client, served)) = connect(listen, dial) else {
                println!("{listen} not tried: this machine has no IPv6");
                continue;
            };
            assert_eq!(find_end(&served).await, Peer::User(own), "{listen} {dial}");
            let (local, peer) = (
                canonical(served.local_addr().unwrap()),
                canonical(served.peer_addr().unwrap()),
            );
            assert_eq!(
                diag::user_of(peer, local).unwrap(),
                Some(own),
                "{listen} by netlink"
            );
            assert_eq!(table::user_of(peer, local), Some(own), "{listen} by the table");
        }
    }

    #[tokio::test]
    async fn a_socket_of_an_ended_program_is_not_roots() {
        let (client, served) = connect("127.0.0.1:0", "127.0.0.1:PORT").unwrap();
        let (local, peer) = (served.local_addr().unwrap(), served.peer_addr().unwrap());
        drop(client);
        assert_eq!(find(local, peer).await, Peer::Closed);
        assert_eq!(table::user_of(peer, local), None);
        // A connection that never existed.
        assert_eq!(find(local, "127.0.0.1:1".parse().unwrap()).await, Peer::Closed);
        assert_eq!(
            find("192.0.2.1:80".parse().unwrap(), "192.0.2.2:1".parse().unwrap()).await,
            Peer::OtherMachine
        );
    }

    #[test]
    fn only_sockets_with_an_owner_have_a_user() {
        let row = |state, inode| {
            Row {
                state,
                user: 7,
                inode,
            }
            .user()
        };
        assert_eq!(row(1, 99), Some(UserId::new(7)));
        assert_eq!(row(5, 99), Some(UserId::new(7)), "half closed");
        assert_eq!(row(5, 0), None, "closed by its program");
        for state in [2, 3, 6, 7, 10, 12] {
            assert_eq!(row(state, 99), None, "state {state}");
        }
    }
}
