//! Batch of datagrams that are passed to the kernel in one call.
use std::net::{Ipv4Addr, SocketAddr};

use longhaul_protocol::path::UdpPath;

/// Maximum number of bytes in one call: the size of a UDP datagram, because the kernel processes the batch as
/// one until it splits it.
const MAX_BYTES: usize = 65_000;

/// Datagrams on one path. All have the same size except the last, which may be smaller.
#[derive(Debug)]
pub(crate) struct Batch {
    path: UdpPath,
    contents: Vec<u8>,
    segment_size: usize,
    /// Number of bytes already sent.
    sent: usize,
}

impl Default for Batch {
    /// Creates an empty batch.
    fn default() -> Self {
        Self {
            path: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into(),
            contents: Vec::new(),
            segment_size: 1,
            sent: 0,
        }
    }
}

impl Batch {
    /// Starts a new batch with `datagram`, in the same memory.
    pub(crate) fn restart(&mut self, path: UdpPath, datagram: &[u8]) {
        self.path = path;
        self.contents.clear();
        self.contents.extend_from_slice(datagram);
        self.segment_size = datagram.len().max(1);
        self.sent = 0;
    }

    pub(crate) const fn path(&self) -> UdpPath {
        self.path
    }

    pub(crate) const fn segment_size(&self) -> usize {
        self.segment_size
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.sent >= self.contents.len()
    }

    /// Number of remaining datagrams.
    pub(crate) const fn segments(&self) -> usize {
        (self.contents.len() - self.sent).div_ceil(self.segment_size)
    }

    /// Returns true if another datagram fits in a batch of at most `most`.
    pub(crate) const fn has_room(&self, most: usize) -> bool {
        let ends_whole = self.contents.len().is_multiple_of(self.segment_size);
        ends_whole && self.segments() < most && self.contents.len() + self.segment_size <= MAX_BYTES
    }

    /// Returns true if a datagram of `len` bytes on `path` may be the next one.
    pub(crate) fn takes(&self, path: UdpPath, len: usize) -> bool {
        path == self.path && len <= self.segment_size && len > 0
    }

    /// Appends a datagram for which `takes` returned true.
    pub(crate) fn push(&mut self, datagram: &[u8]) {
        self.contents.extend_from_slice(datagram);
    }

    /// Bytes of the next `segments` datagrams.
    pub(crate) fn front(&self, segments: usize) -> &[u8] {
        let end = (self.sent + segments * self.segment_size).min(self.contents.len());
        self.contents.get(self.sent..end).unwrap_or_default()
    }

    /// Removes the next `segments` datagrams.
    pub(crate) fn advance(&mut self, segments: usize) {
        self.sent = (self.sent + segments * self.segment_size).min(self.contents.len());
    }
}
