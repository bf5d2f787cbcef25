//! Bulk transfers of Longhaul, the kernel's TCP and QUIC over an emulated hop.
//!
//! Each [`System`] has a [`Server`] and a [`Client`] that exchange the same requests and responses on real
//! sockets; every received byte is verified. [`measure`] runs one [`Experiment`] on a link in a new world,
//! [`bars`] compares its figures with the limits of the transport.
//!
//! ```no_run
//! use longhaul_bulk::{System, bars, experiments_for, measure};
//! use longhaul_netem::{LinkDefinition, Profile};
//! use longhaul_world::{World, WorldConfig};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let link = LinkDefinition::from(Profile::named("umts-384")?);
//! for experiment in experiments_for(&link) {
//!     // In a separate process, so that no state of the previous experiment remains.
//!     let world = World::build(WorldConfig {
//!         hop: experiment.hop(&link),
//!         internet: Profile::named("lan-fast")?.into(),
//!         seed: 1,
//!         congestion: None,
//!     })?;
//!     let measured = measure(&world, &link, link.name.parse().ok(), System::Longhaul, experiment).await?;
//!     println!("{experiment}: {:?}", bars(&link, &measured));
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod bars;
mod bulk;
mod bundle;
mod cancel;
mod client;
mod error;
mod exchange;
mod experiment;
mod flows;
mod idle;
mod kernel;
mod longhaul;
mod lost_packet;
mod measure;
mod measured;
mod outage;
mod plan;
mod priority;
mod profile;
mod progress;
mod quic;
mod server;
mod stage;
mod system;
mod tcp;
mod udp_blocked;

pub use bars::bars;
pub use client::Client;
pub use error::{ServeError, TransferError};
pub use exchange::{Length, Order, REQUEST, WrongBytes};
pub use experiment::{Buffer, Experiment, LostPacket, Rival, SessionBefore, WrongRates};
pub use measure::{BulkError, measure, measured_the_machine};
pub use measured::{
    AddressChanged, Bulk, Bundle, Cancelled, Cpu, Idle, LostPackets, Measured, Opened, OutageEnd, Outcome,
    Priority, TwoFlows, UdpDied, WrongProfile,
};
pub use plan::experiments_for;
pub use progress::{Arrival, Progress};
pub use server::{Access, SenderCounters, Server};
pub use system::{System, UnknownSystem};
pub use udp_blocked::KnownNetwork;
