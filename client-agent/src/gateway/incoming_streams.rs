//! Incoming streams of the gateway: one task accepts them and passes each to its receiver.
use std::{sync::Arc, time::Duration};

use longhaul_driver::{Expectation, RecvStream, SendStream, Session};
use longhaul_session::{
    Announcement, Continue, FailureReason, FetchId, GatewayControl, GatewayStream, Head, Message,
    MessageReader, MirrorState, Promised, ReadEvent, Welcome, encode,
};
use longhaul_types::legible;
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tracing::{debug, info, warn};

use super::{
    answer::{GatewayAnswer, ResponseStream},
    page_streams::{PageStream, PageStreams},
    request_table::SharedRequests,
};
use crate::session_serial::SessionSerial;

/// Maximum time from the first byte of a stream to its first complete message, including link outages. It
/// bounds the number of tasks that wait for streams of a silent gateway.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum length of a notice of the operator, in characters.
const MAX_NOTICE: usize = 500;

/// Maximum size of control messages that are sent together: most of a packet.
const MAX_MESSAGES_SIZE: usize = 1024;

/// Receivers of incoming messages.
#[derive(Clone, Debug)]
pub(super) struct IncomingStreams {
    pub(super) serial: SessionSerial,
    pub(super) requests: Arc<SharedRequests>,
    pub(super) welcome: watch::Sender<Option<Welcome>>,
    /// Becomes true if the gateway wants the key of the one-time invite replaced.
    pub(super) key_wanted: watch::Sender<bool>,
    pub(super) notice: watch::Sender<Option<String>>,
    pub(super) announcement: watch::Sender<Option<Announcement>>,
    pub(super) pages: Arc<dyn PageStreams>,
}

/// Accepts the gateway's streams until the session ends. The transport limits the number of concurrent
/// streams.
pub(super) async fn read_streams(session: Session, incoming: IncomingStreams) {
    loop {
        tokio::select! {
            stream = session.accept() => match stream {
                Ok(stream) => {
                    tokio::spawn(read_stream(stream, session.expect_data(), incoming.clone()));
                }
                Err(_) => break,
            },
            Ok(datagram) = session.recv_datagram() => incoming.requests.associations.deliver(datagram),
        }
    }
    let reason = session.closed().await;
    incoming.requests.table().close(reason);
    incoming.pages.session_lost(incoming.serial);
}

/// Writes the control messages that follow `Hello`. The stream stays open for the whole session.
pub(super) async fn write_control(stream: Option<SendStream>, mut control_messages: mpsc::Receiver<Message>) {
    let Some(mut stream) = stream else {
        return;
    };
    while let Some(message) = control_messages.recv().await {
        let mut wire = Vec::new();
        if let Err(error) = encode(&message, &mut wire) {
            debug!(%error, "a message to the gateway is too large and was dropped");
            continue;
        }
        // Messages that already wait go in the same packet.
        while wire.len() < MAX_MESSAGES_SIZE
            && let Ok(message) = control_messages.try_recv()
        {
            let _too_large = encode(&message, &mut wire);
        }
        if stream.write(wire.into()).await.is_err() {
            return;
        }
    }
}

