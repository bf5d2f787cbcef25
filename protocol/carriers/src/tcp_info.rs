//! What the kernel knows of a TCP connection (TCP_INFO, tcp(7)): Linux only.
use std::{io, os::fd::AsFd, time::Duration};

use nix::{getsockopt_impl, libc, sockopt_impl};

/// What the kernel knows of a connection, as far as it concerns what is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Segments that were sent again since the connection began.
    pub(crate) resent: u32,
    /// Time without an acknowledgement after which the kernel sends again.
    pub(crate) timeout: Duration,
    /// Smoothed round-trip time; zero before the first one.
    pub(crate) round_trip: Duration,
    /// Bytes that may be on the way (congestion window).
    pub(crate) window: u64,
    /// Bytes that are on the way.
    pub(crate) sent: u64,
    /// Bytes that were written and not sent yet.
    pub(crate) unsent: u64,
    /// Bytes a second that the kernel sends at most (pacing).
    pub(crate) pace: u64,
}

impl TcpInfo {
    /// Bytes that the kernel can send within `time`: what its window has room for, and what acknowledgements make room for,
    /// as far as it may send as fast.
    pub(crate) fn sends_within(&self, time: Duration) -> u64 {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let round = u64::try_from(self.round_trip.as_micros()).unwrap_or(u64::MAX);
        let room = self.window.saturating_sub(self.sent);
        let acknowledged = self.window.saturating_mul(micros).checked_div(round);
        let by_window = room.saturating_add(acknowledged.unwrap_or(u64::MAX));
        by_window.min(self.pace.saturating_mul(micros) / 1_000_000)
    }
}

/// Asks the kernel.
///
/// # Errors
/// The socket is closed, or no TCP connection.
pub(crate) fn tcp_info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    let raw = nix::sys::socket::getsockopt(socket, TcpInfoOption)?;
    let micros = |count: u32| Duration::from_micros(count.into());
    let bytes = |segments: u32| u64::from(segments) * u64::from(raw.segment);
    Ok(TcpInfo {
        resent: raw.resent,
        timeout: micros(raw.timeout),
        round_trip: micros(raw.round_trip),
        window: bytes(raw.window),
        sent: bytes(raw.unacknowledged),
        unsent: raw.unsent.into(),
        pace: raw.pace,
    })
}

sockopt_impl!(
    /// The option.
    TcpInfoOption,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    RawTcpInfo
);

/// The first fields of `struct tcp_info` (`linux/tcp.h`), to which kernels only ever add.
#[expect(unreachable_pub, reason = "the type of a public option")]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawTcpInfo {
    /// `tcpi_state` to `tcpi_delivery_rate_app_limited`.
    states: [u8; 8],
    /// `tcpi_rto`, microseconds.
    timeout: u32,
    /// `tcpi_ato`.
    delay: u32,
    /// `tcpi_snd_mss`.
    segment: u32,
    /// `tcpi_rcv_mss`.
    received_segment: u32,
    /// `tcpi_unacked`.
    unacknowledged: u32,
    /// `tcpi_sacked` to `tcpi_rcv_ssthresh`.
    losses_to_threshold: [u32; 10],
    /// `tcpi_rtt`, microseconds.
    round_trip: u32,
    /// `tcpi_rttvar`, `tcpi_snd_ssthresh`.
    variation_and_threshold: [u32; 2],
    /// `tcpi_snd_cwnd`.
    window: u32,
    /// `tcpi_advmss` to `tcpi_rcv_space`.
    before_resent: [u32; 4],
    /// `tcpi_total_retrans`.
    resent: u32,
    /// `tcpi_pacing_rate`.
    pace: u64,
    /// `tcpi_max_pacing_rate`, `tcpi_bytes_acked`, `tcpi_bytes_received`.
    rates_and_bytes: [u64; 3],
    /// `tcpi_segs_out`, `tcpi_segs_in`.
    segments: [u32; 2],
    /// `tcpi_notsent_bytes`.
    unsent: u32,
    /// `tcpi_min_rtt`, microseconds.
    shortest_round_trip: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_knows_the_timeout_of_a_connection() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connecting = tokio::net::TcpStream::connect(address);
        let (client, _accepted) = tokio::join!(connecting, listener.accept());
        let info = tcp_info(&client.unwrap()).unwrap();
        // RFC 6298 asks for a second at the beginning; Linux uses at least 200 ms.
        assert!(info.timeout >= Duration::from_millis(200), "{info:?}");
        assert_eq!((info.resent, info.sent), (0, 0));
        // Ten segments (RFC 6928), of at least 500 bytes; loopback has large ones.
        assert!((5_000..10_000_000).contains(&info.window), "{info:?}");
        assert!(
            info.round_trip > Duration::ZERO && info.round_trip < Duration::from_secs(10),
            "{info:?}"
        );
    }

    #[test]
    fn the_window_and_its_acknowledgements_are_sent_soon() {
        let info = TcpInfo {
            round_trip: Duration::from_millis(600),
            window: 14_480,
            sent: 4_480,
            pace: u64::MAX,
            ..TcpInfo::default()
        };
        assert_eq!(info.sends_within(Duration::from_millis(50)), 10_000 + 14_480 / 12);
        let paced = TcpInfo { pace: 70_000, ..info };
        assert_eq!(paced.sends_within(Duration::from_millis(50)), 3_500);
        let full = TcpInfo { sent: 20_000, ..info };
        assert_eq!(full.sends_within(Duration::from_millis(50)), 14_480 / 12);
        let unknown = TcpInfo {
            round_trip: Duration::ZERO,
            ..info
        };
        assert_eq!(
            unknown.sends_within(Duration::from_millis(50)),
            u64::MAX / 1_000_000
        );
    }
}
