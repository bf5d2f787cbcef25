//! What the kernel knows of a TCP connection: the socket option TCP_INFO (tcp(7)) of Linux, and the user at its other end
//! ([`peer`], also for UDP ports of this machine).
//!
//! The layout is that of `struct tcp_info` in the kernel's header `linux/tcp.h` up to `tcpi_min_rtt`, 152 bytes; kernels only
//! ever append to it. Linux returns all of it since 4.6. [`tcp_info`] fails on an older kernel, which returns fewer bytes, as
//! on all other systems: some fields without the others are of no use to those who ask.
//!
//! The kernel counts what is on the way in segments. [`TcpInfo`] has bytes, by the present segment size, so these are estimates;
//! the counts of acknowledged and of unsent bytes are exact.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(target_os = "linux")]
mod option_linux;
#[cfg(not(target_os = "linux"))]
mod option_portable;
pub mod peer;
#[cfg(target_os = "linux")]
mod release;
mod user;

use std::time::Duration;

#[cfg(target_os = "linux")]
pub use option_linux::tcp_info;
#[cfg(not(target_os = "linux"))]
pub use option_portable::tcp_info;
pub use user::UserId;

/// What the kernel knows of one connection, as far as it concerns what this end sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Segments that were sent again since the connection began (`tcpi_total_retrans`).
    pub retransmitted_segments: u32,
    /// The retransmission timeout (RFC 6298): the time without an acknowledgement after which the kernel sends again
    /// (`tcpi_rto`).
    pub retransmission_timeout: Duration,
    /// The smoothed round-trip time; zero before the first one (`tcpi_rtt`).
    pub smoothed_round_trip: Duration,
    /// The shortest round-trip time of the kernel's window of minutes (sysctl `net.ipv4.tcp_min_rtt_wlen`); `None` before the
    /// first one (`tcpi_min_rtt`).
    pub shortest_round_trip: Option<Duration>,
    /// Bytes of a full segment's content (`tcpi_snd_mss`).
    pub segment_bytes: u64,
    /// The congestion window (RFC 5681), as many full segments as the kernel counts (`tcpi_snd_cwnd`).
    pub window_bytes: u64,
    /// The flight size (RFC 5681): what was sent and not acknowledged yet, as many full segments as the kernel counts
    /// (`tcpi_unacked`).
    pub flight_bytes: u64,
    /// Bytes that the peer has acknowledged since the connection began (`tcpi_bytes_acked`).
    pub acknowledged_bytes: u64,
    /// Bytes that were written and not sent yet (`tcpi_notsent_bytes`).
    pub unsent_bytes: u64,
    /// Bytes a second that the kernel sends at most; `u64::MAX` without a limit (`tcpi_pacing_rate`).
    pub pacing_rate: u64,
    /// Time since data was last sent (`tcpi_last_data_sent`), in whole milliseconds.
    pub since_sent: Duration,
    /// Time since an acknowledgement last arrived (`tcpi_last_ack_recv`), in whole milliseconds.
    pub since_acknowledged: Duration,
}
