//! Answers to a browser's request, with the manifest and the pushes of its page.
use std::sync::Arc;

use bytes::Bytes;
use longhaul_codec::{BodyEncoder, Coder};
use longhaul_driver::{End, SendStream};
use longhaul_session::{
    Body, BodyCoding, BodyPlace, EntryHead, EntryId, FailureReason, Head, Manifest, ManifestId, Message,
    PageId, Promised, Push, Record, encode_record,
};
use longhaul_types::ContentHash;
use tokio::time::timeout;

use super::{set, short};
use crate::support::{
    PATIENCE,
    gateway::{BrowserRequest, Link},
};

impl BrowserRequest {
    fn is_get(&self) -> bool {
        self.fetch.method == longhaul_session::Method::Get
    }

    fn head(
        &self,
        status: u16,
        fields: &[(&str, &str)],
        body: BodyPlace,
        chk: Option<ContentHash>,
    ) -> Message {
        Message::Head(Head {
            fetch: self.fetch.id,
            status,
            headers: self.link.fields(&self.fetch, set(fields)),
            body,
            content_hash: chk,
        })
    }

    /// Returns a head without body.
    pub(crate) fn bodyless(&self, status: u16) -> Message {
        self.head(status, &[], BodyPlace::None, None)
    }

    pub(crate) async fn answer(&self, status: u16, fields: &[(&str, &str)], body: &[u8]) {
        assert!(self.is_get());
        let offset = self
            .fetch
            .resume
            .as_ref()
            .map_or(0, |resume| usize::try_from(resume.offset).unwrap());
        if body.is_empty() {
            self.link
                .open(
                    &[self.head(status, fields, BodyPlace::None, None)],
                    &[],
                    End::Finish,
                )
                .await;
            return;
        }
        let head = self.head(status, fields, BodyPlace::Follows, None);
        let announce = announce(Some(body.len() as u64), offset as u64);
        let (prefix, rest) = body.split_at(offset);
        let mut encoder = BodyEncoder::resume(self.link.key(), Coder::Identity, None, prefix).unwrap();
        let mut wire = Vec::new();
        encoder.push(rest, &mut wire).unwrap();
        encoder.finish(&mut wire).unwrap();
        let mut stream = self.link.open(&[head, announce], &[], End::Open).await.unwrap();
        stream.write(wire.into()).await.unwrap();
        stream.finish().await.unwrap();
    }

    /// Starts a response whose body is incomplete.
    pub(crate) async fn begin(&self, fields: &[(&str, &str)], first: &[u8]) -> Pushing {
        let head = self.head(200, fields, BodyPlace::Follows, None);
        Pushing::open(&self.link, &[head, announce(None, 0)], first).await
    }

    pub(crate) async fn held(&self, fields: &[(&str, &str)], chk: ContentHash) {
        let head = self.head(200, fields, BodyPlace::Held, Some(chk));
        self.link.open(&[head], &[], End::Finish).await;
    }

    /// The page load of this request, if it is a page's.
    pub(crate) const fn page_id(&self) -> PageId {
        PageId::of(self.fetch.id)
    }

    pub(crate) async fn promised(&self, page: PageId, entry: u32) {
        let fetch = self.fetch.id;
        self.link
            .open(
                &[Message::Promised(Promised {
                    fetch,
                    page,
                    entry: EntryId::new(entry),
                })],
                &[],
                End::Finish,
            )
            .await;
    }

    /// Answers that the gateway could not fetch the response.
    pub(crate) async fn failed(&self, reason: FailureReason) {
        self.link.fail(&self.fetch, reason).await;
    }

    /// Starts the manifest of this page; `base` is the manifest against which it is encoded.
    pub(crate) async fn manifest(&self, base: Option<(ManifestId, &[u8])>) -> ManifestWriter {
        let manifest = Message::Manifest(Manifest {
            page: self.page_id(),
            base: base.map(|(id, _)| id),
        });
        let announce = Message::Body(Body {
            coding: BodyCoding::Zstd,
            length: None,
            offset: 0,
            base: None,
        });
        let base = base.map_or(&[][..], |(_, bytes)| bytes);
        let encoder = BodyEncoder::with_base(self.link.key(), Coder::Zstd { level: 3 }, None, base).unwrap();
        ManifestWriter {
            stream: self
                .link
                .open(&[manifest, announce], &[], End::Open)
                .await
                .unwrap(),
            encoder,
            bytes: Vec::new(),
        }
    }

    /// Pushes a whole body.
    pub(crate) async fn push(&self, entry: u32, body: &[u8]) {
        self.begin_push(entry, body).await.finish(&[]).await;
    }

