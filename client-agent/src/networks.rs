//! The networks to which this computer attaches: their changes, and what is remembered about their links.
//!
//! A network is identified by the kind of the interface and by the hardware address of the router on the way to
//! the gateway (`attachment`). [`NetworkMemory`] keeps the rates and the round-trip time that sessions measured,
//! so that the next session in the same network starts with them (docs/decisions/0027-remembered-networks.md). On
//! disk, a keyed hash stands for the network; nothing of it is ever sent. `NetworkWatch` reports changes.
mod attachment;
mod changes;
mod file;
mod known;
mod memory;
mod metered;
#[cfg(target_os = "linux")]
mod netlink;
mod network_id;
mod record;

#[cfg(test)]
pub(crate) use attachment::InterfaceKind;
pub(crate) use attachment::{Attachment, source_towards};
pub(crate) use changes::{NetworkWatch, Wake};
pub use file::{MAX_NETWORKS_FILE, NetworksFileError};
pub use known::Networks;
pub use memory::NetworkMemory;
pub(crate) use memory::{Recalled, Recorded};
pub use metered::Metered;
pub use network_id::NetworkId;
pub use record::{Family, NetworkRecord, RateRange, SessionRecord};
