//! Who holds the other end of a loopback connection, from /proc.
use std::{fs, net::SocketAddr};

/// Makes sure that process `pid` owns a TCP socket whose local address is `local` (an IPv4 loopback address). Several connections
/// may have that address, to different peers, and closed ones linger: one that is owned is enough.
///
/// # Errors
/// The process owns no such socket; the text contains the kernel's entries for the address.
pub fn expect_owner(pid: u32, local: SocketAddr) -> Result<(), String> {
    let SocketAddr::V4(local) = local else {
        return Err(format!("{local} is no address of IPv4"));
    };
    let wanted = format!(
        "{:08X}:{:04X}",
        u32::from_le_bytes(local.ip().octets()),
        local.port()
    );
    // A socket that was opened for both families is listed under IPv6 with the mapped address.
    let mapped = format!("0000000000000000FFFF0000{wanted}");
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let lines: Vec<Vec<&str>> = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| {
            fields
                .get(1)
                .is_some_and(|local| *local == wanted || *local == mapped)
        })
        .collect();
    let sockets: Vec<String> = lines
        .iter()
        .filter_map(|fields| fields.get(9).map(|inode| format!("socket:[{inode}]")))
        .collect();
    let held = fs::read_dir(format!("/proc/{pid}/fd")).map_err(|error| format!("process {pid}: {error}"))?;
    let mut links = held
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    if links.any(|link| sockets.iter().any(|socket| *link == **socket)) {
        return Ok(());
    }
    Err(format!("{local} is not of process {pid}: {lines:?}"))
}

#[cfg(test)]
mod tests {
    use std::{
        net::{TcpListener, TcpStream},
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn a_connection_has_an_owner_until_it_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let local = near.local_addr().expect("connected");
        assert_eq!(expect_owner(std::process::id(), local), Ok(()));
        let mut other = Command::new("cat")
            .stdin(Stdio::piped())
            .spawn()
            .expect("a program of every system");
        assert!(expect_owner(other.id(), local).is_err());
        // Its input ends.
        drop(other.stdin.take());
        other.wait().expect("it ends");
        let (far, _) = listener.accept().expect("a connection");
        drop(near);
        assert!(expect_owner(std::process::id(), local).is_err());
        drop(far);
    }
}
