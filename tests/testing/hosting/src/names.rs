//! Name server for the hosts of a page.
use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use hickory_proto::{
    op::{Edns, Message, MessageType, Metadata, OpCode, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{A, SOA},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};

use crate::{HostAddresses, listening};

/// Maximum length of a query; queries have one name of at most 255 bytes and some EDNS options.
const MAX_QUESTION: usize = 4096;
/// Maximum UDP payload that this server accepts and announces in EDNS: the size that avoids fragments (DNS
/// flag day 2020).
const UDP_PAYLOAD: u16 = 1232;
/// Maximum number of TCP connections at a time; resolvers keep one or two.
const MAX_TCP: usize = 64;
/// Maximum idle time of a TCP connection (RFC 7766 section 6.2.3 recommends some seconds).
const TCP_IDLE: Duration = Duration::from_secs(10);
/// Attempts to find a port that is free for UDP and TCP, if any port is suitable.
const PORT_ATTEMPTS: usize = 16;

/// Numbers of queries that a name server received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuestionCounts {
    /// Queries for IPv4 addresses.
    pub a: u64,
    /// Queries for IPv6 addresses.
    pub aaaa: u64,
    /// Queries for service bindings: HTTPS and SVCB (RFC 9460).
    pub service: u64,
    /// Queries for other types.
    pub other: u64,
    /// Queries of any type for names that do not exist.
    pub unknown_names: u64,
    /// Queries of any type over TCP.
    pub tcp: u64,
    /// Messages that were not queries and were rejected or ignored.
    pub malformed: u64,
}

impl QuestionCounts {
    /// Number of all queries.
    pub const fn total(&self) -> u64 {
        self.a + self.aaaa + self.service + self.other
    }
}

/// Error of starting a name server.
#[derive(Debug, thiserror::Error)]
#[error("the name server cannot listen on {address}: {source}")]
pub struct NameServerError {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Error of the operating system.
    pub source: io::Error,
}

/// A DNS server over UDP and TCP (RFC 1035, RFC 7766). It ends when dropped.
///
/// It represents the resolver of an Internet provider: it answers with recursion available and without delay.
/// Names of its hosts have one A record and no other record; all other names do not exist. Negative answers
/// carry an SOA record, so that resolvers cache them for the same time (RFC 2308).
#[derive(Debug)]
pub struct NameServer {
    address: SocketAddr,
    counts: Arc<Mutex<QuestionCounts>>,
    _tasks: JoinSet<()>,
}

/// Data for the answers.
struct Zone {
    addresses: BTreeMap<Name, Ipv4Addr>,
    /// Time to live in seconds.
    ttl: u32,
    counts: Arc<Mutex<QuestionCounts>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp,
}

impl NameServer {
    /// Serves the addresses of these hosts from tasks of the current runtime. `ttl` is the time for which
    /// resolvers may cache an answer, in whole seconds. Port 0 selects a port that is free for both
    /// transports.
    ///
    /// # Errors
    /// Listening on the address fails.
    pub async fn start(
        address: SocketAddr,
        hosts: &HostAddresses,
        ttl: Duration,
    ) -> Result<Self, NameServerError> {
        let (udp, tcp) = bind(address)
            .await
            .map_err(|source| NameServerError { address, source })?;
        let address = udp
            .local_addr()
            .map_err(|source| NameServerError { address, source })?;
        let counts = Arc::new(Mutex::default());
        let zone = Arc::new(Zone {
            // A host that is not a name cannot be queried.
            addresses: hosts
                .iter()
                .filter_map(|(host, address)| Some((Name::from_ascii(format!("{host}.")).ok()?, address)))
                .collect(),
            ttl: u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX),
            counts: Arc::clone(&counts),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_udp(udp, Arc::clone(&zone)));
        let serve = move |stream| serve_tcp(stream, Arc::clone(&zone));
        tasks.spawn(listening::accept(tcp, Arc::new(Semaphore::new(MAX_TCP)), serve));
        Ok(Self {
            address,
            counts,
            _tasks: tasks,
        })
    }

    /// Address of the server.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Numbers of queries so far.
    pub fn questions(&self) -> QuestionCounts {
        *self.counts.lock()
    }
}

