//! The part of a visit that other devices may be told: which URLs the page's scripts requested, and which pushes were
//! unused.
//!
//! A URL is told if its host is named by the page's documents, it has no personal parts, and either all its words stand
//! in bodies that any visitor of the page gets, or two devices asked for it. Until then the gateway keeps only keyed
//! hashes of it (docs/decisions/0072). If its words stand in a body that may be one visitor's, it is told to visitors that
//! get the same body (decision 110). By its hash, a URL that stood in the document of the device that taught it is found
//! in the documents of other devices (decision 81).
//!
//! A URL is no longer planned once two devices did not use its push, with no use between. Until then the gateway keeps
//! keyed hashes of this, too (decision 109).
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use longhaul_cache::{Cache, Partition};
use longhaul_gateway_core::{
    admin::page_load_refusal::{Refusal, RefusalCounters},
    body_words::BodyWords,
};
use longhaul_http::request_context::CredentialsSecret;
use longhaul_page::learn::{
    HeldFresh, Learned, LearnedRef, LiteralRequest, Teachers, Testimony, Unused, Visit, Witnesses,
};
use longhaul_types::{ContentHash, PublicKey, UnixTime};
use url::Url;

use super::{
    learned_records,
    public_words::{BodyAudience, PublicWords},
    publicity::Disclosure,
};

/// Maximum number of bytes of bodies that are searched for the words of a visit's URLs.
const MAX_SEARCHED: u64 = 4 * 1024 * 1024;

/// Maximum number of unused pushes of a visit that are remembered: a quarter of the testimonies in a record.
const MAX_UNUSED: usize = 128;

/// The device that teaches, by keyed hashes.
#[derive(Clone, Debug)]
pub(crate) struct Teacher {
    key: [u8; 32],
    device: u64,
}

impl Teacher {
    /// `secret` is the gateway's: without it, nobody can test whether a device asked for a URL.
    pub(crate) fn new(device: &PublicKey, secret: &CredentialsSecret) -> Self {
        let key = blake3::derive_key("longhaul 1 testimony key", secret.as_bytes());
        let device = hash(&key, &[b"device ", device.as_bytes().as_slice()].concat());
        Self { key, device }
    }

    fn testimony(&self, candidate: &Candidate) -> Testimony {
        let LearnedRef {
            url,
            destination,
            form,
        } = &candidate.asked;
        let literal = LiteralRequest {
            destination: *destination,
            form: *form,
        };
        Testimony {
            url: self.hash_of(url),
            device: self.device,
            literal: candidate.is_literal.then_some(literal),
        }
    }

    /// Keyed hash of a body.
    pub(super) fn hash_of_body(&self, body: &ContentHash) -> u64 {
        hash(&self.key, &[b"body ", body.as_bytes().as_slice()].concat())
    }

    /// Keyed hash of a URL.
    pub(super) fn hash_of(&self, url: &Url) -> u64 {
        hash(&self.key, format!("url {url}").as_bytes())
    }

    /// Keyed hash of the testimony that the push of a URL was unused.
    fn hash_of_unused(&self, url: &Url) -> u64 {
        hash(&self.key, format!("unused {url}").as_bytes())
    }
}

fn hash(key: &[u8; 32], text: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&blake3::keyed_hash(key, text).as_bytes()[..8]);
    u64::from_be_bytes(bytes)
}

/// A request of the page's scripts that other devices may be told.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) asked: LearnedRef,
    pub(super) disclosure: Disclosure,
    pub(super) host: HostNaming,
    /// True if the URL stands in the page's document.
    pub(super) is_literal: bool,
    /// True if the gateway cannot reach the host.
    pub(super) is_absent: bool,
}

/// Whether the page's documents refer to other URLs of a host. Others could be inventions of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostNaming {
    /// A document, style sheet or redirect does.
    Named,
    /// None does, but a script may contain the name.
    Unknown,
}

/// What a page load teaches other devices.
pub(super) struct SharedLesson {
    pub(super) page: Url,
    pub(super) teacher: Teacher,
    pub(super) candidates: Vec<Candidate>,
    /// URLs that the browser requested; their presence in shared records is confirmed.
    pub(super) used: Vec<Url>,
    /// URLs that were planned, and that the browser neither requested nor held.
    pub(super) unused: Vec<Url>,
    /// Text bodies of the page's own documents.
    pub(super) bodies: Vec<(ContentHash, BodyAudience)>,
    /// Words of the page's documents that no cache stores.
    pub(super) unstored: BodyWords,
    /// Values of the cookies that responses of this page load set.
    pub(super) cookies: Vec<Vec<u8>>,
    pub(super) refused: RefusalCounters,
    pub(super) now: UnixTime,
}

impl SharedLesson {
    /// Reads the records again, because other devices may have changed them meanwhile.
    pub(super) async fn store(self, cache: &Cache) {
        let words = self.search(cache).await;
        let mut learned = learned_records::read(cache, &Partition::Shared, &self.page).await;
        let before = [learned.page_record(), learned.pattern_record()];
        self.teach(&mut learned, &words);
        let after = [learned.page_record(), learned.pattern_record()];
        let keys = learned_records::keys(&Partition::Shared, &self.page);
        for ((key, before), after) in keys.into_iter().zip(before).zip(after) {
            if after != before {
                learned_records::put(cache, &key, after).await;
            }
        }
    }

