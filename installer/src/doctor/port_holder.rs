//! Which program holds a TCP port, by the tables of Linux in `/proc`.
use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    path::Path,
};

use super::facts::PortHolder;

/// True if another program listens on the address.
pub(super) fn is_taken(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// The program that listens on a port; `None` on other systems, and for programs of other users, whose open
/// files are hidden.
pub(super) fn holder(proc: &Path, port: u16) -> Option<PortHolder> {
    let tables = ["net/tcp", "net/tcp6"].map(|table| fs::read_to_string(proc.join(table)));
    let inodes: Vec<String> = tables
        .iter()
        .flatten()
        .flat_map(|table| listening_inodes(table, port))
        .collect();
    let links: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir(proc).ok()?.flatten();
    for process in processes {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let files = fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        if targets.any(|target| links.iter().any(|link| target.as_os_str() == link.as_str())) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let name = name.trim().to_owned();
            return Some(PortHolder { pid, name });
        }
    }
    None
}

/// Inodes of the sockets that listen on a port, in a table of `/proc/net`.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    /// TCP_LISTEN of Linux, `include/net/tcp_states.h`.
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    let lines = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        (local.ends_with(&suffix) && *state == LISTEN).then(|| (*inode).to_owned())
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_kernel_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                     0: 0100007F:0C38 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100\n   \
                     1: 0100007F:0C38 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0 100\n   \
                     2: broken\n";
        assert_eq!(listening_inodes(table, 3128), ["4711"]);
        assert!(listening_inodes(table, 3129).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_holder_of_a_port_is_this_process() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        assert!(is_taken(address));
        let holder = holder(Path::new("/proc"), address.port()).unwrap();
        assert_eq!(holder.pid, std::process::id());
        assert!(!holder.name.is_empty());
        drop(listener);
        assert!(!is_taken(address));
    }
}
