//! A name server for all names below `named.test` that answers as a label of the name says.
use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use anyhow::{Result, bail};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, UdpSocket},
    task::JoinSet,
};

/// The domain of all names.
const DOMAIN: &str = "named.test";
/// Where the origin does not listen.
const CLOSED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const A: u16 = 1;
const CNAME: u16 = 5;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const HEADER: usize = 12;
const FORMAT_ERROR: u8 = 1;
const SERVER_FAILURE: u8 = 2;
const NO_SUCH_NAME: u8 = 3;
const REFUSED: u8 = 5;
/// Longest time to live (RFC 2181 section 8).
const LONGEST: u32 = 0x7fff_ffff;

/// Where a direct load finds the names: patterns and places, the more special ones first.
pub(crate) fn places() -> Vec<(String, String)> {
    let both = |pattern: &str, place: &str| {
        [pattern.to_owned(), format!("{pattern}.")].map(|pattern| (pattern, place.to_owned()))
    };
    let closed = CLOSED.to_string();
    let origin = Ipv4Addr::LOCALHOST.to_string();
    [
        both("*.none.named.test", "~NOTFOUND"),
        both("*.closed.named.test", &closed),
        both("*.named.test", &origin),
    ]
    .concat()
}

/// A running name server; it ends when dropped.
#[derive(Debug)]
pub(crate) struct NameServer {
    /// Where it listens, for UDP and TCP.
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl NameServer {
    /// Starts a server on a free loopback port.
    pub(crate) async fn start() -> Result<Self> {
        let (udp, tcp) = bind().await?;
        let address = udp.local_addr()?;
        let mut tasks = JoinSet::new();
        // Names whose first question was lost.
        let lost = Arc::new(Mutex::new(BTreeSet::new()));
        tasks.spawn(async move {
            let mut query = [0; 1500];
            loop {
                // An error here belongs to an earlier answer: its receiver is gone.
                let Ok((length, client)) = udp.recv_from(&mut query).await else {
                    tokio::task::yield_now().await;
                    continue;
                };
                for answer in answers(&query[..length], true, &lost).unwrap_or_default() {
                    let _gone = udp.send_to(&answer, client).await;
                }
            }
        });
        tasks.spawn(async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                tokio::spawn(async move {
                    while let Ok(length) = stream.read_u16().await {
                        let mut query = vec![0; usize::from(length)];
                        stream.read_exact(&mut query).await.ok()?;
                        let answer = answers(&query, false, &Mutex::default())?.pop()?;
                        let length = u16::try_from(answer.len()).ok()?.to_be_bytes();
                        stream.write_all(&[&length[..], &answer].concat()).await.ok()?;
                    }
                    Some(())
                });
            }
        });
        Ok(Self {
            address,
            _tasks: tasks,
        })
    }
}

/// Listens on a port that is free for UDP and TCP.
async fn bind() -> Result<(UdpSocket, TcpListener)> {
    const ATTEMPTS: usize = 16;
    for _ in 0..ATTEMPTS {
        let udp = UdpSocket::bind(("127.0.0.1", 0)).await?;
        if let Ok(tcp) = TcpListener::bind(udp.local_addr()?).await {
            return Ok((udp, tcp));
        }
    }
    bail!("no port is free for UDP and TCP")
}

/// A question of a query, with the query's first bytes.
struct Question<'a> {
    number: [u8; 2],
    /// The labels of the name in lower case.
    labels: Vec<String>,
    kind: u16,
    /// The question as it came.
    bytes: &'a [u8],
    has_edns: bool,
}

fn question(query: &[u8]) -> Option<Question<'_>> {
    let mut labels = Vec::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = query.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes(query.get(at..at + 2)?.try_into().ok()?);
    Some(Question {
        number: query.get(..2)?.try_into().ok()?,
        labels,
        kind,
        bytes: query.get(HEADER..at + 4)?,
        has_edns: query.get(10..12)? != [0, 0],
    })
}

/// A name on the wire.
fn name(text: &str) -> Vec<u8> {
    let label = |label: &str| {
        let length = u8::try_from(label.len()).unwrap_or_default();
        [&[length], label.as_bytes()].concat()
    };
    let mut bytes: Vec<u8> = text.split('.').flat_map(label).collect();
    bytes.push(0);
    bytes
}

/// A record; the owner is the name of the question if there is none.
fn record(owner: Option<&str>, kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let owner = owner.map_or_else(|| vec![0xc0, 12], name);
    let length = u16::try_from(data.len()).unwrap_or_default().to_be_bytes();
    let (kind, ttl) = (kind.to_be_bytes(), ttl.to_be_bytes());
    [&owner[..], &kind, &[0, 1], &ttl, &length, data].concat()
}

fn reply(question: &Question<'_>, code: u8, flags: u8, records: &[Vec<u8>]) -> Vec<u8> {
    let count = u16::try_from(records.len()).unwrap_or_default().to_be_bytes();
    // A response with the recursion that was asked for.
    let head = [
        &question.number[..],
        &[0x81 | flags, 0x80 | code, 0, 1],
        &count,
        &[0; 4],
    ]
    .concat();
    [&head[..], question.bytes, &records.concat()].concat()
}