    /// Searches the bodies for the words of the candidates.
    async fn search(&self, cache: &Cache) -> PublicWords {
        let mut words = self.words();
        words.search_words(&self.unstored);
        let mut left = MAX_SEARCHED;
        for (number, (hash, audience)) in self.bodies.iter().enumerate() {
            if words.is_complete() {
                break;
            }
            let Some(mut body) = cache.body(*hash).await.filter(|body| body.length() <= left) else {
                continue;
            };
            left -= body.length();
            let mut rest = Vec::new();
            while let Some(Ok(part)) = body.next().await {
                words.search((number, *audience), &part, &mut rest);
            }
            words.search_all((number, *audience), &rest);
        }
        words
    }

    /// The search for the words of the candidates, before any body.
    pub(super) fn words(&self) -> PublicWords {
        let by_words = self.candidates.iter().filter(|candidate| {
            candidate.disclosure == Disclosure::PublicWords || candidate.host == HostNaming::Unknown
        });
        PublicWords::of(by_words.map(|candidate| &candidate.asked.url), &self.cookies)
    }

    /// Adds what may be told to the shared records.
    pub(super) fn teach(&self, learned: &mut Learned, words: &PublicWords) {
        let (mut told, mut behind, mut absent) = (Vec::new(), Vec::new(), Vec::new());
        for candidate in &self.candidates {
            match self.judge(candidate, learned, words) {
                Ok(Verdict::Told) if candidate.is_absent => absent.push(candidate.asked.clone()),
                Ok(Verdict::Told) => told.push(candidate.asked.clone()),
                Ok(Verdict::Behind(body)) => behind.push((candidate.asked.clone(), body)),
                Ok(Verdict::Literal) => {}
                Err(reason) => self.refused.add(reason, 1),
            }
        }
        let unused = self.unused(learned);
        // What the shared record has no room for is not counted: the device's own record counts such requests.
        let _unlearned = learned.update(&Visit {
            asked_unplanned: &told,
            asked_behind: &behind,
            asked_absent: &absent,
            pushed_used: &self.used,
            pushed_unused: &unused,
            teachers: Teachers::AllDevices,
            now: self.now,
        });
    }

    /// Keyed hash of the body that a device must get to be told a candidate.
    fn body_with(&self, candidate: &Candidate, words: &PublicWords) -> Option<u64> {
        let may_be_told = candidate.disclosure == Disclosure::PublicWords && !candidate.is_absent;
        let number = may_be_told.then(|| words.body_with(&candidate.asked.url))??;
        self.bodies
            .get(number)
            .map(|(hash, _)| self.teacher.hash_of_body(hash))
    }

    /// The URLs that neither this device nor another one used: an object that one browser does not request may be needed by
    /// another.
    fn unused(&self, learned: &mut Learned) -> Vec<Unused> {
        let used = self.used.iter().map(|url| self.teacher.hash_of_unused(url));
        learned.retract(&used.collect::<BTreeSet<u64>>());
        let unused = self.unused.iter().take(MAX_UNUSED).filter(|url| {
            let testimony = Testimony {
                url: self.teacher.hash_of_unused(url),
                device: self.teacher.device,
                literal: None,
            };
            learned.testify(testimony, self.now) == Witnesses::Two
        });
        let held = HeldFresh::No;
        unused
            .map(|url| Unused {
                url: url.clone(),
                held,
            })
            .collect()
    }

    fn judge(
        &self,
        candidate: &Candidate,
        learned: &mut Learned,
        words: &PublicWords,
    ) -> Result<Verdict, Refusal> {
        let url = &candidate.asked.url;
        let is_named = || url.host_str().is_some_and(|host| words.contains_host(host));
        if candidate.host == HostNaming::Unknown && !candidate.is_literal && !is_named() {
            return Err(Refusal::Host);
        }
        let is_public = match candidate.disclosure {
            Disclosure::PublicWords => words.contains(url),
            Disclosure::TwoDevices => false,
            Disclosure::Never(Refusal::Url) if candidate.is_literal => {
                learned.remember_literal(self.teacher.testimony(candidate), self.now);
                return Ok(Verdict::Literal);
            }
            Disclosure::Never(reason) => return Err(reason),
        };
        if is_public {
            return Ok(Verdict::Told);
        }
        match learned.testify(self.teacher.testimony(candidate), self.now) {
            Witnesses::Two => Ok(Verdict::Told),
            Witnesses::One if let Some(body) = self.body_with(candidate, words) => Ok(Verdict::Behind(body)),
            Witnesses::One if candidate.is_literal => Ok(Verdict::Literal),
            Witnesses::One => Err(Refusal::OneDevice),
        }
    }
}

/// Who may be told a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Every device.
    Told,
    /// Devices that get the body with this keyed hash.
    Behind(u64),
    /// Devices whose documents contain it.
    Literal,
}
