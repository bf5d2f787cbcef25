//! Who holds the other end of a loopback connection, from /proc.
use std::{fs, net::SocketAddr};

/// Whether process `pid` owns the TCP socket whose local address is `local` (an IPv4 loopback address); `None` if nobody has it
/// open any more. Several connections may have that address, to different peers, and closed ones linger: one that is owned is enough.
pub fn owns(pid: u32, local: SocketAddr) -> Option<bool> {
    let SocketAddr::V4(local) = local else {
        return Some(false);
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
    let open: Vec<String> = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let local = fields.get(1)?;
            let inode = fields.get(9).filter(|inode| **inode != "0")?;
            (*local == wanted || *local == mapped).then(|| format!("socket:[{inode}]"))
        })
        .collect();
    if open.is_empty() {
        return None;
    }
    let held = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut links = held
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    Some(links.any(|link| open.iter().any(|socket| *link == **socket)))
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
        assert_eq!(owns(std::process::id(), local), Some(true));
        let mut other = Command::new("cat")
            .stdin(Stdio::piped())
            .spawn()
            .expect("a program of every system");
        assert_eq!(owns(other.id(), local), Some(false));
        // Its input ends.
        drop(other.stdin.take());
        other.wait().expect("it ends");
        let (far, _) = listener.accept().expect("a connection");
        drop(near);
        assert_eq!(owns(std::process::id(), local), None);
        drop(far);
    }
}
