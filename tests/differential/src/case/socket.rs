//! What a server of WebSockets (RFC 6455) does, and what the page does.
use std::fmt;

use super::{change::shown, message::End};

/// A text frame.
pub(super) const TEXT: u8 = 1;
/// A binary frame.
pub(super) const BINARY: u8 = 2;
/// A close frame.
pub(super) const CLOSE: u8 = 8;
/// A ping.
pub(super) const PING: u8 = 9;
/// A pong.
pub(super) const PONG: u8 = 10;
/// The last frame of a message.
pub(super) const FIN: u8 = 0x80;

/// A frame of a server: not masked.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len();
    let mut bytes = vec![first];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => bytes.push(short),
        (_, Ok(middle)) => {
            bytes.push(126);
            bytes.extend(middle.to_be_bytes());
        }
        _ => {
            bytes.push(127);
            bytes.extend(u64::try_from(length).unwrap_or_default().to_be_bytes());
        }
    }
    bytes.extend(payload);
    bytes
}

/// A close frame with a code and a reason.
pub(super) fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    frame(FIN | CLOSE, &[&code.to_be_bytes(), reason].concat())
}

/// One thing that the server does after its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Waits for a frame of the client.
    Await,
    /// Waits for a frame of the client and sends it back.
    Echo,
}

/// What a page does with a WebSocket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageSide {
    /// The subprotocols that it asks for.
    pub asked: &'static [&'static str],
    /// Sizes of the messages that it sends at the beginning.
    pub sends: &'static [usize],
    /// Code and reason with which it closes then.
    pub closes: Option<(u16, &'static str)>,
}

/// What the server does after its head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// What it does in turn.
    pub steps: Vec<Step>,
    /// What the page does.
    pub page: PageSide,
}

/// A change of a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketChange {
    /// The lines that make the response a handshake, with `{accept}` for the right answer to the client's key.
    Lines(Vec<Vec<u8>>),
    /// The page asks for these subprotocols, and the handshake has this line, if there is one.
    Protocols(&'static [&'static str], Option<&'static [u8]>),
    /// Bytes right behind the head.
    Early(Vec<u8>),
    /// Bytes after what the page sent.
    Late(Vec<u8>),
    /// The messages of the page.
    Page(&'static [usize]),
    /// How it ends: bytes of the server, whether it waits for an answer, and the end of the connection.
    End(Vec<u8>, bool, End),
    /// The page closes, and the server answers so.
    PageCloses((u16, &'static str), Vec<u8>, End),
}

/// The parts of a response that exist only for WebSockets.
#[derive(Clone, Debug)]
pub(super) struct SocketParts {
    pub(super) lines: Vec<Vec<u8>>,
    pub(super) early: Vec<u8>,
    late: Vec<u8>,
    last: Vec<u8>,
    waits: bool,
    pub(super) end: End,
    page: PageSide,
}

impl SocketParts {
    /// A greeting, an echo, and an end in order.
    pub(super) fn plain() -> Self {
        let lines: [&[u8]; 3] = [
            b"Upgrade: websocket",
            b"Connection: Upgrade",
            b"Sec-WebSocket-Accept: {accept}",
        ];
        Self {
            lines: lines.map(<[u8]>::to_vec).to_vec(),
            early: Vec::new(),
            late: Vec::new(),
            last: close(1000, b"done"),
            waits: true,
            end: End::Close,
            page: PageSide {
                sends: &[5],
                ..PageSide::default()
            },
        }
    }

    pub(super) fn change(&mut self, change: SocketChange) {
        match change {
            SocketChange::Lines(lines) => self.lines = lines,
            SocketChange::Protocols(asked, line) => {
                self.page.asked = asked;
                self.lines.extend(line.map(<[u8]>::to_vec));
            }
            SocketChange::Early(bytes) => self.early = bytes,
            SocketChange::Late(bytes) => self.late = bytes,
            SocketChange::Page(sends) => self.page.sends = sends,
            SocketChange::End(last, waits, end) => (self.last, self.waits, self.end) = (last, waits, end),
            SocketChange::PageCloses(closes, last, end) => {
                self.page.closes = Some(closes);
                (self.last, self.waits, self.end) = (last, false, end);
            }
        }
    }

    /// What server and page do.
    pub(super) fn conversation(&self) -> Conversation {
        let mut steps = vec![Step::Echo; self.page.sends.len()];
        steps.push(Step::Send(self.late.clone()));
        if self.page.closes.is_some() {
            steps.push(Step::Await);
        }
        steps.push(Step::Send(self.last.clone()));
        if self.waits {
            steps.push(Step::Await);
        }
        Conversation {
            steps,
            page: self.page.clone(),
        }
    }
}

impl fmt::Display for SocketChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lines(lines) => f.write_str(&shown(&lines.join(&b"\r\n"[..]))),
            Self::Protocols(asked, line) => {
                write!(f, "{asked:?} answered {}", shown(line.unwrap_or_default()))
            }
            Self::Early(bytes) => write!(f, "early {}", shown(bytes)),
            Self::Late(bytes) => write!(f, "late {}", shown(bytes)),
            Self::Page(sends) => write!(f, "page sends {sends:?}"),
            Self::End(last, waits, end) => write!(f, "{} waits {waits} {end:?}", shown(last)),
            Self::PageCloses(closes, last, end) => {
                write!(f, "page closes {closes:?} answered {} {end:?}", shown(last))
            }
        }
    }
}
