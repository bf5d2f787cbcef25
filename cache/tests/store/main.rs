//! Tests of the cache with real files. Tests that start processes are programs of their own: a child has the open files of
//! its parent for a moment, and with them the lock of a cache.
#![forbid(unsafe_code)]

#[cfg(test)]
mod bodies;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod eviction;
#[cfg(test)]
mod model;
#[cfg(test)]
mod records;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod support;
