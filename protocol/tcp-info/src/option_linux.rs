//! The socket option of Linux.
use std::{io, os::fd::AsFd, time::Duration};

use nix::{getsockopt_impl, libc, sockopt_impl};

use crate::{TcpInfo, release::returns_all_fields};

/// The kernel's "no round trip yet" in `tcpi_min_rtt`.
const UNKNOWN: u32 = u32::MAX;

/// Asks the kernel about a connection.
///
/// # Errors
/// * [`io::ErrorKind::Unsupported`]: a kernel before Linux 4.6, which returns fewer bytes.
/// * The error of getsockopt(2): the socket is no TCP connection.
pub fn tcp_info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    if !returns_all_fields() {
        let cause = "Linux before 4.6 tells too little of a TCP connection";
        return Err(io::Error::new(io::ErrorKind::Unsupported, cause));
    }
    let raw = nix::sys::socket::getsockopt(socket, TcpInfoOption)?;
    Ok(raw.in_units())
}

sockopt_impl!(
    /// The option.
    TcpInfoOption,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    RawTcpInfo
);

/// The first 152 bytes of `struct tcp_info` (`linux/tcp.h`), in its order and with its names. RFC 4898 describes many of them.
#[expect(unreachable_pub, reason = "the type of a public option")]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawTcpInfo {
    tcpi_state: u8,
    tcpi_ca_state: u8,
    tcpi_retransmits: u8,
    tcpi_probes: u8,
    tcpi_backoff: u8,
    tcpi_options: u8,
    /// `tcpi_snd_wscale` and `tcpi_rcv_wscale`, four bits each.
    tcpi_wscale: u8,
    /// `tcpi_delivery_rate_app_limited` and what later kernels put beside it.
    tcpi_flags: u8,
    /// Microseconds.
    tcpi_rto: u32,
    /// Microseconds.
    tcpi_ato: u32,
    tcpi_snd_mss: u32,
    tcpi_rcv_mss: u32,
    /// Segments, as the next four.
    tcpi_unacked: u32,
    tcpi_sacked: u32,
    tcpi_lost: u32,
    tcpi_retrans: u32,
    tcpi_fackets: u32,
    /// Milliseconds ago, as the next three.
    tcpi_last_data_sent: u32,
    /// Not used by the kernel.
    tcpi_last_ack_sent: u32,
    tcpi_last_data_recv: u32,
    tcpi_last_ack_recv: u32,
    tcpi_pmtu: u32,
    tcpi_rcv_ssthresh: u32,
    /// Microseconds.
    tcpi_rtt: u32,
    /// Microseconds.
    tcpi_rttvar: u32,
    tcpi_snd_ssthresh: u32,
    /// Segments.
    tcpi_snd_cwnd: u32,
    tcpi_advmss: u32,
    tcpi_reordering: u32,
    tcpi_rcv_rtt: u32,
    tcpi_rcv_space: u32,
    /// Segments.
    tcpi_total_retrans: u32,
    /// Bytes a second.
    tcpi_pacing_rate: u64,
    tcpi_max_pacing_rate: u64,
    tcpi_bytes_acked: u64,
    tcpi_bytes_received: u64,
    tcpi_segs_out: u32,
    tcpi_segs_in: u32,
    tcpi_notsent_bytes: u32,
    /// Microseconds.
    tcpi_min_rtt: u32,
}

