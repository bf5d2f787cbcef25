//! One HTTP/1.1 connection of a client.
//!
//! Safe requests without a body are read ahead and fetched at the same time; responses are written in the order of
//! the requests. Each other request waits until all earlier responses are written, and nothing is read past it before
//! its own response is written (RFC 9112 section 9.3.2).
use std::{io, pin::pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Version, header};
use longhaul_gateway_core::{admin::clientless_counters::Intercepted, logins::Logins};
use longhaul_http::{
    expectation::is_continue_expected,
    framing::BodyLength,
    method::{Repeatability, repeatability},
};
use longhaul_types::PublicKey;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, ReadHalf, split},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, timeout, timeout_at},
};

use super::{
    Clientless,
    access::{Admitted, Denied, Peer},
    admission::Admission,
    answer::Answer,
    body_time::BodyTime,
    chunked::ChunkEvent,
    connect::{self, TunnelKind, TunnelRequest},
    fetch::{ConnectionState, ProxyRequest, answer},
    head::{HeadError, HeadReader, RequestHead, RequestTarget},
    held::{MAX_HELD, ReadAhead},
    idle_read::read_arrived,
    pac,
    request_body::{BodyFraming, END, Pieces, RequestBody},
    stream::ClientStream,
    transparent::{Interception, Judged},
    writer::{Exchange, FetchTask, PendingAnswer, Writer, Written},
};

#[cfg(test)]
mod tests;

/// Requests of a connection that are in progress.
const MAX_AHEAD: u32 = 32;
/// Maximum time from the first byte of a head to its end: some round trips of the slowest links.
const HEAD_TIME: Duration = Duration::from_secs(60);
/// Bytes that are read at once.
const READ: usize = 16 * 1024;
/// Bytes of a body that are read after the origin has stopped reading it, so that the client reads the response
/// before the connection ends.
const MAX_UNREAD: usize = 1024 * 1024;

/// What is known of a connection before its first request.
#[derive(Default)]
pub(super) struct Arriving {
    /// Its first bytes.
    pub(super) buffer: BytesMut,
    /// Set if the client did not address this proxy.
    pub(super) interception: Option<Interception>,
}

/// Reasons for reading no further request.
enum ReadEnd {
    Closed,
    Tunnel(Box<TunnelRequest>),
}

/// Serves a connection to its end.
pub(super) async fn serve<S: ClientStream>(
    shared: Arc<Clientless>,
    (stream, arriving): (S, Arriving),
    peer: Peer,
) {
    let (urgency, idle) = (stream.urgency(), shared.config.idle_timeout);
    let clients = shared.access.clients();
    let (read, write) = split(stream);
    let (queue, exchanges) = mpsc::channel(MAX_AHEAD as usize);
    let (ahead, admission) = (Arc::new(ReadAhead::default()), Arc::new(Admission::default()));
    let writer = Writer {
        stream: write,
        shared: Arc::clone(&shared),
        ahead: Arc::clone(&ahead),
        urgency,
        stall: idle,
    };
    let mut reader = Reader {
        stream: read,
        buffer: arriving.buffer,
        heads: HeadReader::default(),
        interception: arriving.interception,
        is_first: true,
        connection: Arc::new(ConnectionState {
            shared,
            peer,
            logins: Logins::default(),
            browser: Mutex::default(),
        }),
        owner: None,
        admission: Arc::clone(&admission),
        places: Arc::new(Semaphore::new(MAX_AHEAD as usize)),
        ahead,
        idle,
    };
    let served = {
        // Pinned here, because a future that is passed on is in the task's memory once more with each step.
        let reading = pin!(async {
            let end = tokio::select! {
                end = reader.run(&queue) => end,
                () = queue.closed() => Ok(ReadEnd::Closed),
            };
            // The writer ends after the responses in progress.
            drop(queue);
            end
        });
        let writing = pin!(writer.run(exchanges));
        let serving = async { tokio::join!(reading, writing) };
        admission.serve(clients, serving).await
    };
    let Some((end, (write, written))) = served else {
        return;
    };
    let Reader {
        stream,
        buffer,
        connection,
        ..
    } = reader;
    let stream = stream.unsplit(write);
    match (end, written) {
        (_, Written::Cut) => Box::pin(connect::break_off_behind(stream)).await,
        (Ok(ReadEnd::Tunnel(request)), Written::All) => {
            Box::pin(connect::serve(&connection, *request, stream, buffer.freeze())).await;
        }
        (Ok(ReadEnd::Closed) | Err(_), Written::All | Written::Closed)
        | (Ok(ReadEnd::Tunnel(_)), Written::Closed) => Box::pin(connect::close(stream)).await,
    }
}

/// Reads the requests of a connection.
struct Reader<R> {
    stream: R,
    buffer: BytesMut,
    heads: HeadReader,
    interception: Option<Interception>,
    /// No request has been read yet.
    is_first: bool,
    connection: Arc<ConnectionState>,
    /// Client of the last request.
    owner: Option<PublicKey>,
    admission: Arc<Admission>,
    places: Arc<Semaphore>,
    ahead: Arc<ReadAhead>,
    idle: Duration,
}

