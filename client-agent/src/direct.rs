//! The way around the gateway, for the time when none answers.
//!
//! It has no address guard, on purpose: it connects from this machine for a browser on this machine, which could reach
//! the same addresses itself. The guard's place is where somebody else's machine connects, at the gateway.
use longhaul_origin::{Cidr, FetchError, Guard, OriginClient, OriginConfig, OriginConfigError};

/// Makes the client.
///
/// # Errors
/// The TLS library refuses its own defaults.
pub fn client() -> Result<OriginClient, OriginConfigError> {
    let everywhere: Vec<Cidr> = ["0.0.0.0/0", "::/0"]
        .iter()
        .filter_map(|range| range.parse().ok())
        .collect();
    OriginClient::new(OriginConfig {
        guard: Guard::new(everywhere, []),
        ..OriginConfig::default()
    })
}

/// Whether the failure looks as if this machine had no way to the Internet at all, and nothing was sent.
pub fn is_offline(error: &FetchError) -> bool {
    matches!(
        error,
        FetchError::ConnectTimeout | FetchError::DnsFailed(_) | FetchError::Unreachable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_of_the_local_network_count_as_offline() {
        assert!(is_offline(&FetchError::Unreachable));
        assert!(!is_offline(&FetchError::Refused));
        assert!(!is_offline(&FetchError::DnsNotFound));
    }
}
