//! HTTP/1.1 connections of the odd origin.
use std::{io, time::Duration};

use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    task::yield_now,
    time::timeout,
};
use tokio_rustls::server::TlsStream;

use super::{Scripts, ordinary, socket};
use crate::case::{End, Script};

/// Requests with larger heads are not answered.
const MAX_HEAD: usize = 1 << 20;
/// How long a client may keep a connection that the origin has closed.
const LINGER: Duration = Duration::from_secs(10);

/// A connection whose end can be rude.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send {
    /// The TCP connection.
    fn socket(&mut self) -> &mut TcpStream;
}

impl Wire for TcpStream {
    fn socket(&mut self) -> &mut TcpStream {
        self
    }
}

impl Wire for TlsStream<TcpStream> {
    fn socket(&mut self) -> &mut TcpStream {
        self.get_mut().0
    }
}

/// Serves a connection until it ends.
pub(super) async fn serve(mut wire: impl Wire, scripts: Scripts) {
    // A client that goes away is its own business.
    let _gone = exchanges(&mut wire, &scripts).await;
}

async fn exchanges(wire: &mut impl Wire, scripts: &Scripts) -> io::Result<()> {
    let mut held = Vec::new();
    while let Some(head) = read_head(wire, &mut held).await? {
        skip_body(wire, &mut held, &head).await?;
        let path = head.split(' ').nth(1).unwrap_or_default();
        let end = match scripts.of(path) {
            Some(script) => play(wire, &mut held, &head, &script).await?,
            None if path.starts_with("/n/") || path.starts_with("/u/") => {
                let (answer, end) = telling(path, &head);
                wire.write_all(&answer).await?;
                wire.flush().await?;
                end
            }
            None if path == "/between.der" => {
                let certificate = scripts.1.get().cloned().unwrap_or_default();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/pkix-cert\r\nContent-Length: {}\r\n\r\n",
                    certificate.len()
                );
                wire.write_all(&[head.as_bytes(), &certificate].concat()).await?;
                wire.flush().await?;
                End::Keep
            }
            None => {
                let cookie = head.lines().find_map(|line| {
                    line.strip_prefix("Cookie: ")
                        .or_else(|| line.strip_prefix("cookie: "))
                });
                let (kind, body) = ordinary(path, cookie.unwrap_or_default());
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                wire.write_all(&[head.as_bytes(), &body].concat()).await?;
                wire.flush().await?;
                End::Keep
            }
        };
        match end {
            End::Keep => continue,
            End::Close => wire.shutdown().await?,
            End::CloseAbruptly => wire.socket().shutdown().await?,
            End::Reset => {
                SockRef::from(&*wire.socket()).set_linger(Some(Duration::ZERO))?;
                return Ok(());
            }
        }
        // To close with unread bytes resets the connection, and the client may lose the answer (RFC 9112 section 9.6).
        let _limit = timeout(LINGER, tokio::io::copy(wire, &mut tokio::io::sink())).await;
        return Ok(());
    }
    Ok(())
}

/// Reads the next request's head; none when the client closes.
async fn read_head(wire: &mut impl Wire, held: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = held.windows(4).position(|window| window == b"\r\n\r\n") {
            let head: Vec<u8> = held.drain(..end + 4).collect();
            return Ok(Some(String::from_utf8_lossy(&head).into_owned()));
        }
        if held.len() > MAX_HEAD || wire.read_buf(held).await? == 0 {
            return Ok(None);
        }
    }
}

/// Reads the body of a request, which has a length.
async fn skip_body(wire: &mut impl Wire, held: &mut Vec<u8>, head: &str) -> io::Result<()> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0_usize);
    while held.len() < length {
        if wire.read_buf(held).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    held.drain(..length);
    Ok(())
}

/// An answer to pages of other origins that tells what was asked; it has no length if the path begins with `/u/`.
fn telling(path: &str, head: &str) -> (Vec<u8>, End) {
    let host = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    let method = head.split(' ').next().unwrap_or_default();
    let body = format!("{method} of {}", host.unwrap_or_default());
    let common = "Content-Type: text/plain\r\nCache-Control: no-store\r\nAccess-Control-Allow-Origin: *\r\n\
                  Access-Control-Expose-Headers: *\r\nX-Told: 1\r\n";
    if path.starts_with("/u/") {
        (
            format!("HTTP/1.1 200 OK\r\n{common}\r\n{body}").into_bytes(),
            End::Close,
        )
    } else {
        let length = body.len();
        let answer = format!("HTTP/1.1 200 OK\r\n{common}Content-Length: {length}\r\n\r\n{body}");
        (answer.into_bytes(), End::Keep)
    }
}

/// Sends what a case says.
async fn play(wire: &mut impl Wire, held: &mut Vec<u8>, head: &str, script: &Script) -> io::Result<End> {
    for piece in &script.pieces {
        match &script.conversation {
            Some(_) => wire.write_all(&socket::with_answer(piece, head)).await?,
            None => wire.write_all(piece).await?,
        }
        wire.flush().await?;
        // Lets the reader run, so that it gets pieces and not one block.
        yield_now().await;
    }
    if let Some(conversation) = &script.conversation {
        socket::converse(wire, held, &conversation.steps).await?;
    }
    Ok(script.end)
}
