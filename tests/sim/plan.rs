//! Plans of the applications: lists of exchanges, written by a test or drawn from a seed.
use std::time::Duration;

use longhaul_protocol::streams::Priority;
use longhaul_types::BitRate;

use crate::random::Random;

/// Start of the gateway's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// After the request's first bytes, so that data flows in both directions at the same time.
    AtHead,
    /// After the complete request.
    AtEnd,
}

/// Behaviour of the agent as reader of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Reads at once.
    Eager,
    /// Reads after this delay, so that the stream window fills.
    Slow(Duration),
}

/// End of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Both streams are delivered completely.
    Complete,
    /// The agent abandons the exchange this long after opening it.
    AgentLeaves(Duration),
    /// The gateway cancels the response after this many bytes.
    GatewayFails(u64),
}

/// Announcement of a stream's length by its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Announced,
    Unknown,
}

/// A request stream of the agent and a response stream of the gateway.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// Time at which the agent opens the exchange; zero means before the session starts.
    pub(crate) at: Duration,
    pub(crate) class: Priority,
    /// Bytes of the request stream.
    pub(crate) request: u64,
    /// Bytes of the response stream.
    pub(crate) response: u64,
    pub(crate) length: Length,
    pub(crate) origin: Duration,
    pub(crate) answer: Answer,
    pub(crate) reader: Reader,
    pub(crate) ending: Ending,
    /// The gateway changes the priority class of the response this long after opening it.
    pub(crate) reclass: Option<(Duration, Priority)>,
    /// Both streams are written in pieces at this interval, like keystrokes in a terminal and their echo.
    pub(crate) typed: Option<Duration>,
}

/// Bytes of a typed piece.
pub(crate) const PIECE: u64 = 64;

impl Exchange {
    /// A request of 300 bytes with a response of `response` bytes whose length is announced.
    pub(crate) const fn fetch(at: Duration, response: u64) -> Self {
        Self {
            at,
            class: Priority::NORMAL,
            request: 300,
            response,
            length: Length::Announced,
            origin: Duration::ZERO,
            answer: Answer::AtHead,
            reader: Reader::Eager,
            ending: Ending::Complete,
            reclass: None,
            typed: None,
        }
    }

    /// A tunnel with `pieces` pieces in each direction, one per interval.
    pub(crate) const fn tunnel(at: Duration, pieces: u64, interval: Duration) -> Self {
        Self {
            request: pieces * PIECE,
            length: Length::Unknown,
            typed: Some(interval),
            ..Self::fetch(at, pieces * PIECE)
        }
    }
}

/// Amount of traffic of a drawn plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Volume {
    /// Bytes to the agent.
    pub(crate) down: u64,
    /// Bytes to the gateway.
    pub(crate) up: u64,
    /// Interval in which exchanges begin.
    pub(crate) span: Duration,
}

impl Volume {
    /// About 20 s of a slow link, less of a fast one: a thousand packets.
    pub(crate) fn of_link(down: BitRate, up: BitRate) -> Self {
        let seconds = Duration::from_secs(20);
        let down = (down * seconds).bytes().min(1_500_000);
        Self {
            down,
            up: (up * seconds).bytes().min(600_000) / 2,
            span: Duration::from_secs(3),
        }
    }
}

/// Draws a plan with many small exchanges, a few large ones, uploads, cancellations and slow readers.
pub(crate) fn draw(volume: Volume, random: &mut Random) -> Vec<Exchange> {
    let small = 6 + random.below(12);
    let mut plan: Vec<_> = (0..small).map(|_| draw_small(volume, random)).collect();
    plan.extend((0..2 + random.below(2)).map(|_| draw_large(volume, random)));
    // The first three are early data, as the first requests of a browser are.
    for exchange in plan.iter_mut().take(3) {
        exchange.at = Duration::ZERO;
    }
    plan
}

fn draw_small(volume: Volume, random: &mut Random) -> Exchange {
    let mut exchange = Exchange::fetch(random.time(volume.span), random.below(volume.down / 40));
    exchange.request = 4 + random.below(900);
    exchange.class = Priority::new(random.class());
    exchange.origin = random.time(Duration::from_millis(300));
    exchange.length = draw_length(random);
    if random.one_in(6) {
        exchange.ending = Ending::AgentLeaves(random.time(Duration::from_secs(3)));
    } else if random.one_in(10) {
        exchange.ending = Ending::GatewayFails(random.below(exchange.response + 1));
    }
    exchange
}

fn draw_large(volume: Volume, random: &mut Random) -> Exchange {
    let mut exchange = Exchange::fetch(
        random.time(volume.span),
        volume.down / 4 + random.below(volume.down / 8 + 1),
    );
    exchange.length = draw_length(random);
    exchange.class = Priority::new(3 + random.class() / 2);
    exchange.reclass = random
        .one_in(3)
        .then(|| (random.time(volume.span), Priority::new(random.class())));
    if random.one_in(3) {
        exchange.request = volume.up / 2 + random.below(volume.up / 2 + 1);
        exchange.answer = if random.one_in(2) {
            Answer::AtHead
        } else {
            Answer::AtEnd
        };
    }
    if random.one_in(4) {
        exchange.reader = Reader::Slow(Duration::from_millis(200));
    }
    if random.one_in(6) {
        exchange.ending = Ending::AgentLeaves(random.time(volume.span * 2));
    }
    exchange
}

fn draw_length(random: &mut Random) -> Length {
    if random.one_in(3) {
        Length::Unknown
    } else {
        Length::Announced
    }
}
