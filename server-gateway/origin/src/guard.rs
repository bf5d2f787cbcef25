//! The address guard: the addresses to which fetches and tunnels may connect.
//!
//! The agent uses a guard for its direct fallback. In that mode the browser may connect to a private address
//! of the user's own network if the URL contains the address literally. No name may resolve to a private
//! address, and no connection may reach the agent's own ports.
//!
//! A gateway fetches the URLs that its users request; without a guard any page could reach the operator's own
//! network (server-side request forgery). The guard checks the address that is actually connected, never the
//! name, so that a name that changes its answer (DNS rebinding) does not circumvent it.
use std::{collections::BTreeSet, net::IpAddr};

use thiserror::Error;

use crate::{
    address_class::{AddressClass, class_of, is_local, is_plainly_private},
    cidr::Cidr,
    nat64::Nat64Prefix,
};

/// Decides to which addresses connections are permitted. Pure: no DNS, no sockets.
///
/// The guard rejects every address that is not globally reachable unicast (IANA special-purpose registries,
/// RFC 6890), in every notation or embedding, and the gateway's own addresses. The ranges of `allow` are
/// always permitted, except the ports of `refusing_ports`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    allow: Vec<Cidr>,
    own: BTreeSet<IpAddr>,
    /// Ports of this machine that are rejected even if `allow` contains the address.
    own_ports: BTreeSet<u16>,
    /// True if private addresses are permitted as literals.
    permits_private_literals: bool,
    /// True if names may resolve to private addresses.
    permits_private_names: bool,
    /// True if addresses of this machine and of its network are permitted.
    permits_local: bool,
}

/// Destination of a connection: address and port, and the notation of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The address of the intended connection.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// True if the URL or CONNECT request contains the address itself, not a name that resolved to it.
    pub is_literal: bool,
}

/// Error of an address that the guard rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the origin's address is {class}, which this gateway does not connect to unless [guard] allow names it"
)]
pub struct GuardRefusal {
    /// The rejected address, before canonicalization.
    pub address: IpAddr,
    /// The reason of the rejection.
    pub class: AddressClass,
}

impl Guard {
    /// Creates a guard that permits the public Internet and the ranges of `allow`, and rejects the gateway's
    /// own addresses.
    pub fn new(allow: impl IntoIterator<Item = Cidr>, own: impl IntoIterator<Item = IpAddr>) -> Self {
        Self {
            allow: allow.into_iter().collect(),
            own: own.into_iter().map(|address| address.to_canonical()).collect(),
            own_ports: BTreeSet::new(),
            permits_private_literals: false,
            permits_private_names: false,
            permits_local: false,
        }
    }

    /// Checks an address that a NAT64 prefix may contain: what is permitted is the address to which it is translated, too.
    ///
    /// # Errors
    /// [`GuardRefusal`] if the embedded address is not public and neither it nor the address itself is allowed.
    pub(crate) fn check_translated(
        &self,
        address: IpAddr,
        prefixes: &[Nat64Prefix],
    ) -> Result<(), GuardRefusal> {
        let IpAddr::V6(v6) = address else { return Ok(()) };
        if self.allow.iter().any(|range| range.contains(address)) {
            return Ok(());
        }
        for embedded in prefixes.iter().filter_map(|prefix| prefix.embedded(v6)) {
            let checked = self.check(embedded.into());
            checked.map_err(|GuardRefusal { class, .. }| GuardRefusal { address, class })?;
        }
        Ok(())
    }

    /// The same guard with other own addresses, in canonical form.
    pub(crate) fn with_own(&self, own: BTreeSet<IpAddr>) -> Self {
        Self { own, ..self.clone() }
    }

    /// Returns true if these are the own addresses.
    pub(crate) fn has_own(&self, own: &BTreeSet<IpAddr>) -> bool {
        self.own == *own
    }

    /// Also rejects these ports at loopback addresses and at the guard's own addresses, regardless of
    /// `allow`.
    #[must_use]
    pub fn refusing_ports(self, ports: impl IntoIterator<Item = u16>) -> Self {
        Self {
            own_ports: ports.into_iter().collect(),
            ..self
        }
    }

    /// Also permits private addresses (RFC 1918, RFC 4193, RFC 6598) as literals, and treats the guard's own
    /// addresses like any other address: of them, only the ports of [`Self::refusing_ports`] are rejected.
    #[must_use]
    pub fn permitting_private_literals(self) -> Self {
        Self {
            permits_private_literals: true,
            ..self
        }
    }

    /// Like [`Self::permitting_private_literals`], and permits names that resolve to private addresses: for login pages of
    /// the agent's own network.
    #[must_use]
    pub fn permitting_private_names(self) -> Self {
        Self {
            permits_private_names: true,
            ..self.permitting_private_literals()
        }
    }

    /// Like [`Self::permitting_private_names`], and permits loopback and link-local addresses: for programs that could connect
    /// to them by themselves.
    #[must_use]
    pub fn permitting_local(self) -> Self {
        Self {
            permits_local: true,
            ..self.permitting_private_names()
        }
    }

