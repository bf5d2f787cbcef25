//! Trials of codings and bases on the first window of a body.
use longhaul_types::{BitRate, ByteCount};

use super::{
    super::{
        base::{Base, BaseDecision, Based, Candidate, Likeness, built_in_candidates, choose_base, pays},
        is_to_mix, suits_mixing,
    },
    AdaptiveEncoder, Finished, SizeHiding,
};
use crate::{
    coding::{Coder, Coding, EncodeError},
    window::BodyEncoder,
};

/// Minimum size of a first window that may prove a coder useless. In a smaller one, which an origin flushed
/// early, the coder has too little context; later windows benefit from it.
const MIN_TRIAL_SIZE: usize = 1024;
/// Rate below which a full window of a document, about 8 KiB when coded, takes more than 16 ms.
const SLOW: BitRate = BitRate::kbps(4000);

impl AdaptiveEncoder {
    /// True if the earlier encoding used context mixing; no other coding is smaller.
    fn was_mixed(&self) -> bool {
        self.coded
            .as_ref()
            .is_some_and(|coded| coded.coding() == Coding::Mix)
    }

    /// True if context mixing may be tried.
    pub(super) fn may_mix(&self) -> bool {
        let is_allowed = !self.was_mixed() && self.hiding != SizeHiding::Coded;
        self.mixing.is_some() && is_allowed && suits_mixing(self.traits(self.length))
    }

    /// Returns a context-mixing encoder if one is likely to save time and there is memory for it.
    fn mixed(&self, length: Option<ByteCount>) -> Option<BodyEncoder> {
        // Context mixing has no padding.
        let is_allowed = !self.was_mixed() && self.hiding != SizeHiding::Coded;
        let memory = self.mixing.as_ref().filter(|_| is_allowed)?;
        let is_wanted = is_to_mix(self.traits(length), self.coder_for_trials(length), &self.first);
        let encoder = is_wanted.then(|| BodyEncoder::mixed(self.key, length, memory))?;
        encoder.map(|encoder| self.shown_early(encoder))
    }

    /// Lets the windows of a document grow, if the first one would otherwise take long to arrive.
    fn shown_early(&self, encoder: BodyEncoder) -> BodyEncoder {
        let is_slow = self.link.is_none_or(|rate| rate < SLOW);
        let is_document = self.content_type.as_deref().is_some_and(is_document);
        if is_slow && is_document {
            encoder.growing()
        } else {
            encoder
        }
    }

    /// Returns the base that may save bytes for a body of this length, if any.
    fn based(&self, length: Option<ByteCount>) -> Option<Based> {
        if !self.has_trials() || self.coder_for_trials(length) == Coder::Identity {
            return None;
        }
        let offered = self.bases.iter().enumerate().map(|(place, bytes)| Candidate {
            base: Base::Offered(place),
            bytes: bytes.clone(),
            likeness: Likeness::Whole,
        });
        let mut candidates: Vec<_> = offered.collect();
        let content_type = self.content_type.as_deref();
        let link = self.traits(length).effective_link();
        candidates.extend(built_in_candidates(
            self.dictionaries,
            content_type,
            &self.first,
            link,
        ));
        if candidates.is_empty() {
            return None;
        }
        choose_base(&candidates, &self.first, length, link)
    }

    /// Encodes the first bytes with a base.
    fn with_base(
        &self,
        based: &Based,
        length: Option<ByteCount>,
    ) -> Result<(BodyEncoder, Vec<u8>), EncodeError> {
        let encoder = BodyEncoder::with_base(self.key, based.coder, length, &based.bytes)?;
        // A body that was coded against an offered one is small enough to arrive at once.
        let (mut encoder, hides) = match based.base {
            Base::Offered(_) => (encoder, self.hiding >= SizeHiding::Based),
            Base::BuiltInDictionary(_) => (self.shown_early(encoder), self.hiding == SizeHiding::Coded),
        };
        if hides {
            encoder.pad();
        }
        let mut wire = Vec::new();
        encoder.push(&self.first, &mut wire)?;
        Ok((encoder, wire))
    }

    /// Encodes the first bytes with a coder and without a base.
    fn with_coder(
        &self,
        coder: Coder,
        length: Option<ByteCount>,
    ) -> Result<(BodyEncoder, Vec<u8>), EncodeError> {
        let mut encoder = self.shown_early(BodyEncoder::new(self.key, coder, length)?);
        if self.hiding == SizeHiding::Coded && coder != Coder::Identity {
            encoder.pad();
        }
        self.push_first(encoder)
    }

