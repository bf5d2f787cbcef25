//! The testbed: real processes, real origins and a real browser for Longhaul's end-to-end tests.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod content;
pub mod origin;
pub mod process;
pub mod raw_origin;
pub mod relay;
pub mod sockets;

pub use longhaul_hosting::authority;
pub use longhaul_raw_client as client;
