//! What comes from the gateway: one task takes the streams that it opens and hands each to whoever waits for it.
use std::{sync::Arc, time::Duration};

use longhaul_driver::{RecvStream, SendStream, Session};
use longhaul_protocol::session::{
    Cancel, FailureReason, Head, Message, MessageReader, ReadEvent, Welcome, encode,
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tracing::{debug, info, warn};

use super::{Arrival, ResponseStream, hop::Shared};

/// How long a stream may take from its first byte to its first whole message, link outages included. It bounds the tasks
/// that wait for streams of a gateway that says nothing.
const FIRST_MESSAGE: Duration = Duration::from_secs(600);

/// Takes the gateway's streams until the session ends. The transport bounds how many there are at a time.
pub(super) async fn read_streams(
    session: Session,
    shared: Arc<Shared>,
    welcome: watch::Sender<Option<Welcome>>,
) {
    while let Ok(stream) = session.accept().await {
        tokio::spawn(read_stream(stream, Arc::clone(&shared), welcome.clone()));
    }
    let reason = session.closed().await;
    shared.book().end(reason);
}

/// Sends the cancellations behind the `Hello`. The stream stays open for the whole session.
pub(super) async fn write_control(stream: Option<SendStream>, mut cancelled: mpsc::Receiver<u64>) {
    let Some(mut stream) = stream else {
        return;
    };
    while let Some(fetch) = cancelled.recv().await {
        let mut wire = Vec::new();
        let coded = encode(&Message::Cancel(Cancel { fetch }), &mut wire);
        if coded.is_err() || stream.write(wire.into()).await.is_err() {
            return;
        }
    }
}

async fn read_stream(mut stream: RecvStream, shared: Arc<Shared>, welcome: watch::Sender<Option<Welcome>>) {
    let mut reader = MessageReader::new();
    let first = timeout(FIRST_MESSAGE, first_message(&mut reader, &mut stream)).await;
    let Ok(Some(message)) = first else {
        return;
    };
    match message {
        Message::Welcome(message) => {
            info!(gateway = %message.software.chars().filter(|c| c.is_ascii_graphic()).collect::<String>(), "gateway answers");
            welcome.send_replace(Some(message));
            read_notices(reader, stream).await;
        }
        Message::Head(head) => deliver_head(&shared, &head, ResponseStream::new(reader, stream)),
        Message::Failed(failed) => {
            deliver(
                &shared,
                failed.fetch,
                Arrival::Failed {
                    reason: failed.reason,
                    detail: failed.detail,
                },
            );
        }
        Message::TunnelAccept(accept) => {
            deliver(
                &shared,
                accept.id,
                Arrival::Tunnel(ResponseStream::new(reader, stream)),
            );
        }
        Message::TunnelFailed(failed) => {
            deliver(
                &shared,
                failed.id,
                Arrival::Failed {
                    reason: failed.reason,
                    detail: failed.detail,
                },
            );
        }
        Message::Hello(_)
        | Message::Fetch(_)
        | Message::Body(_)
        | Message::Cancel(_)
        | Message::TunnelOpen(_)
        | Message::Notice(_) => debug!("the gateway opened a stream with a message that does not open one"),
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

async fn read_notices(mut reader: MessageReader, mut stream: RecvStream) {
    while let Some(message) = first_message(&mut reader, &mut stream).await {
        if let Message::Notice(notice) = message {
            let text: String = notice
                .text
                .chars()
                .filter(|c| !c.is_control())
                .take(500)
                .collect();
            warn!(%text, "notice of the gateway's operator");
        }
    }
}

fn deliver_head(shared: &Shared, head: &Head, stream: ResponseStream) {
    let decoded = shared.book().head(head);
    let (arrival, answer) = match decoded {
        Ok((fields, answer)) => {
            let &Head {
                status,
                has_body,
                content_hash,
                ..
            } = head;
            (
                Arrival::Head {
                    status,
                    fields,
                    has_body,
                    content_hash,
                    stream,
                },
                answer,
            )
        }
        Err(error) => {
            warn!(%error, "the gateway sent a header section that cannot be decoded");
            (Arrival::Malformed, shared.book().take(head.fetch))
        }
    };
    if let Some(answer) = answer {
        // Nobody waits any more if this fails, and the stream is stopped as it is dropped.
        let _gone = answer.send(arrival);
    }
}

fn deliver(shared: &Shared, id: u64, arrival: Arrival) {
    if let Arrival::Failed {
        reason: FailureReason::Malformed,
        detail,
    } = &arrival
    {
        warn!(%detail, "the gateway calls a request malformed");
    }
    let answer = shared.book().take(id);
    if let Some(answer) = answer {
        let _gone = answer.send(arrival);
    }
}
