//! The kernel's TCP: requests follow one another on a connection; concurrent requests use separate
//! connections.
use std::{io, net::SocketAddr, time::Instant};

use parking_lot::Mutex;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::{
    error::{ServeError, TransferError},
    exchange::{Body, Checker, Length, REQUEST, Request},
    progress::Progress,
};

/// Length of the accept queue: an experiment opens two or three connections.
const BACKLOG: i32 = 16;
/// Buffer of one read.
const READ: usize = 64 * 1024;

/// Listens with this congestion control, which accepted connections inherit.
pub(crate) fn listen(address: SocketAddr, congestion: &'static str) -> Result<TcpListener, ServeError> {
    let failed = |source| ServeError::Socket { address, source };
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    socket.set_reuse_address(true).map_err(failed)?;
    socket
        .set_tcp_congestion(congestion.as_bytes())
        .map_err(|source| ServeError::Congestion {
            name: congestion,
            source,
        })?;
    socket.bind(&address.into()).map_err(failed)?;
    socket.listen(BACKLOG).map_err(failed)?;
    TcpListener::from_std(socket.into()).map_err(failed)
}

/// Accepts connections; never returns. Dropping it ends all connections.
pub(crate) async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(async move {
            if let Err(error) = answer_all(stream).await {
                tracing::debug!(%error, "connection ended");
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer_all(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; REQUEST];
    loop {
        stream.read_exact(&mut request).await?;
        let Some(request) = Request::decode(&request) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        for piece in Body::of(request) {
            stream.write_all(&piece).await?;
        }
    }
}

/// The client's connections.
#[derive(Debug)]
pub(crate) struct TcpClient {
    server: SocketAddr,
    /// Open connections without a request; as many as the maximum number of concurrent requests.
    idle: Mutex<Vec<TcpStream>>,
}

impl TcpClient {
    pub(crate) const fn new(server: SocketAddr) -> Self {
        Self {
            server,
            idle: Mutex::new(Vec::new()),
        }
    }

    fn take_idle(&self) -> Option<TcpStream> {
        self.idle.lock().pop()
    }

    fn put_back(&self, stream: TcpStream) {
        self.idle.lock().push(stream);
    }

    async fn connect(&self) -> Result<TcpStream, TransferError> {
        let stream = TcpStream::connect(self.server)
            .await
            .map_err(TransferError::socket("connecting"))?;
        stream
            .set_nodelay(true)
            .map_err(TransferError::socket("setting TCP_NODELAY"))?;
        Ok(stream)
    }

    pub(crate) async fn open(&self) -> Result<(), TransferError> {
        let stream = self.connect().await?;
        self.put_back(stream);
        Ok(())
    }

    pub(crate) async fn fetch(&self, request: Request, progress: &Progress) -> Result<(), TransferError> {
        let mut stream = match self.take_idle() {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        stream
            .write_all(&request.encode())
            .await
            .map_err(TransferError::socket("sending the request"))?;
        if receive(&mut stream, request, progress).await? == Outcome::Complete {
            self.put_back(stream);
        }
        Ok(())
    }

    pub(crate) fn close(&self) {
        self.idle.lock().clear();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Complete,
    Stopped,
}

async fn receive(
    stream: &mut TcpStream,
    request: Request,
    progress: &Progress,
) -> Result<Outcome, TransferError> {
    let mut checker = Checker::new(request.tag);
    let mut buffer = Vec::with_capacity(READ);
    loop {
        let left = match request.order.length {
            Length::Bytes(asked) => asked - checker.received(),
            Length::Endless => u64::MAX,
        };
        if left == 0 {
            return Ok(Outcome::Complete);
        }
        buffer.clear();
        let mut limited = (&mut *stream).take(left);
        let read = tokio::select! {
            read = limited.read_buf(&mut buffer) => read.map_err(TransferError::socket("receiving"))?,
            () = progress.stopped() => return Ok(Outcome::Stopped),
        };
        if read == 0 {
            let received = checker.received();
            return Err(TransferError::Short {
                received,
                asked: received.saturating_add(left),
            });
        }
        checker.take(&buffer)?;
        progress.arrive(Instant::now(), checker.received());
    }
}
