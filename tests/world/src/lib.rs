//! Emulated networks of real kernels: three network namespaces (client, gateway, origins) joined by two emulated links.
//!
//! Each namespace belongs to one OS thread; all of them are anonymous and vanish with the process. Each link is the model of
//! `longhaul-netem` between two TUN devices, driven by one thread: every IP packet of the kernels at its ends is handed to
//! the model and written to the other device when the model says that it has arrived. Bytes are counted by the model: whole
//! IP packets, whatever sent them.
//!
//! * [`World`] builds it all; [`Namespace`] runs sockets and programs inside; [`EmulatedLink`] reads the model's counters.
//! * [`sandbox`] starts the worker process that a world lives in: own mounts, own processes, nothing left behind.
//!
//! ```no_run
//! use longhaul_netem::Profile;
//! use longhaul_world::{World, WorldConfig};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let world = World::build(WorldConfig {
//!     hop: Profile::named("umts-384")?.into(),
//!     internet: Profile::named("lan-fast")?.into(),
//!     seed: 1,
//!     congestion: None,
//! })?;
//! let answer = world
//!     .client()
//!     .run(|| async { tokio::net::TcpStream::connect("10.79.0.1:80").await })
//!     .await;
//! println!("{answer:?} after {} bytes", world.hop().snapshot().up.sent.bytes);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod clock;
mod device;
mod driver;
mod emulated_link;
mod iproute;
mod namespace;
pub mod sandbox;
mod sysctl;
mod topology;
mod translation;
mod world;

pub use driver::{DriverCounters, LinkSample};
pub use emulated_link::{EmulatedLink, Quiet, Snapshot};
pub use iproute::IpError;
pub use namespace::{Namespace, NamespaceError};
pub use sysctl::SysctlError;
pub use topology::{
    CLIENT, DNS_SERVER, GATEWAY_ON_HOP, GATEWAY_ON_INTERNET, HOSTS_NETWORK, HOSTS_PREFIX, ORIGINS,
};
pub use world::{World, WorldConfig, WorldError};
