//! Longhaul's command for users: switches Longhaul on and off, makes keys, enrols a device, shows the agent's
//! status, finds what is wrong, starts the demo.
//!
//! The command runs agent and gateway as programs and does not link them.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod agent_state;
pub mod cli;
pub mod doctor;
pub mod enroll;
mod http_get;
pub mod keygen;
pub mod running_agent;
pub mod speed;
pub mod state_dir;
pub mod status;
pub mod switch;
