//! A gateway for tests; the path of the URL selects its answer.
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use parking_lot::Mutex;

use bytes::Bytes;
use longhaul_codec::{BodyDecoder, BodyEncoder, BodyEvent, BodyLimits, Coder, Coding};
use longhaul_driver::{
    EarlyData, End, ListenConfig, Listener, OpenOptions, Priority, RecvStream, Session, TransportConfig,
    listen,
};
use longhaul_protocol::{crypto::EpochKeys, endpoint::DeviceStatus};
use longhaul_session::{
    Body, BodyCoding, BodyPlace, Failed, FailureReason, Fetch, FetchId, Head, HeaderField, HeaderSet,
    HeaderSets, Message, MessageReader, MirrorState, ReadEvent, Resume, TunnelAccept, TunnelFailed,
    VersionRange, Welcome, decode_header_set, decode_url, encode, encode_header_set,
};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
};

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

pub(crate) struct Link {
    pub(crate) session: Session,
    number: u64,
    shared: Arc<Shared>,
    requests: Mutex<HeaderSets>,
    responses: Mutex<HeaderSets>,
}

async fn serve(link: Arc<Link>) {
    let welcome = Message::Welcome(Welcome {
        mirror: link
            .shared
            .script
            .as_ref()
            .map_or(MirrorState::Agreed, |script| script.mirror),
        version: Some(1),
        versions: VersionRange::OURS,
        software: "test-gateway".to_owned(),
    });
    let _control = link.open(&[welcome], &[], End::Open).await;
    while let Ok(stream) = link.session.accept().await {
        tokio::spawn(Arc::clone(&link).stream(stream));
    }
}

/// Returns compressible text of `length` bytes.
pub(crate) fn text(length: usize) -> Vec<u8> {
    (0u32..)
        .flat_map(|line| format!("line {line} of the page\n").into_bytes())
        .take(length)
        .collect()
}

/// Returns incompressible bytes.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

impl Link {
    pub(crate) async fn open(
        &self,
        messages: &[Message],
        raw: &[u8],
        end: End,
    ) -> Option<longhaul_driver::SendStream> {
        let mut wire = Vec::new();
        for message in messages {
            encode(message, &mut wire).unwrap();
        }
        wire.extend_from_slice(raw);
        let options = OpenOptions {
            class: Priority::new(1),
            early: EarlyData::Allowed,
            total: None,
        };
        self.session.open(options, Bytes::from(wire), end).await.ok()
    }

    async fn stream(self: Arc<Self>, mut stream: RecvStream) {
        let mut reader = MessageReader::new();
        while let Some(message) = next(&mut reader, &mut stream).await {
            match message {
                Message::Hello(_)
                | Message::Cancel(_)
                | Message::Want(_)
                | Message::Ask(_)
                | Message::Used(_)
                | Message::Evicted(_)
                | Message::Holding(_)
                | Message::Preferences(_)
                | Message::Dictionaries(_)
                | Message::AcceleratedHosts(_)
                | Message::Forget(_)
                | Message::NewKey(_) => {
                    if let Some(script) = &self.shared.script {
                        let _ended = script.controls.send(message);
                    }
                }
                Message::Fetch(fetch) => return self.fetch(fetch, reader, stream).await,
                Message::TunnelOpen(open) => {
                    return self.tunnel(open.id, &open.host, reader, stream).await;
                }
                Message::Manifest(_)
                | Message::Push(_)
                | Message::Promised(_)
                | Message::Welcome(_)
                | Message::Announcement(_)
                | Message::Head(_)
                | Message::Body(_)
                | Message::Failed(_)
                | Message::TunnelAccept(_)
                | Message::TunnelFailed(_)
                | Message::Notice(_)
                | Message::Forgotten(_)
                | Message::KeyWanted(_)
                | Message::OriginReport(_) => panic!("an agent sent {message:?}"),
            }
        }
    }

    async fn fetch(self: Arc<Self>, mut fetch: Fetch, mut reader: MessageReader, mut stream: RecvStream) {
        let early = stream.was_early();
        let mut wire = Vec::new();
        encode(&Message::Fetch(fetch.clone()), &mut wire).unwrap();
        let fields = {
            let mut known = self.requests.lock();
            let fields = decode_header_set(&fetch.headers, fetch.id, &known).unwrap();
            fetch.url = decode_url(fetch.url_shared, &fetch.url, &fetch.headers, fetch.id, &known).unwrap();
            fetch.url_shared = 0;
            known.insert_request(fetch.id, fetch.url.clone(), fields.clone());
            fields
        };
        let body = if fetch.has_body {
            self.body(&mut reader, &mut stream).await
        } else {
            Vec::new()
        };
        let seen = Seen {
            session: self.number,
            url: fetch.url.clone(),
            fields,
            size: wire.len(),
            early,
            resume: fetch.resume.clone(),
            body,
        };
        self.shared.seen.lock().push(seen.clone());
        if let Some(script) = &self.shared.script {
            let asked = BrowserRequest {
                fetch,
                link: Arc::clone(&self),
            };
            let _ended = script.fetches.send(asked);
            return;
        }
        self.answer(&fetch, seen).await;
    }

