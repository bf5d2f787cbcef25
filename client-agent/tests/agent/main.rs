//! Tests of the agent over real sockets: its ports, and page bundles from a test gateway.
#![forbid(unsafe_code)]

#[cfg(test)]
mod bundle;
#[cfg(test)]
mod control;
#[cfg(test)]
mod fallback;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod portals;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod socks;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tunnels;
