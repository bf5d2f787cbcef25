//! Tests of the cache with real files.
#![forbid(unsafe_code)]

#[cfg(test)]
mod bodies;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod eviction;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod model;
#[cfg(test)]
mod records;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod support;
