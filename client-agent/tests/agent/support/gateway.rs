//! A gateway for tests; the path of the URL selects its answer.
pub(crate) mod answers;
mod link;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use parking_lot::Mutex;

use longhaul_driver::{ListenConfig, Listener, TransportConfig, listen};
use longhaul_protocol::{crypto::EpochKeys, endpoint::DeviceStatus};
use longhaul_session::{Fetch, HeaderField, HeaderSets, Message, MirrorState, Resume};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
};

pub(crate) use self::link::Link;
use self::link::serve;
use super::{device, gateway_secret};

pub(crate) fn epoch() -> EpochKeys {
    EpochKeys {
        epoch: 1,
        key: [5; 32],
    }
}

/// A fetch as received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) session: u64,
    pub(crate) url: String,
    pub(crate) fields: Vec<HeaderField>,
    pub(crate) size: usize,
    pub(crate) early: bool,
    pub(crate) resume: Option<Resume>,
    pub(crate) body: Vec<u8>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    /// Faults that have occurred; each occurs once per URL.
    done: Mutex<BTreeSet<String>>,
    sessions: AtomicU64,
    /// Triggers a fault that waits for the test.
    release: Notify,
    /// Set if the test itself answers.
    script: Option<Script>,
}

/// Channels to a test that itself answers.
struct Script {
    fetches: mpsc::UnboundedSender<BrowserRequest>,
    controls: mpsc::UnboundedSender<Message>,
    mirror: MirrorState,
}

/// A fetch that the test answers.
pub(crate) struct BrowserRequest {
    pub(crate) fetch: Fetch,
    /// The request's fields.
    pub(crate) fields: Vec<HeaderField>,
    pub(crate) link: Arc<Link>,
}

pub(crate) struct TestGateway {
    address: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl TestGateway {
    pub(crate) fn start() -> Self {
        Self::with(Shared::default())
    }

    /// Returns a gateway whose fetches and control messages the test receives and answers.
    pub(crate) fn scripted(
        mirror: MirrorState,
    ) -> (
        Self,
        mpsc::UnboundedReceiver<BrowserRequest>,
        mpsc::UnboundedReceiver<Message>,
    ) {
        let (fetches, asked) = mpsc::unbounded_channel();
        let (controls, told) = mpsc::unbounded_channel();
        let script = Script {
            fetches,
            controls,
            mirror,
        };
        let gateway = Self::with(Shared {
            script: Some(script),
            ..Shared::default()
        });
        (gateway, asked, told)
    }

    fn with(shared: Shared) -> Self {
        let listener = listen(listen_config("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().to_string();
        let shared = Arc::new(shared);
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self {
            address,
            shared,
            task,
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    /// Triggers the fault of the response in progress.
    pub(crate) fn release(&self) {
        self.shared.release.notify_one();
    }

    /// The fetches of a URL, in the order of their arrival.
    pub(crate) fn seen(&self, url: &str) -> Vec<Seen> {
        self.shared
            .seen
            .lock()
            .iter()
            .filter(|seen| seen.url == url)
            .cloned()
            .collect()
    }
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn listen_config(address: &str) -> ListenConfig {
    ListenConfig {
        listen: address.parse().unwrap(),
        also: Vec::new(),
        secret: gateway_secret(),
        epoch: epoch(),
        reset_secret: [6; 32],
        transport: TransportConfig::default(),
        max_sessions: 16,
        devices: BTreeMap::from([(device().public(), DeviceStatus::Admitted)]),
    }
}

async fn accept(mut listener: Listener, shared: Arc<Shared>) {
    while let Some(incoming) = listener.accept().await {
        let number = shared.sessions.fetch_add(1, SeqCst);
        let link = Arc::new(Link {
            session: incoming.session,
            number,
            shared: Arc::clone(&shared),
            requests: Mutex::new(HeaderSets::new()),
            responses: Mutex::new(HeaderSets::new()),
        });
        tokio::spawn(serve(link));
    }
}
