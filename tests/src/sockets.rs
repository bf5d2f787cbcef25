//! Who holds the other end of a loopback connection, from /proc.
use std::{fs, net::SocketAddr};

/// Whether process `pid` owns the TCP socket whose local address is `local` (an IPv4 loopback address).
pub fn owns(pid: u32, local: SocketAddr) -> bool {
    let SocketAddr::V4(local) = local else {
        return false;
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
    let inode = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let local = fields.get(1)?;
            (*local == wanted || *local == mapped).then(|| fields.get(9).map(|inode| (*inode).to_owned()))?
        });
    let Some(inode) = inode else { return false };
    let target = format!("socket:[{inode}]");
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    open.flatten()
        .any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.to_string_lossy() == target))
}
