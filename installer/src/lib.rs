//! Longhaul's command for users: demonstrates the pair on one machine, makes keys, enrols a device, shows its status.
//!
//! The gateway and the agent are used only through their commands. [`warc`] and [`page`] replay and load recorded
//! pages and know nothing of Longhaul.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cli;
pub mod demo;
pub mod enroll;
pub mod keygen;
pub mod origin;
pub mod page;
pub mod site;
pub mod status;
pub mod tls;
pub mod warc;
