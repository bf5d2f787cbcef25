//! One session of the test gateway: its streams, requests and control messages.
use std::sync::Arc;

use bytes::Bytes;
use longhaul_codec::{BodyDecoder, BodyEvent, BodyLimits, Coding};
use longhaul_driver::{EarlyData, End, OpenOptions, Priority, RecvStream, Session};
use longhaul_session::{
    AgentControl, BodyCoding, Failed, FailureReason, Fetch, HeaderSets, Message, MessageReader, MirrorState,
    RequestMessage, VersionRange, Welcome, decode_header_set, decode_url, encode,
};
use parking_lot::Mutex;

use super::{BrowserRequest, Seen, Shared, answers::next};

pub(crate) struct Link {
    pub(crate) session: Session,
    pub(super) number: u64,
    pub(super) shared: Arc<Shared>,
    pub(super) requests: Mutex<HeaderSets>,
    pub(super) responses: Mutex<HeaderSets>,
}

pub(super) async fn serve(link: Arc<Link>) {
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

    pub(super) async fn stream(self: Arc<Self>, mut stream: RecvStream) {
        let mut reader = MessageReader::new();
        while let Some(message) = next(&mut reader, &mut stream).await {
            match RequestMessage::of(message.clone()) {
                Some(RequestMessage::Fetch(fetch)) => return self.fetch(fetch, reader, stream).await,
                Some(RequestMessage::TunnelOpen(open)) => {
                    return self.tunnel(open.id, &open.host, reader, stream).await;
                }
                Some(RequestMessage::AssociationOpen(open)) => {
                    return self.association(open.id, stream).await;
                }
                None => {
                    let is_control = AgentControl::of(message.clone()).is_some()
                        || matches!(message, Message::Hello(_) | Message::NewKey(_));
                    assert!(is_control, "an agent sent {message:?}");
                    if let Some(script) = &self.shared.script {
                        let _ended = script.controls.send(message);
                    }
                }
            }
        }
    }

    pub(super) async fn fetch(
        self: Arc<Self>,
        mut fetch: Fetch,
        mut reader: MessageReader,
        mut stream: RecvStream,
    ) {
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
                fields: seen.fields,
                link: Arc::clone(&self),
            };
            let _ended = script.fetches.send(asked);
            return;
        }
        self.answer(&fetch, seen).await;
    }

    pub(super) async fn body(&self, reader: &mut MessageReader, stream: &mut RecvStream) -> Vec<u8> {
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

    pub(super) fn once(&self, url: &str) -> bool {
        self.shared.done.lock().insert(url.to_owned())
    }

    pub(crate) async fn fail(&self, fetch: &Fetch, reason: FailureReason) {
        let failed = Failed {
            fetch: fetch.id,
            reason,
            detail: "<b>as told by the test</b>".to_owned(),
        };
        self.open(&[Message::Failed(failed)], &[], End::Finish).await;
    }
}
