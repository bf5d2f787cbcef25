//! The programs of clients, as far as the agent can tell them apart without looking into other processes: by
//! user or proxy credential, by the `User-Agent` of CONNECT, and by the algorithms that the ClientHello offers.
//!
//! Two instances of one program, such as two profiles of a browser, are one program here.
use std::fmt;

use longhaul_http::client_hello::ClientHello;
use longhaul_types::{ClientId, legible};
use serde::{Deserialize, Serialize};

/// Maximum length of a name that is stored and shown.
const MAX_NAME: usize = 100;

/// Identifies a program of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ProgramId(u64);

impl ProgramId {
    /// The first in order.
    pub(super) const FIRST: Self = Self(0);
}

impl fmt::Display for ProgramId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<ProgramId> for String {
    fn from(id: ProgramId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for ProgramId {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        u64::from_str_radix(&text, 16).map(Self)
    }
}

/// The program at the other end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    client: ClientId,
    user_agent: Option<String>,
}

impl Program {
    pub(crate) fn new(client: ClientId, user_agent: Option<&str>) -> Self {
        Self {
            client,
            user_agent: user_agent.map(str::to_owned),
        }
    }

    /// Identifies the program; `hello` is `None` if it has not sent a ClientHello.
    pub(crate) fn id(&self, hello: Option<HelloShape>) -> ProgramId {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.client.0.to_le_bytes());
        // The lengths separate the parts.
        let agent = self.user_agent.as_deref().unwrap_or_default().as_bytes();
        hasher.update(&(agent.len() as u64).to_le_bytes()).update(agent);
        if let Some(HelloShape(shape)) = hello {
            hasher.update(&shape.to_le_bytes());
        }
        ProgramId(first_bytes(&hasher))
    }

    /// The name for people, if the program says one.
    pub(crate) fn name(&self) -> Option<String> {
        let name = legible(self.user_agent.as_deref()?, MAX_NAME);
        Some(name).filter(|name| !name.is_empty())
    }
}

/// What the TLS library of a program and its settings show in every ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HelloShape(u64);

impl HelloShape {
    /// Computes the shape from the offered algorithms, and whether ALPN offers HTTP.
    pub(crate) fn of(hello: &ClientHello) -> Self {
        let lists = [&hello.cipher_suites[..], &hello.groups, &hello.signature_schemes];
        Self::of_numbers(lists, hello.speaks_http())
    }

    fn of_numbers(lists: [&[u16]; 3], speaks_http: bool) -> Self {
        let mut hasher = blake3::Hasher::new();
        for list in lists {
            for number in list.iter().filter(|number| !is_grease(**number)) {
                hasher.update(&number.to_le_bytes());
            }
            // 0 is reserved in each of the lists.
            hasher.update(&[0, 0]);
        }
        hasher.update(&[u8::from(speaks_http)]);
        Self(first_bytes(&hasher))
    }
}

/// True for the numbers that clients choose at random to keep servers tolerant (RFC 8701).
const fn is_grease(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}

fn first_bytes(hasher: &blake3::Hasher) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_differ_by_client_user_agent_and_hello() {
        let shape = |suites: &[u16]| HelloShape::of_numbers([suites, &[29], &[0x0403]], true);
        let (one, other) = (shape(&[0x1301, 0xc02b]), shape(&[0xc02b]));
        assert_eq!(one, shape(&[0x2a2a, 0x1301, 0xc02b]), "GREASE");
        assert_ne!(one, other);
        let curl = Program::new(ClientId::OWNER, Some("curl/8.5.0"));
        let ids = [
            curl.id(Some(one)),
            curl.id(Some(other)),
            curl.id(None),
            Program::new(ClientId::OWNER, None).id(Some(one)),
            Program::new(ClientId::OWNER, Some("Mozilla/5.0")).id(Some(one)),
            Program::new(ClientId(7), Some("curl/8.5.0")).id(Some(one)),
        ];
        for (at, id) in ids.iter().enumerate() {
            assert!(!ids[..at].contains(id), "{at}");
        }
        let stored = serde_json::to_string(&ids[0]).unwrap();
        assert_eq!(serde_json::from_str::<ProgramId>(&stored).unwrap(), ids[0]);
        assert!(serde_json::from_str::<ProgramId>("\"zz\"").is_err());
        assert_eq!(curl.name().as_deref(), Some("curl/8.5.0"));
        assert_eq!(
            Program::new(ClientId::OWNER, Some("a\u{1b}b")).name().as_deref(),
            Some("ab")
        );
    }
}