/// The messages that answer a query; none if it is not understood.
fn answers(query: &[u8], over_udp: bool, lost: &Mutex<BTreeSet<Vec<u8>>>) -> Option<Vec<Vec<u8>>> {
    let question = question(query)?;
    let depth = DOMAIN.split('.').count();
    let (rest, domain) = question
        .labels
        .split_at(question.labels.len().saturating_sub(depth));
    if domain.join(".") != DOMAIN {
        return Some(vec![reply(&question, NO_SUCH_NAME, 0, &[])]);
    }
    let does = match rest {
        [.., does, found] if ["ok", "closed", "none"].contains(&found.as_str()) => does.as_str(),
        _ => "",
    };
    let plain = |records: &[Vec<u8>]| reply(&question, 0, 0, records);
    Some(match does {
        "missing" => vec![reply(&question, NO_SUCH_NAME, 0, &[])],
        "failure" => vec![reply(&question, SERVER_FAILURE, 0, &[])],
        "denied" => vec![reply(&question, REFUSED, 0, &[])],
        "no-edns" if question.has_edns => vec![reply(&question, FORMAT_ERROR, 0, &[])],
        "cut" if over_udp => vec![reply(&question, 0, 2, &[])],
        "lost" if over_udp && lost.lock().insert(question.bytes.to_vec()) => Vec::new(),
        "wrong-number" => {
            let right = plain(&records(does, question.kind));
            let mut wrong = plain(&records("two-last", question.kind));
            wrong[0] ^= 0x55;
            vec![wrong, right]
        }
        "wrong-name" => {
            let right = plain(&records(does, question.kind));
            let mut wrong = right.clone();
            wrong[HEADER + 1] ^= 1;
            vec![wrong, right]
        }
        "upper" => {
            let mut upper = plain(&records(does, question.kind));
            let end = HEADER + question.bytes.len() - 5;
            upper[HEADER..end].make_ascii_uppercase();
            vec![upper]
        }
        "no-recursion" => {
            let mut answer = plain(&records(does, question.kind));
            answer[3] &= 0x7f;
            vec![answer]
        }
        _ => vec![plain(&records(does, question.kind))],
    })
}

/// The records for a type of address.
fn records(does: &str, kind: u16) -> Vec<Vec<u8>> {
    let four = |address: Ipv4Addr| record(None, A, 60, &address.octets());
    let at = |owner: &str| record(Some(owner), A, 60, &Ipv4Addr::LOCALHOST.octets());
    let alias = |owner: Option<&str>, target: &str| record(owner, CNAME, 60, &name(target));
    let origin = Ipv4Addr::LOCALHOST;
    match (does, kind) {
        ("empty", _) => Vec::new(),
        ("alias-missing", _) => vec![alias(None, "x.missing.none.named.test")],
        ("loop", _) => vec![
            alias(None, "x.loop.none.named.test"),
            alias(Some("x.loop.none.named.test"), "x.loop.none.named.test"),
        ],
        ("six" | "six-only", AAAA) => vec![record(None, AAAA, 60, &Ipv6Addr::LOCALHOST.octets())],
        ("six-only", _) | (_, AAAA) => Vec::new(),
        (_, other) if other != A => Vec::new(),
        ("two", _) => vec![four(CLOSED), four(origin)],
        ("two-last", _) => vec![four(origin), four(CLOSED)],
        ("same", _) => vec![four(origin), four(origin)],
        ("refuses", _) => vec![four(CLOSED)],
        ("eight", _) => {
            let closed = (2..9).map(|last| four(Ipv4Addr::new(127, 0, 0, last)));
            closed.chain([four(origin)]).collect()
        }
        ("alias", _) => vec![alias(None, "x.named.test"), at("x.named.test")],
        ("alias-odd", _) => vec![alias(None, "_a-.-b_c.named.test"), at("_a-.-b_c.named.test")],
        ("aliases", _) => {
            let mut chain = vec![alias(None, "a0.named.test")];
            for next in 1..8 {
                let owner = format!("a{}.named.test", next - 1);
                chain.push(alias(Some(&owner), &format!("a{next}.named.test")));
            }
            chain.push(at("a7.named.test"));
            chain
        }
        ("no-lifetime", _) => vec![record(None, A, 0, &origin.octets())],
        ("long-lifetime", _) => vec![record(None, A, LONGEST, &origin.octets())],
        ("others", _) => vec![
            record(None, TXT, 60, b"\x04text"),
            record(Some("other.test"), A, 60, &CLOSED.octets()),
            four(origin),
            record(None, 65_280, 60, b"\0\xff"),
        ],
        _ => vec![four(origin)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_says_what_is_answered() {
        let ask = |host: &str| {
            let query = [
                &[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..],
                &name(host),
                &[0, 1, 0, 1],
            ]
            .concat();
            answers(&query, true, &Mutex::default())
                .expect("an answer")
                .remove(0)
        };
        assert_eq!(ask("x.named.test")[..8], [0, 7, 0x81, 0x80, 0, 1, 0, 1]);
        assert_eq!(ask("x.two.ok.named.test")[6..8], [0, 2]);
        assert_eq!(ask("x.missing.none.named.test")[3], 0x83);
        assert_eq!(ask("x.elsewhere.test")[3], 0x83);
        assert_eq!(ask("ok")[3], 0x83);
        assert!(ask("x.named.test").ends_with(&[127, 0, 0, 1]));
    }
}
