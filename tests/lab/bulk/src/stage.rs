//! A world with a server at its gateway and with clients, and the common clock of its measurements.
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use longhaul_netem::{Capacity, LinkDefinition};
use longhaul_types::{ByteCount, LinkProfile, Timestamp};
use longhaul_world::{EmulatedLink, GATEWAY_ON_HOP, World};
use tokio::task::JoinHandle;

use crate::{
    client::Client,
    error::{ServeError, TransferError},
    exchange::Order,
    experiment::WrongRates,
    kernel::{TcpSegments, tcp_segments, thread_cpu},
    measured::Cpu,
    progress::Progress,
    server::{Access, Server},
    system::System,
};

/// Time limit for a download to stop.
const STOPPING: Duration = Duration::from_secs(10);

/// A server in the world's gateway with its access data.
pub(crate) struct Stage<'a> {
    pub(crate) world: &'a World,
    pub(crate) link: &'a LinkDefinition,
    pub(crate) system: System,
    pub(crate) server: Server,
    /// Link profile for clients.
    pub(crate) profile: Option<LinkProfile>,
    /// The same time on the clock of this process and on the world's.
    epoch: (Instant, Timestamp),
}

/// A download in progress.
pub(crate) struct Download {
    pub(crate) progress: Progress,
    task: JoinHandle<Result<(), TransferError>>,
}

impl<'a> Stage<'a> {
    pub(crate) async fn set(
        world: &'a World,
        link: &'a LinkDefinition,
        system: System,
        known: Known,
    ) -> Result<Self, ServeError> {
        let Known { profile, wrong_rates } = known;
        let server = serve(world, system, profile).await?;
        Ok(Self {
            world,
            link,
            system,
            server,
            profile: match (profile, wrong_rates) {
                (Some(profile), Some(wrong_rates)) => Some(wrong_rates.of(profile)),
                (profile, _) => profile,
            },
            epoch: (Instant::now(), world.hop().now()),
        })
    }

    pub(crate) fn hop(&self) -> &EmulatedLink {
        self.world.hop()
    }

    /// Creates a client of the stage's server, without a connection.
    pub(crate) async fn client(&self, number: usize) -> Result<Client, TransferError> {
        self.client_of(self.server.access(), number).await
    }

    /// Creates a client of any server in the gateway. Systems that use a link profile get this link's
    /// profile, as the agent does, or the experiment's wrong one.
    pub(crate) async fn client_of(&self, access: Access, number: usize) -> Result<Client, TransferError> {
        self.client_knowing(access, number, self.profile).await
    }

    /// Creates a client with a profile or without one.
    pub(crate) async fn client_knowing(
        &self,
        access: Access,
        number: usize,
        profile: Option<LinkProfile>,
    ) -> Result<Client, TransferError> {
        let prepare = move || async move { Client::prepare(&access, number, profile).await };
        self.world.client().run(prepare).await
    }

    /// Creates a client with an open connection.
    pub(crate) async fn open_client(&self, number: usize) -> Result<Client, TransferError> {
        let client = self.client(number).await?;
        self.open(&client).await?;
        Ok(client)
    }

    pub(crate) async fn open(&self, client: &Client) -> Result<(), TransferError> {
        let client = client.clone();
        let open = move || async move { client.open().await };
        self.world.client().run(open).await
    }

    /// Starts a download in the client's namespace.
    pub(crate) fn start(&self, client: &Client, order: Order) -> Download {
        let progress = Progress::new();
        let namespace = self.world.client().clone();
        let (client, seen) = (client.clone(), progress.clone());
        let task = tokio::spawn(async move {
            let fetch = move || async move { client.fetch(order, &seen).await };
            namespace.run(fetch).await
        });
        Download { progress, task }
    }

    /// Fetches with the time limit `limit`.
    pub(crate) async fn fetch(
        &self,
        client: &Client,
        order: Order,
        limit: Duration,
    ) -> Result<Progress, TransferError> {
        let mut download = self.start(client, order);
        let outcome = tokio::time::timeout(limit, &mut download.task).await;
        let joined = outcome.map_err(|_| TransferError::TimedOut("a fetch"))?;
        joined.map_err(|_| TransferError::TimedOut("an aborted fetch"))??;
        Ok(download.progress.clone())
    }

