//! Server of a transport.
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use longhaul_types::LinkProfile;
use rustls_pki_types::CertificateDer;
use tokio::task::JoinHandle;

use crate::{
    error::ServeError,
    longhaul::{self, Accepted, Enrolment, UsedCarriers},
    quic::{self, Connections},
    system::System,
    tcp,
};

/// Data with which a client reaches a server. It can be passed to another thread.
#[derive(Clone)]
pub struct Access {
    pub(crate) system: System,
    pub(crate) address: SocketAddr,
    pub(crate) credentials: Credentials,
    /// Carriers of a session.
    pub(crate) carriers: UsedCarriers,
}

#[derive(Clone)]
pub(crate) enum Credentials {
    None,
    Certificate(CertificateDer<'static>),
    Enrolment(Enrolment),
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Access({} at {})", self.system, self.address)
    }
}

impl Access {
    /// Returns the same server with another address, as seen from another namespace.
    #[must_use]
    pub fn at(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Returns the same server for clients whose sessions use these carriers.
    pub(crate) fn over(mut self, carriers: UsedCarriers) -> Self {
        self.carriers = carriers;
        self
    }

    /// Address of the server.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Counters of the sender, if the system reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Retransmitted stream bytes.
    pub retransmitted_bytes: Option<u64>,
    /// Packets considered lost by the sender.
    pub lost_packets: Option<u64>,
    /// Packets sent.
    pub sent_packets: Option<u64>,
    /// Smoothed round-trip time of the newest connection.
    pub srtt: Option<Duration>,
}

/// A server that answers requests until it is dropped.
#[derive(Debug)]
pub struct Server {
    access: Access,
    counting: Counting,
    task: JoinHandle<()>,
}

enum Counting {
    Nothing,
    Quic(Connections),
    Longhaul(Accepted),
}

impl std::fmt::Debug for Counting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Quic(_) => "Quic",
            Self::Longhaul(_) => "Longhaul",
        })
    }
}

impl Server {
    /// Starts a server on the current runtime; port 0 selects a free port. `profile` is the link's profile,
    /// if known; Longhaul derives its buffer sizes from it.
    ///
    /// # Errors
    /// Listening on the address fails, or the kernel does not provide the congestion control.
    pub async fn start(
        system: System,
        listen: SocketAddr,
        profile: Option<LinkProfile>,
    ) -> Result<Self, ServeError> {
        let socket = |source| ServeError::Socket {
            address: listen,
            source,
        };
        if let Some(congestion) = system.kernel_congestion() {
            let listener = tcp::listen(listen, congestion)?;
            let address = listener.local_addr().map_err(socket)?;
            let task = tokio::spawn(tcp::serve(listener));
            return Ok(Self::new(
                system,
                address,
                Credentials::None,
                Counting::Nothing,
                task,
            ));
        }
        if let Some(setting) = system.quic() {
            let rtt = profile.map(|profile| profile.rtt);
            let (endpoint, certificate) = quic::listen(listen, setting, rtt)?;
            let address = endpoint.local_addr().map_err(socket)?;
            let connections = Connections::default();
            let task = tokio::spawn(quic::serve(endpoint, connections.clone()));
            let credentials = Credentials::Certificate(certificate);
            return Ok(Self::new(
                system,
                address,
                credentials,
                Counting::Quic(connections),
                task,
            ));
        }
        let (listener, enrolment) = longhaul::listen(listen, profile).await?;
        let address = listener.local_addr();
        let accepted = Accepted::default();
        let task = tokio::spawn(longhaul::serve(listener, accepted.clone()));
        let credentials = Credentials::Enrolment(enrolment);
        Ok(Self::new(
            system,
            address,
            credentials,
            Counting::Longhaul(accepted),
            task,
        ))
    }

    fn new(
        system: System,
        address: SocketAddr,
        credentials: Credentials,
        counting: Counting,
        task: JoinHandle<()>,
    ) -> Self {
        Self {
            access: Access {
                system,
                address,
                credentials,
                carriers: UsedCarriers::of(system),
            },
            counting,
            task,
        }
    }

    /// Returns the data for clients.
    pub fn access(&self) -> Access {
        self.access.clone()
    }

    /// Returns the sum of the counters of all its connections.
    pub fn counters(&self) -> SenderCounters {
        match &self.counting {
            Counting::Nothing => SenderCounters::default(),
            Counting::Quic(connections) => {
                let connections = connections.lock();
                let paths = || connections.iter().map(|connection| connection.stats().path);
                SenderCounters {
                    retransmitted_bytes: None,
                    lost_packets: Some(paths().map(|path| path.lost_packets).sum()),
                    sent_packets: Some(paths().map(|path| path.sent_packets).sum()),
                    srtt: paths().next_back().map(|path| path.rtt),
                }
            }
            Counting::Longhaul(accepted) => {
                let sessions = accepted.sessions.lock();
                let stats = || sessions.iter().map(longhaul_driver::Session::stats);
                SenderCounters {
                    retransmitted_bytes: Some(stats().map(|stats| stats.retransmitted_bytes).sum()),
                    lost_packets: Some(stats().map(|stats| stats.packets_lost).sum()),
                    sent_packets: Some(stats().map(|stats| stats.packets_sent).sum()),
                    srtt: stats().next_back().map(|stats| stats.srtt),
                }
            }
        }
    }

    /// Returns the times at which a connection detected that no packets arrive, for systems that report it.
    pub fn stalls(&self) -> Vec<Instant> {
        match &self.counting {
            Counting::Longhaul(accepted) => {
                let stalls = accepted.stalls.lock();
                stalls.clone()
            }
            Counting::Nothing | Counting::Quic(_) => Vec::new(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
