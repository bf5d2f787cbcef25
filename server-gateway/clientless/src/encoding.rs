//! The content coding of a response.
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use longhaul_codec::{BodyTraits, Coder, ContentCoding, ContentEncoder, EffortPolicy, EncodeError, choose};
use longhaul_http::{coding, list::members};
use longhaul_types::{BitRate, ByteCount, PublicKey};
use longhaul_webcache::{Audience, CpuPool};

/// Bodies below this length are not coded: the fields and the coding's own header would take most of the gain.
const LEAST: u64 = 256;
/// Up to this length, coding takes less time than the way to the thread pool.
const BRIEF: usize = 2048;
/// Effort if the link asks for none of the codings that the client accepts.
const USUAL_QUALITY: u8 = 5;
const USUAL_LEVEL: u8 = 9;
/// Maximum padding of a body that may contain secrets, as on the hop to agents (docs/protocol/body.md section 2).
const MAX_PADDING: u16 = 512;

/// Properties of a response's coding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoding {
    pub(super) link: Option<BitRate>,
    pub(super) effort: EffortPolicy,
    /// Who may get the body.
    pub(super) audience: Audience,
}

impl Encoding {
    /// Returns the coding of a response, if it becomes smaller by one that the client accepts; and describes it in
    /// the response's fields.
    pub(super) fn apply(
        self,
        request: &HeaderMap,
        status: StatusCode,
        response: &mut HeaderMap,
        length: Option<u64>,
    ) -> Option<ContentCoding> {
        let is_codable = status == StatusCode::OK
            && !response.contains_key(header::CONTENT_ENCODING)
            && !response.contains_key(header::CONTENT_RANGE)
            && !coding::is_no_transform(response)
            && length.is_none_or(|length| length >= LEAST);
        let text = |name| {
            response
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
        };
        let traits = BodyTraits {
            content_type: text(header::CONTENT_TYPE),
            length: length.map(ByteCount::new),
            link: self.link,
            effort: self.effort,
            ..BodyTraits::default()
        };
        let coder = choose(traits, &[]);
        // Without a type, the bytes may be of any kind.
        if !is_codable || traits.content_type.is_none() || coder == Coder::Identity {
            return None;
        }
        // Also without a coding, so that no cache behind this proxy gives a coded body to the wrong client.
        vary_by_coding(response);
        let coding = match self.audience {
            Audience::Everybody | Audience::RequestingDevice => accepted(request, coder),
            Audience::RequestingUser => padded(request),
        }?;
        describe(response, coding);
        Some(coding)
    }
}

/// The smallest coding that the client accepts.
fn accepted(request: &HeaderMap, coder: Coder) -> Option<ContentCoding> {
    let (quality, level) = match coder {
        Coder::Brotli { quality } => (quality, USUAL_LEVEL),
        Coder::Zstd { level } => (USUAL_QUALITY, level),
        Coder::Identity => (USUAL_QUALITY, USUAL_LEVEL),
    };
    [
        ContentCoding::Brotli { quality },
        ContentCoding::Zstd { level },
        ContentCoding::Gzip { padding: 0 },
    ]
    .into_iter()
    .find(|coding| coding::accepts(request, coding.name()))
}

/// A coding whose size hides what the parts of the body have in common, if the client accepts it. Only gzip has padding that
/// all clients ignore.
fn padded(request: &HeaderMap) -> Option<ContentCoding> {
    let mut random = [0; 2];
    getrandom::fill(&mut random).ok()?;
    let padding = u16::from_le_bytes(random) % MAX_PADDING + 1;
    let coding = ContentCoding::Gzip { padding };
    coding::accepts(request, coding.name()).then_some(coding)
}

fn vary_by_coding(response: &mut HeaderMap) {
    let is_named = members(response, header::VARY)
        .any(|name| name == "*" || name.eq_ignore_ascii_case(header::ACCEPT_ENCODING.as_str()));
    if !is_named {
        response.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

/// Describes a coded body. A strong entity tag becomes a weak one, because it denotes the bytes of the body.
fn describe(response: &mut HeaderMap, coding: ContentCoding) {
    coding::describe_decoded(response, None);
    response.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    let strong = response
        .get(header::ETAG)
        .filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    if let Some(tag) = strong
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        response.insert(header::ETAG, weak);
    }
}

/// The coding of a response, and whose share of the processor it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppliedCoding {
    pub(super) coding: ContentCoding,
    pub(super) share: PublicKey,
}

/// Encodes one body; long steps run in the thread pool.
pub(super) struct BodyEncoder {
    /// `None` without a coding, and after the end.
    encoder: Option<ContentEncoder>,
    share: Option<PublicKey>,
    cpu_pool: Arc<CpuPool>,
}

impl BodyEncoder {
    pub(super) fn new(
        coding: Option<AppliedCoding>,
        length: Option<u64>,
        cpu_pool: Arc<CpuPool>,
    ) -> Result<Self, EncodeError> {
        let new = |applied: AppliedCoding| ContentEncoder::new(applied.coding, length.map(ByteCount::new));
        Ok(Self {
            encoder: coding.map(new).transpose()?,
            share: coding.map(|applied| applied.share),
            cpu_pool,
        })
    }

