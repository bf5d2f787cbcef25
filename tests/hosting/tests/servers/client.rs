//! Test content, and a simple client that exposes every byte.
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Response, StatusCode, header, request};
use longhaul_hosting::{Content, Hosting, HostingOptions, Listen, Scheme, TestAuthority};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// Much longer than any operation takes here, so that a hang becomes a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds, at most [`PATIENCE`]. `what` names the condition in the failure.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = timeout(PATIENCE, async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    });
    assert!(waiting.await.is_ok(), "{what}: not within {PATIENCE:?}");
}

/// A small site on two hosts. `/N` is N bytes; `/text` is text with validators; other paths are special
/// cases.
pub(crate) struct Pages;

pub(crate) const TEXT: &str = "All work and no play makes Jack a dull boy. ";
pub(crate) const DATE: &str = "Wed, 21 Oct 2015 07:28:00 GMT";

impl Content for Pages {
    fn answer(&self, request: &request::Parts, scheme: Scheme) -> Response<Bytes> {
        assert_eq!(request.uri.scheme_str(), Some(scheme.as_str()));
        let host = request.uri.host().unwrap_or_default();
        let response = Response::builder()
            .header("x-host", host)
            .header("x-scheme", scheme.as_str());
        let path = request.uri.path().trim_start_matches('/');
        let built = match path {
            "" => response.body(Bytes::from_static(b"root")),
            "text" => response
                .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
                .header(header::ETAG, "\"v1\"")
                .header(header::LAST_MODIFIED, DATE)
                .header(header::CACHE_CONTROL, "max-age=60")
                .body(Bytes::from(TEXT.repeat(100))),
            "recorded" => response
                .header(header::DATE, DATE)
                .header(header::EXPIRES, "Wed, 21 Oct 2015 08:28:00 GMT")
                .header(header::CONNECTION, "keep-alive, X-Hop")
                .header("keep-alive", "timeout=5")
                .header("x-hop", "1")
                .header(header::TRANSFER_ENCODING, "chunked")
                .header(header::CONTENT_LENGTH, "7")
                .header(header::ALT_SVC, "h3=\":443\"")
                .header(header::SET_COOKIE, "a=1")
                .header(header::SET_COOKIE, "b=2")
                .body(Bytes::from_static(b"as recorded")),
            "nothing" => response
                .status(StatusCode::NO_CONTENT)
                .header(header::CONTENT_LENGTH, "5")
                .body(Bytes::from_static(b"stray")),
            "upgrade" => response
                .status(StatusCode::SWITCHING_PROTOCOLS)
                .body(Bytes::new()),
            "head-only" => response.header(header::CONTENT_LENGTH, "1234").body(Bytes::new()),
            number => match number.parse() {
                Ok(length) => response.body(Bytes::from(vec![b'x'; length])),
                Err(_) => response.status(StatusCode::NOT_FOUND).body(Bytes::new()),
            },
        };
        built.unwrap()
    }

    fn hosts(&self) -> Vec<String> {
        vec!["a.example".to_owned(), "B.example".to_owned()]
    }
}

pub(crate) fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Serves [`Pages`] with and without TLS.
pub(crate) async fn serve(authority: &TestAuthority, options: HostingOptions) -> Result<Hosting> {
    let listen = Listen {
        plain: vec![loopback()],
        tls: vec![loopback()],
    };
    Ok(Hosting::start(Arc::new(Pages), &listen, authority, options).await?)
}

pub(crate) struct Server {
    pub(crate) hosting: Hosting,
    pub(crate) authority: TestAuthority,
}

pub(crate) async fn server(options: HostingOptions) -> Result<Server> {
    let authority = TestAuthority::new()?;
    let hosting = serve(&authority, options).await?;
    Ok(Server { hosting, authority })
}

/// A response as received.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields(name).into_iter().next()
    }

    pub(crate) fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }
}

/// A client connection that parses responses itself.
pub(crate) struct Client<S = TcpStream> {
    stream: S,
    unread: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self {
            stream: TcpStream::connect(address).await?,
            unread: Vec::new(),
        })
    }
}

impl<S: AsyncRead + tokio::io::AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn send(&mut self, text: &str) -> Result<()> {
        Ok(self.stream.write_all(text.as_bytes()).await?)
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer> {
        self.send(&get(path)).await?;
        self.answer(Body::Framed).await
    }

    /// Returns the next response.
    pub(crate) async fn answer(&mut self, body: Body) -> Result<Answer> {
        let end = loop {
            match self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.fill().await?,
            }
        };
        let head = String::from_utf8(self.unread.drain(..end).collect())?;
        let status = head.split(' ').nth(1).context("a status")?.parse()?;
        let mut answer = Answer {
            status,
            head,
            body: Vec::new(),
        };
        let length = match (body, answer.field("content-length")) {
            (Body::Framed, Some(length)) => length.parse()?,
            (Body::Framed | Body::None, _) => 0,
        };
        while self.unread.len() < length {
            self.fill().await?;
        }
        answer.body = self.unread.drain(..length).collect();
        Ok(answer)
    }

    /// Waits for the server's FIN; no bytes may come before it.
    pub(crate) async fn ended(&mut self) -> Result<()> {
        let mut rest = Vec::new();
        timeout(PATIENCE, self.stream.read_to_end(&mut rest))
            .await
            .context("the connection was not closed in time")??;
        assert_eq!(String::from_utf8_lossy(&self.unread), "");
        assert_eq!(String::from_utf8_lossy(&rest), "");
        Ok(())
    }

    async fn fill(&mut self) -> Result<()> {
        let mut space = vec![0; 64 * 1024];
        let read = timeout(PATIENCE, self.stream.read(&mut space))
            .await
            .context("no response in time")??;
        if read == 0 {
            bail!("the connection ended within or before a response");
        }
        self.unread.extend_from_slice(&space[..read]);
        Ok(())
    }
}

/// Expectation whether a response has the body of its declared length.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    Framed,
    None,
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n")
}
