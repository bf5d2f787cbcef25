//! An enrolled device that violates the session protocol.
use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use longhaul_driver::{
    CloseReason, DialConfig, EarlyData, End, FirstStream, LinkState, OpenOptions, Priority, RecvStream,
    SendStream, Session, TransportConfig, dial,
};
use longhaul_session::{
    CacheStateId, Fetch, FetchId, FetchKind, Head, HeaderField, HeaderSets, Hello, Message, MessageReader,
    Method, PageId, Preferences, ReadEvent, VersionRange, encode, encode_header_set,
};
use longhaul_types::{ByteCount, Invite, UnixTime};
use tokio::{sync::mpsc, time::timeout};

use crate::pair::{LIMIT, Pair};

/// Maximum wait for permission to open another stream.
const STREAM_OPEN_TIMEOUT: Duration = Duration::from_millis(300);

/// A session of the second device of a pair.
pub(super) struct HostileDevice {
    pub(super) session: Session,
    pub(super) control: SendStream,
    responses: mpsc::UnboundedReceiver<Message>,
}

impl HostileDevice {
    /// A session with a valid start.
    pub(super) async fn connect(pair: &Pair) -> Result<Self> {
        Self::connect_with(pair, wire(&hello())).await
    }

    /// A session whose control stream begins with these bytes.
    pub(super) async fn connect_with(pair: &Pair, first: Vec<u8>) -> Result<Self> {
        let (device, sender) = Self::dial(pair, first, TransportConfig::agent(None)).await?;
        tokio::spawn(read_responses(device.session.clone(), sender));
        Ok(device)
    }

    /// A session with a minimal stream window, which reads nothing.
    pub(super) async fn connect_without_reading(pair: &Pair) -> Result<Self> {
        let transport = TransportConfig {
            stream_window: ByteCount::kib(64),
            ..TransportConfig::agent(None)
        };
        Ok(Self::dial(pair, wire(&hello()), transport).await?.0)
    }

    async fn dial(
        pair: &Pair,
        first: Vec<u8>,
        transport: TransportConfig,
    ) -> Result<(Self, mpsc::UnboundedSender<Message>)> {
        let invite: Invite = pair.second_invite().parse()?;
        let remote: SocketAddr = invite.address().parse()?;
        let config = DialConfig {
            gateway_key: invite.gateway(),
            remote,
            secret: invite.device().clone(),
            token: None,
            profile: None,
            last_stamp: Some(UnixTime::default()),
            transport,
        };
        let control = FirstStream {
            options: options(),
            bytes: first.into(),
            end: End::Open,
        };
        let (session, mut streams) = dial(config, vec![control])?;
        let mut state = session.state();
        let settled = timeout(LIMIT, state.wait_for(|state| *state != LinkState::Connecting)).await??;
        // A gateway that refuses the first stream may already have closed the session.
        ensure!(
            matches!(
                *settled,
                LinkState::Open | LinkState::Closed(CloseReason::PeerClosed { .. })
            ),
            "the session is {:?}",
            *settled
        );
        drop(settled);
        let (sender, responses) = mpsc::unbounded_channel();
        let device = Self {
            session,
            control: streams.pop().context("no control stream")?,
            responses,
        };
        Ok((device, sender))
    }

    /// Sends a message on the control stream; errors are ignored because the session may be closed.
    pub(super) async fn send_control(&mut self, message: &Message) {
        let _over = self.control.write(wire(message).into()).await;
    }

    /// Opens a stream with these bytes; `None` if the gateway allows no further stream or the session is
    /// closed.
    pub(super) async fn open_stream(&self, bytes: impl Into<Bytes>, end: End) -> Option<SendStream> {
        self.open_stream_within(STREAM_OPEN_TIMEOUT, bytes, end).await
    }

    async fn open_stream_within(
        &self,
        limit: Duration,
        bytes: impl Into<Bytes>,
        end: End,
    ) -> Option<SendStream> {
        let opened = timeout(limit, self.session.open(options(), bytes.into(), end)).await;
        opened.ok()?.ok()
    }

