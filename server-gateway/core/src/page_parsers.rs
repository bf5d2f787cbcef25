//! Parsers of pages. They run on threads of their own, where the devices take turns, and for a bounded time by page: what a
//! page contains must not delay others.
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use longhaul_origin::{FairShares, Shares};
use longhaul_page::{Discovery, LiteralUrls, Reference};
use longhaul_types::PublicKey;
use parking_lot::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::debug;
use url::Url;

use crate::body_words::BodyWords;

/// Run time of all parsers of a page, its frames and style sheets. Afterwards the page is passed on without being searched. The
/// largest pages take a tenth of it.
const MOST: Duration = Duration::from_secs(2);

/// Threads of the parsers of all pages.
#[derive(Debug)]
pub struct ParserPool {
    slots: Arc<FairShares<PublicKey>>,
    /// Number of pages whose time was over.
    stopped: AtomicU64,
}

impl ParserPool {
    /// Creates as many threads as cores.
    pub fn new(cores: usize) -> Arc<Self> {
        Arc::new(Self {
            slots: FairShares::new(Shares {
                total: cores,
                per_owner: cores,
                reserved: 0,
                // Unbounded: each body has at most one step at a time, and the number of streams is bounded.
                waiting: usize::MAX,
            }),
            stopped: AtomicU64::new(0),
        })
    }

    /// Number of pages that were not searched to the end because their time was over.
    pub fn stopped(&self) -> u64 {
        self.stopped.load(Relaxed)
    }

    /// Returns the parsers of a page of this device.
    pub fn page(self: &Arc<Self>, device: PublicKey) -> PageParsers {
        PageParsers(Arc::new(Page {
            pool: Arc::clone(self),
            device,
            spent: AtomicU64::new(0),
            words: Mutex::default(),
        }))
    }
}

/// The parsers of a page; clones share its time.
#[derive(Clone, Debug)]
pub struct PageParsers(Arc<Page>);

#[derive(Debug)]
struct Page {
    pool: Arc<ParserPool>,
    device: PublicKey,
    /// Run time so far, in nanoseconds.
    spent: AtomicU64,
    /// Words of the page's documents that no cache stores.
    words: Mutex<BodyWords>,
}

impl PageParsers {
    /// Runs a step when the device's turn comes; `None` if the time of the page is over.
    pub async fn run<T: Send + 'static>(&self, step: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if self.is_over() {
            return None;
        }
        let page = Arc::clone(&self.0);
        let slot = page.pool.slots.acquire(page.device).await.ok()?;
        let ran = spawn_blocking(move || {
            let _until_the_end = slot;
            let begun = Instant::now();
            let result = step();
            page.spend(begun.elapsed());
            result
        });
        ran.await.ok()
    }

    /// Removes the words of the documents whose parsers collect them.
    pub fn take_words(&self) -> BodyWords {
        std::mem::take(&mut self.0.words.lock())
    }

    fn is_over(&self) -> bool {
        Duration::from_nanos(self.0.spent.load(Relaxed)) >= MOST
    }
}

impl Page {
    fn spend(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let before = self.spent.fetch_add(time, Relaxed);
        let is_over = |spent| Duration::from_nanos(spent) >= MOST;
        if !is_over(before) && is_over(before.saturating_add(time)) {
            debug!("a page takes too long to search");
            self.pool.stopped.fetch_add(1, Relaxed);
        }
    }
}

/// What a step found.
#[derive(Debug, Default)]
pub struct Found {
    /// The references.
    pub references: Vec<Reference>,
    /// URLs that stand in the document.
    pub literals: Vec<Url>,
}

/// Parser of a document that arrives in chunks.
pub struct DocumentParser {
    parsers: PageParsers,
    state: State,
}

enum State {
    Waiting(Box<Searches>),
    /// The step goes on if nobody waits for it.
    Running(JoinHandle<Option<Step>>),
    /// At the end of the document, or after the time of the page.
    Ended,
}

/// What a step leaves, except at the end of the document, and what it found.
type Step = (Option<Box<Searches>>, Found);

/// Searches of one document.
struct Searches {
    discovery: Discovery,
    literals: Option<LiteralUrls>,
    /// Collects the words of the document.
    words: Option<WordCollector>,
}

/// Collects the words of a document for its page.
struct WordCollector {
    page: Arc<Page>,
    /// The end of the part before.
    rest: Vec<u8>,
}

impl DocumentParser {
    /// Without `literals`, the document is not searched for URLs outside of its markup.
    pub fn new(parsers: PageParsers, discovery: Discovery, literals: Option<LiteralUrls>) -> Self {
        let searches = Searches {
            discovery,
            literals,
            words: None,
        };
        Self {
            parsers,
            state: State::Waiting(Box::new(searches)),
        }
    }

