//! Sends the bodies of a connection.
use std::{future::poll_fn, io, time::Duration};

use bytes::{Buf, Bytes};
use h2::{Reason, SendStream};
use longhaul_types::Priority;
use tokio::{sync::oneshot, time::timeout};

use super::turns::{Turn, Turns};

/// Bytes that are handed over at once.
const PIECE: usize = 16 * 1024;

/// Bytes of a body on their way through the library, which drops them once they are written.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    _turn: Option<Turn>,
    _written: Option<oneshot::Sender<()>>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

/// Sender of one body.
pub(super) struct BodySender {
    stream: SendStream<Piece>,
    turns: Turns,
    /// Maximum time for which the client accepts nothing.
    stall: Duration,
    pub(super) class: Priority,
    /// Bytes that are left, if known.
    pub(super) left: Option<u64>,
    /// Ends once the last piece is written.
    last: Option<oneshot::Receiver<()>>,
}

impl BodySender {
    pub(super) const fn new(
        stream: SendStream<Piece>,
        turns: Turns,
        stall: Duration,
        class: Priority,
    ) -> Self {
        Self {
            stream,
            turns,
            stall,
            class,
            left: None,
            last: None,
        }
    }

    /// Sends bytes, in the order of the connection's bodies.
    pub(super) async fn send(&mut self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            let wanted = bytes.len().min(PIECE);
            let (turn, capacity) = self.turn(wanted).await?;
            let piece = bytes.split_to(capacity.min(wanted));
            if let Some(left) = &mut self.left {
                *left = left.saturating_sub(piece.len() as u64);
            }
            let (written, last) = oneshot::channel();
            let piece = Piece {
                bytes: piece,
                _turn: Some(turn),
                _written: Some(written),
            };
            self.last = Some(last);
            self.stream.send_data(piece, false).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Waits until it is this body's turn and the client accepts bytes of it.
    async fn turn(&mut self, wanted: usize) -> io::Result<(Turn, usize)> {
        loop {
            let left = self.left.unwrap_or(u64::MAX);
            let turn = self.turns.next(self.class, left).await;
            // Not before: what one body reserves of the connection's window, no other one can have.
            self.stream.reserve_capacity(wanted);
            match self.stream.capacity() {
                0 => drop(turn),
                capacity => return Ok((turn, capacity)),
            }
            let granted = timeout(self.stall, poll_fn(|cx| self.stream.poll_capacity(cx))).await;
            match granted.map_err(io::Error::from)? {
                Some(granted) => drop(granted.map_err(io::Error::other)?),
                None => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    /// Ends the body.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let piece = Piece {
            bytes: Bytes::new(),
            _turn: None,
            _written: None,
        };
        self.stream.send_data(piece, true).map_err(io::Error::other)
    }

    /// Breaks the body off behind what was sent, so that the client sees that it is incomplete. A reset discards what the
    /// library has not written.
    pub(super) async fn break_off(mut self, reason: Reason) {
        if let Some(last) = self.last.take() {
            let _written = timeout(self.stall, last).await;
        }
        self.stream.send_reset(reason);
    }

    /// Returns once the client has cancelled the stream, or the connection has ended.
    pub(super) async fn cancelled(&mut self) {
        let _reason = poll_fn(|cx| self.stream.poll_reset(cx)).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use h2::{RecvStream, client, server};
    use http::{Request, Response};
    use longhaul_session::class;
    use tokio::{
        io::{DuplexStream, duplex},
        task::JoinSet,
    };

    use super::*;

    const LONG: usize = 1_000_000;
    const PAGE: usize = 20_000;

    /// Sends a long body of low class for each stream, and a page for each request for `/page`.
    async fn serve(stream: DuplexStream) {
        let mut frames = server::Builder::new()
            .handshake::<_, Piece>(stream)
            .await
            .unwrap();
        let (turns, mut sending) = (Turns::default(), JoinSet::new());
        while let Some(Ok((request, mut respond))) = frames.accept().await {
            let is_page = request.uri().path() == "/page";
            let (class, length) = if is_page {
                (class::PAGE, PAGE)
            } else {
                (class::BULK, LONG)
            };
            let stream = respond.send_response(Response::new(()), false).unwrap();
            let mut sender = BodySender::new(stream, turns.clone(), Duration::from_secs(60), class);
            sender.left = Some(length as u64);
            sending.spawn(async move {
                sender.send(Bytes::from(vec![0; length])).await.unwrap();
                sender.finish().unwrap();
            });
        }
    }

    /// Bytes that have arrived.
    fn arrived(streams: &mut [RecvStream]) -> usize {
        let mut count = 0;
        for stream in streams {
            while let Some(Some(bytes)) = stream.data().now_or_never() {
                count += bytes.unwrap().len();
            }
        }
        count
    }

    #[tokio::test]
    async fn a_page_overtakes_long_bodies_that_are_on_their_way() {
        let (near, far) = duplex(8 * 1024);
        tokio::spawn(serve(near));
        let window = 2 * u32::try_from(LONG).unwrap();
        let (client, connection) = client::Builder::new()
            .initial_window_size(window)
            .initial_connection_window_size(40 * window)
            .handshake::<_, Bytes>(far)
            .await
            .unwrap();
        tokio::spawn(connection);
        let get = |path: &str| Request::get(format!("http://a.test{path}")).body(()).unwrap();
        let mut long = Vec::new();
        for _ in 0..30 {
            let mut client = client.clone().ready().await.unwrap();
            let (response, _) = client.send_request(get("/long"), true).unwrap();
            long.push(response.await.unwrap().into_body());
        }
        let before = arrived(&mut long);
        let (response, _) = client.clone().send_request(get("/page"), true).unwrap();
        let mut page = response.await.unwrap().into_body();
        let mut received = 0;
        while let Some(bytes) = page.data().await {
            received += bytes.unwrap().len();
        }
        assert_eq!(received, PAGE);
        let between = arrived(&mut long);
        // In turn with 30 others, two pieces of the page would take a megabyte.
        assert!(between < 200_000, "{between} bytes after {before}");
    }
}
