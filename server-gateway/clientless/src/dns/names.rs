//! The names that lead to the gateway.
use longhaul_gateway_core::config::{DnsConfig, HostNames};

use std::net::IpAddr;

/// The names, and the addresses of the gateway that clients get for them.
#[derive(Debug, Default)]
pub(crate) struct BoostedNames {
    names: HostNames,
    addresses: Vec<IpAddr>,
}

impl BoostedNames {
    /// The names of a configuration; none if there is no name server.
    pub(crate) fn new(config: &DnsConfig) -> Self {
        let Some(listen) = config.listen else {
            return Self::default();
        };
        let mut addresses = config.addresses.clone();
        if addresses.is_empty() {
            addresses.push(listen.ip());
        }
        Self {
            names: config.names.clone(),
            addresses,
        }
    }

    /// Returns true for a name that leads to the gateway.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns true if no name leads to the gateway.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The addresses of the gateway.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use longhaul_settings::Environment;

    use super::*;
    use longhaul_gateway_core::config::{SettingArgs, resolve, settings};

    fn names(flags: &SettingArgs) -> BoostedNames {
        BoostedNames::new(&resolve(flags, &Environment::new()).unwrap().0.dns)
    }

    #[test]
    fn no_name_leads_to_a_gateway_without_a_name_server() {
        let flags = || SettingArgs::default().with(&settings::DNS_NAMES, "a.test");
        let off = names(&flags());
        assert!(off.is_empty() && !off.contains("a.test") && off.addresses().next().is_none());
        let on = names(&flags().with(&settings::DNS_LISTEN, "192.0.2.1:53"));
        assert!(!on.is_empty() && on.contains("A.test.") && !on.contains("b.test"));
        assert_eq!(on.addresses().collect::<Vec<_>>(), [IpAddr::from([192, 0, 2, 1])]);
        let none = names(&SettingArgs::default().with(&settings::DNS_LISTEN, "192.0.2.1:53"));
        assert!(none.is_empty());
    }
}