    /// Returns the bytes to send for these bytes of the body; `None` if the encoder failed.
    pub(super) async fn encode(&mut self, bytes: Bytes) -> Option<Bytes> {
        let Some(mut encoder) = self.encoder.take() else {
            return Some(bytes);
        };
        let is_brief = bytes.len() <= BRIEF;
        let step = move || {
            let mut out = Vec::new();
            let coded = encoder.encode(&bytes, &mut out);
            coded.ok().map(|()| (encoder, out))
        };
        let (encoder, out) = if is_brief {
            step()?
        } else {
            self.cpu_pool.run(self.share, |_| step()).await.ok()??
        };
        self.encoder = Some(encoder);
        Some(out.into())
    }

    /// Returns the end of the body; `None` if the encoder failed.
    pub(super) fn finish(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        if let Some(encoder) = self.encoder.take() {
            encoder.finish(&mut out).ok()?;
        }
        Some(out.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let fields = list.iter().map(|(name, value)| {
            let name = http::HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        fields.collect()
    }

    fn coded(accepts: &'static str, response: &mut HeaderMap, length: Option<u64>) -> Option<&'static str> {
        let encoding = Encoding {
            link: None,
            effort: EffortPolicy::ByLink,
            audience: Audience::RequestingDevice,
        };
        let request = fields(&[("accept-encoding", accepts)]);
        let coding = encoding.apply(&request, StatusCode::OK, response, length);
        coding.map(ContentCoding::name)
    }

    #[test]
    fn a_body_with_secrets_is_padded_at_random() {
        let encoding = Encoding {
            link: None,
            effort: EffortPolicy::ByLink,
            audience: Audience::RequestingUser,
        };
        let mut paddings = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let request = fields(&[("accept-encoding", "gzip, br")]);
            let mut response = fields(&[("content-type", "text/html")]);
            let coding = encoding.apply(&request, StatusCode::OK, &mut response, None);
            let Some(ContentCoding::Gzip { padding }) = coding else {
                panic!("{coding:?}");
            };
            paddings.insert(padding);
        }
        assert!(paddings.len() > 10 && paddings.iter().all(|padding| (1..=512).contains(padding)));
        // All lengths are equally likely: fewer than one in 10^12 of such series stay at or below 128.
        assert!(paddings.iter().any(|padding| *padding > 128));
        let mut response = fields(&[("content-type", "text/html")]);
        let request = fields(&[("accept-encoding", "br")]);
        assert!(
            encoding
                .apply(&request, StatusCode::OK, &mut response, None)
                .is_none()
        );
    }

    #[test]
    fn the_client_gets_the_best_coding_that_it_accepts() {
        let html = || {
            fields(&[
                ("content-type", "text/html"),
                ("etag", "\"1\""),
                ("content-length", "9000"),
            ])
        };
        for (accepts, expected) in [
            ("gzip, deflate", Some("gzip")),
            ("gzip, deflate, br, zstd", Some("br")),
            ("gzip, zstd", Some("zstd")),
            ("br;q=0, gzip", Some("gzip")),
            ("identity", None),
        ] {
            let mut response = html();
            assert_eq!(coded(accepts, &mut response, Some(9000)), expected, "{accepts}");
            assert_eq!(response["vary"], "Accept-Encoding");
            assert_eq!(response.contains_key("content-length"), expected.is_none());
            assert_eq!(
                response["etag"],
                if expected.is_some() { "W/\"1\"" } else { "\"1\"" }
            );
        }
    }

    #[test]
    fn bodies_that_gain_nothing_and_parts_are_not_coded() {
        for (response, length) in [
            (fields(&[("content-type", "image/jpeg")]), Some(9000)),
            (fields(&[]), Some(9000)),
            (fields(&[("content-type", "text/html")]), Some(20)),
            (
                fields(&[("content-type", "text/html"), ("content-encoding", "br")]),
                None,
            ),
            (
                fields(&[("content-type", "text/html"), ("cache-control", "no-transform")]),
                None,
            ),
        ] {
            let mut response = response;
            assert_eq!(coded("gzip", &mut response, length), None, "{response:?}");
        }
    }

    #[test]
    fn a_response_that_varies_by_coding_already_says_so_once() {
        for (before, after) in [
            (None, "Accept-Encoding"),
            (Some("accept-encoding"), "accept-encoding"),
            (Some("Cookie, Accept-Encoding"), "Cookie, Accept-Encoding"),
            (Some("*"), "*"),
            (Some("Cookie"), "Cookie, Accept-Encoding"),
        ] {
            let mut response = fields(&[]);
            response.extend(before.map(|value| (header::VARY, HeaderValue::from_static(value))));
            vary_by_coding(&mut response);
            let values: Vec<_> = members(&response, header::VARY).collect();
            assert_eq!(values.join(", "), after);
        }
    }
}
