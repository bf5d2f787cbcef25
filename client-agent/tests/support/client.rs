//! A plain HTTP/1.1 client that shows the bytes on the wire.
use std::net::SocketAddr;

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::PATIENCE;

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    buffer: BytesMut,
}

/// End of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Complete,
    Truncated,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) ending: Ending,
}

impl Reply {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self
            .head
            .split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        lines
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        Self {
            stream,
            buffer: BytesMut::new(),
        }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads the next response to any method but HEAD.
    pub(crate) async fn reply(&mut self) -> Reply {
        let head = self.head().await;
        self.with_body(head).await
    }

    /// Reads the next response; calls `midway` when a part of its body has arrived.
    pub(crate) async fn reply_with(&mut self, midway: impl FnOnce()) -> Reply {
        let head = self.head().await;
        while self.buffer.len() < 100 {
            assert!(self.fill().await, "the connection ended within a response");
        }
        midway();
        self.with_body(head).await
    }

    /// Reads status line and fields of the next response.
    pub(crate) async fn head(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = self.buffer.split_to(end + 4);
                return String::from_utf8(head[..end].to_vec()).unwrap();
            }
            assert!(
                self.fill().await,
                "the connection ended before a response: {:?}",
                self.buffer
            );
        }
    }

    /// Reads the next `length` bytes.
    pub(crate) async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length {
            assert!(self.fill().await, "the connection ended within a response");
        }
        self.buffer.split_to(length).to_vec()
    }

    /// Returns true if the connection ends without another byte.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && !self.fill().await
    }

    async fn with_body(&mut self, head: String) -> Reply {
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut reply = Reply {
            status,
            head,
            body: Vec::new(),
            ending: Ending::Complete,
        };
        if let Some(length) = reply.field("content-length") {
            let length: usize = length.parse().unwrap();
            reply.ending = self.take(length, &mut reply.body).await;
        } else if reply.field("transfer-encoding") == Some("chunked") {
            reply.ending = self.chunks(&mut reply.body).await;
        } else if !matches!(status, 204 | 304) {
            while self.fill().await {}
            reply.body = self.buffer.split().to_vec();
        }
        reply
    }

    async fn chunks(&mut self, body: &mut Vec<u8>) -> Ending {
        loop {
            let Some(end) = self.buffer.windows(2).position(|window| window == b"\r\n") else {
                if !self.fill().await {
                    return Ending::Truncated;
                }
                continue;
            };
            let size = usize::from_str_radix(std::str::from_utf8(&self.buffer[..end]).unwrap(), 16).unwrap();
            self.buffer.advance(end + 2);
            if self.take(size, body).await == Ending::Truncated
                || self.take(2, &mut Vec::new()).await == Ending::Truncated
            {
                return Ending::Truncated;
            }
            if size == 0 {
                return Ending::Complete;
            }
        }
    }

    async fn take(&mut self, length: usize, out: &mut Vec<u8>) -> Ending {
        let mut left = length;
        loop {
            let now = left.min(self.buffer.len());
            out.extend_from_slice(&self.buffer.split_to(now));
            left -= now;
            if left == 0 {
                return Ending::Complete;
            }
            if !self.fill().await {
                return Ending::Truncated;
            }
        }
    }

    /// Reads some bytes; returns false at the end of the connection, clean or not.
    async fn fill(&mut self) -> bool {
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.buffer))
            .await
            .expect("no bytes from the agent");
        read.is_ok_and(|count| count > 0)
    }
}
