//! Frames of the peer's packets (transport.md section 4).
use longhaul_types::{Timestamp, legible};

use super::Incoming;
use crate::{
    connection::{Connection, Lifecycle},
    endpoint::{CloseReason, Event},
    recovery::Arrival,
    streams::StreamViolation,
    wire::{Frame, FrameError, MAX_REASON},
};

/// Error codes of CLOSE (transport.md section 7.4).
const ERROR_MALFORMED: u64 = 2;
const ERROR_LIMIT: u64 = 3;

/// A violation that ends the session.
enum Violation {
    Frame(FrameError),
    Stream(StreamViolation),
}

impl From<FrameError> for Violation {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}
impl From<StreamViolation> for Violation {
    fn from(error: StreamViolation) -> Self {
        Self::Stream(error)
    }
}

/// What a frame wants of the receiver's feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Elicits {
    Nothing,
    /// Feedback at the usual interval: nothing waits for the acknowledgement of a datagram.
    Later,
    /// Feedback at once after an IDLE packet.
    AtOnce,
}

impl Connection {
    pub(super) fn process_frames(
        &mut self,
        now: Timestamp,
        packet: Incoming,
        arrival: Arrival,
        mut frames: &[u8],
    ) {
        let mut eliciting = Elicits::Nothing;
        while !frames.is_empty() {
            match self.process_frame(now, packet, arrival, &mut frames) {
                Ok(elicits) => eliciting = eliciting.max(elicits),
                Err(violation) => {
                    self.close_for_violation(now, &violation);
                    return;
                }
            }
            if !matches!(self.lifecycle, Lifecycle::Open) {
                return;
            }
        }
        self.declare_gaps(now);
        if arrival == Arrival::Refused {
            // Counts as lost: the packet will be missing, reported and retransmitted.
            self.pending_ack.now = true;
            return;
        }
        let newest = self.gaps.largest() == Some(packet.number);
        let activity = newest.then_some(packet.activity);
        if eliciting > Elicits::Nothing {
            self.record_eliciting(now, packet, activity, eliciting);
        } else if let Some(activity) = activity {
            self.controller.on_activity(now, activity);
        }
    }

    /// Processes one frame.
    fn process_frame(
        &mut self,
        now: Timestamp,
        packet: Incoming,
        arrival: Arrival,
        frames: &mut &[u8],
    ) -> Result<Elicits, Violation> {
        let frame = Frame::decode(frames)?;
        let refused = arrival == Arrival::Refused;
        match frame {
            Frame::Pad => return Ok(Elicits::Nothing),
            Frame::Feedback(feedback) => {
                self.process_feedback(now, packet, &feedback);
                return Ok(Elicits::Nothing);
            }
            Frame::Forward { distance } => {
                if let Some(floor) = packet.number.checked_sub(distance) {
                    self.gaps.forward(floor);
                }
                return Ok(Elicits::Nothing);
            }
            Frame::Close { error, reason } => {
                let reason = legible(reason, MAX_REASON);
                self.closed_by_peer(now, CloseReason::PeerClosed { error, reason });
                return Ok(Elicits::Nothing);
            }
            Frame::Ping => {
                self.question = Some(packet.number);
                self.schedule_feedback(packet);
            }
            _ if refused => {}
            Frame::Cancel {
                stream,
                error,
                final_offset,
            } => self.streams.on_cancel(stream, error, final_offset)?,
            Frame::Stop { stream, error } => self.streams.on_stop(stream, error)?,
            Frame::StreamLimit { stream, limit } => self.streams.on_stream_limit(stream, limit)?,
            Frame::Streams { count } => self.streams.on_streams(count),
            Frame::Token(token) => self.notify(Event::Token(token)),
            Frame::PathChallenge(data) => self.response_due = Some(data),
            Frame::PathResponse(data) => self.path.on_response(data),
            Frame::Train { packets } => {
                self.on_train(packets, packet.early);
                self.schedule_feedback(packet);
            }
            // An attacker can replay early data.
            Frame::Datagram(_) if packet.early => return Ok(Elicits::Later),
            Frame::Datagram(datagram) => {
                self.on_datagram(now, datagram)?;
                return Ok(Elicits::Later);
            }
            Frame::Data(data) => {
                let before = self.streams.recv_buffered();
                self.streams.on_data(
                    data.stream,
                    data.offset,
                    data.total,
                    data.fin,
                    data.bytes,
                    packet.early,
                )?;
                if self.streams.recv_buffered() > before && self.question != Some(packet.number) {
                    self.last_news_at = now;
                }
            }
        }
        Ok(Elicits::AtOnce)
    }

    fn close_for_violation(&mut self, now: Timestamp, violation: &Violation) {
        let (error, reason) = match violation {
            Violation::Frame(error) => (ERROR_MALFORMED, error.to_string()),
            Violation::Stream(error @ StreamViolation::Limit) => (ERROR_LIMIT, error.to_string()),
            Violation::Stream(error) => (ERROR_MALFORMED, error.to_string()),
        };
        let event = CloseReason::PeerViolation {
            error,
            reason: reason.clone(),
        };
        self.close_with(now, error, reason, event);
    }
}
