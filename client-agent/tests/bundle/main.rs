//! Tests of page bundles over real sockets: manifests, pushes and the matching requests.
#[cfg(test)]
#[path = "../support/mod.rs"]
mod support;

#[cfg(test)]
mod bases;
#[cfg(test)]
mod cache;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod leaving;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod silence;
