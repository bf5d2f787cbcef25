//! What real servers send that no standard foresees: the productions from which cases are made.
mod content;
mod ending;
mod fields;
mod framing;
mod http2;
mod names;
mod navigation;
mod socket;
mod status;
mod tls;

use self::socket::SocketMake;
pub use self::tls::{TLS_WAYS, TlsWay};
use super::{
    Mode, Protocol,
    bodies::Recipe,
    change::{Change, Mutation},
    chunks::ChunkStyle,
    http2::Http2Change,
};
use crate::random::Random;

/// The part of a response that a production changes. A case has at most one production of each group but of fields; the
/// order is that of application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Media type and content.
    Content,
    /// Before the status line.
    Lead,
    /// Status line.
    Status,
    /// Pseudo-fields of HTTP/2.
    Http2Head,
    /// Fields.
    Field,
    /// Redirects and what else decides about a navigation; with a status of its own.
    Navigation,
    /// Content coding.
    Coding,
    /// The end of the body.
    Framing,
    /// Line ends and cuts.
    Form,
    /// The end of the connection and the timing.
    Ending,
    /// The lines that accept a WebSocket.
    SocketHead,
    /// The subprotocols of a WebSocket.
    SocketProtocol,
    /// Frames right behind the head.
    SocketEarly,
    /// Frames later.
    SocketLate,
    /// The messages of the page.
    SocketPage,
    /// The end of a WebSocket.
    SocketEnd,
    /// The whole response.
    Whole,
}

impl Group {
    /// Returns true if a case may have productions of both groups.
    pub(super) fn goes_with(self, other: Self) -> bool {
        let both = |one, two| (self == one && other == two) || (self == two && other == one);
        let excluded = self == Self::Whole || other == Self::Whole || both(Self::Navigation, Self::Status);
        !excluded && (self != other || self == Self::Field)
    }
}

/// A change that is always the same.
type Always = fn() -> Change;
/// A change by random numbers and the seed.
type Randomly = fn(&mut Random, u64) -> Change;

/// How a production makes a change.
#[derive(Clone, Copy)]
pub(super) enum Make {
    /// Always the same.
    Always(Always),
    /// By random numbers and the seed.
    Random(Randomly),
    /// A status line.
    Status(&'static [u8]),
    /// A field line; `{seed}` stands for the seed.
    Field(&'static [u8]),
    /// Lines that say the length.
    Length(&'static [&'static str]),
    /// Chunks after these lines.
    Chunked(&'static [&'static [u8]], ChunkStyle),
    /// A media type.
    Type(&'static [u8]),
    /// A media type and a content.
    Document(&'static [u8], &'static [u8]),
    /// A content coding.
    Coded(&'static [u8], Recipe),
    /// A field line with a status that goes with it.
    StatusAndField(&'static [u8]),
    /// All bytes.
    Raw(&'static [u8]),
    /// A change of a response over HTTP/2.
    Http2(fn() -> Http2Change),
    /// No chunks after these lines.
    Unchunked(&'static [&'static [u8]]),
    /// A change of a WebSocket.
    Socket(SocketMake),
    /// A way of speaking TLS, and true for an answer that ends with the connection.
    Tls(usize, bool),
    /// A host, in which `{n}` is the number of the case.
    Host(&'static str),
}

/// One production of the grammar.
#[derive(Clone, Copy)]
pub(super) struct Production {
    /// Its name.
    pub(super) kind: &'static str,
    /// What it changes.
    pub(super) group: Group,
    /// The only way of loading that shows anything, if there is one.
    pub(super) mode: Option<Mode>,
    make: Make,
}

impl Production {
    const fn new(group: Group, kind: &'static str, make: Make) -> Self {
        Self {
            kind,
            group,
            mode: None,
            make,
        }
    }

    const fn seen_by(self, mode: Mode) -> Self {
        Self {
            mode: Some(mode),
            ..self
        }
    }

    /// Returns true if it writes more than one line of HTTP/1.1.
    fn has_lines(&self) -> bool {
        let (Make::Type(value) | Make::Document(value, _) | Make::Coded(value, _)) = self.make else {
            return false;
        };
        value.contains(&b'\n')
    }

    /// Makes a mutation.
    pub(super) fn mutation(&self, random: &mut Random, seed: u64) -> Mutation {
        let change = match self.make {
            Make::Always(make) => make(),
            Make::Random(make) => make(random, seed),
            Make::Status(line) => Change::StatusLine(line.to_vec()),
            Make::Field(line) => Change::Fields(vec![with_seed(line, seed)]),
            Make::Type(value) => Change::ContentType(value.to_vec()),
            Make::Document(value, body) => Change::Content(value.to_vec(), body.to_vec()),
            Make::Coded(label, recipe) => Change::Coding(label.to_vec(), recipe),
            Make::StatusAndField(line) => navigation::with_status(random, self.kind, with_seed(line, seed)),
            Make::Http2(make) => Change::Http2(make()),
            Make::Raw(bytes) => Change::Raw(bytes.to_vec()),
            Make::Chunked(lines, style) => Change::Chunked(owned(lines), style),
            Make::Unchunked(lines) => Change::Unchunked(owned(lines)),
            Make::Socket(make) => make.change(),
            Make::Tls(way, until_close) => Change::Tls { way, until_close },
            Make::Host(host) => Change::Host(host),
            Make::Length(lines) => Change::Length(lines.iter().map(|line| (*line).to_owned()).collect()),
        };
        Mutation {
            kind: self.kind,
            change,
        }
    }
}

fn owned(lines: &[&[u8]]) -> Vec<Vec<u8>> {
    lines.iter().map(|line| line.to_vec()).collect()
}

/// Replaces `{seed}` in a line.
fn with_seed(line: &[u8], seed: u64) -> Vec<u8> {
    const MARK: &[u8] = b"{seed}";
    let mut line = line.to_vec();
    while let Some(at) = line.windows(MARK.len()).position(|window| window == MARK) {
        line.splice(at..at + MARK.len(), seed.to_string().into_bytes());
    }
    line
}

/// All productions over a version of HTTP.
pub(super) fn productions(protocol: Protocol) -> Vec<Production> {
    match protocol {
        Protocol::Http1 => of_http1(),
        Protocol::Http2 => {
            // Contents and their codings are the same in each version.
            let content = content::productions()
                .into_iter()
                .filter(|production| !production.has_lines());
            http2::productions().into_iter().chain(content).collect()
        }
        Protocol::Socket => {
            let mut all = socket::productions();
            // A handshake has no body, but all oddities of a head.
            all.extend(status::productions());
            all.extend(
                fields::productions()
                    .into_iter()
                    .filter(|production| production.kind.starts_with("field/")),
            );
            // Heads without an end wait, and browsers open no other WebSocket at the same address until then.
            all.extend(ending::forms().filter(|production| production.kind == "form/bare-line-feeds"));
            all
        }
        Protocol::Tls => tls::productions(),
        Protocol::Names => names::productions(),
    }
}

fn of_http1() -> Vec<Production> {
    let mut all = Vec::new();
    all.extend(status::productions());
    all.extend(fields::productions());
    all.extend(framing::productions());
    all.extend(content::productions());
    all.extend(navigation::productions());
    all.extend(ending::productions());
    all
}
