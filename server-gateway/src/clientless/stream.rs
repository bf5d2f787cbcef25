//! The connection of a client, with or without TLS.
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

/// The connection of a client.
pub(super) trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes the connection end abruptly instead of cleanly.
    fn break_off(&self);
}

impl ClientStream for TcpStream {
    fn break_off(&self) {
        // Fails if the client has already closed, which is harmless.
        let _gone = self.set_zero_linger();
    }
}

impl ClientStream for TlsStream<TcpStream> {
    fn break_off(&self) {
        self.get_ref().0.break_off();
    }
}
