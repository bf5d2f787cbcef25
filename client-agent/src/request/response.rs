//! Construction of the browser's response from a head and a body source.
use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, Version, header};
use hyper::ext::ReasonPhrase;
use longhaul_cache::StoredBody;
use longhaul_driver::StreamError;
use longhaul_http::{framing::content_length, hop_by_hop};
use longhaul_origin::OriginBody;
use longhaul_session::{Body, ShortHash, Validator};
use longhaul_types::ContentHash;
use tokio::{sync::mpsc, time::timeout};

use super::{
    announced_body::AnnouncedBody,
    body_relay::{Relay, RelayHandles},
    page_membership::PageUse,
    resume_check::{Delivered, ResumeCheck},
    upstream_request::UpstreamRequest,
};
use crate::{
    gateway::{GatewaySession, ResponseStream},
    pageload::PushedBody,
    proxy_body::ProxyBody,
    store::{CacheWriter, Store},
};

/// Wait of the response's head for the `Body` message, which contains the length. Without a length the
/// response is chunked and the browser shows no progress; an event stream must not be delayed for long.
const LENGTH_TIME: Duration = Duration::from_millis(200);
/// The same for a document: the browser prepares its display once it has the head, and the gateway sends the head ahead of
/// the body (docs/protocol/session.md section 7.1). The wait is for an end that comes with the head.
const DOCUMENT_LENGTH_TIME: Duration = Duration::from_millis(5);
/// Buffered windows per response, 32 KiB each.
const WINDOWS_AHEAD: usize = 2;

/// Source of a response body.
#[derive(Debug)]
pub(super) enum ResponseBody {
    /// No body.
    Empty,
    /// A body of which the origin has sent no byte.
    Broken,
    /// A stream from the gateway in this session.
    Gateway(Arc<GatewaySession>, ResponseStream, Box<BodyStart>),
    /// A body that a manifest announces and that has not begun to arrive.
    Announced(Box<AnnouncedBody>),
    /// A pushed body.
    Pushed(Arc<PushedBody>),
    /// The agent's cache.
    Stored(Box<StoredBody>),
}

/// Beginning of a body on a response stream.
#[derive(Debug, Default)]
pub(super) struct BodyStart {
    /// The `Body` message, if received.
    pub(super) body: Option<Body>,
    /// The base that `Body` names.
    pub(super) base: Option<Bytes>,
}

/// Result of opening a body on a response stream.
pub(super) enum OpenedBody {
    ResponseBody(ResponseBody),
    /// The gateway has withdrawn the stream.
    Broken,
    /// The origin has broken off before the first byte.
    EndedAtOrigin,
    /// The cache does not have the body's base.
    NoBase(ShortHash),
}

impl ResponseBody {
    /// Opens a body on a response stream. A document does not wait for its length.
    pub(super) async fn gateway(
        store: &Store,
        session: Arc<GatewaySession>,
        mut stream: ResponseStream,
        is_document: bool,
    ) -> OpenedBody {
        let wait = if is_document {
            DOCUMENT_LENGTH_TIME
        } else {
            LENGTH_TIME
        };
        let body = match timeout(wait, stream.body()).await {
            Ok(Err(StreamError::Cancelled(_) | StreamError::Stopped(_))) => return OpenedBody::Broken,
            Ok(Ok(None)) => return OpenedBody::EndedAtOrigin,
            Ok(Err(_)) | Err(_) => None,
            Ok(Ok(Some(body))) => Some(body),
        };
        let base = match body.as_ref().and_then(|body| body.base) {
            None => None,
            Some(name) => match store.base(&name).await {
                Some(base) => Some(base),
                None => return OpenedBody::NoBase(name),
            },
        };
        let start = Box::new(BodyStart { body, base });
        OpenedBody::ResponseBody(Self::Gateway(session, stream, start))
    }

    fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Broken | Self::Announced(_) => None,
            Self::Gateway(_, _, start) => start.body.as_ref().and_then(|body| body.length),
            Self::Pushed(body) => body.length(),
            Self::Stored(body) => Some(body.length()),
        }
    }
}

/// A response on its way to the browser.
pub(super) struct ResponseDraft<'a> {
    pub(super) relay: RelayHandles,
    pub(super) request: &'a UpstreamRequest,
    pub(super) status: StatusCode,
    /// Fields from the origin.
    pub(super) fields: HeaderMap,
    pub(super) source: ResponseBody,
    /// Content hash of the whole body, if known in advance.
    pub(super) content_hash: Option<ContentHash>,
    pub(super) cache_writer: Option<CacheWriter>,
    pub(super) page: Option<PageUse>,
}

