//! Emulated networks with real kernels: three network namespaces (client, gateway, origins) joined by two
//! emulated links.
//!
//! Each namespace belongs to one OS thread; all of them are anonymous and end with the process. Each link is
//! the model of `longhaul-netem` between two TUN devices, driven by one thread: every IP packet of the
//! kernels at its ends is added to the model, and is written to the other device when it has arrived in the
//! model. The model counts bytes of whole IP packets, independent of their sender.
//!
//! * [`World`] builds the namespaces and links; [`Namespace`] runs sockets and programs in one of them;
//!   [`EmulatedLink`] returns the model's counters.
//! * [`sandbox`] starts the worker process of a world, with its own mounts and processes, so that nothing is
//!   left behind.
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
mod router;
pub mod sandbox;
mod sysctl;
mod topology;
mod translation;
mod world;

pub use driver::{DriverCounters, LinkSample};
pub use emulated_link::{EmulatedLink, Quiet, Snapshot};
pub use iproute::IpError;
pub use namespace::{Namespace, NamespaceError, NamespaceThread};
pub use sysctl::SysctlError;
pub use topology::{
    CLIENT, DNS_SERVER, GATEWAY_ON_HOP, GATEWAY_ON_INTERNET, HOSTS_NETWORK, HOSTS_PREFIX, ORIGINS,
};
pub use world::{World, WorldConfig, WorldError};