    /// Pushes the first bytes into `encoder`; returns it with its output.
    fn push_first(&self, mut encoder: BodyEncoder) -> Result<(BodyEncoder, Vec<u8>), EncodeError> {
        let mut wire = Vec::new();
        encoder.push(&self.first, &mut wire)?;
        Ok((encoder, wire))
    }

    /// Encodes the first bytes without a base: by context mixing, from an earlier encoding, or with the coder
    /// of the body's type and link.
    fn without_base(
        &mut self,
        length: Option<ByteCount>,
    ) -> Result<(Coder, BodyEncoder, Vec<u8>), EncodeError> {
        let (coder, (encoder, wire)) = if let Some(encoder) = self.mixed(length) {
            (Coder::Identity, self.push_first(encoder)?)
        } else if let Some(coded) = self.coded.take() {
            (
                Coder::Identity,
                self.push_first(BodyEncoder::replay(self.key, coded))?,
            )
        } else {
            let coder = self.coder(length);
            (coder, self.with_coder(coder, length)?)
        };
        Ok((coder, encoder, wire))
    }

    /// Encodes the first window with the best base, if any, and without a base, and keeps the smaller result.
    pub(super) fn start(&mut self, wire: &mut Vec<u8>) -> Result<BodyEncoder, EncodeError> {
        let length = self.length;
        let mut based = match self.based(length) {
            Some(based) => {
                let (mut encoder, mut coded) = self.with_base(&based, length)?;
                encoder.flush(&mut coded)?;
                Some((based, encoder, coded))
            }
            None => None,
        };
        if let Some((based, encoder, coded)) =
            based.take_if(|(based, _, _)| based.decision == BaseDecision::Better)
        {
            (self.base, self.coder) = (Some(based.base), based.coder);
            wire.extend_from_slice(&coded);
            return Ok(encoder);
        }
        let (coder, mut encoder, mut coded) = self.without_base(length)?;
        encoder.flush(&mut coded)?;
        if let Some((based, encoder, with)) = based
            && pays(&based, with.len(), coded.len(), self.first.len(), length)
        {
            (self.base, self.coder) = (Some(based.base), based.coder);
            wire.extend_from_slice(&with);
            return Ok(encoder);
        }
        self.coder = coder;
        let saved = self.first.len().saturating_sub(coded.len());
        if !encoder.is_replay() && self.first.len() >= MIN_TRIAL_SIZE && saved < self.first.len() / 32 {
            self.coder = Coder::Identity;
            (encoder, coded) = self.with_coder(Coder::Identity, length)?;
            encoder.flush(&mut coded)?;
        }
        wire.extend_from_slice(&coded);
        Ok(encoder)
    }

    /// Encodes a body that is smaller than a window with each suitable method, and keeps the smallest result.
    pub(super) fn finish_single_window(
        mut self,
        length: Option<ByteCount>,
        wire: &mut Vec<u8>,
    ) -> Result<Finished, EncodeError> {
        let ended = |(encoder, mut coded): (BodyEncoder, Vec<u8>), coder, base| {
            let coding = encoder.coding();
            let hash = encoder.finish(&mut coded)?;
            let finished = Finished {
                coding,
                coder,
                base,
                hash,
            };
            Ok((finished, coded))
        };
        let coder = self.coder(length);
        let based = self.based(length);
        let is_open = based
            .as_ref()
            .is_none_or(|based| based.decision == BaseDecision::Undecided);
        let mixed = self.mixed(length).filter(|_| is_open);
        let mut ways = Vec::new();
        if let Some(coded) = self.coded.take().filter(|_| is_open) {
            let replayed = self.push_first(BodyEncoder::replay(self.key, coded))?;
            ways.push(ended(replayed, Coder::Identity, None)?);
        } else {
            ways.push(ended(
                self.with_coder(Coder::Identity, length)?,
                Coder::Identity,
                None,
            )?);
            if coder != Coder::Identity && !self.first.is_empty() && is_open {
                ways.push(ended(self.with_coder(coder, length)?, coder, None)?);
            }
        }
        if let Some(encoder) = mixed {
            ways.push(ended(self.push_first(encoder)?, Coder::Identity, None)?);
        }
        let mut smallest = ways
            .into_iter()
            .min_by_key(|(_, coded)| coded.len())
            .ok_or(EncodeError("identity"))?;
        if let Some(based) = based {
            let coded = ended(self.with_base(&based, length)?, based.coder, Some(based.base))?;
            if pays(&based, coded.1.len(), smallest.1.len(), self.first.len(), length) {
                smallest = coded;
            }
        }
        wire.append(&mut smallest.1);
        Ok(smallest.0)
    }
}

/// True for the type of documents, which browsers display while they arrive.
fn is_document(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    ["text/html", "application/xhtml+xml"]
        .iter()
        .any(|document| essence.eq_ignore_ascii_case(document))
}
