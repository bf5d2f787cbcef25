//! Options of the TCP connections of clients: a sender for a slow last hop, without a change of the system.
//!
//! The kernel's usual sender fills the queue of a slow link, so that all that is sent later waits for seconds. BBR keeps the
//! queue short where the kernel has it. What is in the kernel's buffer cannot be overtaken by what is more urgent; where the
//! operator has named the link (`clientless.link`), the buffer holds little more than the link.
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_types::LinkProfile;
use tokio::net::TcpStream;
use tracing::info;

/// Part of a second whose bytes may wait in the kernel's buffer.
const UNSENT_PART: u64 = 10;
/// Bytes that may wait on any link: one read of a body.
const LEAST_UNSENT: u64 = 16 * 1024;
/// The same for an unknown link: 100 ms at 10 Mbit/s.
const USUAL_UNSENT: u64 = 128 * 1024;
/// Round trips whose bytes may be on the way: BBR and CUBIC use up to two bandwidth-delay products.
const ROUND_TRIPS: u32 = 2;
/// Bytes that may be on the way on any link: ten full packets, the initial window (RFC 6928).
const LEAST_SENT: u64 = 10 * 1460;

/// Options of all connections.
#[derive(Debug)]
pub(super) struct SocketOptions {
    unsent: u32,
    /// `None`: the kernel finds it.
    send_buffer: Option<usize>,
    /// The refusal of BBR has been logged.
    is_refusal_known: AtomicBool,
}

impl SocketOptions {
    /// The options for clients whose link has this profile.
    pub(super) fn new(link: Option<LinkProfile>) -> Self {
        let rate = link.map(|link| link.down.as_bps() / u64::from(u8::BITS));
        let unsent = rate.map_or(USUAL_UNSENT, |rate| {
            (rate / UNSENT_PART).clamp(LEAST_UNSENT, USUAL_UNSENT)
        });
        let send_buffer = link.zip(rate).map(|(link, rate)| {
            let flight = u128::from(rate) * (link.rtt * ROUND_TRIPS).as_micros() / 1_000_000;
            u64::try_from(flight)
                .unwrap_or(u64::MAX)
                .max(LEAST_SENT)
                .saturating_add(unsent)
        });
        Self {
            unsent: u32::try_from(unsent).unwrap_or(u32::MAX),
            send_buffer: send_buffer.and_then(|bytes| usize::try_from(bytes).ok()),
            is_refusal_known: AtomicBool::new(false),
        }
    }

    /// Sets the options. What the system refuses costs delay only.
    pub(super) fn set(&self, stream: &TcpStream) {
        // Small responses must not wait for the acknowledgement of earlier ones.
        let _delayed = stream.set_nodelay(true);
        if let Err(error) = self.set_for_linux(stream)
            && !self.is_refusal_known.swap(true, Ordering::Relaxed)
        {
            info!(
                %error,
                "the system refuses BBR for the connections of clients without an agent, so they use its usual congestion \
                 control, which keeps longer queues; `sysctl net.ipv4.tcp_allowed_congestion_control` lists what is permitted"
            );
        }
    }
}

#[cfg(target_os = "linux")]
impl SocketOptions {
    /// Limits the bytes that are not sent yet (TCP_NOTSENT_LOWAT), and these together with those that are not acknowledged
    /// (SO_SNDBUF), and lets BBR decide when bytes are sent (TCP_CONGESTION).
    fn set_for_linux(&self, stream: &TcpStream) -> std::io::Result<()> {
        let socket = socket2::SockRef::from(stream);
        let _refused = socket.set_tcp_notsent_lowat(self.unsent);
        if let Some(bytes) = self.send_buffer {
            let _refused = socket.set_send_buffer_size(bytes);
        }
        socket.set_tcp_congestion(b"bbr")
    }
}

#[cfg(not(target_os = "linux"))]
impl SocketOptions {
    /// Sets nothing: other systems have no such options.
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the options of Linux need both"
    )]
    const fn set_for_linux(&self, _: &TcpStream) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_hold_what_the_link_needs() {
        let of = |link: &str| {
            let options = SocketOptions::new(Some(link.parse().unwrap()));
            (options.unsent, options.send_buffer.unwrap())
        };
        // 4,950 bytes a second, 660 ms: less than the initial window.
        assert_eq!(of("gprs-3+1"), (16_384, 14_600 + 16_384));
        // 2,500,000 bytes a second, 602 ms.
        assert_eq!(of("geo-sat"), (131_072, 2 * 1_505_000 + 131_072));
        assert_eq!(SocketOptions::new(None).send_buffer, None);
    }

    #[tokio::test]
    async fn a_connection_gets_the_options() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        SocketOptions::new(Some("gprs-3+1".parse().unwrap())).set(&client);
        assert!(client.nodelay().unwrap());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn few_bytes_wait_for_being_sent() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        SocketOptions::new(Some("gprs-3+1".parse().unwrap())).set(&client);
        let socket = socket2::SockRef::from(&client);
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), 16_384);
        // Linux doubles it for its own overhead.
        assert_eq!(socket.send_buffer_size().unwrap(), 2 * (14_600 + 16_384));
    }
}
