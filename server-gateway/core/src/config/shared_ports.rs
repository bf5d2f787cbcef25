//! Ports that several settings name: one socket serves them together (decision 63).
use std::net::SocketAddr;

use super::{Config, ListenAddresses};

/// Two settings that name one port and cannot share it: one of them has one address, the other one all addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{setting} = {address} and {other_setting} = {other} are the same port: write the same address in both settings, so \
     that they share it, or choose another port"
)]
pub struct OverlappingPorts {
    /// A setting.
    pub setting: &'static str,
    /// Its address.
    pub address: SocketAddr,
    /// The other setting.
    pub other_setting: &'static str,
    /// Its address.
    pub other: SocketAddr,
}

impl Config {
    /// Checks the settings that may share a port.
    ///
    /// # Errors
    /// Two of them name a port that they cannot share.
    pub fn check_ports(&self) -> Result<(), OverlappingPorts> {
        let tls = self.carriers.tls.zip(self.clientless.tls);
        let quic = self.carriers.quic.into_iter();
        let quic = quic.flat_map(|quic| self.listen.iter().map(move |listen| (quic, listen)));
        let tls = tls.map(|pair| ("carriers.tls", "clientless.tls", pair));
        let pairs = tls
            .into_iter()
            .chain(quic.map(|pair| ("carriers.quic", "listen", pair)));
        for (setting, other_setting, (address, other)) in pairs {
            if is_overlap(address, other) {
                return Err(OverlappingPorts {
                    setting,
                    address,
                    other_setting,
                    other,
                });
            }
        }
        Ok(())
    }

    /// TCP address of the port that `carriers.tls` and `clientless.tls` share; `None` if each has its own.
    pub fn shared_tls(&self) -> Option<SocketAddr> {
        shared(self.carriers.tls?, self.clientless.tls?)
    }

    /// The addresses of `listen`, and the number of the one whose port `carriers.quic` shares; `None` if QUIC has its own.
    pub fn udp_ports(&self) -> (ListenAddresses, Option<usize>) {
        let mut listen = self.listen.clone();
        let Some(quic) = self.carriers.quic else {
            return (listen, None);
        };
        let same = listen
            .iter()
            .position(|address| address == quic && quic.port() != 0);
        let number = same.or_else(|| listen.iter().position(|address| shared(address, quic).is_some()));
        let place = number.and_then(|number| match number.checked_sub(1) {
            Some(other) => listen.others.get_mut(other),
            None => Some(&mut listen.first),
        });
        if let Some(place) = place
            && let Some(both) = shared(*place, quic)
        {
            *place = both;
        }
        (listen, number)
    }
}

/// The address of a socket for two settings: they are the same, or all addresses of the computer at the same port, then of
/// both families if one of the settings is of IPv6. `None` if each needs a socket of its own.
fn shared(one: SocketAddr, other: SocketAddr) -> Option<SocketAddr> {
    let is_same_ip = one.ip() == other.ip() || one.ip().is_unspecified() && other.ip().is_unspecified();
    let is_same = is_same_ip && one.port() == other.port() && one.port() != 0;
    is_same.then_some(if one.is_ipv6() { one } else { other })
}

/// Returns true if a socket of one address receives what is sent to the other, and they cannot be one socket.
fn is_overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |all: SocketAddr, one: SocketAddr| {
        all.ip().is_unspecified() && !one.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
    };
    one.port() == other.port() && one.port() != 0 && (covers(one, other) || covers(other, one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(one: &str, other: &str) -> Option<String> {
        let both = shared(one.parse().unwrap(), other.parse().unwrap());
        assert_eq!(both, shared(other.parse().unwrap(), one.parse().unwrap()));
        both.map(|both| both.to_string())
    }

    #[test]
    fn one_address_and_all_addresses_do_not_share_a_port() {
        let overlap = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| text.parse().unwrap());
            assert_eq!(is_overlap(one, other), is_overlap(other, one));
            is_overlap(one, other)
        };
        assert!(overlap("192.0.2.1:443", "[::]:443"));
        assert!(overlap("192.0.2.1:443", "0.0.0.0:443"));
        assert!(!overlap("192.0.2.1:443", "[::]:4433"));
        assert!(!overlap("[2001:db8::1]:443", "0.0.0.0:443"));
        assert!(!overlap("192.0.2.1:443", "192.0.2.2:443"));
        assert!(!overlap("0.0.0.0:443", "[::]:443"));
    }

    #[test]
    fn the_same_port_is_shared() {
        let expect = |text: &str| Some(text.to_owned());
        assert_eq!(of("[::]:443", "[::]:443"), expect("[::]:443"));
        assert_eq!(of("0.0.0.0:443", "[::]:443"), expect("[::]:443"));
        assert_eq!(of("192.0.2.1:443", "192.0.2.1:443"), expect("192.0.2.1:443"));
        assert_eq!(of("192.0.2.1:443", "192.0.2.2:443"), None);
        assert_eq!(of("192.0.2.1:443", "0.0.0.0:443"), None);
        assert_eq!(of("[::]:443", "[::]:4433"), None);
        assert_eq!(of("127.0.0.1:0", "127.0.0.1:0"), None);
    }
}