    /// Answers with a body encoded against `base`.
    pub(crate) async fn answer_based(&self, fields: &[(&str, &str)], body: &[u8], base: &[u8]) {
        let head = self.head(200, fields, BodyPlace::Follows, None);
        self.send_based(head, body, base).await;
    }

    /// Pushes a body encoded against `base`.
    pub(crate) async fn push_based(&self, entry: u32, body: &[u8], base: &[u8]) {
        let (page, entry) = (self.page_id(), EntryId::new(entry));
        self.send_based(Message::Push(Push { page, entry }), body, base)
            .await;
    }

    async fn send_based(&self, first: Message, body: &[u8], base: &[u8]) {
        let announce = Message::Body(Body {
            coding: BodyCoding::Zstd,
            length: Some(body.len() as u64),
            offset: 0,
            base: Some(short(base)),
        });
        let key = self.link.key();
        let mut encoder = BodyEncoder::with_base(key, Coder::Zstd { level: 3 }, None, base).unwrap();
        let mut wire = Vec::new();
        encoder.push(body, &mut wire).unwrap();
        encoder.finish(&mut wire).unwrap();
        let mut stream = self.link.open(&[first, announce], &[], End::Open).await.unwrap();
        stream.write(wire.into()).await.unwrap();
        stream.finish().await.unwrap();
    }

    /// Pushes the start of a body.
    pub(crate) async fn begin_push(&self, entry: u32, first: &[u8]) -> Pushing {
        let push = Message::Push(Push {
            page: self.page_id(),
            entry: EntryId::new(entry),
        });
        Pushing::open(&self.link, &[push, announce(None, 0)], first).await
    }
}

pub(crate) fn announce(length: Option<u64>, offset: u64) -> Message {
    Message::Body(Body {
        coding: BodyCoding::Identity,
        length,
        offset,
        base: None,
    })
}

/// A manifest in progress.
pub(crate) struct ManifestWriter {
    pub(crate) stream: SendStream,
    pub(crate) encoder: BodyEncoder,
    pub(crate) bytes: Vec<u8>,
}

impl ManifestWriter {
    pub(crate) async fn record(&mut self, record: Record) {
        let mut bytes = Vec::new();
        encode_record(&record, &mut bytes).unwrap();
        let mut wire = Vec::new();
        self.encoder.push(&bytes, &mut wire).unwrap();
        self.encoder.flush(&mut wire).unwrap();
        self.bytes.append(&mut bytes);
        self.stream.write(wire.into()).await.unwrap();
    }

    pub(crate) async fn head(&mut self, head: EntryHead) {
        self.record(Record::Head(head)).await;
    }

    /// Ends the manifest; returns its decoded bytes.
    pub(crate) async fn finish(mut self) -> Vec<u8> {
        self.record(Record::Planned).await;
        let mut wire = Vec::new();
        self.encoder.finish(&mut wire).unwrap();
        self.stream.write(wire.into()).await.unwrap();
        self.stream.finish().await.unwrap();
        self.bytes
    }
}

/// A body in progress.
pub(crate) struct Pushing {
    stream: SendStream,
    encoder: BodyEncoder,
}

impl Pushing {
    async fn open(link: &Arc<Link>, messages: &[Message], first: &[u8]) -> Self {
        let encoder = BodyEncoder::new(link.key(), Coder::Identity, None).unwrap();
        let stream = link.open(messages, &[], End::Open).await.unwrap();
        let mut pushing = Self { stream, encoder };
        pushing.write(first).await;
        pushing
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        let mut wire = Vec::new();
        self.encoder.push(bytes, &mut wire).unwrap();
        self.encoder.flush(&mut wire).unwrap();
        let _stopped = self.stream.write(wire.into()).await;
    }

    pub(crate) async fn finish(mut self, last: &[u8]) {
        let mut wire = Vec::new();
        self.encoder.push(last, &mut wire).unwrap();
        self.encoder.finish(&mut wire).unwrap();
        let _stopped = self.stream.write(wire.into()).await;
        let _stopped = self.stream.finish().await;
    }

    /// Ends the body with a damaged window.
    pub(crate) async fn damage(mut self, last: &[u8]) {
        let mut wire = Vec::new();
        self.encoder.push(last, &mut wire).unwrap();
        self.encoder.finish(&mut wire).unwrap();
        let at = wire.len() - 1;
        wire[at] ^= 1;
        let _stopped = self.stream.write(Bytes::from(wire)).await;
        let _stopped = self.stream.finish().await;
    }

    /// Waits until the agent stops the stream.
    pub(crate) async fn stopped(&mut self) {
        timeout(PATIENCE, self.stream.stopped())
            .await
            .expect("the agent did not stop the stream");
    }
}
