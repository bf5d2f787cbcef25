//! Questions over UDP.
use std::{sync::Arc, time::Duration};

use tokio::{net::UdpSocket, task::JoinSet, time::sleep};
use tracing::debug;

use super::{DnsQuestion, NameServer, question::MAX_QUESTION};

/// Pause after an error of receiving that is not the one of an earlier answer, which would occur again at once.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// Answers questions as long as the future exists.
pub(super) async fn serve(server: &Arc<NameServer>, socket: &UdpSocket) {
    // Longer messages are cut off, and are then not questions.
    let mut buffer = vec![0; MAX_QUESTION + 1];
    let mut tasks = JoinSet::new();
    let (answers, mut ready) = tokio::sync::mpsc::channel(64);
    loop {
        tokio::select! {
            received = socket.recv_from(&mut buffer) => {
                let Ok((length, from)) = received else {
                    // Usually that the receiver of an earlier answer is gone.
                    sleep(ERROR_PAUSE).await;
                    continue;
                };
                let client = from.ip().to_canonical();
                if !server.admits(client) {
                    continue;
                }
                let bytes = buffer.get(..length).unwrap_or_default();
                let Some(question) = DnsQuestion::parse(bytes) else { continue };
                let Some(place) = server.place(client) else {
                    debug!("too many questions are in progress");
                    continue;
                };
                let (server, answers) = (Arc::clone(server), answers.clone());
                tasks.spawn(async move {
                    let reply = server.answer(client, &question).await;
                    if let Some(bytes) = question.over_udp(reply) {
                        // Fails if the server ends.
                        let _gone = answers.send((bytes, from)).await;
                    }
                    drop(place);
                });
            }
            Some((bytes, to)) = ready.recv() => {
                // A client that has gone is none of this server's business.
                let _gone = socket.send_to(&bytes, to).await;
            }
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
}
