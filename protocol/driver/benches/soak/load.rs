//! Exchanges like those of a browser: many small and a few large ones at a time, some cancelled half-way.
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use bytes::Bytes;
use longhaul_driver::{EarlyData, End, OpenOptions, Priority, RecvStream, Session, StreamError};
use tokio::{sync::oneshot, task::JoinSet};

use crate::random::{Random, body};

/// Number of concurrent exchanges, as of a browser on a page.
const AT_ONCE: usize = 24;
/// Length of the head of a request or response: key, length of the request's body, length of the response's
/// body.
const HEAD: usize = 24;
/// Number of exchanges in a thousand that are cancelled half-way.
const GIVEN_UP: u64 = 40;
/// Maximum size of a user's write.
const PIECE: usize = 20_000;

/// Counters of the exchanges so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) finished: u64,
    given_up: u64,
    interrupted: u64,
    sessions_lost: u64,
    bytes: u64,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} exchanges finished ({} MB), {} given up, {} interrupted by {} ends of sessions",
            self.finished,
            self.bytes / 1_000_000,
            self.given_up,
            self.interrupted,
            self.sessions_lost
        )
    }
}

/// Agent side of the load.
#[derive(Debug)]
pub(crate) struct Load {
    random: Mutex<Random>,
    finished: AtomicU64,
    given_up: AtomicU64,
    interrupted: AtomicU64,
    sessions_lost: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Exchange {
    key: u64,
    request: usize,
    response: usize,
    class: u8,
    give_up: bool,
}

/// Channels for expected responses.
type Waiting = Arc<Mutex<BTreeMap<u64, oneshot::Sender<(RecvStream, Vec<u8>)>>>>;

impl Load {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            random: Mutex::new(Random::new(seed)),
            finished: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            interrupted: AtomicU64::new(0),
            sessions_lost: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        Progress {
            finished: self.finished.load(Ordering::Relaxed),
            given_up: self.given_up.load(Ordering::Relaxed),
            interrupted: self.interrupted.load(Ordering::Relaxed),
            sessions_lost: self.sessions_lost.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn session_lost(&self) {
        self.sessions_lost.fetch_add(1, Ordering::Relaxed);
    }

    fn draw(&self) -> Exchange {
        let mut random = self.random.lock();
        let large = random.happens(50);
        let size = if large {
            random.scaled(64 * 1024, 4)
        } else {
            random.scaled(200, 8)
        };
        let upload = random.happens(30);
        let request = if upload {
            random.scaled(4000, 5)
        } else {
            random.between(100, 1200)
        };
        Exchange {
            key: random.next(),
            request: usize::try_from(request).unwrap(),
            response: usize::try_from(size).unwrap(),
            class: u8::try_from(random.between(1, 7)).unwrap(),
            give_up: random.happens(GIVEN_UP),
        }
    }

    /// Sends requests until the session ends.
    pub(crate) async fn run(self: &Arc<Self>, session: Session) {
        let waiting = Waiting::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(sort(session.clone(), Arc::clone(&waiting)));
        for _ in 0..AT_ONCE {
            let (load, session, waiting) = (Arc::clone(self), session.clone(), Arc::clone(&waiting));
            tasks.spawn(async move {
                loop {
                    let exchange = load.draw();
                    if load.exchange(&session, &waiting, exchange).await.is_none() {
                        load.interrupted.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                }
            });
        }
        session.closed().await;
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
            // No response of this session will arrive any more.
            waiting.lock().clear();
        }
    }

    /// One exchange; `None` if the session ended before its end.
    async fn exchange(&self, session: &Session, waiting: &Waiting, exchange: Exchange) -> Option<()> {
        let (answer, answered) = oneshot::channel();
        waiting.lock().insert(exchange.key, answer);
        send(session, exchange, exchange.key, exchange.request).await?;
        let (mut stream, mut bytes) = answered.await.ok()?;
        if exchange.give_up && exchange.response > PIECE {
            stream.stop(5);
            self.given_up.fetch_add(1, Ordering::Relaxed);
            return Some(());
        }
        while let Some(chunk) = read(&mut stream).await? {
            bytes.extend_from_slice(&chunk);
        }
        let expected = body(!exchange.key, exchange.response);
        assert!(
            bytes[HEAD..] == expected,
            "a response changed on the way: {exchange:?}"
        );
        self.finished.fetch_add(1, Ordering::Relaxed);
        let all = u64::try_from(exchange.response + exchange.request).unwrap();
        self.bytes.fetch_add(all, Ordering::Relaxed);
        Some(())
    }
}

fn head(exchange: Exchange) -> Vec<u8> {
    [exchange.key, exchange.request as u64, exchange.response as u64]
        .into_iter()
        .flat_map(u64::to_be_bytes)
        .collect()
}

/// Sends head and body; `None` if the session or the stream ended.
async fn send(session: &Session, exchange: Exchange, key: u64, len: usize) -> Option<()> {
    let options = OpenOptions {
        class: Priority::new(exchange.class),
        early: EarlyData::Forbidden,
        total: Some((HEAD + len) as u64),
    };
    let mut stream = session
        .open(options, head(exchange).into(), End::Open)
        .await
        .ok()?;
    let bytes = Bytes::from(body(key, len));
    for start in (0..len).step_by(PIECE) {
        stream
            .write(bytes.slice(start..len.min(start + PIECE)))
            .await
            .ok()?;
    }
    stream.finish().await.ok()
}

/// Returns the next bytes; `None` if the session ended. CANCEL of the peer is an error, because only readers
/// end streams here.
async fn read(stream: &mut RecvStream) -> Option<Option<Bytes>> {
    match stream.read().await {
        Ok(chunk) => Some(chunk),
        Err(StreamError::SessionLost(_)) => None,
        // A restarted peer drops its streams before it reports the reason.
        Err(StreamError::Cancelled(longhaul_driver::ERROR_ABANDONED)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Reads the head of a stream; returns it with the bytes after it.
async fn read_head(stream: &mut RecvStream) -> Option<(Exchange, Vec<u8>)> {
    let mut bytes = Vec::new();
    while bytes.len() < HEAD {
        bytes.extend_from_slice(&read(stream).await?.unwrap());
    }
    let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    let exchange = Exchange {
        key: number(0),
        request: usize::try_from(number(8)).unwrap(),
        response: usize::try_from(number(16)).unwrap(),
        class: 3,
        give_up: false,
    };
    Some((exchange, bytes))
}

/// Accepts the responses and passes each to its requester.
async fn sort(session: Session, waiting: Waiting) {
    let mut heads = JoinSet::new();
    while let Ok(mut stream) = session.accept().await {
        let waiting = Arc::clone(&waiting);
        heads.spawn(async move {
            if let Some((exchange, bytes)) = read_head(&mut stream).await {
                let answer = waiting.lock().remove(&exchange.key);
                // The requester may be gone with its session.
                if let Some(answer) = answer {
                    let _gone = answer.send((stream, bytes));
                }
            }
        });
        while let Some(ended) = heads.try_join_next() {
            ended.unwrap();
        }
    }
}

/// Gateway side: answers each request of a session.
pub(crate) async fn answer(session: Session) {
    let mut tasks = JoinSet::new();
    while let Ok(stream) = session.accept().await {
        tasks.spawn(respond(session.clone(), stream));
        while let Some(ended) = tasks.try_join_next() {
            ended.unwrap();
        }
    }
}

async fn respond(session: Session, mut stream: RecvStream) -> Option<()> {
    let (exchange, mut bytes) = read_head(&mut stream).await?;
    while let Some(chunk) = read(&mut stream).await? {
        bytes.extend_from_slice(&chunk);
    }
    let expected = body(exchange.key, exchange.request);
    assert!(
        bytes[HEAD..] == expected,
        "a request changed on the way: {exchange:?}"
    );
    send(&session, exchange, !exchange.key, exchange.response).await
}
