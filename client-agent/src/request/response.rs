//! From a head and a body's source to the browser's response.
use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, Version, header};
use longhaul_cache::StoredBody;
use longhaul_driver::StreamError;
use longhaul_http::hop;
use longhaul_origin::OriginBody;
use longhaul_protocol::session::{Body, ShortHash, Validator};
use tokio::{sync::mpsc, time::timeout};

use super::{
    Context, ProxyBody,
    draft::Draft,
    known::{Delivered, Known},
    page_use::PageUse,
    relay::Relay,
};
use crate::{
    bundle::PushedBody,
    session::{Hop, ResponseStream},
    store::{Store, Tee},
};

/// How long the browser's head waits for the `Body` message, which knows the length. Without a length the response is
/// chunked and the browser shows no progress; an event stream must not wait long for nothing.
const LENGTH_TIME: Duration = Duration::from_millis(200);
/// Windows of one response that wait for the browser, 32 KiB each.
const WINDOWS_AHEAD: usize = 2;

/// Where the body of a response comes from.
#[derive(Debug)]
pub(super) enum Source {
    /// There is none.
    Empty,
    /// From the gateway, in this session.
    Gateway(Arc<Hop>, ResponseStream, Box<Begun>),
    /// From what is being pushed.
    Pushed(Arc<PushedBody>),
    /// From the agent's cache.
    Stored(Box<StoredBody>),
}

/// What has come of a body on a stream of its own.
#[derive(Debug, Default)]
pub(super) struct Begun {
    /// The `Body` message, if it is here.
    pub(super) body: Option<Body>,
    /// The base that it names.
    pub(super) base: Option<Bytes>,
}

/// How a body on a stream of its own begins.
pub(super) enum Opening {
    Source(Source),
    /// The stream has broken off already.
    Broken,
    /// It is coded against a body that is not here.
    NoBase(ShortHash),
}

impl Source {
    /// A body on a stream of its own.
    pub(super) async fn gateway(store: &Store, hop: Arc<Hop>, mut stream: ResponseStream) -> Opening {
        let body = match timeout(LENGTH_TIME, stream.body()).await {
            Ok(Err(StreamError::Cancelled(_) | StreamError::Stopped(_))) => return Opening::Broken,
            Ok(Err(_)) | Err(_) => None,
            Ok(Ok(body)) => Some(body),
        };
        let base = match body.as_ref().and_then(|body| body.base) {
            None => None,
            Some(name) => match store.base(&name).await {
                Some(base) => Some(base),
                None => return Opening::NoBase(name),
            },
        };
        let begun = Box::new(Begun { body, base });
        Opening::Source(Self::Gateway(hop, stream, begun))
    }

    fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Gateway(_, _, begun) => begun.body.as_ref().and_then(|body| body.length),
            Self::Pushed(body) => body.length(),
            Self::Stored(body) => Some(body.length()),
        }
    }
}

/// A response on its way to the browser.
pub(super) struct Outgoing<'a> {
    pub(super) context: &'a Arc<Context>,
    pub(super) draft: &'a Draft,
    pub(super) status: StatusCode,
    /// As the origin sent them.
    pub(super) fields: HeaderMap,
    pub(super) source: Source,
    /// The CHK of the whole body, where it is known beforehand.
    pub(super) content_hash: Option<[u8; 32]>,
    pub(super) tee: Option<Tee>,
    pub(super) page: Option<PageUse>,
}

/// The browser's response, whose body is brought by a task.
pub(super) fn begin(outgoing: Outgoing<'_>) -> Response<ProxyBody> {
    let Outgoing {
        context,
        draft,
        status,
        fields,
        source,
        content_hash,
        tee,
        page,
    } = outgoing;
    let mut headers = fields;
    hop::strip_response(&mut headers);
    hop::append_via(&mut headers, Version::HTTP_11);
    let bodyless = draft.method == Method::HEAD
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED;
    if matches!(source, Source::Empty) || bodyless {
        // In these the length is that of another response; in any other it would contradict the missing body.
        if !bodyless {
            headers.remove(header::CONTENT_LENGTH);
        }
        return response(status, headers, ProxyBody::empty());
    }
    headers.remove(header::CONTENT_LENGTH);
    let length = source.length();
    let (sender, windows) = mpsc::channel(WINDOWS_AHEAD);
    let relay = Relay {
        context: Arc::clone(context),
        validator: validator(&headers, content_hash),
        fetch: draft.fetch.clone(),
        class: draft.class,
        is_get: draft.method == Method::GET,
        status: status.as_u16(),
        browser: sender,
        tee,
        page,
        delivered: Delivered::default(),
        known: Known::default(),
        length: None,
    };
    match source {
        Source::Empty => {}
        Source::Gateway(hop, stream, begun) => drop(tokio::spawn(relay.run(hop, stream, *begun))),
        Source::Pushed(body) => drop(tokio::spawn(relay.run_pushed(body.reader()))),
        Source::Stored(body) => drop(tokio::spawn(relay.run_stored(*body))),
    }
    response(status, headers, ProxyBody::windows(windows, length))
}

/// A 304 with these fields.
pub(super) fn not_modified(mut fields: HeaderMap) -> Response<ProxyBody> {
    hop::strip_response(&mut fields);
    hop::append_via(&mut fields, Version::HTTP_11);
    response(StatusCode::NOT_MODIFIED, fields, ProxyBody::empty())
}

/// The browser's response from an origin that was asked directly.
pub(super) fn of_origin(answer: Response<OriginBody>, method: &Method) -> Response<ProxyBody> {
    let (parts, body) = answer.into_parts();
    let mut headers = parts.headers;
    hop::strip_response(&mut headers);
    hop::append_via(&mut headers, parts.version);
    let body = if *method == Method::HEAD {
        ProxyBody::empty()
    } else {
        ProxyBody::origin(body)
    };
    response(parts.status, headers, body)
}

fn response(status: StatusCode, headers: HeaderMap, body: ProxyBody) -> Response<ProxyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// By what the gateway can tell that the rest belongs to what is here: a strong entity tag, the content hash, or the
/// time of the last change.
fn validator(headers: &HeaderMap, content_hash: Option<[u8; 32]>) -> Option<Validator> {
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
    use crate::bundle::header_map;

    #[test]
    fn only_strong_validators_name_a_representation() {
        let map = |name: HeaderName, value: &'static str| {
            HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
        };
        let strong = map(header::ETAG, "\"a\"");
        assert_eq!(
            validator(&strong, Some([1; 32])),
            Some(Validator::EntityTag("\"a\"".to_owned()))
        );
        let weak = map(header::ETAG, "W/\"a\"");
        assert_eq!(validator(&weak, None), None);
        assert_eq!(
            validator(&weak, Some([1; 32])),
            Some(Validator::ContentHash([1; 32]))
        );
        let time = "Tue, 15 Nov 1994 12:45:26 GMT";
        assert_eq!(
            validator(&map(header::LAST_MODIFIED, time), None),
            Some(Validator::LastModified(time.to_owned()))
        );
    }

    #[test]
    fn fields_that_are_not_http_are_refused() {
        assert!(header_map(&[("a b".to_owned(), b"x".to_vec())]).is_none());
        assert!(header_map(&[("a".to_owned(), b"x\r\ny: z".to_vec())]).is_none());
        assert!(header_map(&[("a".to_owned(), b"x".to_vec())]).is_some());
    }
}
