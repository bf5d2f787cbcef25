//! The socket of QUIC on a UDP port that a gateway's sessions use as well.
use std::{
    fmt,
    future::Future,
    io::{self, IoSliceMut},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use longhaul_driver::QuicShare;
use parking_lot::Mutex;
use quinn::{
    AsyncUdpSocket, UdpPoller,
    udp::{RecvMeta, Transmit},
};

/// The share as a socket of the QUIC library.
#[derive(Debug)]
pub(super) struct SharedSocket(Arc<QuicShare>);

impl SharedSocket {
    pub(super) fn new(share: QuicShare) -> Self {
        Self(Arc::new(share))
    }
}

impl AsyncUdpSocket for SharedSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable {
            share: Arc::clone(&self.0),
            waiting: Mutex::new(None),
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.0.try_send(transmit)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_recv(context, buffers, meta).map(Ok)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.0.max_segments()
    }

    fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}

/// The wait of one connection for the socket.
struct Writable {
    share: Arc<QuicShare>,
    /// Locked by nobody: pollers are shared between threads, and a future is not.
    waiting: Mutex<Option<Wait>>,
}

type Wait = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

impl fmt::Debug for Writable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writable").finish_non_exhaustive()
    }
}

impl UdpPoller for Writable {
    fn poll_writable(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let share = Arc::clone(&self.share);
        let waiting = self.waiting.get_mut();
        let wait = waiting.get_or_insert_with(|| Box::pin(async move { share.writable().await }));
        let writable = ready!(wait.as_mut().poll(context));
        *waiting = None;
        Poll::Ready(writable)
    }
}
