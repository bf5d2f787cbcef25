//! What a mutation changes in a plain response.
use std::fmt;

use super::{
    TLS_WAYS,
    bodies::Recipe,
    chunks::ChunkStyle,
    http2::Http2Change,
    message::{End, Framing, Message},
    socket::SocketChange,
};

/// One oddity of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    /// Which production of the grammar made it.
    pub kind: &'static str,
    /// What it changes.
    pub change: Change,
}

/// A change of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Bytes before the status line.
    Lead(Vec<u8>),
    /// The status line without its line end.
    StatusLine(Vec<u8>),
    /// Lines after the other fields, each without its line end.
    Fields(Vec<Vec<u8>>),
    /// The status line, and a line after the other fields.
    StatusAndFields(Vec<Vec<u8>>),
    /// Lines before the other fields.
    FieldsFirst(Vec<Vec<u8>>),
    /// The line end of all lines of the head.
    LineEnd(Vec<u8>),
    /// Nothing is sent after this many bytes of the head, counted from its end.
    HeadCut(usize),
    /// The media type; none if it is empty.
    ContentType(Vec<u8>),
    /// The media type and the content.
    Content(Vec<u8>, Vec<u8>),
    /// The content coding: the label, and how the body is coded.
    Coding(Vec<u8>, Recipe),
    /// Lines that say where the body ends, with `{n}`, `{less}` and `{more}` for lengths.
    Length(Vec<String>),
    /// The lines of Transfer-Encoding, and how chunks are written.
    Chunked(Vec<Vec<u8>>, ChunkStyle),
    /// The body as it is after these lines of Transfer-Encoding.
    Unchunked(Vec<Vec<u8>>),
    /// Bytes after the body.
    Tail(Vec<u8>),
    /// This many bytes at the end of the message are not sent.
    Cut(usize),
    /// How the connection ends.
    End(End),
    /// The message is sent in pieces of this size.
    Pieces(usize),
    /// A change of the response over HTTP/2.
    Http2(Http2Change),
    /// Exactly these bytes.
    Raw(Vec<u8>),
    /// A change of a WebSocket.
    Socket(SocketChange),
    /// The host speaks TLS in this way, and the answer has no length if it ends with the connection.
    Tls {
        /// Index in [`TLS_WAYS`](super::TLS_WAYS).
        way: usize,
        /// True for an answer without a length.
        until_close: bool,
    },
    /// The host, in which `{n}` is the number of the case.
    Host(&'static str),
}

impl Change {
    /// Changes a response.
    pub(super) fn apply(&self, message: &mut Message) {
        match self.clone() {
            Self::Lead(bytes) => message.lead = bytes,
            Self::StatusLine(line) => message.status_line = line,
            Self::Fields(lines) => message.fields.extend(lines),
            Self::StatusAndFields(lines) => {
                let mut lines = lines.into_iter();
                message.status_line = lines.next().unwrap_or_default();
                message.fields.extend(lines);
            }
            Self::FieldsFirst(lines) => message.first_fields.extend(lines),
            Self::LineEnd(end) => message.line_end = end,
            Self::HeadCut(bytes) => message.head_cut = Some(bytes),
            Self::ContentType(kind) => message.content_type = kind,
            Self::Content(kind, body) => {
                message.content_type = kind;
                message.body = body;
            }
            Self::Coding(label, recipe) => message.coding = Some((label, recipe)),
            Self::Length(lines) => message.framing = Framing::Lines(lines),
            Self::Chunked(lines, style) => message.framing = Framing::Chunked(lines, style),
            Self::Unchunked(lines) => message.framing = Framing::Unchunked(lines),
            Self::Tail(bytes) => message.tail = bytes,
            Self::Cut(bytes) => message.cut = bytes,
            Self::End(end) => message.end = end,
            Self::Pieces(size) => message.pieces = Some(size),
            Self::Http2(change) => {
                change.mirror(message);
                message.http2.change(change);
            }
            Self::Raw(bytes) => message.raw = Some(bytes),
            Self::Socket(change) => message.socket.change(change),
            // They change the way to the answer, not the answer.
            Self::Tls { .. } | Self::Host(_) => {}
        }
    }
}

/// Bytes longer than this are shortened in texts.
const MAX_SHOWN: usize = 120;

/// Bytes as text, with escapes.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let text = bytes[..bytes.len().min(MAX_SHOWN)].escape_ascii();
    if bytes.len() > MAX_SHOWN {
        format!("\"{text}\"... ({} bytes)", bytes.len())
    } else {
        format!("\"{text}\"")
    }
}

fn lines(lines: &[Vec<u8>]) -> String {
    shown(&lines.join(&b"\r\n"[..]))
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        match &self.change {
            Change::Lead(bytes)
            | Change::StatusLine(bytes)
            | Change::LineEnd(bytes)
            | Change::ContentType(bytes)
            | Change::Tail(bytes)
            | Change::Raw(bytes) => f.write_str(&shown(bytes)),
            Change::Fields(some)
            | Change::StatusAndFields(some)
            | Change::FieldsFirst(some)
            | Change::Unchunked(some) => f.write_str(&lines(some)),
            Change::HeadCut(bytes) | Change::Cut(bytes) | Change::Pieces(bytes) => write!(f, "{bytes}"),
            Change::Content(kind, body) => write!(f, "{} {}", shown(kind), shown(body)),
            Change::Coding(label, recipe) => write!(f, "{} {recipe:?}", shown(label)),
            Change::Length(some) => write!(f, "{some:?}"),
            Change::Chunked(some, style) => write!(f, "{} {style}", lines(some)),
            Change::Http2(change) => write!(f, "{change}"),
            Change::End(end) => write!(f, "{end:?}"),
            Change::Socket(change) => write!(f, "{change}"),
            Change::Tls { way, until_close } => {
                write!(f, "{:?} until close {until_close}", TLS_WAYS.get(*way))
            }
            Change::Host(host) => f.write_str(host),
        }
    }
}
