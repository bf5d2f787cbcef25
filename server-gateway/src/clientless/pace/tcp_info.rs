//! What the kernel knows of a TCP connection (TCP_INFO): Linux only.
use std::time::Duration;

use tokio::net::TcpStream;

/// What the kernel knows of a connection, as far as it concerns what is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TcpInfo {
    /// Bytes that the peer has acknowledged since the connection began.
    pub(super) acked: u64,
    /// Bytes that were written and not sent yet.
    pub(super) unsent: u64,
    /// Bytes of a full packet's content.
    pub(super) packet: u64,
    /// The shortest round trip; `None` before the first one.
    pub(super) round_trip: Option<Duration>,
    /// Time since data was sent last.
    pub(super) since_sent: Duration,
    /// Time since an acknowledgement arrived last.
    pub(super) since_acked: Duration,
}

/// Asks the kernel.
///
/// # Errors
/// The system has no such information, or less of it (Linux before 4.9).
#[cfg(target_os = "linux")]
pub(super) fn tcp_info(stream: &TcpStream) -> std::io::Result<TcpInfo> {
    let raw = nix::sys::socket::getsockopt(stream, linux::TcpInfoOption)?;
    let millis = |count: u32| Duration::from_millis(count.into());
    let [.., since_sent, _, _, since_acked] = raw.before_metrics;
    Ok(TcpInfo {
        acked: raw.acked,
        unsent: raw.unsent.into(),
        packet: raw.packet().into(),
        // The kernel's "unknown" is the largest number.
        round_trip: (raw.shortest_round_trip != u32::MAX && raw.shortest_round_trip != 0)
            .then(|| Duration::from_micros(raw.shortest_round_trip.into())),
        since_sent: millis(since_sent),
        since_acked: millis(since_acked),
    })
}

/// Other systems have no such information.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub(super) fn tcp_info(_: &TcpStream) -> std::io::Result<TcpInfo> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
mod linux {
    use nix::{getsockopt_impl, libc, sockopt_impl};

    sockopt_impl!(
        /// The option.
        TcpInfoOption,
        GetOnly,
        libc::IPPROTO_TCP,
        libc::TCP_INFO,
        RawTcpInfo
    );

    /// The first fields of `struct tcp_info` (`linux/tcp.h`), which the kernel only ever adds to. It must give as many bytes as
    /// this has: older kernels give an error.
    #[expect(unreachable_pub, reason = "the type of a public option")]
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    pub struct RawTcpInfo {
        /// `tcpi_state` to `tcpi_delivery_rate_app_limited`.
        states: [u8; 8],
        /// `tcpi_rto` to `tcpi_last_ack_recv`: `snd_mss` is the third, `last_data_sent` the fourth from the end.
        pub(super) before_metrics: [u32; 13],
        /// `tcpi_pmtu` to `tcpi_total_retrans`.
        metrics: [u32; 11],
        /// `tcpi_pacing_rate`, `tcpi_max_pacing_rate`.
        pacing: [u64; 2],
        /// `tcpi_bytes_acked`.
        pub(super) acked: u64,
        /// `tcpi_bytes_received`.
        received: u64,
        /// `tcpi_segs_out`, `tcpi_segs_in`.
        segments: [u32; 2],
        /// `tcpi_notsent_bytes`.
        pub(super) unsent: u32,
        /// `tcpi_min_rtt`, microseconds.
        pub(super) shortest_round_trip: u32,
        /// `tcpi_data_segs_in`, `tcpi_data_segs_out`.
        data_segments: [u32; 2],
        /// `tcpi_delivery_rate`.
        delivery_rate: u64,
    }

    impl RawTcpInfo {
        /// `tcpi_snd_mss`.
        pub(super) const fn packet(&self) -> u32 {
            self.before_metrics[2]
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn the_kernel_counts_what_was_acknowledged() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut client, mut stream) = (client.unwrap(), accepted.unwrap().0);
        let before = tcp_info(&stream).unwrap();
        assert!(
            before
                .round_trip
                .is_some_and(|time| time < Duration::from_secs(10)),
            "{before:?}"
        );
        assert!(before.packet > 0);
        stream.write_all(&[0; 10_000]).await.unwrap();
        client.read_exact(&mut [0; 10_000]).await.unwrap();
        // An answer carries the acknowledgement.
        client.write_all(b"x").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        let after = tcp_info(&stream).unwrap();
        assert_eq!((after.acked - before.acked, after.unsent), (10_000, 0));
        assert!(after.since_sent < Duration::from_secs(10) && after.since_acked < Duration::from_secs(10));
    }
}
