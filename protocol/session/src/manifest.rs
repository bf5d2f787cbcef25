//! Records of a manifest (docs/protocol/session.md section 7.1): the objects of a page load.
use bincode::{Decode, Encode};
use bytes::{Buf as _, BytesMut};

use super::{
    envelope::{self, EnvelopeError},
    failure::FailureReason,
    headers::HeaderField,
    id::EntryId,
};

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Record {
    /// The next entry.
    Entry(Entry),
    /// Response of an entry.
    Head(EntryHead),
    /// An entry without response: the agent sends an ordinary `Fetch` for the browser's request.
    Withdrawn {
        /// Number of the entry.
        entry: EntryId,
        /// Reason.
        reason: Withdrawal,
    },
    /// No further entry follows.
    Planned,
    /// An entry without response, because the gateway could not connect to its host ([`crate::FAILURE_RECORDS`]).
    Failed(EntryFailure),
    /// The gateway cannot reach a host ([`crate::FAILURE_RECORDS`]).
    Absent(AbsentHost),
}

/// Failure of an entry: the agent answers the browser's request with it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct EntryFailure {
    /// Number of the entry.
    pub entry: EntryId,
    /// Reason.
    pub reason: FailureReason,
    /// Details for the error page, at most 500 characters.
    pub detail: String,
}

/// A host that the gateway could not reach for this page load. The agent answers all requests of the page to it with
/// the failure.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct AbsentHost {
    /// Scheme, host and port (RFC 6454 section 6.2).
    pub origin: String,
    /// Reason.
    pub reason: FailureReason,
    /// Details for the error page, at most 500 characters.
    pub detail: String,
    /// Time in seconds for which the failure answers requests.
    pub seconds: u32,
}

/// An object that the page needs and that the gateway is fetching.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Entry {
    /// Path and query if the object has the page's origin, else the absolute URL; without fragment.
    pub url: String,
    /// Destination; the numbers are those of the page planner.
    pub destination: u8,
}

/// Response of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct EntryHead {
    /// Number of the entry.
    pub entry: EntryId,
    /// Status code, 200 to 599.
    pub status: u16,
    /// Requests that the response may answer.
    pub scope: Scope,
    /// Key over the request fields that the response's `Vary` names, as the gateway sent them; `None` if it
    /// names none.
    pub vary: Option<[u8; 8]>,
    /// Relation, mode and destination of the gateway's request as a number
    /// (`longhaul_http::request_context::RequestShape`); the response answers only requests with the same
    /// number.
    pub shape: u16,
    /// Key over the credentials that the gateway sent; `None` if it sent none. For scope this-page the key
    /// over the `Cookie` field, byte for byte.
    pub cookie: Option<[u8; 8]>,
    /// Location of the body.
    pub body: EntryBody,
    /// Fields of the response, without hop-by-hop fields.
    pub fields: Vec<HeaderField>,
}

/// Scope of an entry: the requests that its response may answer (docs/protocol/session.md section 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Scope {
    /// All requests whose method, URL and varying fields match, as RFC 9111 permits.
    Reusable,
    /// One request of this page load whose `Cookie` matches as well.
    ThisPage,
}

/// Location of an entry's body (docs/protocol/session.md section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum EntryBody {
    /// The response has no body.
    None,
    /// The body arrives on a stream that begins with `Push`.
    Pushed {
        /// Decoded length, if known.
        length: Option<u64>,
    },
    /// The agent holds the body with this CHK prefix.
    Held {
        /// First half of the CHK.
        hash: [u8; 16],
    },
    /// The agent holds the body: it is the body of the entry with the same URL in the base manifest.
    AsBefore,
    /// The body is that of an earlier entry.
    SameAs {
        /// Number of the earlier entry.
        entry: EntryId,
    },
}

/// Reason for an entry without response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Withdrawal {
    /// The fetch failed.
    Failed,
    /// The response may answer only the browser's own request.
    Private,
    /// The body is too large for a push.
    TooLarge,
    /// The page bundle is too large.
    Budget,
    /// The browser's request differs from the prediction.
    Mismatch,
    /// The entry is no longer needed.
    Cancelled,
}

/// Appends a record to a manifest.
///
/// # Errors
/// The record is too large.
pub fn encode_record(record: &Record, out: &mut Vec<u8>) -> Result<(), EnvelopeError> {
    envelope::encode_record(record, out)
}

/// Reads records from a manifest's decoded bytes.
#[derive(Debug, Default)]
pub struct RecordReader {
    buffer: BytesMut,
}

impl RecordReader {
    /// Creates a reader at the start of a manifest.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds decoded bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next record; `None` if the record is incomplete.
    ///
    /// # Errors
    /// The bytes are not records: the gateway violated the protocol, and the manifest cannot be read further.
    #[expect(
        clippy::should_implement_trait,
        reason = "fallible and incremental, so no iterator"
    )]
    pub fn next(&mut self) -> Result<Option<Record>, EnvelopeError> {
        let Some((record, taken)) = envelope::decode_record(&self.buffer)? else {
            return Ok(None);
        };
        self.buffer.advance(taken);
        Ok(Some(record))
    }

    /// Returns true if no bytes of an incomplete record remain.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}