    async fn body(&self, reader: &mut MessageReader, stream: &mut RecvStream) -> Vec<u8> {
        let Some(Message::Body(body)) = next(reader, stream).await else {
            panic!("the message has no body")
        };
        let coding = match body.coding {
            BodyCoding::Identity => Coding::Identity,
            BodyCoding::Zstd => Coding::Zstd,
            BodyCoding::Brotli => Coding::Brotli,
            BodyCoding::Mix => Coding::Mix,
        };
        let mut decoder = BodyDecoder::new(self.key(), coding, BodyLimits::default());
        let mut decoded = Vec::new();
        let mut bytes = reader.take_rest();
        loop {
            let mut wire = bytes.as_ref();
            loop {
                match decoder.next(&mut wire).unwrap() {
                    BodyEvent::Window(window) => decoded.extend_from_slice(&window),
                    BodyEvent::End(_) => return decoded,
                    BodyEvent::NeedInput => break,
                }
            }
            bytes = stream
                .read()
                .await
                .unwrap()
                .expect("the stream ended within a body");
        }
    }

    pub(crate) fn key(&self) -> [u8; 32] {
        blake3::derive_key(
            "longhaul 1 window",
            &self.session.exporter().expect("no exporter secret"),
        )
    }

    fn once(&self, url: &str) -> bool {
        self.shared.done.lock().insert(url.to_owned())
    }

    async fn answer(&self, fetch: &Fetch, seen: Seen) {
        let path = fetch.url.splitn(4, '/').nth(3).unwrap_or_default();
        let etag = &[("etag", "\"v1\"")];
        match path {
            "unknown-base" if self.once(&fetch.url) => self.fail(fetch, FailureReason::UnknownBase).await,
            "too-early" if seen.early => self.fail(fetch, FailureReason::TooEarly).await,
            "425" if seen.early => self.respond(fetch, 425, &[], Vec::new(), 0, Fault::None).await,
            "refused" => self.fail(fetch, FailureReason::AddressRefused).await,
            "no-name" => self.fail(fetch, FailureReason::DnsNotFound).await,
            "die" if self.once(&fetch.url) => self.session.close(1, "test"),
            "die-always" => self.session.close(1, "test"),
            "die-midway" => {
                let fault = if self.once(&fetch.url) {
                    Fault::SessionEnds
                } else {
                    Fault::None
                };
                self.body_from(fetch, etag, noise(300_000), fault).await;
            }
            "bad-window" => {
                let fault = if fetch.resume.is_none() {
                    Fault::BadWindow
                } else {
                    Fault::None
                };
                self.body_from(fetch, etag, noise(300_000), fault).await;
            }
            "bad-window-weak" => {
                self.body_from(fetch, &[("etag", "W/\"v1\"")], noise(300_000), Fault::BadWindow)
                    .await
            }
            "bad-window-changed" => match fetch.resume {
                None => {
                    self.body_from(fetch, etag, noise(300_000), Fault::BadWindow)
                        .await
                }
                Some(_) => self.fail(fetch, FailureReason::Changed).await,
            },
            "bad-whole" => self.body_from(fetch, etag, noise(65_536), Fault::BadWhole).await,
            "cut" => self.body_from(fetch, etag, noise(300_000), Fault::Cut).await,
            "echo" => self.respond(fetch, 200, &[], seen.body, 0, Fault::None).await,
            "empty" => {
                self.respond(fetch, 204, &[("x-empty", "1")], Vec::new(), 0, Fault::None)
                    .await
            }
            "large" => self.body_from(fetch, etag, text(2_000_000), Fault::None).await,
            other => {
                self.body_from(fetch, &[], format!("this is {other}").into_bytes(), Fault::None)
                    .await
            }
        }
    }

    async fn fail(&self, fetch: &Fetch, reason: FailureReason) {
        let failed = Failed {
            fetch: fetch.id,
            reason,
            detail: "<b>as told by the test</b>".to_owned(),
        };
        self.open(&[Message::Failed(failed)], &[], End::Finish).await;
    }

    async fn body_from(&self, fetch: &Fetch, fields: &[(&str, &str)], body: Vec<u8>, fault: Fault) {
        let offset = fetch
            .resume
            .as_ref()
            .map_or(0, |resume| usize::try_from(resume.offset).unwrap());
        self.respond(fetch, 200, fields, body, offset, fault).await;
    }

