//! Service of the queue: packets are serialised at a constant rate or at the opportunities of a trace, then lost,
//! corrupted, duplicated or delayed.
use longhaul_types::{ByteCount, Timestamp};

use super::{Link, MAX_IN_FLIGHT, Progress, Serving, Waiting};
use crate::{
    Capacity, DeliveryTrace, DropCause, OPPORTUNITY, Packet,
    arq::{ArqOutcome, Transmission},
    codel::Verdict,
};

impl<P: Packet> Link<P> {
    /// Starts to serve after an idle period.
    pub(super) fn wake(&mut self) {
        let now = self.now;
        match &self.config.capacity {
            Capacity::Rate(_) => self.serve_next(now),
            Capacity::Trace(trace) => self.opportunity = trace.first_after(now),
        }
    }

    /// Starts to serialise the next packet at `at`, if there is one.
    pub(super) fn serve_next(&mut self, at: Timestamp) {
        let began = self.config.outages.resumes(at);
        let Some(next) = self.take_waiting(began) else {
            self.busy.end(at);
            return;
        };
        let transmission = match &self.config.arq {
            Some(arq) => arq.transmit(next.len, &mut self.random.arq),
            None => Transmission::plain(next.len),
        };
        let progress = match &self.config.capacity {
            Capacity::Rate(rate) => {
                let work = ByteCount::new(transmission.bytes) / *rate;
                Progress::Until(self.config.outages.finish(began, work))
            }
            Capacity::Trace(_) => Progress::BytesLeft(transmission.bytes),
        };
        self.queueing.record(began - next.entered);
        self.serving = Some(Serving {
            packet: next.packet,
            len: next.len,
            entered: next.entered,
            began,
            transmission,
            progress,
        });
    }

    /// Returns the next packet to send at `at`, after those that CoDel drops.
    fn take_waiting(&mut self, at: Timestamp) -> Option<Waiting<P>> {
        loop {
            let next = self.waiting.pop_front()?;
            let behind = self.stats.queued.bytes - ByteCount::new(next.len);
            let verdict = match &mut self.codel {
                Some(codel) => codel.judge(at, at - next.entered, next.len, behind),
                None => Verdict::Send,
            };
            match verdict {
                Verdict::Send => return Some(next),
                Verdict::Drop => {
                    self.stats.queued.remove(next.len);
                    self.drop_packet(at, DropCause::Codel, next.len);
                }
            }
        }
    }

    /// Uses the trace's opportunities up to now for the backlog.
    pub(super) fn use_opportunities(&mut self, trace: &DeliveryTrace) {
        while self.stats.queued.packets > 0 {
            let at = trace.time_of(self.opportunity);
            if at > self.now {
                return;
            }
            let resumes = self.config.outages.resumes(at);
            if resumes > at {
                let first = trace.first_after(Timestamp::from_nanos(resumes.as_nanos() - 1));
                self.opportunity = first.max(self.opportunity.saturating_add(1));
                continue;
            }
            self.use_opportunity(at);
            self.opportunity = self.opportunity.saturating_add(1);
        }
    }

    fn use_opportunity(&mut self, at: Timestamp) {
        let mut budget = OPPORTUNITY.bytes();
        while budget > 0 {
            if self.serving.is_none() {
                self.serve_next(at);
            }
            let Some(Progress::BytesLeft(left)) = self.serving.as_mut().map(|serving| &mut serving.progress)
            else {
                return;
            };
            let used = budget.min(*left);
            *left -= used;
            budget -= used;
            if *left == 0 {
                self.depart(at);
                if self.waiting.is_empty() {
                    self.busy.end(at);
                    return;
                }
            }
        }
    }

    /// Returns the earliest time at which the packet in service, or the first packet in the queue of a trace,
    /// can be completely sent.
    pub(super) fn next_departure(&self) -> Option<Timestamp> {
        match &self.config.capacity {
            Capacity::Rate(_) => match self.serving.as_ref()?.progress {
                Progress::Until(end) => Some(end),
                Progress::BytesLeft(_) => None,
            },
            Capacity::Trace(trace) => {
                let left = match self.serving.as_ref().map(|serving| &serving.progress) {
                    Some(Progress::BytesLeft(left)) => *left,
                    _ => self.waiting.front()?.len,
                };
                let more = left.div_ceil(OPPORTUNITY.bytes()).saturating_sub(1);
                let at = trace.time_of(self.opportunity.saturating_add(more));
                // An outage in between delays it further; this is the lower bound.
                Some(self.config.outages.resumes(at))
            }
        }
    }

    /// Completes the packet in service at `at`: draws loss, corruption and duplication.
    pub(super) fn depart(&mut self, at: Timestamp) {
        let Some(sent) = self.serving.take() else { return };
        let Serving { mut packet, len, .. } = sent;
        self.stats.queued.remove(len);
        self.stats.sent.add(len);
        self.stats.repeated += ByteCount::new(sent.transmission.bytes - len);
        if sent.transmission.outcome == ArqOutcome::GaveUp {
            return self.drop_packet(at, DropCause::Arq, len);
        }
        if self.config.outages.loses(sent.began, at) {
            return self.drop_packet(at, DropCause::Outage, len);
        }
        let forced_loss = self
            .forced_loss
            .take_if(|at| *at <= self.stats.sent.bytes.bytes());
        // The draw is made for every packet, so that a forced loss does not change the draws of later
        // packets.
        if self.loss.loses(&mut self.random.loss) || forced_loss.is_some() {
            return self.drop_packet(at, DropCause::Loss, len);
        }
        if self.random.corruption.happens(self.config.corruption) {
            let bit = self.random.corruption.below(len.saturating_mul(8));
            packet.flip_bit(bit);
            self.stats.corrupted.add(len);
        }
        let jitter = self.random.jitter.up_to(self.config.jitter);
        let arrives = at + self.config.delay + jitter + sent.transmission.repair;
        if self.random.duplication.happens(self.config.duplication) {
            self.stats.duplicated.add(len);
            self.propagate(packet.clone(), len, sent.entered, arrives);
        }
        self.propagate(packet, len, sent.entered, arrives);
    }

    fn propagate(&mut self, packet: P, len: u64, entered: Timestamp, arrives: Timestamp) {
        if self.flight.len() >= MAX_IN_FLIGHT {
            return self.drop_packet(arrives, DropCause::TooManyInFlight, len);
        }
        self.stats.in_flight.add(len);
        match self.config.reordering {
            Some(reordering) if self.random.reordering.happens(reordering.share) => {
                self.stats.detoured.add(len);
                self.flight
                    .add_detoured(packet, len, entered, arrives, &reordering);
            }
            _ => self.flight.add(packet, len, entered, arrives),
        }
    }
}