impl RawTcpInfo {
    /// The fields with units that are of use.
    fn in_units(&self) -> TcpInfo {
        let micros = |count: u32| Duration::from_micros(count.into());
        let millis = |count: u32| Duration::from_millis(count.into());
        let bytes = |segments: u32| u64::from(segments) * u64::from(self.tcpi_snd_mss);
        let shortest = Some(self.tcpi_min_rtt).filter(|time| !matches!(*time, 0 | UNKNOWN));
        TcpInfo {
            retransmitted_segments: self.tcpi_total_retrans,
            retransmission_timeout: micros(self.tcpi_rto),
            smoothed_round_trip: micros(self.tcpi_rtt),
            shortest_round_trip: shortest.map(micros),
            segment_bytes: self.tcpi_snd_mss.into(),
            window_bytes: bytes(self.tcpi_snd_cwnd),
            flight_bytes: bytes(self.tcpi_unacked),
            acknowledged_bytes: self.tcpi_bytes_acked,
            unsent_bytes: self.tcpi_notsent_bytes.into(),
            pacing_rate: self.tcpi_pacing_rate,
            since_sent: millis(self.tcpi_last_data_sent),
            since_acknowledged: millis(self.tcpi_last_ack_recv),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        mem::{offset_of, size_of},
        net::{TcpListener, TcpStream, UdpSocket},
    };

    use super::*;

    /// Both ends of a connection over loopback.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    /// The offsets that the fields have in the kernel's header.
    #[test]
    fn the_layout_is_that_of_the_kernel() {
        let offsets = [
            (offset_of!(RawTcpInfo, tcpi_rto), 8),
            (offset_of!(RawTcpInfo, tcpi_snd_mss), 16),
            (offset_of!(RawTcpInfo, tcpi_unacked), 24),
            (offset_of!(RawTcpInfo, tcpi_last_data_sent), 44),
            (offset_of!(RawTcpInfo, tcpi_last_ack_recv), 56),
            (offset_of!(RawTcpInfo, tcpi_rtt), 68),
            (offset_of!(RawTcpInfo, tcpi_snd_cwnd), 80),
            (offset_of!(RawTcpInfo, tcpi_total_retrans), 100),
            (offset_of!(RawTcpInfo, tcpi_pacing_rate), 104),
            (offset_of!(RawTcpInfo, tcpi_bytes_acked), 120),
            (offset_of!(RawTcpInfo, tcpi_notsent_bytes), 144),
            (offset_of!(RawTcpInfo, tcpi_min_rtt), 148),
            (size_of::<RawTcpInfo>(), 152),
        ];
        for (field, (offset, in_kernel)) in offsets.into_iter().enumerate() {
            assert_eq!(offset, in_kernel, "field {field} of the list");
        }
    }

    #[test]
    fn the_kernel_knows_a_new_connection() {
        let (client, _accepted) = connection();
        let info = tcp_info(&client).unwrap();
        // RFC 6298 asks for a second at the beginning; Linux uses at least 200 ms.
        assert!(
            info.retransmission_timeout >= Duration::from_millis(200),
            "{info:?}"
        );
        assert_eq!((info.retransmitted_segments, info.flight_bytes), (0, 0));
        // Ten segments (RFC 6928), of at least 500 bytes; loopback has large ones.
        assert!((5_000..10_000_000).contains(&info.window_bytes), "{info:?}");
        assert_eq!(info.window_bytes % info.segment_bytes, 0);
        let short = Duration::from_nanos(1)..Duration::from_secs(10);
        assert!(short.contains(&info.smoothed_round_trip), "{info:?}");
        assert!(
            info.shortest_round_trip.is_some_and(|time| short.contains(&time)),
            "{info:?}"
        );
        assert!(info.pacing_rate > 0);
    }

    #[test]
    fn the_kernel_counts_what_was_acknowledged() {
        let (mut client, mut accepted) = connection();
        let before = tcp_info(&accepted).unwrap();
        accepted.write_all(&[0; 10_000]).unwrap();
        client.read_exact(&mut [0; 10_000]).unwrap();
        // An answer carries the acknowledgement.
        client.write_all(b"x").unwrap();
        accepted.read_exact(&mut [0]).unwrap();
        let after = tcp_info(&accepted).unwrap();
        let acknowledged = after.acknowledged_bytes - before.acknowledged_bytes;
        assert_eq!(
            (acknowledged, after.unsent_bytes, after.flight_bytes),
            (10_000, 0, 0)
        );
        let recent = ..Duration::from_secs(10);
        assert!(recent.contains(&after.since_sent) && recent.contains(&after.since_acknowledged));
    }

    /// Reads nothing, so that the sender's kernel keeps what the receiver's cannot take.
    #[test]
    fn the_kernel_counts_what_waits() {
        let (client, mut accepted) = connection();
        accepted.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(bytes) = accepted.write(&[0; 65_536]) {
            written += bytes as u64;
        }
        let info = tcp_info(&accepted).unwrap();
        assert!(info.unsent_bytes > 0 && info.unsent_bytes < written, "{info:?}");
        drop(client);
    }

    #[test]
    fn units_are_converted() {
        let raw = RawTcpInfo {
            tcpi_rto: 200_000,
            tcpi_snd_mss: 1_448,
            tcpi_unacked: 3,
            tcpi_last_data_sent: 7,
            tcpi_last_ack_recv: 5,
            tcpi_rtt: 600_000,
            tcpi_snd_cwnd: 10,
            tcpi_total_retrans: 2,
            tcpi_pacing_rate: u64::MAX,
            tcpi_bytes_acked: 1,
            tcpi_notsent_bytes: 9,
            tcpi_min_rtt: UNKNOWN,
            ..RawTcpInfo::default()
        };
        let info = TcpInfo {
            retransmitted_segments: 2,
            retransmission_timeout: Duration::from_millis(200),
            smoothed_round_trip: Duration::from_millis(600),
            shortest_round_trip: None,
            segment_bytes: 1_448,
            window_bytes: 14_480,
            flight_bytes: 4_344,
            acknowledged_bytes: 1,
            unsent_bytes: 9,
            pacing_rate: u64::MAX,
            since_sent: Duration::from_millis(7),
            since_acknowledged: Duration::from_millis(5),
        };
        assert_eq!(raw.in_units(), info);
        let known = RawTcpInfo {
            tcpi_min_rtt: 598_000,
            ..raw
        };
        assert_eq!(
            known.in_units().shortest_round_trip,
            Some(Duration::from_millis(598))
        );
    }

    #[test]
    fn other_sockets_have_no_such_information() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        tcp_info(&socket).unwrap_err();
    }
}
