//! One connection: sends requests and reports parts of responses, both at the time of their transfer by the
//! socket.
use std::{collections::VecDeque, io, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf},
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    dial::{Dial, DialError, Stream},
    framing::{FramingError, Head, Part, ResponseDecoder},
};

/// Maximum number of bytes per read: a few segments, so that the times of parts stay exact on slow links.
const READ: usize = 16 * 1024;

/// A request to send.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) request: usize,
    pub(super) bytes: Bytes,
}

/// An event on a connection.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) connection: u64,
    pub(super) at: Instant,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// The TCP handshake is done.
    Established,
    /// Requests can be sent.
    Ready,
    /// The connection failed, for this reason.
    Unreachable(DialError),
    /// A request was passed to the kernel completely. `index` is its pipeline index: the requests sent on the
    /// connection including this one, minus the responses received before it (Chakravorty and Pratt, WWW
    /// performance over GPRS, section IV-B).
    Sent { request: usize, index: u64 },
    /// The response to the oldest unanswered request has begun.
    Head { head: Head, first_byte: Instant },
    /// A part of the body.
    Data(Bytes),
    /// The response is complete. Without `keep_alive` the connection is closed.
    End { keep_alive: bool },
    /// The connection is closed.
    Closed(Closed),
}

/// Reason of a closed connection.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Closed {
    #[error("the connection was closed without a response")]
    Fin,
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("{0}")]
    Framing(#[from] FramingError),
    #[error("no data for {} s", .0.as_secs())]
    Silent(Duration),
}

/// Opens a connection and serves requests on it until either side closes it.
pub(super) async fn run(dial: Dial, commands: mpsc::Receiver<Command>, events: mpsc::Sender<Event>) {
    let reporter = Reporter {
        connection: dial.connection,
        events,
    };
    let idle = dial.idle;
    let established = || reporter.tell(Instant::now(), What::Established);
    let stream = match dial.open(established).await {
        Ok(stream) => stream,
        Err(error) => return reporter.tell(Instant::now(), What::Unreachable(error)).await,
    };
    reporter.tell(Instant::now(), What::Ready).await;
    let (read, write) = tokio::io::split(stream);
    let mut exchange = Exchange {
        read,
        write,
        decoder: ResponseDecoder::default(),
        commands,
        pending: BytesMut::new(),
        unsent: VecDeque::new(),
        unflushed: false,
        writable: true,
        sent: 0,
        received: 0,
        first_byte: None,
        last_activity: Instant::now(),
        idle,
        reporter,
    };
    while exchange.step().await {}
}

/// Reports the events of one connection to the page.
struct Reporter {
    connection: u64,
    events: mpsc::Sender<Event>,
}

impl Reporter {
    async fn tell(&self, at: Instant, what: What) {
        let connection = self.connection;
        // The receiver is gone once the page is loaded.
        let _ = self.events.send(Event { connection, at, what }).await;
    }

    /// Reports the end of the connection. Returns `false`.
    async fn closed(&self, why: Closed) -> bool {
        self.tell(Instant::now(), What::Closed(why)).await;
        false
    }
}

struct Exchange {
    read: ReadHalf<Box<dyn Stream>>,
    write: WriteHalf<Box<dyn Stream>>,
    decoder: ResponseDecoder,
    commands: mpsc::Receiver<Command>,
    /// Requests that have not been passed to the kernel. Bounded by the pipelining depth.
    pending: BytesMut,
    /// Those requests, with the number of bytes of each in `pending`.
    unsent: VecDeque<(usize, usize)>,
    unflushed: bool,
    /// Cleared when the peer accepts no more data: earlier data from the peer can still be read.
    writable: bool,
    sent: u64,
    received: u64,
    /// Time of the first byte of the response that is being received.
    first_byte: Option<Instant>,
    last_activity: Instant,
    idle: Duration,
    reporter: Reporter,
}

enum Step {
    Command(Option<Command>),
    /// Number of bytes written; zero if everything was flushed.
    Written(io::Result<usize>),
    Read(io::Result<usize>),
    Silent,
}

