//! The browser as judge: odd origins, loaded by Chromium directly and through Longhaul.
//!
//! A seed makes a [`Case`]: one response of the kind that real servers send and no standard foresees, a WebSocket, a way of
//! speaking TLS (by Python's OpenSSL, which can do what rustls cannot), or a host's name and addresses. The page of
//! [`Arena`] loads it in two browsers, one without and one with Longhaul, over http and over accelerated https, and says
//! what pages and scripts can see. [`judge`](judge::judge) compares. A difference is a defect, or it is in [`known`](known::known()) and in
//! `docs/COMPATIBILITY.md`, with its reason.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod arena;
pub mod case;
pub mod judge;
pub mod known;
mod names;
mod origin;
mod pair;
pub mod programs;
mod random;
mod tls;

pub use arena::{Arena, Scheme};
pub use case::{Case, Mode, Protocol};
