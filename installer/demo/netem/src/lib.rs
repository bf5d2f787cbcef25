//! A sans-IO model of a network link: rate or recorded trace, delay, jitter, loss, queue, outages.
//!
//! The model is generic over its payload ([`Packet`]), reads no clock and has no source of randomness: time
//! and the seed are arguments. The same code therefore runs in a simulation with virtual time and carries
//! real IP packets between two TUN devices.
//!
//! * [`Link`] is one direction. [`Link::enqueue`] adds a packet, [`Link::poll_deliver`] returns packets that
//!   have arrived, [`Link::next_event`] returns the time of the next call.
//! * [`Hop`] is both directions between a client and a gateway, with the client's address changes.
//! * [`Profile`] names the twelve links of the benchmark; [`LinkDefinition`] is any named link, and
//!   [`parse_links`] reads users' own links from TOML.
//!
//! # Processing of a packet, in this order
//! 1. On arrival: a packet above the MTU, above the policer's rate or without room in the queue is dropped
//!    (drop-tail).
//! 2. The packet waits, first in, first out. A *hold* outage stops the queue's server. CoDel may drop the
//!    packet when it leaves the queue.
//! 3. The packet is serialised: it occupies the link for its length divided by the rate, or for its share of
//!    the trace's delivery opportunities. Frames that ARQ retransmits occupy the link again.
//! 4. At the end of serialisation the impairments are drawn: lost in a *drop* outage, lost at random,
//!    corrupted, duplicated. A lost packet has occupied the link, as on a radio link.
//! 5. The packet arrives after the one-way delay plus jitter plus ARQ repair, in order. A packet selected for
//!    reordering has a longer delay and may be overtaken.
//!
//! # Determinism
//! The same configuration, seed and calls give the same deliveries; [`Link::event_hash`] condenses a run into
//! a number by which two runs can be compared. Each impairment has its own random stream: enabling jitter
//! does not change the losses.
//!
//! # Example
//! ```
//! use longhaul_netem::{Hop, Profile, Side};
//! use longhaul_types::Timestamp;
//!
//! let mut hop = Hop::new(Profile::named("umts-384")?.into(), 7);
//! hop.send(Timestamp::ZERO, Side::Gateway, vec![0_u8; 1280]);
//! while let Some(now) = hop.next_event() {
//!     if let Some(delivery) = hop.poll_client(now) {
//!         // 26.7 ms of serialisation, 125 ms of delay and up to 10 ms of jitter.
//!         let time = delivery.arrived - delivery.sent;
//!         assert!((0.151..0.162).contains(&time.as_secs_f64()));
//!     }
//! }
//! assert_eq!(hop.down().stats().delivered.packets, 1);
//! # Ok::<(), longhaul_netem::UnknownProfile>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arq;
mod busy;
mod codel;
mod config;
mod definition;
mod flight;
mod hash;
mod histogram;
mod hop;
mod link;
mod loss;
mod outage;
mod packet;
mod policer;
mod probability;
mod profile;
mod random;
mod stats;
mod trace;

pub use arq::Arq;
pub use codel::Codel;
pub use config::{Capacity, LinkConfig, Reordering};
pub use definition::{
    LinkDefinition, LinkFileError, LinkMistake, MAX_LINKS, Mistake, NotExpressible, parse_links,
};
pub use histogram::DelayHistogram;
pub use hop::{AddressChanges, Addressed, ClientAddress, FromClient, Hop, HopConfig, Side};
pub use link::{Delivery, Link, MAX_IN_FLIGHT};
pub use loss::{GilbertElliott, Loss};
pub use outage::{Outage, OutageError, OutageSchedule, WhileOut};
pub use packet::Packet;
pub use policer::Policer;
pub use probability::{Probability, ProbabilityError};
pub use profile::{Profile, UnknownProfile};
pub use stats::{Count, DropCause, Enqueued, LinkStats};
pub use trace::{DeliveryTrace, OPPORTUNITY, ParseTraceError};
