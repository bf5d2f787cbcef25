//! Options of a TCP connection that carries a link (tcp(7)).
use std::{
    os::fd::{AsFd as _, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use longhaul_tcp_info::{TcpInfo, tcp_info};
use socket2::SockRef;
use tokio::{net::TcpStream, time::Instant};
use tracing::info;

use crate::{
    pump::Room,
    tcp_sender::{CongestionControl, SenderChoice},
};

/// Greatest limit of unsent bytes: above 40 Mbit/s the kernel drains even these within 50 ms.
const GREATEST: usize = 256 * 1024;
/// Time within which the kernel should send what it gets.
const SOON: Duration = Duration::from_millis(50);
/// Unsent bytes that the kernel may always have: two packets.
const LEAST: u64 = 2 * 1500;
/// Times between questions whether the kernel has sent what it had too much.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_millis(20);
/// Time for which sent bytes may stay unacknowledged. A dead connection otherwise ends after a quarter of an
/// hour; an agent replaces it much earlier.
const USER_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of one connection.
#[derive(Debug)]
pub(crate) struct TcpOptions {
    socket: Option<OwnedFd>,
    unsent: usize,
    /// `None` if the system refuses BBR.
    sender: Option<SenderChoice>,
}

/// The refusal of BBR to a listener has been logged.
static IS_REFUSAL_KNOWN: AtomicBool = AtomicBool::new(false);

impl TcpOptions {
    /// Sets the options that do not change. A refused option only costs delay.
    pub(crate) fn new(connection: &TcpStream) -> Self {
        let _refused = connection.set_nodelay(true);
        let _refused = SockRef::from(connection).set_tcp_user_timeout(Some(USER_TIMEOUT));
        let is_bbr = set_congestion(&SockRef::from(connection), CongestionControl::Bbr).is_ok();
        Self {
            socket: connection.as_fd().try_clone_to_owned().ok(),
            unsent: 0,
            sender: is_bbr.then(|| SenderChoice::new(Instant::now())),
        }
    }

    /// The same for a connection that a listener accepted, which sends the downloads. A refusal of BBR is logged once.
    pub(crate) fn of_accepted(connection: &TcpStream) -> Self {
        let options = Self::new(connection);
        if options.sender.is_none() && !IS_REFUSAL_KNOWN.swap(true, Ordering::Relaxed) {
            info!(
                "the system refuses BBR for sessions over TLS, so they use its usual congestion control, which is much slower \
                 where packets are lost and on long links; it needs the kernel module tcp_bbr, and `bbr` in the sysctl \
                 net.ipv4.tcp_allowed_congestion_control"
            );
        }
        options
    }

    /// Prepares a write while `sufficient` unsent bytes suffice for the session. What the system refuses costs speed only.
    pub(crate) fn before_write(&mut self, sufficient: usize) {
        self.limit_unsent(sufficient);
        let wanted = self
            .sender
            .as_mut()
            .and_then(|sender| sender.before_write(Instant::now()));
        self.change_sender(wanted);
    }

    /// Takes note of a write of so many bytes.
    pub(crate) fn after_write(&mut self, bytes: usize) -> Room {
        let Some(info) = self.socket.as_ref().and_then(|socket| tcp_info(socket).ok()) else {
            return Room::Unknown;
        };
        let of_kernel = (info.retransmitted_segments, info.retransmission_timeout);
        let sender = self.sender.as_mut();
        let wanted = sender.and_then(|sender| sender.after_write(Instant::now(), bytes, of_kernel));
        self.change_sender(wanted);
        room(&info)
    }

    /// What the kernel can take now.
    pub(crate) fn room(&self) -> Room {
        let info = self.socket.as_ref().and_then(|socket| tcp_info(socket).ok());
        info.map_or(Room::Unknown, |info| room(&info))
    }

    fn change_sender(&self, wanted: Option<CongestionControl>) {
        if let (Some(wanted), Some(socket)) = (wanted, &self.socket) {
            let _refused = set_congestion(&SockRef::from(socket), wanted);
        }
    }

    /// Limits the unsent bytes in the kernel's buffer (TCP_NOTSENT_LOWAT): what is in it can no longer be
    /// overtaken by more urgent packets. Small changes are not worth a call.
    fn limit_unsent(&mut self, bytes: usize) {
        let bytes = bytes.min(GREATEST);
        if bytes > self.unsent / 2 && bytes < self.unsent * 2 {
            return;
        }
        if let (Some(socket), Ok(limit)) = (&self.socket, u32::try_from(bytes)) {
            self.unsent = bytes;
            let _refused = SockRef::from(socket).set_tcp_notsent_lowat(limit);
        }
    }
}

/// What the kernel can take while what it has must leave soon. TCP_NOTSENT_LOWAT is not exact enough: the kernel fills its
/// last segment buffer, of up to 64 KiB, without regard to it.
fn room(info: &TcpInfo) -> Room {
    let useful = sent_within(info, SOON).max(LEAST);
    if info.unsent_bytes <= useful {
        return Room::Bytes(usize::try_from(useful - info.unsent_bytes).unwrap_or(usize::MAX));
    }
    let micros = (info.unsent_bytes - useful).saturating_mul(1_000_000) / info.pacing_rate.max(1);
    Room::After(Duration::from_micros(micros).clamp(SHORTEST_WAIT, LONGEST_WAIT))
}

/// Bytes that the kernel can send within `time`: what its window has room for, and what acknowledgements make room for, as far as
/// it may send as fast.
fn sent_within(info: &TcpInfo, time: Duration) -> u64 {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let (time, round) = (micros(time), micros(info.smoothed_round_trip));
    let room = info.window_bytes.saturating_sub(info.flight_bytes);
    let acknowledged = info.window_bytes.saturating_mul(time).checked_div(round);
    let by_window = room.saturating_add(acknowledged.unwrap_or(u64::MAX));
    by_window.min(info.pacing_rate.saturating_mul(time) / 1_000_000)
}

fn set_congestion(socket: &SockRef<'_>, control: CongestionControl) -> std::io::Result<()> {
    socket.set_tcp_congestion(control.name().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_and_its_acknowledgements_are_sent_soon() {
        let info = TcpInfo {
            smoothed_round_trip: Duration::from_millis(600),
            window_bytes: 14_480,
            flight_bytes: 4_480,
            pacing_rate: u64::MAX,
            ..TcpInfo::default()
        };
        assert_eq!(sent_within(&info, SOON), 10_000 + 14_480 / 12);
        let paced = TcpInfo {
            pacing_rate: 70_000,
            ..info
        };
        assert_eq!(sent_within(&paced, SOON), 3_500);
        let full = TcpInfo {
            flight_bytes: 20_000,
            ..info
        };
        assert_eq!(sent_within(&full, SOON), 14_480 / 12);
        let unknown = TcpInfo {
            smoothed_round_trip: Duration::ZERO,
            ..info
        };
        assert_eq!(sent_within(&unknown, SOON), u64::MAX / 1_000_000);
    }
}
