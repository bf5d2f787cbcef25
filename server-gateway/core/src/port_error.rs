//! Why the port of a setting cannot be opened, and what the operator can do.
use std::{fmt, io, net::SocketAddr};

/// Ports below this one need a permission.
const FIRST_FREE_PORT: u16 = 1024;

/// The port of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingPort {
    /// Key of the setting, such as `carriers.tls`.
    pub setting: &'static str,
    /// What the port is of.
    pub protocol: PortProtocol,
    /// The configured address.
    pub address: SocketAddr,
}

/// The transport of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// The same number at both.
    TcpAndUdp,
}

impl fmt::Display for PortProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::TcpAndUdp => "TCP or UDP",
        })
    }
}

impl fmt::Display for SettingPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} port {}",
            self.setting,
            self.protocol,
            self.address.port()
        )
    }
}

impl SettingPort {
    /// The command that shows which program holds the port.
    fn search(&self) -> String {
        let sockets = match self.protocol {
            PortProtocol::Tcp => "t",
            PortProtocol::Udp => "u",
            PortProtocol::TcpAndUdp => "tu",
        };
        format!("sudo ss -{sockets}lnp 'sport = :{}'", self.address.port())
    }

    /// How a web server can keep the port (docs/OPERATIONS.md, "Everything on 443").
    fn beside_web_server(&self) -> &'static str {
        match self.setting {
            "carriers.tls" => {
                ". A web server can keep the port if it passes TLS for the gateway's name on to that other port, or if each \
                 of the two listens on an address of its own"
            }
            _ => "",
        }
    }
}

/// The port of a setting cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// Another program uses it.
    #[error(
        "{port} is taken by another program, which `{}` shows: stop that program, or choose another port in {}{}",
        .port.search(),
        .port.setting,
        .port.beside_web_server()
    )]
    Taken {
        /// The port.
        port: SettingPort,
    },
    /// The gateway's user may not open a port below 1024.
    #[error(
        "{port} is closed to this user: ports below 1024 need root or CAP_NET_BIND_SERVICE (systemd: \
         AmbientCapabilities=CAP_NET_BIND_SERVICE; for the package's service, copy \
         /usr/share/doc/longhaul-gateway/examples/port-443.conf as it says). Give this permission, or choose a port above \
         1023 in {}",
        .port.setting
    )]
    Privileged {
        /// The port.
        port: SettingPort,
    },
    /// The address is none of this machine.
    #[error(
        "{}: {} is not an address of this machine: choose one of those that `ip address` shows, or [::] for all",
        .port.setting,
        .port.address.ip()
    )]
    NotHere {
        /// The port.
        port: SettingPort,
    },
    /// Another error.
    #[error("{port} of {} cannot be opened: {source}; choose another one in {}", .port.address.ip(), .port.setting)]
    Other {
        /// The port.
        port: SettingPort,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl PortError {
    /// The error for what the operating system has said about the port.
    pub fn new(port: SettingPort, source: io::Error) -> Self {
        let kind = source.kind();
        if kind == io::ErrorKind::AddrInUse {
            Self::Taken { port }
        } else if kind == io::ErrorKind::AddrNotAvailable {
            Self::NotHere { port }
        } else if kind == io::ErrorKind::PermissionDenied && port.address.port() < FIRST_FREE_PORT {
            Self::Privileged { port }
        } else {
            Self::Other { port, source }
        }
    }

    /// The same for a TCP port.
    pub fn tcp(setting: &'static str, address: SocketAddr, source: io::Error) -> Self {
        let protocol = PortProtocol::Tcp;
        let port = SettingPort {
            setting,
            protocol,
            address,
        };
        Self::new(port, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(setting: &'static str, address: &str, kind: io::ErrorKind) -> String {
        PortError::tcp(setting, address.parse().unwrap(), kind.into()).to_string()
    }

    #[test]
    fn a_port_in_use_is_named_with_its_setting_and_the_command_that_finds_its_program() {
        let taken = text("carriers.tls", "[::]:443", io::ErrorKind::AddrInUse);
        for part in [
            "carriers.tls: TCP port 443 is taken by another program",
            "`sudo ss -tlnp 'sport = :443'`",
            "A web server can keep the port",
        ] {
            assert!(taken.contains(part), "{taken}");
        }
        let other = text("metrics.listen", "127.0.0.1:9433", io::ErrorKind::AddrInUse);
        assert!(
            other.ends_with("choose another port in metrics.listen"),
            "{other}"
        );
        let port = SettingPort {
            setting: "dns.listen",
            protocol: PortProtocol::TcpAndUdp,
            address: "10.0.0.1:53".parse().unwrap(),
        };
        let names = PortError::new(port, io::ErrorKind::AddrInUse.into()).to_string();
        assert!(
            names.contains("TCP or UDP port 53") && names.contains("ss -tulnp"),
            "{names}"
        );
    }

    #[test]
    fn only_a_port_below_1024_wants_a_permission() {
        let denied = text("portal.listen", "[::]:80", io::ErrorKind::PermissionDenied);
        for part in [
            "portal.listen: TCP port 80",
            "CAP_NET_BIND_SERVICE",
            "port-443.conf",
        ] {
            assert!(denied.contains(part), "{denied}");
        }
        let other = text("portal.listen", "[::]:8080", io::ErrorKind::PermissionDenied);
        assert!(!other.contains("CAP_NET_BIND_SERVICE"), "{other}");
    }

    #[test]
    fn an_address_of_another_machine_is_named() {
        let foreign = text(
            "clientless.listen",
            "192.0.2.1:3128",
            io::ErrorKind::AddrNotAvailable,
        );
        assert!(
            foreign.contains("clientless.listen: 192.0.2.1 is not an address of this machine"),
            "{foreign}"
        );
    }
}
