//! Changes of a plan that its manifest does not contain yet, and the records that announce them.
use http::{HeaderMap, StatusCode, header};
use longhaul_page::Destination;
use longhaul_session::{
    AbsentHost, Entry, EntryBody, EntryFailure, EntryHead, EntryId, HeaderField, Record, Scope, Withdrawal,
};
use longhaul_types::ContentHash;

/// A change of a plan.
#[derive(Debug)]
pub(super) enum ManifestChange {
    /// The plan has one entry more.
    Added {
        /// URL as [`super::Plan::short`] returns it.
        url: String,
        destination: Destination,
    },
    /// An entry has a response.
    Answered(AnsweredEntry),
    /// An entry will have no response.
    Withdrawn { entry: EntryId, reason: Withdrawal },
    /// The gateway could not connect to the host of an entry.
    Failed(EntryFailure),
    /// The gateway cannot reach a host.
    Absent(AbsentHost),
    /// No further entry follows.
    Closed,
}

/// The response of an entry.
#[derive(Debug)]
pub(super) struct AnsweredEntry {
    pub(super) entry: EntryId,
    pub(super) status: StatusCode,
    pub(super) scope: Scope,
    /// Keys over fields of the predicted request (docs/protocol/session.md section 7.3).
    pub(super) vary: Option<[u8; 8]>,
    pub(super) cookie: Option<[u8; 8]>,
    /// Relation, mode and destination of the predicted request.
    pub(super) shape: u16,
    pub(super) body: BodyLocation,
    pub(super) headers: HeaderMap,
}

/// The place where the agent finds a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLocation {
    /// The response has no body.
    None,
    /// A push, with the decoded length in bytes, if it is known.
    Pushed { length: Option<u64> },
    /// The agent's cache.
    Held(ContentHash),
    /// The agent's cache; the base manifest has the same body for this URL.
    AsBefore,
    /// The body of an earlier entry.
    SameAs(EntryId),
}

impl ManifestChange {
    /// Place of the record in a manifest: it does not depend on the order in which origins answer, so that the
    /// manifest resembles the previous one.
    pub(super) const fn order(&self) -> (u8, EntryId) {
        match self {
            Self::Added { .. } => (0, EntryId::FIRST),
            Self::Answered(answered) => (1, answered.entry),
            // Before the withdrawn entries of the host, whose requests the agent then does not send.
            Self::Absent(_) => (2, EntryId::FIRST),
            Self::Withdrawn { entry, .. } => (3, *entry),
            Self::Failed(failure) => (3, failure.entry),
            Self::Closed => (4, EntryId::FIRST),
        }
    }
}

impl From<ManifestChange> for Record {
    fn from(change: ManifestChange) -> Self {
        match change {
            ManifestChange::Added { url, destination } => Self::Entry(Entry {
                url,
                destination: destination.number(),
            }),
            ManifestChange::Answered(answered) => Self::Head(answered.into()),
            ManifestChange::Withdrawn { entry, reason } => Self::Withdrawn { entry, reason },
            ManifestChange::Failed(failure) => Self::Failed(failure),
            ManifestChange::Absent(host) => Self::Absent(host),
            ManifestChange::Closed => Self::Planned,
        }
    }
}

impl From<AnsweredEntry> for EntryHead {
    fn from(answered: AnsweredEntry) -> Self {
        Self {
            entry: answered.entry,
            status: answered.status.as_u16(),
            scope: answered.scope,
            vary: answered.vary,
            shape: answered.shape,
            cookie: answered.cookie,
            body: answered.body.into(),
            fields: fields(&answered.headers, answered.body),
        }
    }
}

impl From<BodyLocation> for EntryBody {
    fn from(location: BodyLocation) -> Self {
        match location {
            BodyLocation::None => Self::None,
            BodyLocation::Pushed { length } => Self::Pushed { length },
            BodyLocation::Held(content) => {
                let mut hash = [0; 16];
                hash.copy_from_slice(&content.as_bytes()[..16]);
                Self::Held { hash }
            }
            BodyLocation::AsBefore => Self::AsBefore,
            BodyLocation::SameAs(entry) => Self::SameAs { entry },
        }
    }
}

/// Fields for the manifest, without `Content-Length` if the location contains the length or the body follows.
fn fields(headers: &HeaderMap, body: BodyLocation) -> Vec<HeaderField> {
    headers
        .iter()
        .filter(|(name, _)| body == BodyLocation::None || **name != header::CONTENT_LENGTH)
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_response_is_announced_with_its_status_fields_and_body() {
        let content = ContentHash::of(b"body");
        let headers = || {
            HeaderMap::from_iter([
                (header::CONTENT_LENGTH, HeaderValue::from_static("4")),
                (header::CONTENT_TYPE, HeaderValue::from_static("text/css")),
            ])
        };
        let head = |body| {
            EntryHead::from(AnsweredEntry {
                entry: EntryId::new(3),
                status: StatusCode::NOT_FOUND,
                scope: Scope::ThisPage,
                vary: Some([1; 8]),
                cookie: Some([2; 8]),
                shape: 7,
                body,
                headers: headers(),
            })
        };
        let kind = ("content-type".to_owned(), b"text/css".to_vec());
        let length = ("content-length".to_owned(), b"4".to_vec());
        let held = head(BodyLocation::Held(content));
        assert_eq!((held.entry, held.status), (EntryId::new(3), 404));
        assert_eq!((held.scope, held.shape), (Scope::ThisPage, 7));
        assert_eq!((held.vary, held.cookie), (Some([1; 8]), Some([2; 8])));
        let EntryBody::Held { hash } = held.body else {
            panic!("{held:?}")
        };
        assert!(content.as_bytes().starts_with(&hash));
        assert_eq!(held.fields, std::slice::from_ref(&kind));
        assert_eq!(head(BodyLocation::None).fields, [length, kind]);
    }
}
