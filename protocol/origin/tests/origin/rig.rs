//! Real origins and a real name server on loopback ports that the system chooses, for the tests of this
//! crate.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use parking_lot::Mutex;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use longhaul_origin::{ConnectionOwner, Guard, OriginClient, OriginConfig, ResolveMap, Timeouts};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
    task::JoinHandle,
};

pub(crate) mod clock;
pub(crate) mod frames;
pub(crate) mod numbered;
pub(crate) mod tls;

/// Owner for tests in which the owner does not matter.
pub(crate) const LOCAL: ConnectionOwner = ConnectionOwner::Local;

/// Origin that runs `serve` on each connection, with the connection's number from 0.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Origin {
    pub(crate) async fn start<F, S>(serve: S) -> Self
    where
        S: Fn(usize, TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(count.fetch_add(1, SeqCst), stream));
            }
        });
        Self {
            address,
            accepted,
            task,
        }
    }

    /// Starts an origin that answers the first request of each connection with these bytes and closes.
    pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = Arc::new(answer.into());
        Self::start(move |_, mut stream| {
            let answer = Arc::clone(&answer);
            async move {
                if read_head(&mut stream).await.is_some() {
                    let _ = stream.write_all(&answer).await;
                    let _ = stream.shutdown().await;
                }
            }
        })
        .await
    }

    pub(crate) fn connections(&self) -> usize {
        self.accepted.load(SeqCst)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads one request head; `None` at the end of the connection.
pub(crate) async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await.ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

/// Returns a client that may connect to loopback, resolves every name to `address`, and has short timeouts.
pub(crate) fn client_of(address: SocketAddr) -> OriginClient {
    OriginClient::new(config_of(address)).unwrap()
}

pub(crate) fn config_of(address: SocketAddr) -> OriginConfig {
    OriginConfig {
        resolve: ResolveMap::parse([("*", address.to_string())]).unwrap(),
        timeouts: Timeouts {
            dns: Duration::from_secs(5),
            ..Timeouts::default()
        },
        ..OriginConfig::default()
    }
}

pub(crate) fn guard(allow: &[&str]) -> Guard {
    Guard::new(allow.iter().map(|range| range.parse().unwrap()), [])
}

pub(crate) fn get(url: &str) -> Request<Empty<Bytes>> {
    Request::get(url).body(Empty::new()).unwrap()
}

pub(crate) async fn text<B>(response: Response<B>) -> Result<String, B::Error>
where
    B: http_body::Body<Data = Bytes>,
{
    let body = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// Answer of the name server to one query.
#[derive(Clone, Debug)]
pub(crate) enum DnsAnswer {
    Addresses { ttl: u32, addresses: Vec<IpAddr> },
    Code(u8),
    Silence,
}

impl DnsAnswer {
    pub(crate) fn of(ttl: u32, addresses: &[&str]) -> Self {
        Self::Addresses {
            ttl,
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }
}

/// Name server on UDP (RFC 1035). Every name has the configured answer, filtered by the type of the query.
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    answer: Arc<Mutex<DnsAnswer>>,
    questions: Arc<Mutex<Vec<(String, u16)>>>,
    task: JoinHandle<()>,
}

impl NameServer {
    pub(crate) async fn start(answer: DnsAnswer) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let answer = Arc::new(Mutex::new(answer));
        let questions = Arc::new(Mutex::new(Vec::new()));
        let (current, asked) = (Arc::clone(&answer), Arc::clone(&questions));
        let task = tokio::spawn(async move {
            let mut packet = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                let (name, kind, end) = question(&packet[..length]);
                asked.lock().push((name, kind));
                let answer = current.lock().clone();
                if let Some(reply) = reply(&packet[..end], kind, &answer) {
                    let _ = socket.send_to(&reply, from).await;
                }
            }
        });
        Self {
            address,
            answer,
            questions,
            task,
        }
    }

    pub(crate) fn set(&self, answer: DnsAnswer) {
        *self.answer.lock() = answer;
    }

    /// Number of queries for the IPv4 address of a name.
    pub(crate) fn questions(&self, name: &str) -> usize {
        let questions = self.questions.lock();
        questions
            .iter()
            .filter(|(asked, kind)| asked.eq_ignore_ascii_case(name) && *kind == 1)
            .count()
    }

    pub(crate) fn all_questions(&self) -> usize {
        self.questions.lock().len()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the name and type of a query's only question, and its end.
fn question(packet: &[u8]) -> (String, u16, usize) {
    let mut at = 12;
    let mut labels = Vec::new();
    while packet[at] != 0 {
        let length = usize::from(packet[at]);
        labels.push(String::from_utf8_lossy(&packet[at + 1..=at + length]).into_owned());
        at += 1 + length;
    }
    (
        labels.join("."),
        u16::from_be_bytes([packet[at + 1], packet[at + 2]]),
        at + 5,
    )
}

fn reply(query: &[u8], kind: u16, answer: &DnsAnswer) -> Option<Vec<u8>> {
    let (code, ttl, addresses) = match answer {
        DnsAnswer::Silence => return None,
        DnsAnswer::Code(code) => (*code, 0, Vec::new()),
        DnsAnswer::Addresses { ttl, addresses } => {
            let wanted = |address: &&IpAddr| {
                if kind == 1 {
                    address.is_ipv4()
                } else {
                    address.is_ipv6()
                }
            };
            (0, *ttl, addresses.iter().filter(wanted).copied().collect())
        }
    };
    let mut reply = query.to_vec();
    reply[2..4].copy_from_slice(&[0x81, 0x80 | code]);
    reply[4..12].copy_from_slice(&[0, 1, 0, u8::try_from(addresses.len()).unwrap(), 0, 0, 0, 0]);
    for address in addresses {
        reply.extend([0xc0, 0x0c]);
        reply.extend(kind.to_be_bytes());
        reply.extend([0, 1]);
        reply.extend(ttl.to_be_bytes());
        match address {
            IpAddr::V4(v4) => {
                reply.extend([0, 4]);
                reply.extend(v4.octets());
            }
            IpAddr::V6(v6) => {
                reply.extend([0, 16]);
                reply.extend(v6.octets());
            }
        }
    }
    Some(reply)
}
