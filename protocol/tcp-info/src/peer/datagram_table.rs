//! The kernel's table of UDP sockets as text (proc_pid_net(5)).
use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use super::{UserId, table::kernel_format};

/// True if all sockets that can have sent a datagram from this address belong to the user, and there is one. Blocks.
pub(super) fn owns(user: UserId, address: SocketAddr) -> bool {
    let port = address.port();
    let formats = |ips: &[IpAddr]| -> Vec<String> {
        let addresses = ips.iter().map(|ip| SocketAddr::new(*ip, port));
        addresses.map(kernel_format).collect()
    };
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let (v4, v6) = match address.ip() {
        IpAddr::V4(ip) => (
            formats(&[ip.into(), Ipv4Addr::UNSPECIFIED.into()]),
            formats(&[ip.to_ipv6_mapped().into(), any]),
        ),
        IpAddr::V6(ip) => (Vec::new(), formats(&[ip.into(), any])),
    };
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let mut users = owners(&read("/proc/self/net/udp"), &v4);
    users.extend(owners(&read("/proc/self/net/udp6"), &v6));
    !users.is_empty() && users.iter().all(|owner| *owner == Some(user))
}

/// The users of the sockets with one of these local addresses; `None` for a socket that no program holds. The columns are:
/// number, local and remote address, state, queues, timer, retransmissions, user, timeouts, inode.
fn owners(text: &str, locals: &[String]) -> Vec<Option<UserId>> {
    let rows = text
        .lines()
        .map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    rows.filter_map(|columns| {
        let local = *columns.get(1)?;
        if !locals.iter().any(|wanted| wanted == local) {
            return None;
        }
        let user = columns.get(7)?.parse().ok().map(UserId::new);
        Some(user.filter(|_| columns.get(9).is_some_and(|inode| *inode != "0")))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn rows_are_found_and_read() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            \x20 101: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     7        0 31 2 0 0\n\
            \x20 102: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 32 2 0 0\n\
            \x20 103: 00000000:0036 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 0 2 0 0\n";
        let of = |locals: &[&str]| {
            owners(
                table,
                &locals.iter().map(|&text| text.to_owned()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(&["0100007F:0035"]), [Some(UserId::new(7))]);
        assert_eq!(
            of(&["0100007F:0035", "00000000:0035"]),
            [Some(UserId::new(7)), Some(UserId::new(1000))]
        );
        assert_eq!(of(&["00000000:0036"]), [None]);
        assert!(of(&["0100007F:0037"]).is_empty());
    }

    #[test]
    fn own_sockets_are_found_however_they_are_bound() {
        for bound in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(bound) else {
                println!("{bound} not tried: this machine has no IPv6");
                continue;
            };
            let port = socket.local_addr().unwrap().port();
            let ip = if bound == "[::1]:0" { "[::1]" } else { "127.0.0.1" };
            let address = format!("{ip}:{port}").parse().unwrap();
            assert!(owns(UserId::own(), address), "{bound}");
            assert!(!owns(UserId::new(4_000_001), address), "{bound}");
            drop(socket);
            assert!(!owns(UserId::own(), address), "{bound} is closed");
        }
    }
}
