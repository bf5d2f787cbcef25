//! From the gateway's head to the browser's response.
use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, header};
use longhaul_driver::StreamError;
use longhaul_http::hop;
use longhaul_origin::OriginBody;
use longhaul_protocol::session::{Body, HeaderField, Validator};
use tokio::{sync::mpsc, time::timeout};

use super::{Context, ProxyBody, draft::Draft, relay::Relay};
use crate::session::{Hop, ResponseStream};

/// How long the browser's head waits for the `Body` message, which knows the length. Without a length the response is
/// chunked and the browser shows no progress; an event stream must not wait long for nothing.
const LENGTH_TIME: Duration = Duration::from_millis(200);
/// Windows of one response that wait for the browser, 32 KiB each.
const WINDOWS_AHEAD: usize = 2;

/// A `Head`, its fields decoded.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) fields: Vec<HeaderField>,
    pub(super) has_body: bool,
    pub(super) content_hash: Option<[u8; 32]>,
}

/// The browser's response; `None` if the head is not one of HTTP.
pub(super) async fn of_gateway(
    context: &Arc<Context>,
    head: Head,
    mut stream: ResponseStream,
    hop: Arc<Hop>,
    draft: &Draft,
) -> Option<Response<ProxyBody>> {
    let status = StatusCode::from_u16(head.status)
        .ok()
        .filter(|status| (200..600).contains(&status.as_u16()))?;
    let mut headers = header_map(head.fields)?;
    hop::strip_response(&mut headers);
    hop::append_via(&mut headers, Version::HTTP_11);
    let bodyless = draft.method == Method::HEAD
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED;
    if !head.has_body || bodyless {
        // In these the length is that of another response; in any other it would contradict the missing body.
        if !bodyless {
            headers.remove(header::CONTENT_LENGTH);
        }
        return Some(response(status, headers, ProxyBody::empty()));
    }
    headers.remove(header::CONTENT_LENGTH);
    let body = match timeout(LENGTH_TIME, stream.body()).await {
        Ok(Err(StreamError::Cancelled(_) | StreamError::Stopped(_))) => return None,
        Ok(Err(_)) | Err(_) => None,
        Ok(Ok(body)) => Some(body),
    };
    let length = body.as_ref().and_then(|body: &Body| body.length);
    let (sender, windows) = mpsc::channel(WINDOWS_AHEAD);
    let relay = Relay {
        context: Arc::clone(context),
        validator: validator(&headers, head.content_hash),
        fetch: draft.fetch.clone(),
        class: draft.class,
        is_get: draft.method == Method::GET,
        status: head.status,
        browser: sender,
    };
    tokio::spawn(relay.run(hop, stream, body));
    Some(response(status, headers, ProxyBody::windows(windows, length)))
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

fn header_map(fields: Vec<HeaderField>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(fields.len() + 1);
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(&value).ok()?);
    }
    Some(headers)
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
    use super::*;

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
        assert!(header_map(vec![("a b".to_owned(), b"x".to_vec())]).is_none());
        assert!(header_map(vec![("a".to_owned(), b"x\r\ny: z".to_vec())]).is_none());
        assert!(header_map(vec![("a".to_owned(), b"x".to_vec())]).is_some());
    }
}
