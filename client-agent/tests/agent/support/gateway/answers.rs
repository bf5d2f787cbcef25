//! Answers of the test gateway, and the faults that a test selects for them.
use bytes::Bytes;
use longhaul_codec::{BodyEncoder, Coder};
use longhaul_driver::{Datagram, End, Priority, RecvStream};
use longhaul_session::{
    AssociationAccept, Body, BodyCoding, BodyPlace, FailureReason, Fetch, FetchId, Head, HeaderField,
    HeaderSet, Message, MessageReader, ReadEvent, TunnelAccept, TunnelFailed,
    datagram::{DatagramHost, UdpDatagram, part_of, parts},
    encode_header_set,
};

use super::{Seen, link::Link};

impl Link {
    pub(super) async fn answer(&self, fetch: &Fetch, seen: Seen) {
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
            "broken-page" => self.break_off(fetch, 200, &[]).await,
            "broken-redirect" => {
                self.break_off(fetch, 302, &[("location", "/next"), ("content-length", "50")])
                    .await
            }
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

    /// The head of a response whose body breaks off at the origin before its first byte.
    async fn break_off(&self, fetch: &Fetch, status: u16, fields: &[(&str, &str)]) {
        let fields = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        let head = Message::Head(Head {
            fetch: fetch.id,
            status,
            headers: self.fields(fetch, fields.collect()),
            body: BodyPlace::Follows,
            content_hash: None,
        });
        self.open(&[head], &[], End::Finish).await;
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

    pub(super) fn windows(&self, body: &[u8], offset: usize, fault: Fault) -> (BodyCoding, Vec<u8>) {
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

    pub(super) async fn tunnel(
        &self,
        id: FetchId,
        host: &str,
        mut reader: MessageReader,
        mut stream: RecvStream,
    ) {
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

    /// Returns the datagrams of an association, each with the host that it was sent to, as from 192.0.2.9.
    pub(super) async fn association(&self, id: FetchId, mut stream: RecvStream) {
        let accept = Message::AssociationAccept(AssociationAccept { id });
        let Some(mut down) = self.open(&[accept], b"", End::Open).await else {
            return;
        };
        loop {
            let datagram = tokio::select! {
                Ok(datagram) = self.session.recv_datagram() => datagram,
                _ = stream.read() => break,
            };
            let part = part_of(datagram).unwrap();
            let sent = UdpDatagram::decode(part.bytes).unwrap();
            let answer = UdpDatagram {
                host: DatagramHost::Address([192, 0, 2, 9].into()),
                payload: format!("{:?} {}", sent.host, String::from_utf8_lossy(&sent.payload)).into(),
                ..sent
            };
            let max = self.session.max_datagram().unwrap();
            for bytes in parts(part.association, 0, &answer.encode().unwrap(), max) {
                self.session.send_datagram(Datagram {
                    flow: 1,
                    class: Priority::NORMAL,
                    bytes,
                });
            }
        }
        let _lost = down.finish().await;
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

/// Fault of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    BadWindow,
    BadWhole,
    /// The gateway cancels the stream midway, on the test's signal.
    Cut,
    /// The session ends midway, on the test's signal.
    SessionEnds,
}

pub(super) async fn next(reader: &mut MessageReader, stream: &mut RecvStream) -> Option<Message> {
    loop {
        match reader.next().unwrap() {
            ReadEvent::Message(message) => return Some(message),
            ReadEvent::Incomplete => reader.push(&stream.read().await.ok()??),
        }
    }
}
