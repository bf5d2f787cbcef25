//! Questions over TCP (RFC 7766).
use std::{net::IpAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{DnsQuestion, NameServer, Standing, question::MAX_QUESTION};

/// Pause after an error of accepting, such as too many open files: the error would occur again at once.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// Maximum time of a connection without a question (RFC 7766 section 6.2.3 recommends some seconds), and for each transfer.
const IDLE: Duration = Duration::from_secs(10);

/// Answers questions as long as the future exists.
pub(super) async fn serve(server: &Arc<NameServer>, listener: &TcpListener) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, peer)) = accepted else {
                    sleep(ERROR_PAUSE).await;
                    continue;
                };
                let client = peer.ip().to_canonical();
                if server.shared.access.admit_intercepted(client).is_err() {
                    server.shared.counters.denied("outside");
                    continue;
                }
                // A connection beyond the limits is closed.
                let Some(place) = server.connections.enter(client, Standing::Client) else { continue };
                let server = Arc::clone(server);
                tasks.spawn(async move {
                    let _ended = serve_client(&server, stream, client).await;
                    drop(place);
                });
            }
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
}

/// Answers the questions of a connection, one after the other; `None` once it ends.
async fn serve_client(server: &NameServer, mut stream: TcpStream, client: IpAddr) -> Option<()> {
    let mut buffer = vec![0; MAX_QUESTION];
    loop {
        let length = timeout(IDLE, stream.read_u16()).await.ok()?.ok()?;
        let bytes = buffer.get_mut(..usize::from(length))?;
        timeout(IDLE, stream.read_exact(bytes)).await.ok()?.ok()?;
        if !server.admits(client) {
            return None;
        }
        let question = DnsQuestion::parse(bytes)?;
        let place = server.place(client)?;
        let answer = question.over_tcp(server.answer(client, &question).await)?;
        drop(place);
        let length = u16::try_from(answer.len()).ok()?;
        // One write, so that length and message share a segment (RFC 7766 section 8).
        let message = [&length.to_be_bytes()[..], &answer].concat();
        timeout(IDLE, stream.write_all(&message)).await.ok()?.ok()?;
    }
}
