//! Pages that come in bundles: manifests, pushes and the requests that meet them, over real sockets.
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