    /// Also collects the words of the document, which no cache stores.
    pub fn collecting_words(mut self) -> Self {
        if let State::Waiting(searches) = &mut self.state {
            searches.words = Some(WordCollector {
                page: Arc::clone(&self.parsers.0),
                rest: Vec::new(),
            });
        }
        self
    }

    /// Parses the next chunk. If the future was dropped, the next call returns what this chunk contains: it must have the
    /// same chunk.
    pub async fn write(&mut self, chunk: &Bytes) -> Found {
        let chunk = chunk.clone();
        self.step(move |searches| searches.write(&chunk)).await
    }

    /// Ends the document, and returns the remaining references. Cancel safe.
    pub async fn end(&mut self) -> Vec<Reference> {
        let ended = self.step(|searches| {
            let references = searches.discovery.finish();
            let literals = Vec::new();
            (None, Found { references, literals })
        });
        ended.await.references
    }

    /// Makes a step, unless one is being made, and returns what it found.
    async fn step(&mut self, step: impl FnOnce(Box<Searches>) -> Step + Send + 'static) -> Found {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Waiting(searches) => {
                let parsers = self.parsers.clone();
                let made = async move {
                    if parsers.is_over() {
                        searches.discovery.stop();
                        return None;
                    }
                    parsers.run(move || step(searches)).await
                };
                self.state = State::Running(tokio::spawn(made));
            }
            other @ (State::Running(_) | State::Ended) => self.state = other,
        }
        let State::Running(running) = &mut self.state else {
            return Found::default();
        };
        let (searches, found) = running.await.ok().flatten().unwrap_or_default();
        self.state = searches.map_or(State::Ended, State::Waiting);
        found
    }
}

impl Searches {
    fn write(mut self: Box<Self>, chunk: &[u8]) -> Step {
        let references = self.discovery.write(chunk);
        let literals = self.literals.as_mut();
        let literals = literals.map_or_else(Vec::new, |literals| literals.write(chunk));
        if let Some(WordCollector { page, rest }) = &mut self.words {
            page.words.lock().add(chunk, rest);
        }
        (Some(self), Found { references, literals })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use longhaul_page::Viewport;

    use super::*;

    fn device(byte: u8) -> PublicKey {
        PublicKey::from_bytes([byte; 32])
    }

    fn parser(parsers: PageParsers) -> DocumentParser {
        let page = Url::parse("http://a.test/").unwrap();
        let discovery = Discovery::new(&page, None, Viewport::default());
        DocumentParser::new(parsers, discovery, Some(LiteralUrls::new(&page)))
    }

    #[tokio::test]
    async fn a_chunk_is_parsed_once_although_its_future_was_dropped() {
        let pool = ParserPool::new(1);
        let mut parser = parser(pool.page(device(1)));
        let chunk = Bytes::from_static(b"<img src=1><script>'http://a.test/2'</script>");
        assert!(parser.write(&chunk).now_or_never().is_none());
        let found = parser.write(&chunk).await;
        assert_eq!((found.references.len(), found.literals.len()), (1, 1));
        let found = parser.write(&Bytes::from_static(b"<img src=3>")).await;
        assert_eq!(found.references.len(), 1);
        assert!(parser.end().await.is_empty());
    }

    #[tokio::test]
    async fn a_page_whose_time_is_over_is_not_searched() {
        let pool = ParserPool::new(1);
        let page = pool.page(device(1));
        let mut slow = parser(page.clone());
        page.0.spend(MOST);
        page.0.spend(MOST);
        let chunk = Bytes::from_static(b"<img src=1>");
        assert!(slow.write(&chunk).await.references.is_empty());
        assert!(slow.end().await.is_empty());
        assert_eq!(pool.stopped(), 1);
        let mut other = parser(pool.page(device(1)));
        assert_eq!(other.write(&chunk).await.references.len(), 1);
    }

    #[tokio::test]
    async fn devices_take_turns() {
        let pool = ParserPool::new(1);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let first = pool.page(device(1));
        let mut blocking = Box::pin(first.run(move || ended.recv()));
        assert!((&mut blocking).now_or_never().is_none());
        let (order, ran) = std::sync::mpsc::channel();
        let steps = [(1, 1), (1, 2), (2, 3)].map(|(owner, number)| {
            let (page, order) = (pool.page(device(owner)), order.clone());
            Box::pin(async move { page.run(move || order.send(number)).await })
        });
        let mut steps = futures_util::future::join_all(steps);
        assert!((&mut steps).now_or_never().is_none());
        drop((end, order));
        steps.await;
        assert_eq!(ran.iter().collect::<Vec<_>>(), [1, 3, 2]);
    }
}
