//! Lookups by the system's C library: it knows the hosts file, search domains and multicast DNS, and follows the computer from
//! network to network.
use std::net::{IpAddr, ToSocketAddrs as _};

use crate::{
    dns::{Answer, MAX_ADDRESSES},
    error::{DnsFailure, FetchError},
};

/// Asks the C library, which has no answers of its own to keep. Its thread, which cannot be stopped, has the slot until the end.
pub(crate) async fn ask(name: String, slot: impl Send + 'static) -> Answer {
    let asked = tokio::task::spawn_blocking(move || {
        let found = (name.as_str(), 0).to_socket_addrs();
        drop(slot);
        found
    });
    match asked.await {
        Ok(Ok(found)) => {
            let found: Vec<IpAddr> = found.map(|address| address.ip()).take(MAX_ADDRESSES).collect();
            if found.is_empty() {
                Err(FetchError::DnsNotFound)
            } else {
                Ok(found)
            }
        }
        Ok(Err(error)) if means_not_found(&error.to_string()) => Err(FetchError::DnsNotFound),
        Ok(Err(_)) => Err(FetchError::DnsFailed(DnsFailure::Server)),
        Err(_) => Err(FetchError::DnsFailed(DnsFailure::Local)),
    }
}

/// Texts of `getaddrinfo` for names that do not exist or have no address (EAI_NONAME, EAI_NODATA), of glibc,
/// musl and macOS. The standard library passes only the text on.
const NOT_FOUND: [&str; 5] = [
    "Name or service not known",
    "No address associated with hostname",
    "Name does not resolve",
    "nodename nor servname provided",
    "Name has no usable address",
];

/// Returns true if an error of a lookup by the C library means that the name does not exist or has no address.
pub fn means_not_found(error: &str) -> bool {
    NOT_FOUND.iter().any(|known| error.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_texts_for_missing_names_mean_that_there_is_none() {
        for text in NOT_FOUND {
            assert!(means_not_found(&format!(
                "failed to lookup address information: {text}"
            )));
        }
        for text in [
            "",
            "Temporary failure in name resolution",
            "Try again",
            "Non-recoverable failure",
        ] {
            assert!(!means_not_found(text), "{text}");
        }
    }

    #[tokio::test]
    async fn a_name_with_an_impossible_character_is_no_missing_name() {
        let failed = ask("a\0b".to_owned(), ()).await;
        assert_eq!(failed, Err(FetchError::DnsFailed(DnsFailure::Server)));
    }
}