    /// Encodes the fields of a response.
    pub(crate) fn fields(&self, fetch: &Fetch, set: Vec<HeaderField>) -> HeaderSet {
        let mut responses = self.responses.lock();
        let headers = encode_header_set(&set, fetch.id, fetch.seen, &responses).unwrap();
        responses.insert(fetch.id, set);
        headers
    }

    async fn respond(
        &self,
        fetch: &Fetch,
        status: u16,
        fields: &[(&str, &str)],
        body: Vec<u8>,
        offset: usize,
        fault: Fault,
    ) {
        let mut set: Vec<HeaderField> = vec![
            ("content-type".to_owned(), b"text/plain".to_vec()),
            ("server".to_owned(), b"the origin of the test".to_vec()),
        ];
        set.extend(
            fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())),
        );
        let headers = self.fields(fetch, set);
        let has_body = !body.is_empty() && format!("{:?}", fetch.method) != "Head";
        let head = Message::Head(Head {
            fetch: fetch.id,
            status,
            headers,
            body: if has_body {
                BodyPlace::Follows
            } else {
                BodyPlace::None
            },
            content_hash: None,
        });
        if !has_body {
            self.open(&[head], &[], End::Finish).await;
            return;
        }
        let (coding, wire) = self.windows(&body, offset, fault);
        let length = (fault != Fault::BadWhole).then_some(body.len() as u64);
        let announce = Message::Body(Body {
            coding,
            length,
            offset: offset as u64,
            base: None,
        });
        let Some(mut stream) = self.open(&[head, announce], &[], End::Open).await else {
            return;
        };
        let wire = Bytes::from(wire);
        match fault {
            Fault::Cut | Fault::SessionEnds => {
                let _lost = stream.write(wire.slice(..wire.len() / 2)).await;
                self.shared.release.notified().await;
                if fault == Fault::Cut {
                    stream.cancel(1)
                } else {
                    self.session.close(1, "test")
                }
            }
            Fault::None | Fault::BadWindow | Fault::BadWhole => {
                let _stopped = stream.write(wire).await;
                let _stopped = stream.finish().await;
            }
        }
    }

    fn windows(&self, body: &[u8], offset: usize, fault: Fault) -> (BodyCoding, Vec<u8>) {
        let mut wire = Vec::new();
        let (prefix, rest) = body.split_at(offset);
        let coder = if offset == 0 && fault == Fault::None {
            Coder::Zstd { level: 3 }
        } else {
            Coder::Identity
        };
        let mut encoder = BodyEncoder::resume(self.key(), coder, None, prefix).unwrap();
        encoder.push(rest, &mut wire).unwrap();
        if fault == Fault::BadWhole {
            encoder.flush(&mut wire).unwrap();
        }
        encoder.finish(&mut wire).unwrap();
        match fault {
            // In the third window.
            Fault::BadWindow => wire[80_000] ^= 1,
            // The last window is empty, so its hash comes last.
            Fault::BadWhole => *wire.last_mut().unwrap() ^= 1,
            Fault::None | Fault::Cut | Fault::SessionEnds => {}
        }
        let coding = if coder == Coder::Identity {
            BodyCoding::Identity
        } else {
            BodyCoding::Zstd
        };
        (coding, wire)
    }

    async fn tunnel(&self, id: FetchId, host: &str, mut reader: MessageReader, mut stream: RecvStream) {
        if host == "refuse.test" {
            let reason = FailureReason::ConnectionRefused;
            let failed = TunnelFailed {
                id,
                reason,
                detail: String::new(),
            };
            self.open(&[Message::TunnelFailed(failed)], &[], End::Finish)
                .await;
            return;
        }
        let accept = Message::TunnelAccept(TunnelAccept { id });
        let greeting: &[u8] = if host == "speaks-first.test" {
            b"220 hello\r\n"
        } else {
            b""
        };
        let Some(mut down) = self.open(&[accept], greeting, End::Open).await else {
            return;
        };
        let rest = reader.take_rest();
        let _lost = down.write(rest).await;
        while let Ok(Some(bytes)) = stream.read().await {
            let _lost = down.write(bytes).await;
        }
        let _lost = down.finish().await;
    }
}

/// Fault of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    BadWindow,
    BadWhole,
    /// The gateway cancels the stream midway, on the test's signal.
    Cut,
    /// The session ends midway, on the test's signal.
    SessionEnds,
}

async fn next(reader: &mut MessageReader, stream: &mut RecvStream) -> Option<Message> {
    loop {
        match reader.next().unwrap() {
            ReadEvent::Message(message) => return Some(message),
            ReadEvent::Incomplete => reader.push(&stream.read().await.ok()??),
        }
    }
}