async fn bind(address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let mut failure = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..PORT_ATTEMPTS {
        let udp = UdpSocket::bind(address).await?;
        match TcpListener::bind(udp.local_addr()?).await {
            Ok(tcp) => return Ok((udp, tcp)),
            Err(error) if address.port() != 0 => return Err(error),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn serve_udp(socket: UdpSocket, zone: Arc<Zone>) {
    let mut question = vec![0; MAX_QUESTION];
    loop {
        // An error here belongs to an earlier answer: its receiver is gone.
        let Ok((length, from)) = socket.recv_from(&mut question).await else {
            tokio::task::yield_now().await;
            continue;
        };
        let question = question.get(..length).unwrap_or_default();
        if let Some(answer) = zone.reply(question, Transport::Udp) {
            let _sent = socket.send_to(&answer, from).await;
        }
    }
}

async fn serve_tcp(stream: TcpStream, zone: Arc<Zone>) {
    let mut stream = stream;
    let mut question = vec![0; MAX_QUESTION];
    while let Ok(Ok(length)) = timeout(TCP_IDLE, stream.read_u16()).await {
        let Some(space) = question.get_mut(..usize::from(length)) else {
            return;
        };
        if !matches!(timeout(TCP_IDLE, stream.read_exact(space)).await, Ok(Ok(_))) {
            return;
        }
        let Some(answer) = zone.reply(space, Transport::Tcp) else {
            return;
        };
        let Ok(length) = u16::try_from(answer.len()) else {
            return;
        };
        // One write, so that length and message share a segment (RFC 7766 section 8).
        let message = [&length.to_be_bytes(), answer.as_slice()].concat();
        if stream.write_all(&message).await.is_err() {
            return;
        }
    }
}

impl Zone {
    /// Returns the reply to a message; `None` if it must not be answered.
    fn reply(&self, message: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let malformed = || self.count(|counts| counts.malformed += 1);
        let Ok(question) = Message::from_vec(message) else {
            malformed();
            // A message without a header cannot be answered with a format error, and responses are never
            // answered.
            let (id, flags) = (message.get(..2)?, message.get(2)?);
            let id = u16::from_be_bytes(id.try_into().ok()?);
            let is_query = flags & 0x80 == 0;
            let error = Message::error_msg(id, OpCode::Query, ResponseCode::FormErr);
            return is_query.then(|| error.to_vec().ok()).flatten();
        };
        if question.metadata.message_type != MessageType::Query {
            malformed();
            return None;
        }
        let reply = self.answer(&question, transport);
        reply.to_vec().ok()
    }

    fn answer(&self, question: &Message, transport: Transport) -> Message {
        let mut reply = Message::new(
            question.metadata.id,
            MessageType::Response,
            question.metadata.op_code,
        );
        reply.metadata = Metadata::response_from_request(&question.metadata);
        reply.metadata.recursion_available = true;
        reply.metadata.response_code = ResponseCode::NoError;
        reply.add_queries(question.queries.iter().cloned());
        if question.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(UDP_PAYLOAD).set_version(0);
            reply.set_edns(edns);
        }
        let [query] = question.queries.as_slice() else {
            self.count(|counts| counts.malformed += 1);
            reply.metadata.response_code = ResponseCode::FormErr;
            return reply;
        };
        let refused = match (question.metadata.op_code, query.query_class()) {
            (OpCode::Query, DNSClass::IN) => None,
            (OpCode::Query, _) => Some(ResponseCode::Refused),
            _ => Some(ResponseCode::NotImp),
        };
        if let Some(code) = refused {
            self.count(|counts| counts.malformed += 1);
            reply.metadata.response_code = code;
            return reply;
        }
        let kind = query.query_type();
        let address = self.addresses.get(query.name()).copied();
        self.count(|counts| counts.note(kind, address.is_some(), transport));
        match (address, kind) {
            (Some(address), RecordType::A | RecordType::ANY) => {
                let record = Record::from_rdata(query.name().clone(), self.ttl, RData::A(A(address)));
                reply.add_answer(record);
            }
            (address, _) => {
                if address.is_none() {
                    reply.metadata.response_code = ResponseCode::NXDomain;
                }
                reply.add_authority(self.start_of_authority());
            }
        }
        reply
    }

    /// Returns the record that defines how long a negative answer may be cached: that of the root, because
    /// this server knows all names.
    fn start_of_authority(&self) -> Record {
        let soa = SOA::new(Name::root(), Name::root(), 1, 3600, 600, 86_400, self.ttl);
        Record::from_rdata(Name::root(), self.ttl, RData::SOA(soa))
    }

    fn count(&self, change: impl FnOnce(&mut QuestionCounts)) {
        change(&mut self.counts.lock());
    }
}

impl QuestionCounts {
    fn note(&mut self, kind: RecordType, known: bool, transport: Transport) {
        let count = if kind == RecordType::A {
            &mut self.a
        } else if kind == RecordType::AAAA {
            &mut self.aaaa
        } else if matches!(kind, RecordType::HTTPS | RecordType::SVCB) {
            &mut self.service
        } else {
            &mut self.other
        };
        *count += 1;
        self.unknown_names += u64::from(!known);
        self.tcp += u64::from(transport == Transport::Tcp);
    }
}