    pub(crate) async fn close(&self, client: &Client) {
        let client = client.clone();
        let close = move || async move { client.close().await };
        // A peer that no longer answers is ignored.
        let _gone = tokio::time::timeout(STOPPING, self.world.client().run(close)).await;
    }

    /// Converts into the world's time.
    pub(crate) fn stamp(&self, at: Instant) -> Timestamp {
        let (instant, stamp) = self.epoch;
        if at >= instant {
            return stamp + (at - instant);
        }
        let before = u64::try_from((instant - at).as_nanos()).unwrap_or(u64::MAX);
        Timestamp::from_nanos(stamp.as_nanos().saturating_sub(before))
    }

    /// Converts from the world's time, which must not be before the creation of the stage.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        self.epoch.0 + (at - self.epoch.1)
    }

    /// Waits until a time of the world.
    pub(crate) async fn until(&self, at: Timestamp) {
        tokio::time::sleep_until(self.instant(at).into()).await;
    }

    /// Returns the bytes that the link can carry towards the client between two times.
    pub(crate) fn capacity(&self, from: Timestamp, to: Timestamp) -> f64 {
        bytes_f64(match &self.link.hop.down.capacity {
            Capacity::Rate(rate) => *rate * (to - from),
            Capacity::Trace(trace) => trace.capacity_between(from, to),
        })
    }

    /// Returns the processor time of client and server so far.
    pub(crate) fn cpu(&self) -> Option<Cpu> {
        let client = self.world.client().run_blocking(thread_cpu)?;
        let server = self.world.gateway().run_blocking(thread_cpu)?;
        Some(Cpu {
            client_s: client.as_secs_f64(),
            server_s: server.as_secs_f64(),
        })
    }

    /// Returns the sender's counters of sent and retransmitted data: packets, or bytes if only these are
    /// counted.
    pub(crate) fn sent_again(&self) -> Option<SentAgain> {
        let counters = self.server.counters();
        if self.system.kernel_congestion().is_some() {
            let TcpSegments { sent, retransmitted } = self.world.gateway().run_blocking(tcp_segments)?;
            return Some(SentAgain {
                sent,
                again: retransmitted,
            });
        }
        match counters.retransmitted_bytes {
            Some(again) => Some(SentAgain {
                sent: self.hop().snapshot().down.sent.bytes.bytes(),
                again,
            }),
            None => Some(SentAgain {
                sent: counters.sent_packets?,
                again: counters.lost_packets?,
            }),
        }
    }
}

/// Sent and retransmitted data, in one unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentAgain {
    sent: u64,
    again: u64,
}

impl SentAgain {
    /// Returns the retransmitted share since `before`.
    pub(crate) fn share_since(self, before: Self) -> f64 {
        share(
            self.again.saturating_sub(before.again),
            self.sent.saturating_sub(before.sent),
        )
    }
}

/// Available information about the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// The profile that a user of the link would configure in the agent.
    pub(crate) profile: Option<LinkProfile>,
    /// Wrong rates instead of it.
    pub(crate) wrong_rates: Option<WrongRates>,
}

/// Starts a server in the world's gateway.
pub(crate) async fn serve(
    world: &World,
    system: System,
    profile: Option<LinkProfile>,
) -> Result<Server, ServeError> {
    let listen: SocketAddr = (GATEWAY_ON_HOP, 0).into();
    let start = move || async move { Server::start(system, listen, profile).await };
    world.gateway().run(start).await
}

impl Download {
    /// Stops the download; an error is that of the download.
    pub(crate) async fn stop(mut self) -> Result<(), TransferError> {
        self.progress.stop();
        let stopped = tokio::time::timeout(STOPPING, &mut self.task).await;
        let joined = stopped.map_err(|_| TransferError::TimedOut("stopping a download"))?;
        joined.map_err(|_| TransferError::TimedOut("an aborted download"))?
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.progress.stop();
        self.task.abort();
    }
}

/// Returns a share of a whole, zero if the whole is zero.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    float(part) / float(whole)
}

/// Converts an amount into a figure: 53 bits are sufficient.
#[expect(clippy::cast_precision_loss, reason = "amounts stay far below 2^53 bytes")]
pub(crate) fn float(amount: u64) -> f64 {
    amount as f64
}

pub(crate) fn bytes_f64(amount: ByteCount) -> f64 {
    float(amount.bytes())
}
