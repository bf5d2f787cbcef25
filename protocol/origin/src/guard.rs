//! The address guard: the addresses to which fetches and tunnels may connect.
//!
//! The agent uses a guard for its direct fallback. In that mode the browser may connect to a private address
//! of the user's own network if the URL contains the address literally. No name may resolve to a private
//! address, and no connection may reach the agent's own ports.
//!
//! A gateway fetches the URLs that its users request; without a guard any page could reach the operator's own
//! network (server-side request forgery). The guard checks the address that is actually connected, never the
//! name, so that a name that changes its answer (DNS rebinding) does not circumvent it.
#[cfg(test)]
mod tests;

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