async fn read_stream(mut stream: RecvStream, expectation: Expectation, incoming: IncomingStreams) {
    let IncomingStreams {
        serial,
        requests,
        welcome,
        key_wanted,
        notice,
        announcement,
        pages,
    } = incoming;
    let mut reader = MessageReader::new();
    let first = timeout(FIRST_MESSAGE_TIMEOUT, first_message(&mut reader, &mut stream)).await;
    let Ok(Some(message)) = first else {
        return;
    };
    let Some(message) = GatewayStream::of(message) else {
        return debug!("the gateway opened a stream with an unexpected message");
    };
    match message {
        GatewayStream::Welcome(message) => {
            // The gateway's control stream lasts as long as the session: no particular data is expected on
            // it.
            drop(expectation);
            info!(gateway = %message.software.chars().filter(|c| c.is_ascii_graphic()).collect::<String>(), "gateway answers");
            let mirror = message.mirror;
            welcome.send_replace(Some(message));
            if mirror == MirrorState::Unknown {
                pages.mirror_is_unknown(serial);
            }
            let senders = ControlSenders {
                key_wanted: &key_wanted,
                notice: &notice,
                announcement: &announcement,
            };
            read_control(reader, stream, serial, &requests, senders, pages.as_ref()).await;
        }
        GatewayStream::Head(head) => {
            deliver_head(&requests, &head, ResponseStream::new(reader, stream, expectation))
        }
        GatewayStream::Failed(failed) => {
            deliver(
                &requests,
                failed.fetch,
                GatewayAnswer::Failed {
                    reason: failed.reason,
                    detail: failed.detail,
                },
            );
        }
        GatewayStream::TunnelAccept(accept) => {
            deliver(
                &requests,
                accept.id,
                GatewayAnswer::Tunnel(ResponseStream::new(reader, stream, expectation)),
            );
        }
        GatewayStream::AssociationAccept(accept) => {
            deliver(
                &requests,
                accept.id,
                GatewayAnswer::Tunnel(ResponseStream::new(reader, stream, expectation)),
            );
        }
        GatewayStream::TunnelFailed(failed) => {
            deliver(
                &requests,
                failed.id,
                GatewayAnswer::Failed {
                    reason: failed.reason,
                    detail: failed.detail,
                },
            );
        }
        GatewayStream::Manifest(manifest) => {
            let stream = ResponseStream::new(reader, stream, expectation);
            pages.read(serial, PageStream::Manifest(manifest), stream).await;
        }
        GatewayStream::Push(push) => {
            let stream = ResponseStream::new(reader, stream, expectation);
            pages.read(serial, PageStream::Push(push), stream).await;
        }
        GatewayStream::Continue(Continue { fetch }) => requests.table().ask_for_body(fetch),
        GatewayStream::Promised(Promised { fetch, page, entry }) => {
            deliver(&requests, fetch, GatewayAnswer::Promised { page, entry });
        }
    }
}

async fn first_message(reader: &mut MessageReader, stream: &mut RecvStream) -> Option<Message> {
    loop {
        match reader.next() {
            Ok(ReadEvent::Message(message)) => return Some(message),
            Ok(ReadEvent::Incomplete) => reader.push(&stream.read().await.ok()??),
            Err(error) => {
                warn!(%error, "the gateway sent a malformed message");
                return None;
            }
        }
    }
}

/// What messages of the gateway's control stream change.
#[derive(Clone, Copy)]
struct ControlSenders<'a> {
    key_wanted: &'a watch::Sender<bool>,
    notice: &'a watch::Sender<Option<String>>,
    announcement: &'a watch::Sender<Option<Announcement>>,
}

/// Reads the rest of the gateway's control stream.
async fn read_control(
    mut reader: MessageReader,
    mut stream: RecvStream,
    serial: SessionSerial,
    requests: &SharedRequests,
    senders: ControlSenders<'_>,
    pages: &dyn PageStreams,
) {
    while let Some(message) = first_message(&mut reader, &mut stream).await {
        match GatewayControl::of(message) {
            Some(GatewayControl::Notice(notice)) => {
                let text = legible(&notice.text, MAX_NOTICE);
                warn!(%text, "notice from the gateway");
                senders.notice.send_replace(Some(text));
            }
            Some(GatewayControl::Forgotten(forgotten)) => requests.record_forgotten(forgotten.id),
            Some(GatewayControl::KeyWanted(_)) => drop(senders.key_wanted.send_replace(true)),
            Some(GatewayControl::Announcement(announced)) => {
                senders.announcement.send_replace(Some(announced));
            }
            Some(GatewayControl::OriginReport(report)) => {
                requests.record_origin_report();
                pages.origin_report(serial, &report);
            }
            None => debug!("unexpected message on the gateway's control stream"),
        }
    }
}

fn deliver_head(requests: &SharedRequests, head: &Head, stream: ResponseStream) {
    let decoded = requests.table().accept_head(head);
    let (answer, receiver) = match decoded {
        Ok((fields, receiver)) => {
            let &Head {
                status,
                body,
                content_hash,
                ..
            } = head;
            (
                GatewayAnswer::Head {
                    status,
                    fields,
                    body,
                    content_hash,
                    stream,
                },
                receiver,
            )
        }
        Err(error) => {
            warn!(%error, "the gateway sent a header section that cannot be decoded");
            (
                GatewayAnswer::Malformed,
                requests.table().take_receiver(head.fetch),
            )
        }
    };
    if let Some(receiver) = receiver {
        // If this fails, the request is gone; the stream is stopped when it is dropped.
        let _gone = receiver.send(answer);
    }
}

fn deliver(requests: &SharedRequests, id: FetchId, answer: GatewayAnswer) {
    if let GatewayAnswer::Failed {
        reason: FailureReason::Malformed,
        detail,
    } = &answer
    {
        warn!(%detail, "the gateway rejected a request as malformed");
    }
    let receiver = requests.table().take_receiver(id);
    if let Some(receiver) = receiver {
        let _gone = receiver.send(answer);
    }
}