/// Builds the browser's response and starts the task that relays its body.
pub(super) fn start(response_draft: ResponseDraft<'_>) -> Response<ProxyBody> {
    let ResponseDraft {
        relay: handles,
        request,
        status,
        fields,
        source,
        content_hash,
        cache_writer,
        page,
    } = response_draft;
    let mut headers = fields;
    hop_by_hop::strip_response(&mut headers);
    hop_by_hop::append_via(&mut headers, Version::HTTP_11);
    let bodyless = request.method == Method::HEAD
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED;
    if matches!(source, ResponseBody::Empty) || bodyless {
        // In these responses `Content-Length` describes another response; in any other it would contradict
        // the missing body.
        if !bodyless {
            headers.remove(header::CONTENT_LENGTH);
        }
        return response(status, headers, ProxyBody::empty());
    }
    // The origin's own statement also serves if the body does not begin in time.
    let announced = content_length(&headers).ok().flatten();
    headers.remove(header::CONTENT_LENGTH);
    let length = source.length().or(announced);
    let (sender, windows) = mpsc::channel(WINDOWS_AHEAD);
    let relay = Relay {
        handles,
        validator: validator(&headers, content_hash),
        fetch: request.fetch.clone(),
        class: request.class,
        is_get: request.method == Method::GET,
        status: status.as_u16(),
        browser: sender,
        cache_writer,
        page,
        delivered: Delivered::default(),
        resume_check: ResumeCheck::default(),
        length: None,
        coded: 0,
        gone_at: None,
    };
    match source {
        ResponseBody::Empty => {}
        ResponseBody::Broken => return response(status, headers, ProxyBody::broken(length)),
        ResponseBody::Gateway(session, stream, start) => {
            drop(tokio::spawn(relay.run(session, stream, *start)))
        }
        ResponseBody::Announced(body) => drop(tokio::spawn(relay.run_announced(*body))),
        ResponseBody::Pushed(body) => drop(tokio::spawn(relay.run_pushed(body.reader()))),
        ResponseBody::Stored(body) => drop(tokio::spawn(relay.run_stored(*body))),
    }
    response(status, headers, ProxyBody::windows(windows, length))
}

/// Returns a 304 with these fields.
pub(super) fn not_modified(mut fields: HeaderMap) -> Response<ProxyBody> {
    hop_by_hop::strip_response(&mut fields);
    hop_by_hop::append_via(&mut fields, Version::HTTP_11);
    response(StatusCode::NOT_MODIFIED, fields, ProxyBody::empty())
}

/// Converts the response of a direct fetch.
pub(super) fn of_origin(answer: Response<OriginBody>, method: &Method) -> Response<ProxyBody> {
    let (parts, body) = answer.into_parts();
    let mut headers = parts.headers;
    hop_by_hop::strip_response(&mut headers);
    hop_by_hop::append_via(&mut headers, parts.version);
    let body = if *method == Method::HEAD {
        ProxyBody::empty()
    } else {
        ProxyBody::origin(body)
    };
    let mut response = response(parts.status, headers, body);
    if let Some(reason) = parts.extensions.get::<ReasonPhrase>() {
        response.extensions_mut().insert(reason.clone());
    }
    response
}

fn response(status: StatusCode, headers: HeaderMap, body: ProxyBody) -> Response<ProxyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if status.canonical_reason().is_none() {
        // The library would invent one; the origin's is not known.
        response.extensions_mut().insert(ReasonPhrase::from_static(b""));
    }
    response
}

/// True for a response that a browser displays as it arrives, and not for a download, which shows its progress.
pub(super) fn is_html(fields: &HeaderMap) -> bool {
    let media = fields
        .get(header::CONTENT_TYPE)
        .map_or(&b""[..], |value| value.as_bytes());
    let media = media
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    [&b"text/html"[..], b"application/xhtml+xml"]
        .iter()
        .any(|html| media.eq_ignore_ascii_case(html))
}

/// Validator by which the gateway identifies the representation for a resumption: a strong entity tag, the
/// content hash, or the modification time.
fn validator(headers: &HeaderMap, content_hash: Option<ContentHash>) -> Option<Validator> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let strong = text(header::ETAG).filter(|tag| tag.starts_with('"') && tag.len() > 2);
    strong
        .map(|tag| Validator::EntityTag(tag.to_owned()))
        .or_else(|| content_hash.map(Validator::ContentHash))
        .or_else(|| text(header::LAST_MODIFIED).map(|time| Validator::LastModified(time.to_owned())))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn only_html_is_displayed_as_it_arrives() {
        for (media, expected) in [
            ("text/html", true),
            ("Text/HTML ; charset=utf-8", true),
            ("application/xhtml+xml", true),
            ("text/html2", false),
            ("application/zip", false),
            ("", false),
        ] {
            let fields = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media))]);
            assert_eq!(is_html(&fields), expected, "{media}");
        }
        assert!(!is_html(&HeaderMap::new()));
    }

    #[test]
    fn only_strong_validators_name_a_representation() {
        let map = |name: HeaderName, value: &'static str| {
            HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
        };
        let hash = ContentHash::of(b"body");
        let strong = map(header::ETAG, "\"a\"");
        assert_eq!(
            validator(&strong, Some(hash)),
            Some(Validator::EntityTag("\"a\"".to_owned()))
        );
        let weak = map(header::ETAG, "W/\"a\"");
        assert_eq!(validator(&weak, None), None);
        assert_eq!(validator(&weak, Some(hash)), Some(Validator::ContentHash(hash)));
        let time = "Tue, 15 Nov 1994 12:45:26 GMT";
        assert_eq!(
            validator(&map(header::LAST_MODIFIED, time), None),
            Some(Validator::LastModified(time.to_owned()))
        );
    }
}
