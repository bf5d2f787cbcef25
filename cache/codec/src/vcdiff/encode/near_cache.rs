//! Near cache of the encoder: the addresses of the last copies (RFC 3284 section 5.1). The encoder compares
//! several sequences of instructions, called paths; each has its own near cache.
use crate::vcdiff::{cache::NEAR, integer};

/// Addresses of a path's last copies, and the target positions of these copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct NearCache {
    pub(super) addresses: [u32; NEAR],
    pub(super) places: [u32; NEAR],
    next: usize,
}

impl NearCache {
    /// The cache before the first copy.
    pub(super) const EMPTY: Self = Self {
        addresses: [0; NEAR],
        places: [0; NEAR],
        next: 0,
    };

    pub(super) fn remember(&mut self, address: u32, place: u32) {
        self.addresses[self.next] = address;
        self.places[self.next] = place;
        self.next = (self.next + 1) % NEAR;
    }

    /// The address that corresponds to target position `place`, if the text since the last copy replaces a
    /// text of equal length.
    pub(super) fn expected(&self, place: u32) -> u32 {
        let last = (self.next + NEAR - 1) % NEAR;
        self.addresses[last] + (place - self.places[last])
    }

    /// Number of bytes that the address takes if the same cache does not contain it.
    pub(super) fn price(&self, address: u32, here: u32) -> u32 {
        let near = self
            .addresses
            .iter()
            .filter_map(|near| address.checked_sub(*near))
            .min();
        let shortest = address.min(here - address).min(near.unwrap_or(u32::MAX));
        integer::size(shortest)
    }
}
