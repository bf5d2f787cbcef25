//! The kernel's table of TCP sockets as text (proc_pid_net(5)).
use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use super::{Row, UserId};

/// Returns the user of the socket with this local and remote address; `None` if there is none. Blocks.
pub(super) fn user_of(local: SocketAddr, remote: SocketAddr) -> Option<UserId> {
    // The network namespace of this process: `/proc/net` is a link to it, and is absent if procfs shows only
    // processes.
    let in_file = |path: &str, local: &str, remote: &str| {
        let text = fs::read_to_string(path).ok()?;
        find(&text, local, remote).and_then(Row::user)
    };
    let (IpAddr::V4(from), IpAddr::V4(to)) = (local.ip(), remote.ip()) else {
        return in_file(
            "/proc/self/net/tcp6",
            &kernel_format(local),
            &kernel_format(remote),
        );
    };
    in_file(
        "/proc/self/net/tcp",
        &kernel_format(local),
        &kernel_format(remote),
    )
    .or_else(|| {
        // A program may use IPv4 over a dual-stack socket.
        let mapped =
            |ip: Ipv4Addr, port: u16| kernel_format(SocketAddr::new(IpAddr::V6(ip.to_ipv6_mapped()), port));
        in_file(
            "/proc/self/net/tcp6",
            &mapped(from, local.port()),
            &mapped(to, remote.port()),
        )
    })
}

/// Finds the row of a socket. The columns are: number, local and remote address, state, queues, timer,
/// retransmissions, user, timeouts, inode.
fn find(text: &str, local: &str, remote: &str) -> Option<Row> {
    text.lines().find_map(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        if columns.next() != Some(local) || columns.next() != Some(remote) {
            return None;
        }
        Some(Row {
            state: u8::from_str_radix(columns.next()?, 16).ok()?,
            user: columns.nth(3)?.parse().ok()?,
            inode: columns.nth(1)?.parse().ok()?,
        })
    })
}

/// Formats an address as the kernel does: groups of four bytes, each as a number in the machine's byte order.
pub(super) fn kernel_format(address: SocketAddr) -> String {
    let octets = match address.ip() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let groups = octets.chunks_exact(4).map(|group| {
        let bytes: [u8; 4] = group.try_into().unwrap_or_default();
        format!("{:08X}", u32::from_ne_bytes(bytes))
    });
    format!("{}:{:04X}", groups.collect::<String>(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_and_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0100007F:0C38 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 31 1 0 100 0\n\
            \x20  1: 0100007F:C001 0100007F:0C38 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0\n\
            \x20  2: 0100007F:C002 0100007F:0C38 01 00000000:00000000 00:00000000 00000000  1000        0 77 1 0 20 4\n";
        let row = |port: &str| find(table, &format!("0100007F:{port}"), "0100007F:0C38");
        let expected = Row {
            state: 1,
            user: 1000,
            inode: 77,
        };
        assert_eq!(row("C002"), Some(expected));
        assert_eq!(row("C001").and_then(Row::user), None, "it waits for its end");
        assert_eq!(row("C003"), None);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn addresses_are_written_as_the_kernel_does() {
        let text = |address: &str| kernel_format(address.parse().unwrap());
        assert_eq!(text("127.0.0.1:3128"), "0100007F:0C38");
        assert_eq!(text("[::1]:80"), "00000000000000000000000001000000:0050");
        assert_eq!(
            text("[::ffff:127.0.0.1]:80"),
            "0000000000000000FFFF00000100007F:0050"
        );
    }
}
