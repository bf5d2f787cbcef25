//! What the applications do: a list of exchanges, scripted by a test or drawn from a seed.
use std::time::Duration;

use longhaul_protocol::streams::Priority;
use longhaul_types::BitRate;

use crate::random::Random;

/// When the gateway answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// After the request's first bytes: both directions flow at the same time.
    AtHead,
    /// After the whole request.
    AtEnd,
}

/// How the agent reads the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// At once.
    Eager,
    /// Only this long after it became readable, so that the stream's window fills.
    Slow(Duration),
}

/// How the exchange ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Both streams are delivered whole.
    Complete,
    /// The agent's user goes away this long after opening.
    AgentLeaves(Duration),
    /// The gateway gives up after having written this much of the response.
    GatewayFails(u64),
}

/// Whether the sender tells a stream's length before it has written all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Announced,
    Unknown,
}

/// A request stream of the agent and a response stream of the gateway.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// When the agent opens it; at zero it is written before the session starts.
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
    /// The gateway moves the response to this class so long after opening it.
    pub(crate) reclass: Option<(Duration, Priority)>,
    /// Both streams are written piece by piece at this interval, like keys that are typed into a tunnel and their echo.
    pub(crate) typed: Option<Duration>,
}

/// Bytes of a piece of what is typed.
pub(crate) const PIECE: u64 = 64;

impl Exchange {
    /// A request of 300 bytes, answered at once with `response` bytes whose number is known.
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

    /// A tunnel, open for `pieces` pieces each way, one at each interval.
    pub(crate) const fn tunnel(at: Duration, pieces: u64, interval: Duration) -> Self {
        Self {
            request: pieces * PIECE,
            length: Length::Unknown,
            typed: Some(interval),
            ..Self::fetch(at, pieces * PIECE)
        }
    }
}

/// How much traffic a drawn plan has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Volume {
    /// Bytes towards the agent.
    pub(crate) down: u64,
    /// Bytes towards the gateway.
    pub(crate) up: u64,
    /// Time over which exchanges begin.
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

/// Draws a plan: many small exchanges, a few large ones, uploads, cancellations, slow readers.
pub(crate) fn draw(volume: Volume, random: &mut Random) -> Vec<Exchange> {
    let small = 6 + random.below(12);
    let mut plan: Vec<_> = (0..small).map(|_| draw_small(volume, random)).collect();
    plan.extend((0..2 + random.below(2)).map(|_| draw_large(volume, random)));
    // The first three are early data, as a browser's first requests are.
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
