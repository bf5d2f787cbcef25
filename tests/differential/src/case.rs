//! A case: one odd response, made from a seed, and how a page loads it.
mod bodies;
mod change;
mod chunks;
mod grammar;
mod http2;
mod message;
mod socket;

use std::fmt;

pub(crate) use self::socket::frame;
pub use self::{
    change::{Change, Mutation},
    grammar::{TLS_WAYS, TlsWay},
    http2::Frame,
    message::{End, Script},
    socket::{Conversation, PageSide, Step},
};
use self::{grammar::Production, message::Message};
use crate::{arena::Scheme, random::Random};

/// How the page loads the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// `fetch()`: status, fields and bytes.
    Fetch,
    /// `fetch()` with HEAD.
    Head,
    /// `fetch()` with POST.
    Post,
    /// `fetch()` of a range of bytes.
    Range,
    /// `XMLHttpRequest`: the events in their order, and the text.
    Xhr,
    /// A frame: the document with its charset and type.
    Frame,
    /// An image element: its event and its size.
    Image,
    /// A script element: its event, and whether the script ran.
    Script,
    /// A style sheet: its event, and its number of rules.
    Style,
    /// A WebSocket: its events with their data.
    Socket,
}

impl Mode {
    /// The name in the driver's script and in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Head => "head",
            Self::Post => "post",
            Self::Range => "range",
            Self::Xhr => "xhr",
            Self::Frame => "frame",
            Self::Image => "image",
            Self::Script => "script",
            Self::Style => "style",
            Self::Socket => "socket",
        }
    }
}

/// The version of HTTP that the origin speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, and HTTP/1.1 for clients that come back with it.
    Http2,
    /// WebSocket, after an upgrade of HTTP/1.1.
    Socket,
    /// HTTP/1.1 in an odd TLS.
    Tls,
    /// HTTP/1.1 at hosts with odd names or addresses.
    Names,
}

impl Protocol {
    /// Number of its productions: after so many seeds, each was tried alone.
    pub fn kinds(self) -> usize {
        grammar::productions(self).len()
    }
}

/// Successive seeds are so many productions apart, so that few seeds already have some of each group. A prime, to reach all.
const STRIDE: usize = 127;

/// One odd response and how it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The seed from which it was made.
    pub seed: u64,
    /// What the origin speaks.
    pub protocol: Protocol,
    /// How the page loads it.
    pub mode: Mode,
    /// What is odd, in the order of application.
    pub mutations: Vec<Mutation>,
}

impl Case {
    /// Makes the case of a seed. Successive seeds go through all productions of the grammar, so that few seeds already try
    /// each of them; the others of a case are random.
    pub fn new(protocol: Protocol, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let productions = grammar::productions(protocol);
        let number = usize::try_from(seed).unwrap_or_default();
        let first = &productions[number.wrapping_mul(STRIDE) % productions.len()];
        let mode = match random.below(16) {
            0 | 1 => Mode::Xhr,
            2 | 3 => Mode::Frame,
            4 => Mode::Image,
            5 => Mode::Script,
            6 => Mode::Style,
            7 => Mode::Head,
            8 => Mode::Post,
            9 => Mode::Range,
            _ => Mode::Fetch,
        };
        let mode = match (first.mode, protocol, mode) {
            (Some(only), ..) => only,
            // The frames of a case have a body, which is no oddity but a mistake after HEAD.
            (None, Protocol::Http2, Mode::Head) => Mode::Fetch,
            (None, Protocol::Socket, _) => Mode::Socket,
            // The page is of another origin, which is told less.
            (None, Protocol::Tls | Protocol::Names, Mode::Xhr | Mode::Post) => mode,
            (None, Protocol::Tls | Protocol::Names, _) => Mode::Fetch,
            (None, ..) => mode,
        };
        let mut chosen: Vec<&Production> = vec![first];
        // The first round shows each production alone.
        let more = if number < productions.len() {
            0
        } else {
            *random.pick(&[0, 0, 1, 1, 1, 2, 2, 3])
        };
        for _ in 0..more {
            let next = random.pick(&productions);
            if chosen.iter().all(|other| other.group.goes_with(next.group)) {
                chosen.push(next);
            }
        }
        chosen.sort_by_key(|production| production.group);
        let mutations = chosen
            .iter()
            .map(|production| production.mutation(&mut random, seed))
            .collect();
        Self {
            seed,
            protocol,
            mode,
            mutations,
        }
    }

    /// A WebSocket without anything odd.
    pub(crate) const fn plain_socket() -> Self {
        Self {
            seed: 0,
            protocol: Protocol::Socket,
            mode: Mode::Socket,
            mutations: Vec::new(),
        }
    }