/// Returns the kept form of a manifest: without heads and URLs of responses with `no-store` (RFC 9111 section
/// 5.2.2.5), and without failures, which hold for one page load. Both ends keep the same bytes, whose CHK begins with the manifest's id. Entries keep their
/// numbers.
///
/// # Errors
/// The bytes are not a manifest.
pub fn keepable(manifest: &[u8]) -> Result<Vec<u8>, EnvelopeError> {
    let mut reader = RecordReader::new();
    reader.push(manifest);
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    let mut banned: Vec<EntryId> = Vec::new();
    records.retain(|record| match record {
        Record::Head(head) if forbids_storing(&head.fields) => {
            banned.push(head.entry);
            false
        }
        Record::Failed(_) | Record::Absent(_) => false,
        Record::Entry(_) | Record::Head(_) | Record::Withdrawn { .. } | Record::Planned => true,
    });
    let mut kept = Vec::with_capacity(manifest.len());
    let mut numbers = EntryId::all();
    for record in &mut records {
        if let Record::Entry(entry) = record
            && numbers.next().is_some_and(|number| banned.contains(&number))
        {
            entry.url.clear();
        }
        encode_record(record, &mut kept)?;
    }
    Ok(kept)
}

fn forbids_storing(fields: &[HeaderField]) -> bool {
    let mut controls = fields.iter().filter(|(name, _)| name == "cache-control");
    controls.any(|(_, value)| {
        value
            .to_ascii_lowercase()
            .windows(8)
            .any(|part| part == b"no-store")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn records() -> Vec<Record> {
        vec![
            Record::Entry(Entry {
                url: "/a.css".to_owned(),
                destination: 2,
            }),
            Record::Head(EntryHead {
                entry: EntryId::FIRST,
                status: 200,
                scope: Scope::Reusable,
                vary: None,
                shape: 0,
                cookie: Some([7; 8]),
                body: EntryBody::Held { hash: [3; 16] },
                fields: vec![("content-type".to_owned(), b"text/css".to_vec())],
            }),
            Record::Withdrawn {
                entry: EntryId::FIRST,
                reason: Withdrawal::Budget,
            },
            Record::Planned,
            Record::Failed(EntryFailure {
                entry: EntryId::FIRST,
                reason: FailureReason::ConnectTimeout,
                detail: "why".to_owned(),
            }),
            Record::Absent(AbsentHost {
                origin: "http://a.test".to_owned(),
                reason: FailureReason::DnsNotFound,
                detail: "why".to_owned(),
                seconds: 30,
            }),
        ]
    }

    #[test]
    fn failures_are_not_in_the_kept_form() {
        let encoded = |records: &[Record]| {
            let mut bytes = Vec::new();
            for record in records {
                encode_record(record, &mut bytes).unwrap();
            }
            bytes
        };
        let whole = records();
        assert_eq!(keepable(&encoded(&whole)).unwrap(), encoded(&whole[..4]));
    }

    #[test]
    fn records_are_read_whole_however_the_stream_is_split() {
        let mut bytes = Vec::new();
        for record in records() {
            encode_record(&record, &mut bytes).unwrap();
        }
        for cut in 0..=bytes.len() {
            let mut reader = RecordReader::new();
            let mut found = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                reader.push(part);
                while let Some(record) = reader.next().unwrap() {
                    found.push(record);
                }
            }
            assert_eq!(found, records());
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn no_store_data_is_not_in_the_kept_form() {
        let head = |entry, control: &str| {
            Record::Head(EntryHead {
                entry: EntryId::new(entry),
                status: 200,
                scope: Scope::ThisPage,
                vary: None,
                shape: 0,
                cookie: None,
                body: EntryBody::None,
                fields: vec![("cache-control".to_owned(), control.as_bytes().to_vec())],
            })
        };
        let entry = |url: &str| {
            Record::Entry(Entry {
                url: url.to_owned(),
                destination: 5,
            })
        };
        let encoded = |records: &[Record]| {
            let mut bytes = Vec::new();
            for record in records {
                encode_record(record, &mut bytes).unwrap();
            }
            bytes
        };
        let whole = [
            entry("/a"),
            entry("/secret"),
            head(1, "private, No-Store"),
            head(0, "max-age=5"),
            Record::Planned,
        ];
        let kept = [entry("/a"), entry(""), head(0, "max-age=5"), Record::Planned];
        assert_eq!(keepable(&encoded(&whole)).unwrap(), encoded(&kept));
        assert!(keepable(&[3, 255, 255, 255]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut reader = RecordReader::new();
            reader.push(&bytes);
            while let Ok(Some(_)) = reader.next() {}
        }
    }
}
