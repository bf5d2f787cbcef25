//! A name server for clients whose system nobody can change: the names in `[dns] names` lead to the gateway, which fetches
//! them in transparent mode; everything else is forwarded to the gateway's own name servers.
//!
//! `question` reads and writes messages, `names` is the list of names, `udp` and `tcp` serve the two transports.
//!
//! Never open: only clients of `clientless.allow` get an answer. Over UDP, where a sender can state any address, an answer is
//! at most twice as long as its question.
mod names;
mod question;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;

use std::{
    io::ErrorKind,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use hickory_proto::{
    op::ResponseCode,
    rr::{Name, RData, Record, RecordType},
};
use longhaul_gateway_core::connections::{Connections, Place, Standing};
use longhaul_origin::NoRecords;
use tracing::{info, warn};

pub(super) use self::names::BoostedNames;
pub(super) use self::question::question_for;
pub use self::question::{DnsQuestion, Reply};
use super::{Clientless, access::Denied, client::unnamed_connections};

/// Seconds for which a client may keep that a name leads to the gateway: soon enough to get back to it without.
const TTL: u32 = 60;
/// Attempts to find a port that is free for UDP and for TCP, if any port may be used.
const ANY_PORT_ATTEMPTS: u8 = 16;

/// The open ports.
#[derive(Debug)]
pub(super) struct DnsPorts {
    udp: tokio::net::UdpSocket,
    tcp: tokio::net::TcpListener,
    local: SocketAddr,
}

impl DnsPorts {
    /// Opens the port of both transports.
    ///
    /// # Errors
    /// The port is in use, or needs a privilege.
    pub(super) async fn open(address: SocketAddr) -> std::io::Result<Self> {
        let mut attempts = if address.port() == 0 { ANY_PORT_ATTEMPTS } else { 1 };
        loop {
            attempts -= 1;
            match Self::open_once(address).await {
                Err(error) if error.kind() == ErrorKind::AddrInUse && attempts > 0 => {}
                opened => return opened,
            }
        }
    }

    async fn open_once(address: SocketAddr) -> std::io::Result<Self> {
        let udp = tokio::net::UdpSocket::bind(address).await?;
        let local = udp.local_addr()?;
        let tcp = tokio::net::TcpListener::bind(local).await?;
        info!(address = %local, "clients without an agent may ask for names");
        Ok(Self { udp, tcp, local })
    }

    pub(super) const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Answers questions as long as the future exists.
    pub(super) async fn run(&self, shared: &Arc<Clientless>) {
        let server = Arc::new(NameServer {
            shared: Arc::clone(shared),
            questions: Connections::of_questions(),
            connections: Connections::of_name_server(),
        });
        tokio::join!(udp::serve(&server, &self.udp), tcp::serve(&server, &self.tcp));
        warn!("questions for names are no longer answered");
    }
}

/// What both transports share.
struct NameServer {
    shared: Arc<Clientless>,
    /// Questions in progress.
    questions: Arc<Connections>,
    connections: Arc<Connections>,
}

impl NameServer {
    /// Returns true if the client may ask a question now; otherwise it gets no answer.
    fn admits(&self, client: IpAddr) -> bool {
        let denied = match self.shared.access.admit_intercepted(client) {
            Err(denied) => denied,
            Ok(()) if self.shared.look_ups.permit(client, Instant::now()) => return true,
            Ok(()) => Denied::LookUps,
        };
        self.shared.self_check.note_refused();
        self.shared.counters.denied(denied.name());
        false
    }

    /// A place for a question of the client, if it may ask one more at the same time.
    fn place(&self, client: IpAddr) -> Option<Place> {
        self.questions.enter(client, Standing::Client)
    }

    /// The answer to a question.
    async fn answer(&self, client: IpAddr, question: &DnsQuestion) -> Reply {
        if let Some(refused) = question.refused() {
            return Reply::code(refused);
        }
        let (name, kind) = (question.name(), question.kind());
        self.shared.self_check.note(&name.to_ascii(), true);
        if self.shared.names.contains(&name.to_ascii())
            && let Some(reply) = self.boosted(name, kind)
        {
            return reply;
        }
        let owner = unnamed_connections(client, &self.shared.shares);
        match self.shared.gateway.origin.records(name, kind, owner).await {
            Ok(answers) => Reply {
                answers,
                ..Reply::code(ResponseCode::NoError)
            },
            Err(NoRecords::Absent { code, authority }) => Reply {
                authority: authority.map(|record| *record),
                ..Reply::code(code)
            },
            Err(NoRecords::Failed(_)) => Reply::failed(),
        }
    }

    /// The answer for a name that leads to the gateway; `None` if the type has nothing to do with the web.
    fn boosted(&self, name: &Name, kind: RecordType) -> Option<Reply> {
        let is_address = matches!(kind, RecordType::A | RecordType::AAAA);
        // These would lead around the gateway: other addresses, HTTP/3, keys of Encrypted Client Hello.
        let leads_around = matches!(kind, RecordType::HTTPS | RecordType::SVCB);
        if !is_address && !leads_around {
            return None;
        }
        let addresses = self.shared.names.addresses().filter(|address| match address {
            IpAddr::V4(_) => kind == RecordType::A,
            IpAddr::V6(_) => kind == RecordType::AAAA,
        });
        let answers: Vec<_> = addresses
            .map(|address| Record::from_rdata(name.clone(), TTL, RData::from(address)))
            .collect();
        Some(if answers.is_empty() {
            Reply::no_data(name, TTL)
        } else {
            Reply {
                answers,
                ..Reply::code(ResponseCode::NoError)
            }
        })
    }
}
