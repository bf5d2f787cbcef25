//! Probing of a second path while the session uses another one (transport.md section 7.7).
use std::time::Duration;

use longhaul_types::Timestamp;

use super::{Connection, IP_UDP_HEADERS, Keys, Lifecycle, STAMP_LEN};
use crate::{
    endpoint::Event,
    path::{LEAST_LINK_PAYLOAD, Path, PathClass},
    wire::{Activity, Frame, Stamp, TAG_LEN},
};

/// UDP payload of a probing packet: the path must carry packets of this size in both directions.
const PROBING_PAYLOAD: usize = 1_200;
/// Maximum number of probing packets that are remembered until the packets before them have arrived. More are reported as
/// missing, which costs nothing: they contain nothing to repeat.
const MAX_AHEAD: usize = 8;
/// Bounds of the wait for an answer.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);
const LONGEST_PATIENCE: Duration = Duration::from_secs(6);

/// Probe of a second path by an agent.
#[derive(Clone, Debug)]
pub(super) struct PathProbe {
    remote: Path,
    /// Data of the current challenge; `sent_at` is `None` until it is sent.
    data: [u8; 8],
    sent_at: Option<Timestamp>,
    patience: Duration,
    /// Number of challenges, one after the other, that have to be answered.
    challenges: usize,
    /// Times between the challenges and their answers.
    answers: Vec<Duration>,
}

/// State of both ends' probing packets.
#[derive(Clone, Debug, Default)]
pub(super) struct PathProbes {
    /// Agent: the probe in progress.
    current: Option<PathProbe>,
    /// Gateway: the answer to send, on the path of its challenge and as long as the challenge.
    answer: Option<(Path, [u8; 8], usize)>,
    /// Numbers of probing packets that have overtaken packets of the session's path.
    ahead: Vec<u64>,
}

impl PathProbes {
    /// Time at which the current challenge counts as unanswered.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let probe = self.current.as_ref()?;
        Some(probe.sent_at? + probe.patience)
    }

    fn is_pending(&self) -> bool {
        self.answer.is_some() || self.current.as_ref().is_some_and(|probe| probe.sent_at.is_none())
    }

    /// Next probing packet: its path, frame and UDP payload.
    fn next(&mut self, now: Timestamp) -> Option<(Path, Frame<'static>, usize)> {
        if let Some((path, data, size)) = self.answer.take() {
            return Some((path, Frame::PathResponse(data), size));
        }
        let probe = self.current.as_mut().filter(|probe| probe.sent_at.is_none())?;
        probe.sent_at = Some(now);
        Some((
            probe.remote,
            Frame::PathChallenge(probe.data),
            probing_payload(probe.remote),
        ))
    }
}

/// Size of probing packets on this path.
const fn probing_payload(path: Path) -> usize {
    match (path, path.class()) {
        (Path::Link(_), PathClass::Datagram) => LEAST_LINK_PAYLOAD,
        (Path::Udp(_), _) | (Path::Link(_), PathClass::Ordered) => PROBING_PAYLOAD,
    }
}

/// Returns true if the frames are those of a probing packet: PATH_CHALLENGE, PATH_RESPONSE and PAD only. Such a packet
/// does not move the session (RFC 9000 section 9.1).
pub(super) fn is_probing(mut frames: &[u8]) -> bool {
    let mut has_path_frame = false;
    while !frames.is_empty() {
        match Frame::decode(&mut frames) {
            Ok(Frame::PathChallenge(_) | Frame::PathResponse(_)) => has_path_frame = true,
            Ok(Frame::Pad) => {}
            Ok(_) | Err(_) => return false,
        }
    }
    has_path_frame
}

impl Connection {
    /// Finds out whether `remote` carries packets, while the session goes on over its path (agent).
    /// `challenges` have to be answered, one after the other. [`Event::PathProbed`] has the result. A probe in progress
    /// is replaced.
    pub(crate) fn probe_path(&mut self, remote: Path, challenges: usize) {
        if self.is_gateway() || !matches!(self.keys, Keys::Full { .. }) || remote == self.path.remote {
            return;
        }
        let patience = (self.rtt.smoothed() * 3).clamp(LEAST_PATIENCE, LONGEST_PATIENCE);
        self.path_probes.current = Some(PathProbe {
            remote,
            data: self.next_challenge(),
            sent_at: None,
            patience,
            challenges,
            answers: Vec::with_capacity(challenges),
        });
        self.rearm();
    }