    /// Checks the destination of a connection.
    ///
    /// # Errors
    /// [`GuardRefusal`] if the address is not public and not allowed.
    pub fn check_destination(&self, destination: Destination) -> Result<(), GuardRefusal> {
        let Destination {
            address,
            port,
            is_literal,
        } = destination;
        let canonical = address.to_canonical();
        let is_here = self.own.contains(&canonical)
            || matches!(
                class_of(canonical),
                Some(AddressClass::Loopback | AddressClass::Unspecified)
            );
        if is_here && self.own_ports.contains(&port) {
            let class = AddressClass::Own;
            return Err(GuardRefusal { address, class });
        }
        let is_permitted = is_literal && self.permits_private_literals || self.permits_private_names;
        if is_permitted && is_plainly_private(canonical) || self.permits_local && is_local(canonical) {
            return Ok(());
        }
        self.check(address)
    }

    /// Checks the address of a connection.
    ///
    /// # Errors
    /// [`GuardRefusal`] if the address is not public and not allowed.
    pub fn check(&self, address: IpAddr) -> Result<(), GuardRefusal> {
        let canonical = address.to_canonical();
        if self
            .allow
            .iter()
            .any(|range| range.contains(canonical) || range.contains(address))
        {
            return Ok(());
        }
        let class = if self.own.contains(&canonical) && !self.permits_private_literals {
            Some(AddressClass::Own)
        } else {
            class_of(canonical)
        };
        match class {
            Some(class) => Err(GuardRefusal { address, class }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn class(text: &str) -> Option<AddressClass> {
        Guard::default()
            .check(address(text))
            .err()
            .map(|refusal| refusal.class)
    }

    #[test]
    fn public_addresses_are_permitted() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450:4001::1",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "::ffff:8.8.8.8",
            "2001:200::1",
            "2620:fe::fe",
        ] {
            assert_eq!(class(text), None, "{text}");
        }
    }

    #[test]
    fn special_address_ranges_are_refused() {
        use AddressClass::*;
        for (text, expected) in [
            ("0.0.0.0", Unspecified),
            ("0.255.255.255", Unspecified),
            ("::", Unspecified),
            ("10.0.0.0", Private),
            ("10.255.255.255", Private),
            ("172.16.0.0", Private),
            ("172.31.255.255", Private),
            ("192.168.0.1", Private),
            ("fc00::1", Private),
            ("fdff::1", Private),
            ("fec0::1", Private),
            ("127.0.0.1", Loopback),
            ("127.255.255.254", Loopback),
            ("::1", Loopback),
            ("100.64.0.0", CarrierGrade),
            ("100.127.255.255", CarrierGrade),
            ("169.254.0.1", LinkLocal),
            ("fe80::1", LinkLocal),
            ("febf::1", LinkLocal),
            ("169.254.169.254", Metadata),
            ("169.254.170.2", Metadata),
            ("100.100.100.200", Metadata),
            ("168.63.129.16", Metadata),
            ("fd00:ec2::254", Metadata),
            ("fd20:ce::254", Metadata),
            ("224.0.0.1", Multicast),
            ("239.255.255.255", Multicast),
            ("ff02::1", Multicast),
            ("255.255.255.255", Broadcast),
            ("240.0.0.1", Reserved),
            ("192.0.0.8", Reserved),
            ("192.0.2.1", Documentation),
            ("198.51.100.7", Documentation),
            ("203.0.113.1", Documentation),
            ("198.18.0.1", Documentation),
            ("198.19.255.255", Documentation),
            ("2001:db8::1", Documentation),
            ("3fff::1", Documentation),
            ("2001:2::1", Documentation),
            ("2001:10::1", Reserved),
            ("2620:4f:8000::1", Reserved),
            ("100::1", Reserved),
            ("4000::1", Reserved),
            ("5f00::1", Reserved),
            ("64:ff9b:1::1", Reserved),
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Documentation),
        ] {
            assert_eq!(class(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn ipv4_addresses_embedded_in_ipv6_are_checked() {
        for text in [
            "::ffff:169.254.169.254",
            "::ffff:a9fe:a9fe",
            "::169.254.169.254",
            "::ffff:0:169.254.169.254",
            "64:ff9b::169.254.169.254",
            "2002:a9fe:a9fe::1",
            "2001:0:a9fe:a9fe::1",
            "2001:0:808:808:0:0:5601:5601",
            "2606:4700::5efe:169.254.169.254",
            "2606:4700::200:5efe:169.254.169.254",
        ] {
            assert_eq!(class(text), Some(AddressClass::Metadata), "{text}");
        }
        let refusal = Guard::default().check(address("::ffff:a9fe:a9fe")).unwrap_err();
        assert!(refusal.to_string().contains(" is a cloud metadata address, "));
        assert_eq!(class("::ffff:127.0.0.1"), Some(AddressClass::Loopback));
        assert_eq!(class("::10.0.0.1"), Some(AddressClass::Private));
        assert_eq!(class("::8.8.8.8"), Some(AddressClass::Reserved));
    }

    #[test]
    fn allows_what_the_operator_names_in_either_form() {
        let guard = Guard::new(
            ["10.0.0.0/8".parse().unwrap(), "fd00:1::/32".parse().unwrap()],
            [],
        );
        for text in ["10.1.2.3", "::ffff:10.1.2.3", "fd00:1::5"] {
            assert_eq!(guard.check(address(text)), Ok(()), "{text}");
        }
        for text in ["192.168.0.1", "fd00:2::5", "2002:a00:1::1", "127.0.0.1"] {
            assert!(guard.check(address(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn refuses_the_gateway_itself() {
        let guard = Guard::new([], [address("1.2.3.4"), address("2606:4700::1")]);
        for text in ["1.2.3.4", "::ffff:1.2.3.4", "2606:4700::1"] {
            let refusal = guard.check(address(text)).unwrap_err();
            assert_eq!(
                refusal,
                GuardRefusal {
                    address: address(text),
                    class: AddressClass::Own
                }
            );
        }
        assert_eq!(guard.check(address("1.2.3.5")), Ok(()));
    }

    fn judge(guard: &Guard, text: &str, port: u16, is_literal: bool) -> Option<AddressClass> {
        let destination = Destination {
            address: address(text),
            port,
            is_literal,
        };
        let judged = guard.check_destination(destination);
        judged.err().map(|refusal| refusal.class)
    }

    #[test]
    fn a_private_address_is_allowed_as_literal_but_not_by_dns() {
        use AddressClass::*;
        let guard = Guard::new([], [address("192.168.0.9")]).permitting_private_literals();
        for text in [
            "10.0.0.1",
            "192.168.0.1",
            "192.168.0.9",
            "100.64.0.1",
            "fd00::1",
            "::ffff:10.0.0.1",
        ] {
            assert_eq!(judge(&guard, text, 80, true), None, "{text}");
            assert!(
                judge(&guard, text, 80, false).is_some(),
                "a name that leads to {text}"
            );
            assert!(judge(&Guard::default(), text, 80, true).is_some(), "a gateway");
        }
        for (text, class) in [
            ("127.0.0.1", Loopback),
            ("::1", Loopback),
            ("0.0.0.0", Unspecified),
            ("169.254.1.1", LinkLocal),
            ("fe80::1", LinkLocal),
            ("169.254.169.254", Metadata),
            ("fd00:ec2::254", Metadata),
            ("2002:a00:1::1", Private),
            ("64:ff9b::10.0.0.1", Private),
            ("224.0.0.1", Multicast),
        ] {
            assert_eq!(judge(&guard, text, 80, true), Some(class), "{text}");
        }
    }

    #[test]
    fn local_addresses_are_permitted_to_programs_of_this_machine() {
        use AddressClass::*;
        let guard = Guard::new([], [address("192.168.0.9")])
            .refusing_ports([3128])
            .permitting_local();
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "0.0.0.0",
            "::ffff:127.0.0.1",
            "10.0.0.1",
            "192.168.0.9",
            "100.64.0.1",
            "fd00::1",
            "169.254.1.1",
            "fe80::1",
        ] {
            for is_literal in [true, false] {
                assert_eq!(judge(&guard, text, 80, is_literal), None, "{text}");
            }
        }
        for text in ["127.0.0.1", "::1", "0.0.0.0", "192.168.0.9"] {
            assert_eq!(judge(&guard, text, 3128, true), Some(Own), "{text}");
        }
        for (text, class) in [
            ("169.254.169.254", Metadata),
            ("fd00:ec2::254", Metadata),
            ("::127.0.0.1", Loopback),
            ("2002:a00:1::1", Private),
            ("64:ff9b::10.0.0.1", Private),
            ("224.0.0.1", Multicast),
            ("255.255.255.255", Broadcast),
        ] {
            assert_eq!(judge(&guard, text, 80, true), Some(class), "{text}");
        }
    }

    #[test]
    fn own_ports_are_refused_even_if_their_address_is_allowed() {
        let everywhere = ["0.0.0.0/0", "::/0"].map(|range| range.parse().unwrap());
        let guard = Guard::new(everywhere, [address("192.168.0.9"), address("fd00::9")])
            .permitting_private_literals()
            .refusing_ports([3128, 3129]);
        for text in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "0.0.0.0",
            "::",
            "192.168.0.9",
            "::ffff:192.168.0.9",
            "fd00::9",
        ] {
            for is_literal in [true, false] {
                assert_eq!(
                    judge(&guard, text, 3129, is_literal),
                    Some(AddressClass::Own),
                    "{text}"
                );
            }
            assert_eq!(judge(&guard, text, 80, true), None, "{text}, another port");
        }
        assert_eq!(judge(&guard, "192.168.0.8", 3129, true), None, "another machine");
    }
}