type Queue = mpsc::Sender<Exchange>;

impl<S: ClientStream> Reader<ReadHalf<S>> {
    async fn run(&mut self, queue: &Queue) -> io::Result<ReadEnd> {
        loop {
            let place = self.place(1).await?;
            self.ahead.room().await;
            let (head, bytes) = match self.head().await? {
                None => return Ok(ReadEnd::Closed),
                Some(Ok(read)) => read,
                Some(Err(error)) => {
                    if let Some(end) = self.relay_unknown() {
                        return Ok(end);
                    }
                    send(queue, Exchange::rejecting(Answer::of_head_error(error), place)).await;
                    return Ok(ReadEnd::Closed);
                }
            };
            self.is_first = false;
            let shared = &self.connection.shared;
            let (head, admitted) = match &mut self.interception {
                None => {
                    let admitted = shared.admit(self.connection.peer, &head);
                    (head, admitted)
                }
                Some(interception) => match Box::pin(interception.judge(shared, head)).await {
                    Judged::Fetch(head) => (head, Ok(Admitted::Unnamed)),
                    Judged::Refuse(head) => (head, Err(Denied::Straight)),
                    Judged::Relay(head, to) => return Ok(self.relay(head.headers, bytes, to)),
                },
            };
            let keeps_alive = match (head.target.clone(), admitted) {
                (_, Err(denied)) => self.deny(queue, &head, denied, place).await?,
                (RequestTarget::Proxy(path), Ok(_)) => self.answer_itself(queue, &head, &path, place).await?,
                (RequestTarget::Tunnel(host, port), Ok(admitted)) => {
                    let mut headers = head.headers;
                    let client = self.connection.client(&admitted, &mut headers);
                    return Ok(ReadEnd::Tunnel(Box::new(TunnelRequest {
                        client,
                        admitted,
                        host,
                        port,
                        kind: TunnelKind::Asked,
                    })));
                }
                (RequestTarget::Origin(_), Ok(admitted)) => {
                    self.forward(queue, head, &admitted, place).await?
                }
            };
            if !keeps_alive {
                return Ok(ReadEnd::Closed);
            }
        }
    }

    async fn place(&self, count: u32) -> io::Result<OwnedSemaphorePermit> {
        let places = Arc::clone(&self.places).acquire_many_owned(count).await;
        places.map_err(io::Error::other)
    }

    /// Reads the next head; `None` at the end of the connection, also for lack of activity.
    async fn head(&mut self) -> io::Result<Option<Result<(RequestHead, Bytes), HeadError>>> {
        let has_begun = !self.buffer.is_empty();
        let mut until = Instant::now() + if has_begun { HEAD_TIME } else { self.idle };
        loop {
            let was_empty = self.buffer.is_empty();
            if !was_empty {
                match self.heads.next_with_bytes(&mut self.buffer) {
                    Ok(None) => {}
                    Ok(Some(read)) => return Ok(Some(Ok(read))),
                    Err(error) => return Ok(Some(Err(error))),
                }
            }
            if was_empty {
                // The memory of the last request: the next one may be far off.
                self.buffer = BytesMut::new();
            }
            match timeout_at(until, read_arrived(&mut self.stream, &mut self.buffer)).await {
                Ok(Ok(0)) => return Ok(None),
                Ok(Ok(_)) if was_empty => until = Instant::now() + HEAD_TIME,
                Ok(read) => drop(read?),
                // Responses are still on their way.
                Err(_) if was_empty && self.places.available_permits() + 1 < MAX_AHEAD as usize => {
                    until = Instant::now() + self.idle;
                }
                Err(_) => return Ok(None),
            }
        }
    }

    /// The rest of an intercepted connection goes to a host, from these bytes on, once all responses are written.
    fn relay(&mut self, mut headers: HeaderMap, bytes: Bytes, (host, port): (String, u16)) -> ReadEnd {
        self.connection.shared.counters.intercepted(Intercepted::Relayed);
        let mut whole = BytesMut::from(bytes);
        whole.unsplit(std::mem::take(&mut self.buffer));
        self.buffer = whole;
        let admitted = Admitted::Unnamed;
        ReadEnd::Tunnel(Box::new(TunnelRequest {
            client: self.connection.client(&admitted, &mut headers),
            admitted,
            host,
            port,
            kind: TunnelKind::Relayed,
        }))
    }

    /// The same for a connection that does not begin with a request of HTTP.
    fn relay_unknown(&mut self) -> Option<ReadEnd> {
        let to = self.interception.as_ref().filter(|_| self.is_first)?.untold()?;
        Some(self.relay(HeaderMap::new(), Bytes::new(), to))
    }