    /// Sends a fetch and waits for the response message.
    pub(super) async fn request(&mut self, fetch: Fetch) -> Result<Message> {
        let id = fetch.id;
        let wanted = wire(&Message::Fetch(fetch));
        let stream = self.open_stream_within(LIMIT, wanted, End::Finish).await;
        let _stream = stream.with_context(|| {
            let state = self.session.state();
            format!(
                "the gateway allowed no stream; the session is {:?}",
                *state.borrow()
            )
        })?;
        self.response_to(id).await
    }

    /// Waits for the response message of a fetch.
    pub(super) async fn response_to(&mut self, id: FetchId) -> Result<Message> {
        let wait = async {
            while let Some(message) = self.responses.recv().await {
                let of = match &message {
                    Message::Head(head) => head.fetch,
                    Message::Failed(failed) => failed.fetch,
                    Message::Promised(promised) => promised.fetch,
                    _ => continue,
                };
                if of == id {
                    return Ok(message);
                }
            }
            bail!("the session is closed")
        };
        timeout(LIMIT, wait)
            .await
            .with_context(|| format!("no response to fetch {id}"))?
    }

    /// Sends a fetch and returns the head of the response.
    pub(super) async fn head(&mut self, fetch: Fetch) -> Result<Head> {
        match self.request(fetch).await? {
            Message::Head(head) => Ok(head),
            other => bail!("{other:?}"),
        }
    }

    /// True if this end knows that the session is closed.
    pub(super) fn is_closed(&self) -> bool {
        matches!(*self.session.state().borrow(), LinkState::Closed(_))
    }

    /// Waits for the end of the session.
    pub(super) async fn close_reason(&self) -> Result<CloseReason> {
        timeout(LIMIT, self.session.closed())
            .await
            .context("the session is still open")
    }
}

/// Reads the first message of each stream of the gateway and ignores the rest.
async fn read_responses(session: Session, sender: mpsc::UnboundedSender<Message>) {
    while let Ok(stream) = session.accept().await {
        let sender = sender.clone();
        tokio::spawn(async move {
            if let Some(message) = first_message(stream).await {
                let _gone = sender.send(message);
            }
        });
    }
}

async fn first_message(mut stream: RecvStream) -> Option<Message> {
    let mut reader = MessageReader::new();
    loop {
        match reader.next().ok()? {
            ReadEvent::Message(message) => return Some(message),
            ReadEvent::Incomplete => reader.push(&stream.read().await.ok()??),
        }
    }
}

pub(super) const fn options() -> OpenOptions {
    OpenOptions {
        class: Priority::new(1),
        early: EarlyData::Forbidden,
        total: None,
    }
}

pub(super) fn wire(message: &Message) -> Vec<u8> {
    let mut wire = Vec::new();
    encode(message, &mut wire).expect("the message is encodable");
    wire
}

pub(super) fn hello() -> Message {
    Message::Hello(Hello {
        versions: VersionRange::OURS,
        software: "hostile/1".to_owned(),
        link: None,
        cache_state: CacheStateId::new(7),
        preferences: Preferences::default(),
    })
}

/// A GET of an object.
pub(super) fn fetch(id: u64, url: &str) -> Fetch {
    fetch_with(id, url, &[], None, &HeaderSets::new())
}

/// A GET of an object with fields that are encoded against the header set of an earlier fetch.
pub(super) fn fetch_with(
    id: u64,
    url: &str,
    fields: &[HeaderField],
    base: Option<u64>,
    sets: &HeaderSets,
) -> Fetch {
    let id = FetchId::new(id);
    let base = base.map(FetchId::new);
    Fetch::new(
        id,
        Method::Get,
        url.to_owned(),
        encode_header_set(fields, id, base, sets).expect("the fields are encodable"),
    )
}

/// The page load of the fetch with this number.
pub(super) const fn page_of(fetch: u64) -> PageId {
    PageId::of(FetchId::new(fetch))
}

/// A GET of a page.
pub(super) fn page_fetch(id: u64, url: &str) -> Fetch {
    Fetch {
        kind: FetchKind::Page,
        ..fetch(id, url)
    }
}
