//! The public key of the gateway's certificate: who intercepts TLS on the way shows another one
//! (docs/decisions/0040-interception-is-shown.md).
//!
//! The key proves nothing about the gateway, which the session inside authenticates. It only tells whether somebody on the
//! way ends TLS.
use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use rustls::{pki_types::CertificateDer, server::ParsedCertificate};
use tokio::sync::watch;

/// SHA-256 of the subject public key info of a certificate (RFC 5280 section 4.1): the same for all certificates of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyPin([u8; 32]);

impl KeyPin {
    /// The pin with these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn into_bytes(self) -> [u8; 32] {
        self.0
    }

    /// The pin of a certificate; `None` if the data is none.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = ParsedCertificate::try_from(certificate).ok()?;
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, &parsed.subject_public_key_info()).as_ref());
        Some(Self(hash))
    }
}

impl fmt::Display for KeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What happens if a certificate has another key than the gateway's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinPolicy {
    /// The link is used, and the interception is shown.
    #[default]
    Note,
    /// The link is refused.
    Require,
}

/// Certificate that the newest link has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Seen {
    /// There was no link.
    #[default]
    Nothing,
    /// A certificate that cannot be parsed.
    Unreadable,
    /// A certificate with this key.
    Key(KeyPin),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    expected: Option<KeyPin>,
    seen: Seen,
}

impl Known {
    fn is_intercepted(&self) -> bool {
        match (self.expected, self.seen) {
            (None, _) | (_, Seen::Nothing) => false,
            (Some(_), Seen::Unreadable) => true,
            (Some(expected), Seen::Key(seen)) => expected != seen,
        }
    }
}

/// The certificates of one gateway's links: what is expected, and what was seen. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    policy: PinPolicy,
    known: Arc<Mutex<Known>>,
    changes: watch::Sender<()>,
}

impl PartialEq for Certificates {
    fn eq(&self, other: &Self) -> bool {
        self.policy == other.policy
    }
}

impl Eq for Certificates {}

impl Certificates {
    /// No certificate is known yet.
    pub fn new(policy: PinPolicy) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }

    /// What happens if a certificate has another key than the gateway's.
    pub const fn policy(&self) -> PinPolicy {
        self.policy
    }

    /// The key that the gateway has announced; `None` if it announced none, or another gateway is used.
    pub fn expect(&self, expected: Option<KeyPin>) {
        let before = std::mem::replace(&mut self.known.lock().expected, expected);
        if before != expected {
            self.changes.send_replace(());
        }
    }

    /// True if the newest link ends at somebody else than the gateway.
    pub fn is_intercepted(&self) -> bool {
        self.known.lock().is_intercepted()
    }

    /// A receiver for changes of what is known.
    pub fn watch(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Records the certificate of a link; returns false if the link is to be refused.
    pub(crate) fn admit(&self, certificate: Option<&CertificateDer<'_>>) -> bool {
        let seen = certificate
            .and_then(KeyPin::of)
            .map_or(Seen::Unreadable, Seen::Key);
        let (was, is_intercepted) = {
            let mut known = self.known.lock();
            let was = std::mem::replace(&mut known.seen, seen);
            (was, known.is_intercepted())
        };
        if was != seen {
            self.changes.send_replace(());
        }
        !is_intercepted || self.policy == PinPolicy::Note
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PemIdentity;

    fn certificate() -> CertificateDer<'static> {
        let made = PemIdentity::self_signed("gw.example.org").unwrap();
        made.parse().unwrap().chain[0].clone()
    }

    #[test]
    fn another_key_is_an_interception_once_the_gateways_is_known() {
        let (ours, other) = (certificate(), certificate());
        let pin = KeyPin::of(&ours).unwrap();
        assert_eq!(pin.to_string().len(), 64);
        for (policy, admits) in [(PinPolicy::Note, true), (PinPolicy::Require, false)] {
            let certificates = Certificates::new(policy);
            let mut changes = certificates.watch();
            assert!(certificates.admit(Some(&other)), "nothing is expected yet");
            assert!(!certificates.is_intercepted());
            certificates.expect(Some(pin));
            assert!(certificates.is_intercepted() && changes.has_changed().unwrap());
            changes.mark_unchanged();
            assert_eq!(certificates.admit(Some(&other)), admits);
            assert!(!changes.has_changed().unwrap());
            assert!(certificates.admit(Some(&ours)) && !certificates.is_intercepted());
            assert_eq!(certificates.admit(None), admits);
            certificates.expect(None);
            assert!(!certificates.is_intercepted());
        }
    }
}