    /// The same case without one of its mutations, for shrinking.
    pub fn without(&self, index: usize) -> Self {
        let mut smaller = self.clone();
        smaller.mutations.remove(index);
        smaller
    }

    /// The same response, loaded in another way.
    pub fn loaded_by(&self, mode: Mode) -> Self {
        Self { mode, ..self.clone() }
    }

    /// Cases with one of its mutations each; none if it has only one.
    pub fn singles(&self) -> Vec<Self> {
        let single = |mutation: &Mutation| Self {
            mutations: vec![mutation.clone()],
            ..self.clone()
        };
        if self.mutations.len() > 1 {
            self.mutations.iter().map(single).collect()
        } else {
            Vec::new()
        }
    }

    /// What the origin sends.
    pub fn script(&self) -> Script {
        let mut message = Message::plain(self.mode, self.seed);
        for mutation in &self.mutations {
            mutation.change.apply(&mut message);
        }
        message.script()
    }

    /// The URL that the page loads. Without a host it is one of the page's; `{n}` is the number of the case, and `{port}` that of
    /// the origin.
    pub fn url(&self, scheme: Scheme) -> String {
        let scheme = scheme.name();
        for mutation in &self.mutations {
            if let Change::Tls { way, until_close } = mutation.change {
                let path = if until_close { 'u' } else { 'n' };
                return format!("{scheme}://n{{n}}.p{way}.tls.test/{path}/{{n}}/");
            }
            if let Change::Host(host) = mutation.change {
                return format!("{scheme}://{host}:{{port}}/n/{{n}}/");
            }
        }
        match self.protocol {
            // An upgrade that fails is remembered for the host.
            Protocol::Socket => format!("{}://s{{n}}.test/c/{{n}}/", scheme.replace("http", "ws")),
            Protocol::Http1 | Protocol::Http2 | Protocol::Tls | Protocol::Names => "/c/{n}/".to_owned(),
        }
    }

    /// True if a browser remembers it for all of the host: it would change the cases that share the host.
    pub fn is_remembered(&self) -> bool {
        let remembered = [
            "http2/http-1.1-required",
            "http2/settings-no-streams",
            "policy/hsts",
            "policy/clear-site-data",
            "policy/alt-svc",
        ];
        let is = |kind: &&str| remembered.iter().any(|start| kind.starts_with(start));
        self.kinds().iter().any(is)
    }

    /// True if it may set cookies.
    pub fn sets_cookies(&self) -> bool {
        let of_the_page = matches!(self.protocol, Protocol::Http1 | Protocol::Http2);
        of_the_page
            && self
                .script()
                .bytes()
                .to_ascii_lowercase()
                .windows(10)
                .any(|window| window == b"set-cookie")
    }

    /// The kinds of its mutations.
    pub fn kinds(&self) -> Vec<&'static str> {
        self.mutations.iter().map(|mutation| mutation.kind).collect()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, {}:", self.seed, self.mode.name())?;
        for mutation in &self.mutations {
            write!(f, " {mutation};")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ALL: [Protocol; 5] = [
        Protocol::Http1,
        Protocol::Http2,
        Protocol::Socket,
        Protocol::Tls,
        Protocol::Names,
    ];

    #[test]
    fn a_seed_is_a_case() {
        for (protocol, seed) in ALL
            .into_iter()
            .flat_map(|protocol| (0..600).map(move |seed| (protocol, seed)))
        {
            let case = Case::new(protocol, seed);
            assert_eq!(case, Case::new(protocol, seed));
            assert_eq!(case.script(), Case::new(protocol, seed).script());
            assert!(!case.mutations.is_empty());
            assert!(case.to_string().starts_with("seed "));
        }
    }

    #[test]
    fn kinds_are_unique() {
        for protocol in ALL {
            let mut seen = BTreeSet::new();
            for production in grammar::productions(protocol) {
                assert!(seen.insert(production.kind), "{} is there twice", production.kind);
            }
        }
    }

    #[test]
    fn each_production_comes_first() {
        for protocol in ALL {
            let number = grammar::productions(protocol).len();
            let first = |seed| Case::new(protocol, u64::try_from(seed).expect("a small number")).kinds()[0];
            let seen: BTreeSet<_> = (0..number).map(first).collect();
            assert_eq!(seen.len(), number);
        }
    }

    #[test]
    fn a_case_shrinks_to_a_plain_response() {
        let mut case = Case::new(Protocol::Http1, 4001);
        while !case.mutations.is_empty() {
            case = case.without(0);
        }
        let sent = String::from_utf8(case.script().bytes()).expect("plain text");
        assert!(sent.starts_with("HTTP/1.1 200 OK\r\n"), "{sent}");
    }
}