    /// Data of the next PATH_CHALLENGE, which the peer cannot foretell.
    pub(super) fn next_challenge(&mut self) -> [u8; 8] {
        self.challenges += 1;
        let digest = blake3::keyed_hash(&self.challenge_secret, &self.challenges.to_be_bytes());
        let mut data = [0; 8];
        data.copy_from_slice(&digest.as_bytes()[..8]);
        data
    }

    /// Ends a probe whose challenge was not answered in time.
    pub(super) fn end_path_probe(&mut self) {
        if let Some(probe) = self.path_probes.current.take() {
            self.notify(Event::PathProbed {
                path: probe.remote,
                rtt: None,
            });
        }
    }

    /// Appends a probing packet to the empty `out`, if one is due; returns its path.
    pub(crate) fn transmit_probing(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Option<Path> {
        let is_open = matches!(
            (&self.lifecycle, &self.keys),
            (Lifecycle::Open, Keys::Full { .. })
        );
        if !is_open || !out.is_empty() || !self.path_probes.is_pending() {
            return None;
        }
        let (remote, frame, size) = self.path_probes.next(now)?;
        let number = self.sent_packets.next_number();
        let header_len = self.header_len();
        out.resize(header_len, 0);
        out.extend_from_slice(&Stamp::of(now).raw().to_be_bytes()[1..STAMP_LEN + 1]);
        frame.encode(out);
        // PAD is a zero byte, as are all bytes after it.
        out.resize(size.saturating_sub(TAG_LEN).max(out.len()), 0);
        // Nothing to repeat, and no use of the other path's credit.
        self.sent_packets.on_sent(now, 0, Vec::new());
        self.seal(now, number, Activity::More, out, 0, header_len);
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += out.len() as u64 + IP_UDP_HEADERS;
        Some(remote)
    }

    /// Processes a probing packet that arrived on another path than the session's.
    pub(super) fn on_probing_packet(
        &mut self,
        now: Timestamp,
        remote: Path,
        number: u64,
        size: usize,
        mut frames: &[u8],
    ) {
        // Packets before this one are on their way on the session's path, and not missing.
        if self.path_probes.ahead.len() < MAX_AHEAD {
            self.path_probes.ahead.push(number);
        }
        self.note_overtaking(now);
        while let Ok(frame) = Frame::decode(&mut frames) {
            if let Frame::PathChallenge(data) = frame
                && self.is_gateway()
            {
                // An answer that is not longer than the challenge amplifies nothing (section 7.2).
                self.path_probes.answer = Some((remote, data, size));
            } else if let Frame::PathResponse(data) = frame {
                self.on_probe_answered(now, data);
            }
            if frames.is_empty() {
                break;
            }
        }
        self.rearm();
    }

    /// Records the probing packets whose numbers the session's path has reached.
    pub(super) fn note_overtaking(&mut self, now: Timestamp) {
        if self.path_probes.ahead.is_empty() {
            return;
        }
        let largest = self.gaps.largest();
        let numbers = std::mem::take(&mut self.path_probes.ahead);
        for number in numbers {
            if Some(number) < largest {
                self.gaps.on_packet(now, number);
            } else {
                self.path_probes.ahead.push(number);
            }
        }
    }

    fn on_probe_answered(&mut self, now: Timestamp, data: [u8; 8]) {
        if !matches!(self.lifecycle, Lifecycle::Open) {
            return;
        }
        let next = self.next_challenge();
        let Some(probe) = self
            .path_probes
            .current
            .as_mut()
            .filter(|probe| probe.data == data)
        else {
            return;
        };
        let Some(sent_at) = probe.sent_at.take() else {
            return;
        };
        probe.answers.push(now.saturating_since(sent_at));
        probe.data = next;
        if probe.answers.len() >= probe.challenges {
            probe.answers.sort_unstable();
            let event = Event::PathProbed {
                path: probe.remote,
                rtt: probe.answers.get(probe.answers.len() / 2).copied(),
            };
            self.path_probes.current = None;
            self.notify(event);
        }
    }
}
