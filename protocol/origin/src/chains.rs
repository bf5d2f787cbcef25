//! Certificate chains of origins that do not send all certificates of their chain. Browsers complete such chains with
//! certificates that they know or that the chain's certificates name, and so does this client: many origins are
//! only ever tested with browsers.
//!
//! The library's verifier decides about every chain; this module only gives it more certificates to try. Certificates
//! become known when they were needed for a chain that leads to a trusted authority.
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::Future,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{
    task_local,
    time::{Instant, timeout},
};
use tracing::debug;

use crate::{
    certificate::CertificateNames,
    deny::{DenyList, denial},
    dial::Dialer,
    issuer_certificate,
    owner::ConnectionOwner,
};

/// Maximum number of known certificates, about 2 KiB each; the public authorities use some hundreds.
const MAX_KNOWN: usize = 512;
/// Maximum number of known certificates of one name: an authority renews its certificates and lets others sign them.
const MAX_OF_NAME: usize = 4;
/// Maximum size of a certificate that becomes known.
const MAX_SIZE: usize = 16 * 1024;
/// Maximum number of certificates between the origin's and the authority's, as the library permits.
const MAX_DEPTH: usize = 6;
/// Maximum number of shown certificates of which the needed ones are sought: each costs a verification, once.
const MAX_SHOWN: usize = 8;
/// Maximum number of shown certificates that are remembered as seen.
const MAX_SEEN: usize = 2048;
/// Maximum number of certificates that are fetched for one chain, and the time for all of them.
const MAX_FETCHED: usize = 3;
const FETCH_TIME: Duration = Duration::from_secs(5);
/// Time for which an address that led to no useful certificate is not asked again, and maximum number of them.
const USELESS: Duration = Duration::from_secs(600);
const MAX_USELESS: usize = 256;

task_local! {
    /// The chain that the handshake of the current task could not verify.
    static UNVERIFIED: RefCell<Option<Chain>>;
}

/// The certificates that an origin showed for a name.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    own: CertificateDer<'static>,
    shown: Vec<CertificateDer<'static>>,
    name: ServerName<'static>,
}

/// Runs a handshake; returns its output, and the origin's chain if it could not be verified.
pub(crate) async fn observe<F: Future>(handshake: F) -> (F::Output, Option<Chain>) {
    let both = async {
        let ended = handshake.await;
        (ended, UNVERIFIED.with(RefCell::take))
    };
    UNVERIFIED.scope(RefCell::default(), both).await
}

/// Verifier that completes chains, for all connections by the same rules.
#[derive(Debug)]
pub(crate) struct Chains {
    verifier: Arc<dyn ServerCertVerifier>,
    deny: DenyList,
    /// Names of the trusted authorities, whose certificates a chain need not contain.
    authorities: BTreeSet<Vec<u8>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Known certificates by the name of their subject.
    known: BTreeMap<Vec<u8>, Vec<CertificateDer<'static>>>,
    /// The names in order of their age.
    order: VecDeque<Vec<u8>>,
    /// Hashes of shown certificates that were considered.
    seen: BTreeSet<[u8; 32]>,
    useless: BTreeMap<String, Instant>,
}

impl Chains {
    pub(crate) fn new(
        verifier: Arc<dyn ServerCertVerifier>,
        deny: DenyList,
        authorities: BTreeSet<Vec<u8>>,
    ) -> Self {
        Self {
            verifier,
            deny,
            authorities,
            state: Mutex::default(),
        }
    }

    /// Verifies a chain with `more` certificates than the origin showed, except those with a denied key.
    fn verify_with(
        &self,
        chain: &Chain,
        more: &[CertificateDer<'static>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let (denied, permitted): (Vec<_>, Vec<_>) = more
            .iter()
            .cloned()
            .partition(|certificate| self.deny.denies(certificate));
        let all = [&chain.shown[..], &permitted].concat();
        let verified = self
            .verifier
            .verify_server_cert(&chain.own, &all, &chain.name, &[], now);
        match verified {
            Ok(_) => Ok(()),
            Err(error) if denied.is_empty() || !is_completable(&error) => Err(error),
            // Only a denied certificate leads further.
            Err(_) => Err(denial()),
        }
    }

    /// The known certificates that may belong to a chain.
    fn known_for(&self, chain: &Chain) -> Vec<CertificateDer<'static>> {
        let state = self.state.lock();
        let mut found: Vec<CertificateDer<'static>> = Vec::new();
        let issuers = std::iter::once(&chain.own)
            .chain(&chain.shown)
            .filter_map(issuer_of);
        let mut names: BTreeSet<Vec<u8>> = issuers.collect();
        for _ in 0..MAX_DEPTH {
            let known = names.iter().filter_map(|name| state.known.get(name)).flatten();
            let new: Vec<_> = known
                .filter(|known| !found.contains(known) && !chain.shown.contains(known))
                .cloned()
                .collect();
            names = new.iter().filter_map(issuer_of).collect();
            found.extend(new);
        }
        found
    }

    /// Remembers the certificates of a verified chain without which it cannot be verified.
    fn learn(&self, chain: &Chain, now: UnixTime) {
        if chain.shown.is_empty() || chain.shown.len() > MAX_SHOWN {
            return;
        }
        let is_new = {
            let mut state = self.state.lock();
            if state.seen.len() + MAX_SHOWN > MAX_SEEN {
                state.seen.clear();
            }
            let mut is_new = false;
            for certificate in &chain.shown {
                is_new |= state.seen.insert(hash(certificate));
            }
            is_new
        };
        for index in (0..chain.shown.len()).filter(|_| is_new) {
            let mut without = chain.clone();
            let certificate = without.shown.remove(index);
            if self.verify_with(&without, &[], now).is_err() {
                self.state.lock().remember(certificate);
            }
        }
    }

