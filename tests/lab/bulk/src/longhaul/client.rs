//! Client of Longhaul's session.
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Instant};

use parking_lot::Mutex;

use bytes::Bytes;
use longhaul_driver::{
    Alternatives, CarrierPlan, DialConfig, EarlyData, End, FirstStream, LinkState, OpenOptions, Priority,
    RecvStream, SendStream, Session, StreamError, TransportConfig, dial_over,
};
use longhaul_types::LinkProfile;
use tokio::{
    sync::oneshot,
    task::{JoinHandle, JoinSet},
};

use super::{Enrolment, Stalls, UsedCarriers, note_stalls};
use crate::{
    error::TransferError,
    exchange::{Checker, Length, REQUEST, Request, TAG},
    progress::Progress,
};

/// A response that has begun, before verification.
struct Begun {
    stream: RecvStream,
    first: Bytes,
    at: Instant,
}

/// Fetches that wait for their response, by tag. Bounded by the concurrent fetches.
type Waiting = Arc<Mutex<BTreeMap<u64, oneshot::Sender<Begun>>>>;

/// The client's session.
pub(crate) struct LonghaulClient {
    dial: DialConfig,
    plan: CarrierPlan,
    open: tokio::sync::Mutex<Option<Session>>,
    waiting: Waiting,
    pub(crate) stalls: Stalls,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl LonghaulClient {
    /// Creates a client with a token and without a session.
    pub(crate) fn prepare(
        server: SocketAddr,
        enrolment: &Enrolment,
        number: usize,
        profile: Option<LinkProfile>,
        carriers: UsedCarriers,
    ) -> Result<Self, TransferError> {
        let device = enrolment
            .devices
            .get(number)
            .ok_or(TransferError::UnknownClient {
                asked: number,
                known: enrolment.devices.len(),
            })?;
        Ok(Self {
            dial: DialConfig {
                gateway_key: enrolment.gateway,
                remote: server,
                secret: device.secret.clone(),
                token: Some(device.token),
                profile,
                last_stamp: None,
                transport: TransportConfig::agent(profile),
            },
            plan: carriers.plan(server, enrolment)?,
            open: tokio::sync::Mutex::new(None),
            waiting: Waiting::default(),
            stalls: Stalls::default(),
            tasks: Mutex::default(),
        })
    }

    /// Opens the session and waits for its handshake.
    pub(crate) async fn open(&self) -> Result<(), TransferError> {
        let mut open = self.open.lock().await;
        let (session, _) = self.dial(Vec::new())?;
        self.start_tasks(&session);
        let mut state = session.state();
        let settled = state
            .wait_for(|state| matches!(state, LinkState::Open | LinkState::Closed(_)))
            .await;
        match settled.as_deref() {
            Ok(LinkState::Closed(reason)) => return Err(TransferError::Unanswered(reason.clone())),
            Ok(LinkState::Connecting | LinkState::Open | LinkState::Stalled) => {}
            Err(_) => return Err(TransferError::TimedOut("the handshake")),
        }
        drop(settled);
        *open = Some(session);
        Ok(())
    }

    fn dial(&self, first: Vec<FirstStream>) -> Result<(Session, Vec<SendStream>), TransferError> {
        let plan = self.plan.clone();
        Ok(dial_over(
            self.dial.clone(),
            &Alternatives::default(),
            first,
            plan,
        )?)
    }

    /// Starts the tasks of a session.
    fn start_tasks(&self, session: &Session) {
        let accept = tokio::spawn(accept_responses(session.clone(), self.waiting.clone()));
        let stalls = tokio::spawn(note_stalls(session.clone(), self.stalls.clone()));
        let mut tasks = self.tasks.lock();
        tasks.push(accept);
        tasks.push(stalls);
    }

    pub(crate) async fn fetch(&self, request: Request, progress: &Progress) -> Result<(), TransferError> {
        let (sender, begun) = oneshot::channel();
        self.waiting.lock().insert(request.tag, sender);
        let (session, _sending) = self.ask(request).await?;
        // As an agent does for each request.
        let _awaited = session.expect_data();
        let begun = tokio::select! {
            begun = begun => begun,
            () = progress.stopped() => return Ok(()),
        };
        let Ok(begun) = begun else {
            return Err(TransferError::Unanswered(session.closed().await));
        };
        receive(begun, request, progress).await
    }

    /// Sends the request, in the first packet of a new session if there is none.
    async fn ask(&self, request: Request) -> Result<(Session, SendStream), TransferError> {
        let options = OpenOptions {
            class: Priority::new(request.order.class),
            early: EarlyData::Allowed,
            total: Some(REQUEST as u64),
        };
        let mut open = self.open.lock().await;
        if let Some(session) = &*open {
            let session = session.clone();
            drop(open);
            let stream = session.open(options, request.encode(), End::Finish).await?;
            return Ok((session, stream));
        }
        let first = FirstStream {
            options,
            bytes: request.encode(),
            end: End::Finish,
        };
        let (session, streams) = self.dial(vec![first])?;
        self.start_tasks(&session);
        *open = Some(session.clone());
        let Some(stream) = streams.into_iter().next() else {
            return Err(StreamError::Finished.into());
        };
        Ok((session, stream))
    }

    pub(crate) async fn close(&self) {
        if let Some(session) = self.open.lock().await.take() {
            session.close(0, "done");
            let _reason = session.closed().await;
        }
    }
}

impl Drop for LonghaulClient {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut();
        for task in tasks.drain(..) {
            task.abort();
        }
    }
}

async fn accept_responses(session: Session, waiting: Waiting) {
    let mut tasks = JoinSet::new();
    while let Ok(stream) = session.accept().await {
        tasks.spawn(begin(stream, waiting.clone()));
        while tasks.try_join_next().is_some() {}
    }
    // Waiting fetches detect the end by the closed channel.
    waiting.lock().clear();
}

/// Reads the tag of a response and passes it to its fetch.
async fn begin(mut stream: RecvStream, waiting: Waiting) {
    let mut first = Vec::new();
    let mut at = None;
    while first.len() < TAG {
        let Ok(Some(bytes)) = stream.read().await else {
            return;
        };
        at.get_or_insert_with(Instant::now);
        first.extend_from_slice(&bytes);
    }
    let (Some(tag), Some(at)) = (first.first_chunk::<TAG>(), at) else {
        return;
    };
    let tag = u64::from_be_bytes(*tag);
    let fetch = waiting.lock().remove(&tag);
    if let Some(fetch) = fetch {
        let first = first.into();
        // A fetch that was stopped drops the stream, which stops it.
        let _stopped = fetch.send(Begun { stream, first, at });
    }
}

async fn receive(begun: Begun, request: Request, progress: &Progress) -> Result<(), TransferError> {
    let Begun {
        mut stream,
        first,
        at,
    } = begun;
    let mut checker = Checker::new(request.tag);
    checker.take(&first)?;
    progress.arrive(at, checker.received());
    loop {
        let bytes = tokio::select! {
            bytes = stream.read() => bytes?,
            () = progress.stopped() => {
                stream.stop(0);
                return Ok(());
            }
        };
        let Some(bytes) = bytes else { break };
        checker.take(&bytes)?;
        progress.arrive(Instant::now(), checker.received());
    }
    match request.order.length {
        Length::Bytes(asked) if asked != checker.received() => Err(TransferError::Short {
            received: checker.received(),
            asked,
        }),
        Length::Bytes(_) | Length::Endless => Ok(()),
    }
}
