//! The limit on open files, which bounds the number of connections: without a bound, one device's connections
//! could exhaust the files and keep every other device from connecting.
use longhaul_origin::Limits;
use tracing::warn;

/// Files other than connections: cache, sockets of sessions and metrics, standard streams, and those of
/// libraries.
const OTHERS: u64 = 128;
/// Connections that the gateway accepts: links of carriers and those in the handshake, clients without an agent, and the ports
/// for names and captive portals. Whoever opens them must not take the files of the connections to origins.
const ACCEPTED: u64 = 2048 + 1024 + 2048 + 2 * 256;
/// Number of files that the gateway requests: all connections and the others.
const WANTED: u64 = 2048 + ACCEPTED + OTHERS;

/// Connection limits that fit the limit on open files, which this function first raises as far as possible.
pub fn limits() -> Limits {
    let allowed = raise();
    let fitting = usize::try_from(allowed.saturating_sub(OTHERS)).unwrap_or(usize::MAX);
    let limits = Limits::default();
    if fitting < limits.connections {
        warn!(
            allowed,
            "this process may open only a few files, which limits the number of connections; raise its limit (LimitNOFILE, ulimit -n)"
        );
    }
    let connections = limits.connections.min(fitting).max(2);
    Limits {
        connections,
        // Half, so that no single device can use all.
        connections_per_device: limits.connections_per_device.min(connections / 2),
        ..limits
    }
}

#[cfg(unix)]
fn raise() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let found = getrlimit(Resource::Nofile);
    // `None` means unlimited.
    let (now, most) = (
        found.current.unwrap_or(u64::MAX),
        found.maximum.unwrap_or(u64::MAX),
    );
    let wanted = WANTED.min(most);
    if now >= wanted {
        return now;
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum: found.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => wanted,
        Err(_) => now,
    }
}

#[cfg(not(unix))]
fn raise() -> u64 {
    WANTED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn connections_of_clients_take_no_files_of_connections_to_origins() {
        use rustix::process::{Resource, getrlimit};

        let _limits = limits();
        let found = getrlimit(Resource::Nofile);
        let most = found.maximum.unwrap_or(u64::MAX);
        let clients_and_origins = 2 * 2048;
        assert!(found.current.unwrap_or(u64::MAX) >= most.min(clients_and_origins));
    }

    #[test]
    fn no_device_gets_all_connections() {
        let limits = limits();
        assert!(limits.connections_per_device <= limits.connections / 2);
        assert!(limits.connections_per_device > 0);
    }
}
