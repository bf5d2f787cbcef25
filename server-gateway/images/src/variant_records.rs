//! Records of transcoding results by the original's CHK, so that the next device needs no transcoding.
use bytes::Bytes;
use longhaul_cache::{Cache, Partition, RecordKey, RecordKind};
use longhaul_transcode::{RECIPE_VERSION, Request, TranscodeEffort};
use longhaul_types::ContentHash;

/// Result of transcoding an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transcoding {
    /// The original is sent.
    Original,
    /// The image with this CHK is sent instead.
    Variant(ContentHash),
}

/// Reads the recorded result.
pub(super) async fn recorded(
    cache: &Cache,
    original: &ContentHash,
    request: &Request,
) -> Option<Transcoding> {
    let record = cache.record(RecordKind::Variant, &key(original, request)).await?;
    decode(&record)
}

/// Records a result.
pub(super) async fn record(
    cache: &Cache,
    original: &ContentHash,
    request: &Request,
    transcoding: Transcoding,
) {
    let record = match transcoding {
        Transcoding::Original => Bytes::new(),
        Transcoding::Variant(chk) => Bytes::copy_from_slice(chk.as_bytes()),
    };
    cache
        .put_record(RecordKind::Variant, &key(original, request), record)
        .await;
}

fn decode(record: &[u8]) -> Option<Transcoding> {
    match record {
        [] => Some(Transcoding::Original),
        hash => Some(Transcoding::Variant(ContentHash::from_bytes(
            hash.try_into().ok()?,
        ))),
    }
}

/// Key of the record: all inputs of the transcoding.
fn name(original: &ContentHash, request: &Request) -> Vec<u8> {
    let mut key = original.as_bytes().to_vec();
    key.extend_from_slice(&RECIPE_VERSION.to_le_bytes());
    key.extend_from_slice(request.level.name().as_bytes());
    let effort = match request.effort {
        TranscodeEffort::Quick => 0,
        TranscodeEffort::Standard => 1,
        TranscodeEffort::Checked => 2,
        TranscodeEffort::Fixed => 3,
    };
    key.push(effort);
    let viewport = request.viewport;
    for number in [viewport.width, viewport.height, viewport.ratio_percent] {
        key.extend_from_slice(&number.to_le_bytes());
    }
    key
}

fn key(original: &ContentHash, request: &Request) -> RecordKey {
    RecordKey::new(&Partition::Shared, None, &name(original, request))
}

#[cfg(test)]
mod tests {
    use longhaul_transcode::{ImageLevel, Viewport};

    use super::*;

    #[test]
    fn each_level_and_viewport_has_its_own_variant() {
        let chk = ContentHash::of(b"picture");
        let base = Request::default();
        let wider = Viewport {
            width: 1920,
            ..base.viewport
        };
        let wishes = [
            base,
            Request {
                level: ImageLevel::Low,
                ..base
            },
            Request {
                effort: TranscodeEffort::Checked,
                ..base
            },
            Request {
                viewport: wider,
                ..base
            },
        ];
        let mut keys: Vec<_> = wishes.iter().map(|wish| name(&chk, wish)).collect();
        keys.push(name(&ContentHash::of(b"other"), &base));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 5);
        assert_eq!(decode(&[]), Some(Transcoding::Original));
        assert_eq!(decode(chk.as_bytes()), Some(Transcoding::Variant(chk)));
        assert_eq!(decode(&[1, 2]), None);
    }
}