    /// Fetches the certificates that a chain lacks, in at most the time of a handshake; returns true if the chain can
    /// now be verified.
    pub(crate) async fn complete(
        &self,
        chain: &Chain,
        (dialer, handshake_time): (&Dialer, Duration),
        owner: ConnectionOwner,
    ) -> bool {
        let time = handshake_time.min(FETCH_TIME);
        let completing = timeout(time, self.fetch_missing(chain, dialer, owner));
        completing.await.unwrap_or(false)
    }

    async fn fetch_missing(&self, chain: &Chain, dialer: &Dialer, owner: ConnectionOwner) -> bool {
        let mut more = self.known_for(chain);
        let mut asked = BTreeSet::new();
        for _ in 0..MAX_FETCHED {
            let Some((url, issuer)) = self.next_url(chain, &more, &asked) else {
                return false;
            };
            asked.insert(url.clone());
            // The mark stays unless the chain is complete in time.
            self.state.lock().mark_useless(&url);
            let fetched = issuer_certificate::fetch(dialer, &url, owner).await;
            let of_issuer = fetched.filter(|fetched| subject_of(fetched).as_ref() == Some(&issuer));
            let Some(fetched) = of_issuer.filter(|fetched| fetched.len() <= MAX_SIZE) else {
                continue;
            };
            more.push(fetched);
            match self.verify_with(chain, &more, UnixTime::now()) {
                Err(error) if is_completable(&error) => {}
                // The handshake reports any other defect.
                Ok(()) | Err(_) => {
                    debug!("a chain of an origin is completed");
                    let mut state = self.state.lock();
                    state.useless.retain(|url, _| !asked.contains(url));
                    more.into_iter()
                        .for_each(|certificate| state.remember(certificate));
                    return true;
                }
            }
        }
        false
    }

    /// An address that may lead to a missing certificate, and the name of that certificate: the end of the chain
    /// comes first, then the origin's certificate, whose issuer may have a newer certificate than the one shown.
    fn next_url(
        &self,
        chain: &Chain,
        more: &[CertificateDer<'static>],
        asked: &BTreeSet<String>,
    ) -> Option<(String, Vec<u8>)> {
        let now = Instant::now();
        let mut path = vec![&chain.own];
        while let Some(issuer) = path.last().copied().and_then(issuer_of)
            && path.len() <= MAX_DEPTH
            && !self.authorities.contains(&issuer)
        {
            let mut others = more.iter().chain(&chain.shown);
            let next =
                others.find(|other| subject_of(other).as_ref() == Some(&issuer) && !path.contains(other));
            let Some(next) = next else { break };
            path.push(next);
        }
        let state = self.state.lock();
        let is_useful =
            |url: &str| !asked.contains(url) && state.useless.get(url).is_none_or(|at| now >= *at + USELESS);
        let end = path.pop();
        end.into_iter().chain(path).find_map(|certificate| {
            let names = CertificateNames::of(certificate)?;
            let url = names.issuer_urls.iter().find(|url| is_useful(url))?;
            Some(((*url).to_owned(), names.issuer.to_vec()))
        })
    }
}

impl State {
    fn remember(&mut self, certificate: CertificateDer<'static>) {
        let Some(subject) = subject_of(&certificate).filter(|_| certificate.len() <= MAX_SIZE) else {
            return;
        };
        let of_name = self.known.entry(subject.clone()).or_default();
        if of_name.contains(&certificate) {
            return;
        }
        if of_name.len() >= MAX_OF_NAME {
            of_name.remove(0);
        } else {
            self.order.push_back(subject);
        }
        of_name.push(certificate);
        if self.order.len() > MAX_KNOWN
            && let Some(oldest) = self.order.pop_front()
            && let Some(of_name) = self.known.get_mut(&oldest)
        {
            of_name.remove(0);
            if of_name.is_empty() {
                self.known.remove(&oldest);
            }
        }
    }

    fn mark_useless(&mut self, url: &str) {
        let now = Instant::now();
        if self.useless.len() >= MAX_USELESS {
            self.useless.retain(|_, at| now < *at + USELESS);
        }
        if self.useless.len() < MAX_USELESS {
            self.useless.insert(url.to_owned(), now);
        }
    }
}

impl ServerCertVerifier for Chains {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain = Chain {
            own: end_entity.clone().into_owned(),
            shown: intermediates
                .iter()
                .map(|shown| shown.clone().into_owned())
                .collect(),
            name: server_name.to_owned(),
        };
        let error = match self.verify_with(&chain, &[], now) {
            Ok(()) => {
                self.learn(&chain, now);
                return Ok(ServerCertVerified::assertion());
            }
            Err(error) if is_completable(&error) => error,
            Err(error) => return Err(error),
        };
        let known = self.known_for(&chain);
        let completed = if known.is_empty() {
            Err(error)
        } else {
            self.verify_with(&chain, &known, now)
        };
        if completed.as_ref().is_err_and(is_completable) {
            // Outside of `observe` nobody completes the chain.
            let _outside = UNVERIFIED.try_with(|unverified| unverified.replace(Some(chain)));
        }
        completed.map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// True if another certificate may mend the defect: there is no issuer, or the issuer's certificate that was shown has
/// expired or has another key.
fn is_completable(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer
                | CertificateError::BadSignature
                | CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        )
    )
}

fn hash(certificate: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, certificate).as_ref());
    hash
}

fn issuer_of(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    CertificateNames::of(certificate).map(|names| names.issuer.to_vec())
}

fn subject_of(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    CertificateNames::of(certificate).map(|names| names.subject.to_vec())
}

#[cfg(test)]
#[path = "chains_tests.rs"]
mod tests;
