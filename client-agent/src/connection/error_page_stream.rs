//! Error pages for requests that hyper rejects by itself: hyper answers requests that it cannot parse with a
//! bare status. This stream between hyper and the socket replaces the bare status by the error page.
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor, Write};

use crate::pages::{BadRequest, Page};

/// A stream that replaces bare refusals by error pages.
pub(super) struct ExplainingIo<T> {
    inner: T,
    /// The page that replaces hyper's answer, and the number of bytes written.
    page: Option<(Vec<u8>, usize)>,
}

impl<T> ExplainingIo<T> {
    pub(super) const fn new(inner: T) -> Self {
        Self { inner, page: None }
    }

    pub(super) fn into_inner(self) -> T {
        self.inner
    }
}

/// Returns the page for an answer that hyper generated. All other answers have a `Via` field (relayed) or a
/// body.
fn explanation(answer: &[u8]) -> Option<Vec<u8>> {
    let head = answer.strip_prefix(b"HTTP/1.1 ")?;
    let bad = match head.get(..4)? {
        b"431 " => BadRequest::HeaderTooLarge,
        b"414 " => BadRequest::TargetTooLong,
        b"400 " => BadRequest::Malformed,
        _ => return None,
    };
    let text = std::str::from_utf8(head)
        .ok()
        .filter(|text| text.ends_with("\r\n\r\n"))?
        .to_ascii_lowercase();
    let bare = text.contains("\r\ncontent-length: 0\r\n") && !text.contains("\r\nvia:");
    bare.then(|| http_1(&bad.page()))
}

fn http_1(page: &Page) -> Vec<u8> {
    let response = page.to_response();
    let mut wire = format!(
        "HTTP/1.1 {} {}\r\nconnection: close\r\ncontent-length: {}\r\n",
        response.status().as_u16(),
        response.status().canonical_reason().unwrap_or(""),
        response.body().len()
    )
    .into_bytes();
    for (name, value) in response.headers() {
        wire.extend_from_slice(name.as_str().as_bytes());
        wire.extend_from_slice(b": ");
        wire.extend_from_slice(value.as_bytes());
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"\r\n");
    wire.extend_from_slice(response.body());
    wire
}

impl<T: Read + Unpin> Read for ExplainingIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<T: Write + Unpin> Write for ExplainingIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.page.is_none() {
            self.page = explanation(bytes).map(|page| (page, 0));
        }
        let this = &mut *self;
        let Some((page, written)) = &mut this.page else {
            return Pin::new(&mut this.inner).poll_write(cx, bytes);
        };
        while let Some(rest) = page.get(*written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut this.inner).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => *written += count,
            }
        }
        this.page = None;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_refusals_get_an_error_page_and_relayed_responses_do_not() {
        let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
        let page = String::from_utf8(explanation(bare).unwrap()).unwrap();
        assert!(
            page.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"),
            "{page}"
        );
        assert!(
            page.contains("64 KiB") && page.contains("connection: close\r\n"),
            "{page}"
        );
        let relayed = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nvia: 1.1 longhaul\r\n\r\n";
        assert_eq!(explanation(relayed), None);
        assert_eq!(explanation(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), None);
        assert_eq!(
            explanation(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 3\r\n\r\nabc"),
            None
        );
    }
}