    /// Answers a client that is not served.
    async fn deny(
        &self,
        queue: &Queue,
        head: &RequestHead,
        denied: Denied,
        place: OwnedSemaphorePermit,
    ) -> io::Result<bool> {
        self.connection.shared.counters.denied(denied.name());
        if denied == Denied::Silent {
            return Ok(false);
        }
        let answer = Answer::of_denied(denied);
        let goes_on = denied == Denied::Password && head.keeps_alive && head.body == BodyLength::None;
        send(queue, Exchange::own(answer, head, goes_on, place)).await;
        Ok(goes_on)
    }

    /// Answers a request for the proxy itself.
    async fn answer_itself(
        &self,
        queue: &Queue,
        head: &RequestHead,
        path: &str,
        place: OwnedSemaphorePermit,
    ) -> io::Result<bool> {
        let goes_on = head.keeps_alive && head.body == BodyLength::None;
        let answer = pac::answer(
            self.connection.peer.security,
            &head.method,
            path,
            head.headers.get(header::HOST),
        );
        send(queue, Exchange::own(answer, head, goes_on, place)).await;
        Ok(goes_on)
    }

    /// Fetches for a client; returns true if the connection may be used further.
    async fn forward(
        &mut self,
        queue: &Queue,
        head: RequestHead,
        admitted: &Admitted,
        mut place: OwnedSemaphorePermit,
    ) -> io::Result<bool> {
        let RequestTarget::Origin(target) = head.target else {
            return Ok(false);
        };
        let mut headers = head.headers;
        let expects = head.version == Version::HTTP_11 && is_continue_expected(&headers);
        if !expects {
            headers.remove(header::EXPECT);
        }
        let client = self.connection.client(admitted, &mut headers);
        self.admission.note(admitted);
        let last = self.owner.replace(client.owner);
        self.connection = self.connection.next(last, client.owner);
        let framing = BodyFraming::of(head.body);
        let is_ahead = repeatability(&head.method) == Repeatability::Safe && framing.is_none();
        if !is_ahead {
            // Returns once all earlier responses are written; the next place is free once this one is.
            place.merge(self.place(MAX_AHEAD - 1).await?);
        }
        let (pieces, mut body) = match &framing {
            Some(_) => {
                let (pieces, body) = RequestBody::new(head.body);
                (Some(pieces), Some(body))
            }
            None => (None, None),
        };
        let asked = body.as_mut().filter(|_| expects).map(RequestBody::asked);
        let is_head = head.method == http::Method::HEAD;
        let limits = client.limits;
        let request = ProxyRequest {
            method: head.method,
            target,
            headers,
            body,
        };
        let (connection, ahead) = (Arc::clone(&self.connection), Arc::clone(&self.ahead));
        let fetch = tokio::spawn(async move {
            let answer = answer(connection, client, request).await;
            let held = ahead.hold(answer.body.held(MAX_HELD));
            (answer, held)
        });
        let exchange = Exchange {
            answer: PendingAnswer::Fetch(FetchTask(fetch)),
            version: head.version,
            is_head,
            keeps_alive: head.keeps_alive,
            asked,
            limits: Some(limits),
            places: place,
        };
        send(queue, exchange).await;
        let is_read = match (framing, pieces) {
            (Some(framing), Some(pieces)) => Box::pin(self.body(framing, (pieces, limits))).await?,
            (None, _) | (_, None) => true,
        };
        Ok(head.keeps_alive && is_read)
    }

    /// Passes a body to the origin; returns true if it was read completely.
    async fn body(
        &mut self,
        mut framing: BodyFraming,
        (pieces, limits): (Pieces, PublicKey),
    ) -> io::Result<bool> {
        let (mut unread, mut time) = (0, BodyTime::new(self.idle));
        loop {
            match framing.next(&mut self.buffer) {
                Ok(ChunkEvent::End) => {
                    // The origin may have stopped reading, which is harmless.
                    let _gone = pieces.send(Ok(END)).await;
                    return Ok(true);
                }
                Ok(ChunkEvent::Data(bytes)) => {
                    let count = bytes.len();
                    if let Err(error) = self.connection.shared.count_up(limits, count) {
                        let _gone = pieces.send(Err(error)).await;
                        return Ok(false);
                    }
                    if pieces.send(Ok(bytes)).await.is_err() {
                        unread += count;
                    }
                    if unread > MAX_UNREAD {
                        return Ok(false);
                    }
                }
                Ok(ChunkEvent::NeedInput) => {
                    self.buffer.reserve(READ);
                    let start = Instant::now();
                    let read = timeout(time.left(), self.stream.read_buf(&mut self.buffer)).await;
                    let error = match read {
                        Ok(Ok(count @ 1..)) => {
                            time.read(start.elapsed(), count);
                            continue;
                        }
                        Ok(_) => io::ErrorKind::UnexpectedEof.into(),
                        Err(_) => time.error().into(),
                    };
                    let _gone = pieces.send(Err(error)).await;
                    return Ok(false);
                }
                Err(error) => {
                    let _gone = pieces.send(Err(error)).await;
                    return Ok(false);
                }
            }
        }
    }
}

async fn send(queue: &Queue, exchange: Exchange) {
    // Without a writer, the connection ends.
    let _gone = queue.send(exchange).await;
}
