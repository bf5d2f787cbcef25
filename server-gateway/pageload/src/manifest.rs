//! The manifest's stream: records, encoded as one body against the page's previous manifest.
use std::time::Duration;

use longhaul_codec::{BodyEncoder, Coder, EncodeError};
use longhaul_driver::{EarlyData, End, OpenOptions, Priority, SendStream, Session};
use longhaul_session::{
    Body, BodyCoding, Manifest, Message, PageId, Record, Withdrawal, encode, encode_record,
};
use longhaul_types::BitRate;
use tracing::debug;

use super::memory::ManifestMemory;

/// Entries precede the bodies that refer to them, so manifests have the highest class
/// (docs/protocol/session.md section 2).
const CLASS: Priority = Priority::CONTROL;
/// Rate below which the hop is slower than a high-effort encoder.
const SLOW: BitRate = BitRate::kbps(1000);
/// Coder of a manifest without base: Brotli's built-in dictionary contains fragments of URLs and fields.
const SLOW_FIRST: (Coder, BodyCoding) = (Coder::Brotli { quality: 9 }, BodyCoding::Brotli);
const FAST_FIRST: (Coder, BodyCoding) = (Coder::Brotli { quality: 5 }, BodyCoding::Brotli);
/// Coder of a manifest whose base is the page's previous manifest.
const SLOW_NEXT: (Coder, BodyCoding) = (Coder::Zstd { level: 19 }, BodyCoding::Zstd);
const FAST_NEXT: (Coder, BodyCoding) = (Coder::Zstd { level: 9 }, BodyCoding::Zstd);
/// Bounds of the time in which records gather before they are written: each window costs a dozen bytes.
/// Waiting less than the time of a packet on the hop delays nothing.
const MIN_GATHER: Duration = Duration::from_millis(5);
const MAX_GATHER: Duration = Duration::from_millis(100);
const PACKET_BITS: u64 = 1200 * 8;

/// The agent stopped the manifest's stream, or the session is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the manifest has no reader")]
pub(crate) struct ManifestGone;

/// Time in which records gather before they are written.
pub(crate) fn gather(link: Option<BitRate>) -> Duration {
    match link.map(BitRate::as_bps) {
        Some(rate @ 1..) => {
            Duration::from_micros(PACKET_BITS.saturating_mul(1_000_000) / rate).clamp(MIN_GATHER, MAX_GATHER)
        }
        Some(0) | None => MIN_GATHER,
    }
}

/// Writer of one page load's manifest.
pub(crate) struct ManifestWriter {
    session: Session,
    page: PageId,
    base: Option<ManifestMemory>,
    open: Option<Open>,
    /// Decoded bytes so far.
    decoded: Vec<u8>,
    sent: u64,
}

struct Open {
    stream: SendStream,
    encoder: BodyEncoder,
}

impl ManifestWriter {
    /// Creates the writer for page load `page`; sends nothing before the first record.
    pub(crate) const fn new(session: Session, page: PageId, base: Option<ManifestMemory>) -> Self {
        Self {
            session,
            page,
            base,
            open: None,
            decoded: Vec::new(),
            sent: 0,
        }
    }

    /// Sends records in one or more windows; returns the number of bytes on the hop.
    pub(crate) async fn write(
        &mut self,
        records: &[Record],
        key: [u8; 32],
        link: Option<BitRate>,
    ) -> Result<usize, ManifestGone> {
        let start = self.decoded.len();
        for record in records {
            self.append(record);
        }
        let mut wire = Vec::new();
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.open(key, link).await?,
        };
        let coded = open.encoder.push(&self.decoded[start..], &mut wire);
        coded
            .and_then(|()| open.encoder.flush(&mut wire))
            .map_err(Self::failed)?;
        let sent = wire.len();
        open.stream.write(wire.into()).await.map_err(|_| ManifestGone)?;
        self.open = Some(open);
        self.sent += sent as u64;
        Ok(sent)
    }

    /// Ends the manifest; returns its decoded bytes, or `None` if no record was written.
    pub(crate) async fn finish(mut self) -> Result<Option<Vec<u8>>, ManifestGone> {
        let Some(mut open) = self.open.take() else {
            return Ok(None);
        };
        let mut wire = Vec::new();
        open.encoder.finish(&mut wire).map_err(Self::failed)?;
        let total = self.sent + wire.len() as u64;
        open.stream.announce(total).await.map_err(|_| ManifestGone)?;
        open.stream.write(wire.into()).await.map_err(|_| ManifestGone)?;
        open.stream.finish().await.map_err(|_| ManifestGone)?;
        Ok(Some(self.decoded))
    }

    fn append(&mut self, record: &Record) {
        let before = self.decoded.len();
        if encode_record(record, &mut self.decoded).is_ok() {
            return;
        }
        self.decoded.truncate(before);
        let instead = match record {
            // The head exceeds 256 KiB: the browser's own request gets the response or the failure.
            Record::Head(head) => Record::Withdrawn {
                entry: head.entry,
                reason: Withdrawal::TooLarge,
            },
            // URLs and the details of failures are far shorter, and the other records have a fixed size.
            Record::Entry(_)
            | Record::Withdrawn { .. }
            | Record::Failed(_)
            | Record::Absent(_)
            | Record::Planned => return,
        };
        let _fits = encode_record(&instead, &mut self.decoded);
    }

    async fn open(&mut self, key: [u8; 32], link: Option<BitRate>) -> Result<Open, ManifestGone> {
        let is_fast = link.is_some_and(|rate| rate >= SLOW);
        let base = self.base.take();
        let (coder, coding) = match (&base, is_fast) {
            (None, true) => FAST_FIRST,
            (None, false) => SLOW_FIRST,
            (Some(_), true) => FAST_NEXT,
            (Some(_), false) => SLOW_NEXT,
        };
        let dictionary = base.as_ref().map_or(&[][..], |base| &base.bytes);
        let encoder = BodyEncoder::with_base(key, coder, None, dictionary).map_err(Self::failed)?;
        let mut first = Vec::new();
        let body = Body {
            coding,
            length: None,
            offset: 0,
            // `Manifest.base` names the base.
            base: None,
        };
        let manifest = Manifest {
            page: self.page,
            base: base.as_ref().map(ManifestMemory::id),
        };
        // Fixed-size fields: these messages always fit.
        let _fits = encode(&Message::Manifest(manifest), &mut first);
        let _fits = encode(&Message::Body(body), &mut first);
        self.sent = first.len() as u64;
        let options = OpenOptions {
            class: CLASS,
            early: EarlyData::Allowed,
            total: None,
        };
        let stream = self.session.open(options, first.into(), End::Open).await;
        Ok(Open {
            stream: stream.map_err(|_| ManifestGone)?,
            encoder,
        })
    }

    fn failed(error: EncodeError) -> ManifestGone {
        debug!(%error, "the encoding of a manifest failed");
        ManifestGone
    }
}
