//! Encoding of a response in its row: one text with a checksum, so that damage of a row is detected.
use std::time::Duration;

use longhaul_http::request_context::CredentialsKey;
use longhaul_types::{ClientId, ContentHash, UnixTime};

use crate::{OriginBytes, Owner, Partition, PrivatePartition, StoredResponse};

/// Length of the checksum of a row: the first bytes of its BLAKE3 hash.
pub(super) const SUM: usize = 16;

/// The checksum of a row.
pub(super) fn sum(content: &[u8]) -> [u8; SUM] {
    let mut sum = [0; SUM];
    sum.copy_from_slice(&ContentHash::of(content).as_bytes()[..SUM]);
    sum
}

/// The index key of a URL in a partition.
pub(super) fn key(partition: &Partition, url: &str) -> [u8; SUM] {
    let mut text = Vec::with_capacity(url.len() + 40);
    put_partition(&mut text, partition);
    text.extend_from_slice(url.as_bytes());
    sum(&text)
}

/// Key of a variant of a URL: the fields that `Vary` names, and the credentials.
pub(super) fn variant(response: &StoredResponse) -> [u8; 8] {
    let Some(credentials) = &response.credentials else {
        return response.vary;
    };
    let mut variant = [0; 8];
    let hash = sum(&[&response.vary[..], credentials.as_bytes()].concat());
    variant.copy_from_slice(&hash[..8]);
    variant
}

/// Short hash of a text, for the columns that select rows for deletion.
pub(super) fn label(text: &str) -> [u8; 8] {
    let mut label = [0; 8];
    label.copy_from_slice(&sum(text.as_bytes())[..8]);
    label
}

/// Encodes a response. All lengths are 32 bits, little-endian, before the data.
pub(super) fn encode(response: &StoredResponse) -> Vec<u8> {
    let mut to = Vec::with_capacity(1024);
    put_partition(&mut to, &response.partition);
    put_bytes(&mut to, response.url.as_bytes());
    to.extend_from_slice(&response.vary);
    put_bytes(
        &mut to,
        response.credentials.as_ref().map_or(&[], |key| key.as_bytes()),
    );
    put_fields(&mut to, &response.request_fields);
    to.extend_from_slice(&response.status.to_le_bytes());
    put_fields(&mut to, &response.fields);
    put_bytes(&mut to, response.chk.as_ref().map_or(&[], |chk| chk.as_bytes()));
    to.extend_from_slice(&response.length.to_le_bytes());
    put_time(&mut to, response.requested_at);
    put_time(&mut to, response.received_at);
    // Older files end here.
    if let Some(OriginBytes { head, body }) = response.origin_bytes {
        to.extend_from_slice(&head.to_le_bytes());
        to.extend_from_slice(&body.to_le_bytes());
    }
    to
}

/// Decodes a response; none if [`encode`] did not write it.
pub(super) fn decode(content: &[u8]) -> Option<StoredResponse> {
    let mut from = Reader(content);
    let response = StoredResponse {
        partition: from.partition()?,
        url: from.text()?,
        vary: from.array()?,
        credentials: from.credentials()?,
        request_fields: from.fields()?,
        status: u16::from_le_bytes(from.array()?),
        fields: from.fields()?,
        chk: from.hash()?,
        length: u64::from_le_bytes(from.array()?),
        requested_at: from.time()?,
        received_at: from.time()?,
        origin_bytes: from.origin_bytes()?,
    };
    from.0.is_empty().then_some(response)
}

fn put_partition(to: &mut Vec<u8>, partition: &Partition) {
    match partition {
        Partition::Shared => to.push(0),
        Partition::Private(PrivatePartition { owner, key }) => {
            to.push(1);
            to.extend_from_slice(&owner.device);
            to.extend_from_slice(&owner.client.0.to_le_bytes());
            put_bytes(to, key.as_bytes());
        }
    }
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    // Longer data are rejected before (`MAX_RESPONSE`); with a capped length the text does not decode.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(bytes);
}

fn put_fields(to: &mut Vec<u8>, fields: &[(String, Vec<u8>)]) {
    let count = u32::try_from(fields.len()).unwrap_or(u32::MAX);
    to.extend_from_slice(&count.to_le_bytes());
    for (name, value) in fields {
        put_bytes(to, name.as_bytes());
        put_bytes(to, value);
    }
}

