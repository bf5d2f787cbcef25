//! Longhaul's command for users: switches Longhaul on and off, makes keys, enrols a device, shows the agent's
//! status, starts the demo.
//!
//! The command runs agent and gateway as programs and does not link them.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cli;
pub mod enroll;
pub mod keygen;
pub mod status;
pub mod switch;
