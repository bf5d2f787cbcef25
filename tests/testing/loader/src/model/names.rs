//! Resolution of names over the measured link: one query per name and load, without an earlier cache.
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RData, RecordType},
};
use tokio::{net::UdpSocket, sync::OnceCell, time::timeout};

/// Timeout of each attempt: on a link with a round-trip time of a second and a full queue no query must be
/// repeated in vain.
const TRIES: [Duration; 4] = [
    Duration::from_secs(3),
    Duration::from_secs(6),
    Duration::from_secs(12),
    Duration::from_secs(24),
];
/// Maximum number of addresses used from one answer: more would only delay a failure.
const MAX_ADDRESSES: usize = 4;
/// Maximum length of a DNS message over UDP. Without EDNS an answer has at most 512 bytes (RFC 1035 section
/// 2.3.4); some servers send more.
const MAX_MESSAGE: usize = 4096;

/// Errors of resolving a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NameError {
    #[error("the name does not exist or has no IPv4 address, according to the DNS server")]
    NotFound,
    #[error("the name is not a valid DNS name")]
    Invalid,
    #[error("the DNS server answered {0}")]
    Refused(String),
    #[error("the DNS server did not answer in {} s", TRIES.iter().sum::<Duration>().as_secs())]
    Silent,
    #[error("cannot query the DNS server: {0}")]
    Socket(String),
}

type Answer = Result<Vec<Ipv4Addr>, NameError>;

/// The names of one page load.
#[derive(Debug)]
pub(super) struct Names {
    server: SocketAddr,
    /// Answers and queries in progress. Bounded by the objects of a page.
    known: Mutex<BTreeMap<String, Arc<OnceCell<Answer>>>>,
    questions: AtomicU64,
    tries: [Duration; 4],
}

impl Names {
    /// `hosts` are known without a query.
    pub(super) fn new(server: SocketAddr, hosts: &BTreeMap<String, Ipv4Addr>) -> Self {
        let known = hosts
            .iter()
            .map(|(name, address)| (name.clone(), Arc::new(OnceCell::from(Ok(vec![*address])))));
        Self {
            server,
            known: Mutex::new(known.collect()),
            questions: AtomicU64::new(0),
            tries: TRIES,
        }
    }

    /// Number of queried names. A repetition of a query without an answer is not counted.
    pub(super) fn questions(&self) -> u64 {
        self.questions.load(Ordering::Relaxed)
    }

    /// Returns the addresses of `name`, never an empty list. Concurrent calls for the name share one query.
    pub(super) async fn lookup(&self, name: &str) -> Answer {
        let known = {
            let mut known = self.known.lock();
            Arc::clone(known.entry(name.to_owned()).or_default())
        };
        known.get_or_init(|| self.ask(name)).await.clone()
    }

    async fn ask(&self, name: &str) -> Answer {
        let mut name = Name::from_ascii(name).map_err(|_| NameError::Invalid)?;
        name.set_fqdn(true);
        let number = self.questions.fetch_add(1, Ordering::Relaxed);
        // Ids need not be unpredictable on an isolated link; consecutive numbers make a load reproducible to
        // the byte.
        let id = u16::try_from(number & 0xffff).unwrap_or_default();
        let mut question = Message::new(id, MessageType::Query, OpCode::Query);
        question.metadata.recursion_desired = true;
        question.add_query(Query::query(name.clone(), RecordType::A));
        let question = question.to_vec().map_err(|_| NameError::Invalid)?;
        let broken = |error: std::io::Error| NameError::Socket(error.to_string());
        let any: SocketAddr = match self.server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any).await.map_err(broken)?;
        socket.connect(self.server).await.map_err(broken)?;
        for patience in self.tries {
            socket.send(&question).await.map_err(broken)?;
            if let Ok(answer) = timeout(patience, answer(&socket, id, &name)).await {
                return answer;
            }
        }
        Err(NameError::Silent)
    }
}

/// Returns the first message on the socket that answers the query.
async fn answer(socket: &UdpSocket, id: u16, name: &Name) -> Answer {
    let mut buffer = [0; MAX_MESSAGE];
    loop {
        let received = socket.recv(&mut buffer).await;
        let length = received.map_err(|error| NameError::Socket(error.to_string()))?;
        let Ok(message) = Message::from_vec(&buffer[..length]) else {
            continue;
        };
        let asked = message.queries.first().is_some_and(|query| query.name() == name);
        if message.metadata.id != id || message.metadata.message_type != MessageType::Response || !asked {
            continue;
        }
        let code = message.metadata.response_code;
        let addresses = message.answers.iter().filter_map(|record| {
            if let RData::A(address) = &record.data {
                Some(address.0)
            } else {
                None
            }
        });
        let addresses: Vec<Ipv4Addr> = addresses.take(MAX_ADDRESSES).collect();
        return if code == ResponseCode::NXDomain || (code == ResponseCode::NoError && addresses.is_empty()) {
            Err(NameError::NotFound)
        } else if code == ResponseCode::NoError {
            Ok(addresses)
        } else {
            Err(NameError::Refused(code.to_string()))
        };
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::{Record, rdata::A};

    use super::*;

    #[tokio::test]
    async fn a_lost_query_is_repeated_and_counted_once() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut names = Names::new(server.local_addr().unwrap(), &BTreeMap::new());
        names.tries = [Duration::from_millis(20), TRIES[1], TRIES[2], TRIES[3]];
        let answering = async {
            let mut buffer = [0; MAX_MESSAGE];
            let (lost, _) = server.recv_from(&mut buffer).await.unwrap();
            let first = buffer[..lost].to_vec();
            let (length, from) = server.recv_from(&mut buffer).await.unwrap();
            assert_eq!(buffer[..length], first);
            let question = Message::from_vec(&first).unwrap();
            let mut answer = Message::response(question.metadata.id, OpCode::Query);
            let name = question.queries[0].name().clone();
            answer.add_query(question.queries[0].clone());
            answer.add_answer(Record::from_rdata(name, 1, RData::A(A::new(10, 79, 0, 1))));
            server.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
        };
        let (answer, again, ()) = tokio::join!(names.lookup("a.test"), names.lookup("a.test"), answering);
        assert_eq!(answer, Ok(vec![Ipv4Addr::new(10, 79, 0, 1)]));
        assert_eq!((again, names.lookup("a.test").await), (answer.clone(), answer));
        assert_eq!(names.questions(), 1);
    }

    #[tokio::test]
    async fn dns_errors_and_invalid_names_are_reported() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let names = Names::new(server.local_addr().unwrap(), &BTreeMap::new());
        let answering = async {
            let mut buffer = [0; MAX_MESSAGE];
            for code in [ResponseCode::ServFail, ResponseCode::NoError] {
                let (length, from) = server.recv_from(&mut buffer).await.unwrap();
                let question = Message::from_vec(&buffer[..length]).unwrap();
                let mut answer = Message::response(question.metadata.id, OpCode::Query);
                answer.add_query(question.queries[0].clone());
                answer.metadata.response_code = code;
                server.send_to(b"no message", from).await.unwrap();
                server.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
            }
        };
        let asking = async {
            let failed = names.lookup("a.test").await;
            assert!(matches!(failed, Err(NameError::Refused(_))), "{failed:?}");
            assert_eq!(names.lookup("b.test").await, Err(NameError::NotFound));
            assert_eq!(names.lookup(&"x".repeat(64)).await, Err(NameError::Invalid));
        };
        tokio::join!(answering, asking);
    }
}