fn put_time(to: &mut Vec<u8>, time: UnixTime) {
    let since_epoch = time.since_epoch();
    to.extend_from_slice(&since_epoch.as_secs().to_le_bytes());
    to.extend_from_slice(&since_epoch.subsec_nanos().to_le_bytes());
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    fn text(&mut self) -> Option<String> {
        Some(std::str::from_utf8(self.bytes()?).ok()?.to_owned())
    }

    fn partition(&mut self) -> Option<Partition> {
        let [tag] = self.array()?;
        match tag {
            0 => Some(Partition::Shared),
            1 => {
                let owner = Owner {
                    device: self.array()?,
                    client: ClientId(u64::from_le_bytes(self.array()?)),
                };
                let key = self.text()?;
                Some(Partition::Private(PrivatePartition { owner, key }))
            }
            _ => None,
        }
    }

    fn credentials(&mut self) -> Option<Option<CredentialsKey>> {
        match self.bytes()? {
            [] => Some(None),
            bytes => Some(Some(CredentialsKey::from_bytes(bytes.try_into().ok()?))),
        }
    }

    fn fields(&mut self) -> Option<Vec<(String, Vec<u8>)>> {
        let count = self.length()?;
        // A field takes at least its two lengths, so the remaining data limit the count.
        (0..count)
            .map(|_| Some((self.text()?, self.bytes()?.to_vec())))
            .collect()
    }

    fn hash(&mut self) -> Option<Option<ContentHash>> {
        match self.bytes()? {
            [] => Some(None),
            bytes => Some(Some(ContentHash::from_bytes(bytes.try_into().ok()?))),
        }
    }

    fn origin_bytes(&mut self) -> Option<Option<OriginBytes>> {
        if self.0.is_empty() {
            return Some(None);
        }
        Some(Some(OriginBytes {
            head: u64::from_le_bytes(self.array()?),
            body: u64::from_le_bytes(self.array()?),
        }))
    }

    fn time(&mut self) -> Option<UnixTime> {
        let seconds = u64::from_le_bytes(self.array()?);
        let nanos = u32::from_le_bytes(self.array()?);
        (nanos < 1_000_000_000).then(|| UnixTime::new(Duration::new(seconds, nanos)))
    }
}

/// Converts a hash from a column. A column of another length fails before and counts as damage.
pub(super) fn hash_of(bytes: [u8; 32]) -> ContentHash {
    ContentHash::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn partitions() -> impl Strategy<Value = Partition> {
        prop_oneof![
            Just(Partition::Shared),
            (any::<[u8; 32]>(), any::<u64>(), ".{0,12}").prop_map(|(device, client, key)| {
                let owner = Owner {
                    device,
                    client: ClientId(client),
                };
                Partition::Private(PrivatePartition { owner, key })
            }),
        ]
    }

    fn fields() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
        prop::collection::vec(("[a-z-]{1,9}", prop::collection::vec(any::<u8>(), 0..20)), 0..6)
    }

    prop_compose! {
        fn responses()(
            partition in partitions(), url in ".{0,40}", vary: [u8; 8], credentials: Option<[u8; 16]>,
            request_fields in fields(), status: u16,
            fields in fields(), chk: Option<[u8; 32]>, length: u64, times: [u32; 4],
            origin_bytes: Option<(u64, u64)>,
        ) -> StoredResponse {
            let time = |seconds: u32, nanos: u32| {
                UnixTime::new(Duration::new(seconds.into(), nanos % 1_000_000_000))
            };
            StoredResponse {
                partition, url, vary, credentials: credentials.map(CredentialsKey::from_bytes),
                request_fields, status, fields,
                chk: chk.map(ContentHash::from_bytes), length,
                requested_at: time(times[0], times[1]), received_at: time(times[2], times[3]),
                origin_bytes: origin_bytes.map(|(head, body)| OriginBytes { head, body }),
            }
        }
    }

    proptest! {
        #[test]
        fn responses_round_trip(response in responses()) {
            prop_assert_eq!(decode(&encode(&response)), Some(response));
        }

        #[test]
        fn malformed_records_are_rejected_without_an_error(response in responses(), cut: prop::sample::Index, junk: Vec<u8>) {
            let mut content = encode(&response);
            content.truncate(cut.index(content.len()));
            // Without its last member, the record is that of an older version.
            let older = StoredResponse { origin_bytes: None, ..response };
            let expected = (content == encode(&older)).then_some(older);
            prop_assert_eq!(decode(&content), expected);
            let _ = decode(&junk);
        }
    }
}
