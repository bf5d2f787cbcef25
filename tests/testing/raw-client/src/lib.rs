//! A raw HTTP/1.1 client for tests: it sends exactly the bytes of the test, and tells complete responses from truncated
//! ones. Tests of the agent and the end-to-end tests use it as the browser.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

/// No test waits longer for a piece of a response; outages last less.
const PATIENCE: Duration = Duration::from_secs(60);

/// Part of a body that shows that the body has begun to arrive.
const PART: usize = 100;

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Where its framing says.
    Whole,
    /// The connection broke off before.
    Truncated,
}

/// A response.
#[derive(Clone, Debug)]
pub struct RawResponse {
    /// Its status.
    pub status: u16,
    /// Its fields as they came.
    pub fields: Vec<(String, String)>,
    /// Received part of the body, without framing.
    pub body: Vec<u8>,
    /// How the body ended.
    pub ending: Ending,
}

impl RawResponse {
    /// All values of a field.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let same = self
            .fields
            .iter()
            .filter(|(field, _)| field.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.as_str()).collect()
    }

    /// The first value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One connection.
#[derive(Debug)]
pub struct RawClient {
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    held: Vec<u8>,
}

impl RawClient {
    /// Connects.
    ///
    /// # Errors
    /// Nothing listens there.
    pub async fn connect(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        Ok(Self {
            reader,
            writer,
            held: Vec::new(),
        })
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.writer.write_all(bytes.as_ref()).await?)
    }

    /// Says that nothing more will be sent.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn finish(&mut self) -> Result<()> {
        Ok(self.writer.shutdown().await?)
    }

    /// The next response to a request with another method than HEAD. Interim responses are responses, too.
    ///
    /// # Errors
    /// No response comes, or what comes is not HTTP.
    pub async fn response(&mut self) -> Result<RawResponse> {
        let mut response = self.head().await?;
        let bodyless = response.status < 200 || matches!(response.status, 204 | 304);
        if !bodyless {
            response.ending = self.body(&mut response).await?;
        }
        Ok(response)
    }

    /// The next response's head; the body is left to [`Self::read`].
    ///
    /// # Errors
    /// No response comes, or what comes is not HTTP.
    pub async fn head(&mut self) -> Result<RawResponse> {
        let end = loop {
            if let Some(end) = find(&self.held, b"\r\n\r\n") {
                break end;
            }
            ensure!(
                self.fill().await?,
                "the connection ended before a response: {:?}",
                String::from_utf8_lossy(&self.held)
            );
        };
        let head: Vec<u8> = self.held.drain(..end + 4).collect();
        let head = String::from_utf8_lossy(&head[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.strip_prefix("HTTP/1.")?.get(2..));
        let status = status.with_context(|| format!("status line in {head:?}"))?;
        let status = status.get(..3).context("a status")?.parse()?;
        let fields = lines
            .map(|line| {
                let (name, value) = line.split_once(':').with_context(|| format!("field `{line}`"))?;
                Ok((name.to_owned(), value.trim().to_owned()))
            })
            .collect::<Result<_>>()?;
        Ok(RawResponse {
            status,
            fields,
            body: Vec::new(),
            ending: Ending::Whole,
        })
    }

    /// The next bytes, whatever they are; none at the end.
    ///
    /// # Errors
    /// The connection is broken, or nothing comes for long.
    pub async fn read(&mut self) -> Result<Vec<u8>> {
        if self.held.is_empty() {
            self.fill().await?;
        }
        Ok(std::mem::take(&mut self.held))
    }

    /// Returns the next `length` bytes.
    ///
    /// # Errors
    /// The connection ends before.
    pub async fn read_exact(&mut self, length: usize) -> Result<Vec<u8>> {
        while self.held.len() < length {
            ensure!(
                self.fill().await?,
                "the connection ended after {} of {length} bytes",
                self.held.len()
            );
        }
        Ok(self.held.drain(..length).collect())
    }

    /// Reads the next response as [`Self::response`]; calls `midway` when a part of its body has arrived.
    ///
    /// # Errors
    /// No response comes, or what comes is not HTTP.
    pub async fn response_with(&mut self, midway: impl FnOnce()) -> Result<RawResponse> {
        let mut response = self.head().await?;
        while self.held.len() < PART {
            ensure!(self.fill().await?, "the connection ended within a response");
        }
        midway();
        response.ending = self.body(&mut response).await?;
        Ok(response)
    }

    /// Returns true if the connection ends without another byte.
    ///
    /// # Errors
    /// The connection is broken, or nothing comes for long.
    pub async fn is_closed(&mut self) -> Result<bool> {
        Ok(self.held.is_empty() && !self.fill().await?)
    }

    /// Both directions of the connection, without the bytes that were already read.
    pub const fn halves(&mut self) -> (&mut OwnedReadHalf, &mut OwnedWriteHalf) {
        (&mut self.reader, &mut self.writer)
    }

    async fn body(&mut self, response: &mut RawResponse) -> Result<Ending> {
        if response
            .all("transfer-encoding")
            .iter()
            .any(|value| value.eq_ignore_ascii_case("chunked"))
        {
            ensure!(
                response.field("content-length").is_none(),
                "both framings: {response:?}"
            );
            return self.chunks(&mut response.body).await;
        }
        let Some(length) = response.field("content-length") else {
            while self.fill().await? {}
            response.body = std::mem::take(&mut self.held);
            return Ok(Ending::Whole);
        };
        let length: usize = length
            .parse()
            .with_context(|| format!("content-length `{length}`"))?;
        while self.held.len() < length {
            if !self.fill().await? {
                response.body = std::mem::take(&mut self.held);
                return Ok(Ending::Truncated);
            }
        }
        response.body = self.held.drain(..length).collect();
        Ok(Ending::Whole)
    }

    async fn chunks(&mut self, body: &mut Vec<u8>) -> Result<Ending> {
        loop {
            let Some(line) = self.line().await? else {
                return Ok(Ending::Truncated);
            };
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).with_context(|| format!("chunk size `{line}`"))?;
            if size == 0 {
                // Trailers, then the empty line.
                loop {
                    match self.line().await? {
                        None => return Ok(Ending::Truncated),
                        Some(line) if line.is_empty() => return Ok(Ending::Whole),
                        Some(_) => {}
                    }
                }
            }
            while self.held.len() < size + 2 {
                if !self.fill().await? {
                    body.append(&mut self.held);
                    return Ok(Ending::Truncated);
                }
            }
            body.extend(self.held.drain(..size));
            let end: Vec<u8> = self.held.drain(..2).collect();
            if end != b"\r\n" {
                bail!("a chunk does not end where it says");
            }
        }
    }

    async fn line(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(end) = find(&self.held, b"\r\n") {
                let line: Vec<u8> = self.held.drain(..end + 2).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            if !self.fill().await? {
                return Ok(None);
            }
        }
    }

    /// Reads more; `false` at the end. A reset is an end, too: it is how a broken response may look.
    async fn fill(&mut self) -> Result<bool> {
        let mut buffer = [0; 16 * 1024];
        let read = timeout(PATIENCE, self.reader.read(&mut buffer))
            .await
            .context("nothing comes")?;
        match read {
            Ok(length) => {
                self.held.extend_from_slice(&buffer[..length]);
                Ok(length > 0)
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Sends one request's bytes on a connection of its own and reads the response.
///
/// # Errors
/// No response comes.
pub async fn ask(to: SocketAddr, request: impl AsRef<[u8]>) -> Result<RawResponse> {
    let mut client = RawClient::connect(to).await?;
    client.send(request).await?;
    client.response().await
}

/// A GET as a browser sends it to a proxy.
pub fn get(url: &str, fields: &[(&str, &str)]) -> String {
    request("GET", url, fields)
}

/// The head of a request to a proxy, with the Host field of its URL.
pub fn request(method: &str, url: &str, fields: &[(&str, &str)]) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default();
    let fields: String = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!("{method} {url} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
