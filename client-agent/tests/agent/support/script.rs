//! A gateway that sends exactly the messages that a test writes.
pub(crate) mod answers;

use http::HeaderMap;
use longhaul_agent::gateway::GatewayState;
use longhaul_http::vary;
use longhaul_session::{
    Entry, EntryBody, EntryHead, EntryId, HeaderField, Message, MirrorState, Record, Scope, ShortHash,
};
use longhaul_types::ContentHash;
use longhaul_udp_relay::UdpRelay;
use tokio::{sync::mpsc::UnboundedReceiver, time::timeout};

use self::answers::ManifestWriter;
use super::{PATIENCE, TestAgent, TestGateway, gateway::BrowserRequest};

/// The page of most tests.
pub(crate) const PAGE: &str = "http://site.test/page";
/// Fields that browsers send for pages, and for the objects of pages.
pub(crate) const AS_PAGE: (&str, &str) = ("upgrade-insecure-requests", "1");
pub(crate) const OF_PAGE: (&str, &str) = ("referer", PAGE);
pub(crate) const FRESH: (&str, &str) = ("cache-control", "max-age=3600");

/// An agent, and a gateway controlled by the test.
pub(crate) struct World {
    pub(crate) agent: TestAgent,
    fetches: UnboundedReceiver<BrowserRequest>,
    controls: UnboundedReceiver<Message>,
    pub(crate) gateway: TestGateway,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(tempfile::tempdir().unwrap(), MirrorState::Agreed, |_| {}).await
    }

    pub(crate) async fn with(
        dir: tempfile::TempDir,
        mirror: MirrorState,
        change: impl FnOnce(&mut longhaul_agent::config::Config),
    ) -> Self {
        let world = Self::starting(dir, mirror, change).await;
        world.agent.reach(GatewayState::Open).await;
        world
    }

    /// Starts an agent and a gateway; the handshake is still in progress.
    pub(crate) async fn starting(
        dir: tempfile::TempDir,
        mirror: MirrorState,
        change: impl FnOnce(&mut longhaul_agent::config::Config),
    ) -> Self {
        let (gateway, fetches, controls) = TestGateway::scripted(mirror);
        let agent = TestAgent::in_dir(dir, &gateway.address(), change).await;
        Self {
            agent,
            fetches,
            controls,
            gateway,
        }
    }

    /// Starts a session behind a hop that can be cut.
    pub(crate) async fn behind_hop(
        mirror: MirrorState,
        change: impl FnOnce(&mut longhaul_agent::config::Config),
    ) -> (Self, UdpRelay) {
        let (gateway, fetches, controls) = TestGateway::scripted(mirror);
        let hop = UdpRelay::start(gateway.address()).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let agent = TestAgent::in_dir(dir, &hop.address().to_string(), change).await;
        agent.reach(GatewayState::Open).await;
        let world = Self {
            agent,
            fetches,
            controls,
            gateway,
        };
        (world, hop)
    }

    /// Applies changed settings to the running agent.
    pub(crate) fn reload(&self, change: impl FnOnce(&mut longhaul_agent::config::Config)) {
        self.agent.reload(&self.gateway.address(), change);
    }

    /// Returns the next fetch.
    pub(crate) async fn fetch(&mut self) -> BrowserRequest {
        timeout(PATIENCE, self.fetches.recv())
            .await
            .expect("no fetch arrived")
            .unwrap()
    }

    /// Returns the next control message that `wanted` accepts; skips others.
    pub(crate) async fn control<T>(&mut self, wanted: impl Fn(Message) -> Option<T>) -> T {
        loop {
            let message = timeout(PATIENCE, self.controls.recv())
                .await
                .expect("no message arrived")
                .unwrap();
            if let Some(found) = wanted(message) {
                return found;
            }
        }
    }

    /// Returns the control messages received so far.
    pub(crate) fn controls(&mut self) -> Vec<Message> {
        std::iter::from_fn(|| self.controls.try_recv().ok()).collect()
    }

    pub(crate) fn no_fetch(&mut self) {
        if let Ok(asked) = self.fetches.try_recv() {
            panic!("unexpected fetch of {}", asked.fetch.url);
        }
    }

    /// Loads a page whose manifest has these entries; everything except the pushes is delivered to the
    /// browser.
    pub(crate) async fn page(&mut self, entries: &[&str]) -> (BrowserRequest, ManifestWriter) {
        self.page_with(&[AS_PAGE], entries).await
    }

    pub(crate) async fn page_with(
        &mut self,
        request: &[(&str, &str)],
        entries: &[&str],
    ) -> (BrowserRequest, ManifestWriter) {
        let before = self.agent.status().announced;
        let page = self.agent.begin(PAGE, request);
        let asked = self.fetch().await;
        let mut manifest = asked.manifest(None).await;
        for url in entries {
            manifest.record(entry(url)).await;
        }
        asked
            .answer(200, &[("content-type", "text/html")], b"<html>")
            .await;
        assert_eq!(page.await.unwrap().text(), "<html>");
        let count = before + entries.len() as u64;
        self.agent
            .until("the entries", |status| status.announced == count)
            .await;
        (asked, manifest)
    }
}

pub(crate) fn entry(url: &str) -> Record {
    Record::Entry(Entry {
        url: url.to_owned(),
        destination: 5,
    })
}

pub(crate) fn document(url: &str) -> Record {
    Record::Entry(Entry {
        url: url.to_owned(),
        destination: 0,
    })
}

fn set(fields: &[(&str, &str)]) -> Vec<HeaderField> {
    fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
        .collect()
}

/// `RequestShape` of a page's request to its own origin over http: only the relation is known.
const OF_OWN_ORIGIN: u16 = 60;
/// `RequestShape` of a page's request to another site.
pub(crate) const OF_OTHER_SITE: u16 = 180;
/// `RequestShape` of a document with unknown requester.
pub(crate) const OF_NOBODY: u16 = 0;

/// Returns the head of an entry that any request of the page to its own origin may use.
pub(crate) fn reusable(entry: u32, fields: &[(&str, &str)], body: EntryBody) -> EntryHead {
    EntryHead {
        entry: EntryId::new(entry),
        status: 200,
        scope: Scope::Reusable,
        // Requests of these tests have no `Accept-Encoding`.
        vary: vary::key(&HeaderMap::new(), &HeaderMap::new()),
        shape: OF_OWN_ORIGIN,
        cookie: None,
        body,
        fields: set(fields),
    }
}

/// Returns the head for requests of another shape.
pub(crate) fn shaped(shape: u16, head: EntryHead) -> EntryHead {
    EntryHead { shape, ..head }
}

pub(crate) fn pushed() -> EntryBody {
    EntryBody::Pushed { length: None }
}

/// Returns the short hash by which a base is named.
pub(crate) fn short(body: &[u8]) -> ShortHash {
    ShortHash::of(&ContentHash::of(body))
}