/// Writes some of `pending`, or flushes if it is empty. Cancel-safe.
async fn push(write: &mut WriteHalf<Box<dyn Stream>>, pending: &[u8]) -> io::Result<usize> {
    if pending.is_empty() {
        write.flush().await.map(|()| 0)
    } else {
        match write.write(pending).await? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            length => Ok(length),
        }
    }
}

impl Exchange {
    /// Waits for one event and handles it. `false` ends the connection.
    async fn step(&mut self) -> bool {
        let owed = self.owed();
        let unwritten = self.unflushed || !self.pending.is_empty();
        self.decoder.buffer().reserve(READ);
        let step = tokio::select! {
            // The fixed order makes loads reproducible. No branch can starve the others: commands are bounded
            // by the unanswered requests.
            biased;
            command = self.commands.recv() => Step::Command(command),
            written = push(&mut self.write, &self.pending), if self.writable && unwritten => Step::Written(written),
            read = self.read.read_buf(self.decoder.buffer()) => Step::Read(read),
            () = sleep_until(self.last_activity + self.idle), if owed => Step::Silent,
        };
        match step {
            Step::Command(None) => false,
            Step::Command(Some(command)) => {
                self.take(command);
                // Requests made together are sent in one segment.
                while let Ok(command) = self.commands.try_recv() {
                    self.take(command);
                }
                true
            }
            Step::Written(Ok(length)) => {
                self.written(length).await;
                true
            }
            Step::Written(Err(_)) => {
                self.writable = false;
                true
            }
            Step::Read(Ok(0)) => self.end_of_stream().await,
            // TLS without a closing alert.
            Step::Read(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.end_of_stream().await
            }
            Step::Read(Ok(_)) => self.received().await,
            Step::Read(Err(error)) => self.reporter.closed(Closed::Broken(error.to_string())).await,
            Step::Silent => self.reporter.closed(Closed::Silent(self.idle)).await,
        }
    }

    /// Returns true if a response is expected.
    fn owed(&self) -> bool {
        !self.unsent.is_empty() || self.sent > self.received
    }

    fn take(&mut self, command: Command) {
        if !self.owed() {
            self.last_activity = Instant::now();
        }
        self.pending.extend_from_slice(&command.bytes);
        self.unsent.push_back((command.request, command.bytes.len()));
    }

    async fn written(&mut self, mut length: usize) {
        let now = Instant::now();
        self.pending.advance(length);
        // TLS buffers the bytes that the socket did not accept.
        self.unflushed = length > 0;
        while let Some((request, left)) = self.unsent.front_mut() {
            if *left > length {
                *left -= length;
                return;
            }
            length -= *left;
            let request = *request;
            self.unsent.pop_front();
            self.sent += 1;
            let index = self.sent - self.received;
            self.reporter.tell(now, What::Sent { request, index }).await;
        }
    }

    async fn received(&mut self) -> bool {
        let now = Instant::now();
        self.last_activity = now;
        loop {
            if self.sent == self.received {
                // A response without a request, such as 408 before an idle connection is closed.
                return !self.decoder.mid_response() || self.reporter.closed(Closed::Fin).await;
            }
            let first_byte = *self.first_byte.get_or_insert(now);
            let what = match self.decoder.next() {
                Ok(None) => {
                    if !self.decoder.mid_response() {
                        self.first_byte = None;
                    }
                    return true;
                }
                Ok(Some(Part::Head(head))) => What::Head { head, first_byte },
                Ok(Some(Part::Data(data))) => What::Data(data),
                Ok(Some(Part::End)) => {
                    self.first_byte = None;
                    self.received += 1;
                    let keep_alive = self.decoder.keep_alive();
                    self.reporter.tell(now, What::End { keep_alive }).await;
                    if !keep_alive {
                        return false;
                    }
                    continue;
                }
                Err(error) => return self.reporter.closed(error.into()).await,
            };
            self.reporter.tell(now, what).await;
        }
    }

    async fn end_of_stream(&mut self) -> bool {
        match self.decoder.close() {
            Ok(None) => self.reporter.closed(Closed::Fin).await,
            Ok(Some(_)) => {
                let end = What::End { keep_alive: false };
                self.reporter.tell(Instant::now(), end).await;
                false
            }
            Err(error) => self.reporter.closed(error.into()).await,
        }
    }
}
