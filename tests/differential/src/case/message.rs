//! A response as its parts, and the bytes that the origin writes.
use super::{
    Mode, bodies,
    bodies::Recipe,
    chunks::ChunkStyle,
    http2::{Frame, Http2Parts},
    socket::{Conversation, SocketParts},
};

/// How the connection ends after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In order, at once.
    Close,
    /// Not by the origin: it waits for the next request.
    Keep,
    /// With a reset, when the response was sent.
    Reset,
    /// Over TLS without `close_notify`; otherwise as [`End::Close`].
    CloseAbruptly,
}

/// How the end of the body is announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// By a true Content-Length.
    Exact,
    /// By these lines.
    Lines(Vec<String>),
    /// By chunks.
    Chunked(Vec<Vec<u8>>, ChunkStyle),
    /// By lines that announce chunks, without chunks.
    Unchunked(Vec<Vec<u8>>),
}

/// A response as its parts.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) lead: Vec<u8>,
    pub(super) status_line: Vec<u8>,
    pub(super) content_type: Vec<u8>,
    pub(super) first_fields: Vec<Vec<u8>>,
    pub(super) fields: Vec<Vec<u8>>,
    pub(super) line_end: Vec<u8>,
    pub(super) head_cut: Option<usize>,
    pub(super) body: Vec<u8>,
    pub(super) coding: Option<(Vec<u8>, Recipe)>,
    pub(super) framing: Framing,
    pub(super) tail: Vec<u8>,
    pub(super) cut: usize,
    pub(super) end: End,
    pub(super) pieces: Option<usize>,
    pub(super) raw: Option<Vec<u8>>,
    pub(super) http2: Http2Parts,
    pub(super) socket: SocketParts,
    is_socket: bool,
}

/// What the origin does: it writes the pieces and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Bytes that are sent together.
    pub pieces: Vec<Vec<u8>>,
    /// How the connection ends.
    pub end: End,
    /// The same over HTTP/2: the frames for the first request and for each later one.
    pub frames: (Vec<Frame>, Vec<Frame>),
    /// What follows on a WebSocket.
    pub conversation: Option<Conversation>,
}

impl Script {
    /// All bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

impl Message {
    /// A response without anything odd.
    pub(super) fn plain(mode: Mode, seed: u64) -> Self {
        let (kind, body) = bodies::plain(mode, seed);
        let is_socket = mode == Mode::Socket;
        let status_line = if is_socket {
            "HTTP/1.1 101 Switching Protocols"
        } else {
            "HTTP/1.1 200 OK"
        };
        Self {
            lead: Vec::new(),
            status_line: status_line.as_bytes().to_vec(),
            content_type: kind.to_vec(),
            first_fields: Vec::new(),
            fields: Vec::new(),
            line_end: b"\r\n".to_vec(),
            head_cut: None,
            body,
            coding: None,
            framing: if is_socket {
                Framing::Lines(Vec::new())
            } else {
                Framing::Exact
            },
            tail: Vec::new(),
            cut: 0,
            end: End::Close,
            pieces: None,
            raw: None,
            http2: Http2Parts::plain(),
            socket: SocketParts::plain(),
            is_socket,
        }
    }

    /// The response of a server of WebSockets.
    fn into_handshake(mut self) -> (Self, Conversation) {
        let conversation = self.socket.conversation();
        self.first_fields.extend(self.socket.lines.clone());
        self.tail = self.socket.early.clone();
        self.end = self.socket.end;
        (self, conversation)
    }

    fn head(&self, framing: Vec<Vec<u8>>) -> Vec<u8> {
        let mut lines = vec![self.status_line.clone()];
        lines.extend(self.first_fields.iter().cloned());
        if !self.content_type.is_empty() {
            lines.push([b"Content-Type: ", &self.content_type[..]].concat());
        }
        if let Some((label, _)) = &self.coding {
            lines.push([b"Content-Encoding: ", &label[..]].concat());
        }
        lines.extend(framing);
        lines.extend(self.fields.iter().cloned());
        lines.push(Vec::new());
        let mut head = Vec::new();
        for line in lines {
            head.extend(line);
            head.extend(&self.line_end);
        }
        head
    }

    /// What the origin does.
    pub(super) fn script(self) -> Script {
        if self.is_socket {
            let (mut handshake, conversation) = self.into_handshake();
            handshake.is_socket = false;
            return Script {
                conversation: Some(conversation),
                ..handshake.script()
            };
        }
        let body = match &self.coding {
            Some((_, recipe)) => recipe.code(&self.body),
            None => self.body.clone(),
        };
        let label = self.coding.as_ref().map(|(label, _)| label.as_slice());
        let frames = self.http2.frames(&self.content_type, label, &body);
        let (lines, body) = match &self.framing {
            Framing::Exact => (vec![format!("Content-Length: {}", body.len()).into_bytes()], body),
            Framing::Lines(lines) => {
                let fill = |line: &String| {
                    let line = line.replace("{n}", &body.len().to_string());
                    let line = line.replace("{less}", &(body.len().saturating_sub(5)).to_string());
                    line.replace("{more}", &(body.len() + 7).to_string()).into_bytes()
                };
                (lines.iter().map(fill).collect(), body)
            }
            Framing::Chunked(lines, style) => {
                let written = style.write(&body);
                (lines.clone(), written)
            }
            Framing::Unchunked(lines) => (lines.clone(), body),
        };
        let mut head = self.head(lines);
        let mut bytes = self.lead.clone();
        if let Some(missing) = self.head_cut {
            head.truncate(head.len().saturating_sub(missing));
            bytes.extend(head);
        } else {
            bytes.extend(head);
            bytes.extend(body);
            bytes.extend(&self.tail);
        }
        if let Some(raw) = self.raw {
            bytes = raw;
        }
        bytes.truncate(bytes.len().saturating_sub(self.cut));
        let pieces = match self.pieces {
            Some(size) => bytes.chunks(size.max(1)).map(<[u8]>::to_vec).collect(),
            None => vec![bytes],
        };
        Script {
            pieces,
            end: self.end,
            frames,
            conversation: None,
        }
    }
}
