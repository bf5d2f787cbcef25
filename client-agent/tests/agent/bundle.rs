//! Tests of page bundles over real sockets: manifests, pushes and the matching requests.
mod awaited_manifests;
mod bases;
mod cache;
mod cached_pages;
mod faults;
mod held_bodies;
mod leaving;
mod promises;
mod silence;
mod unreachable;
