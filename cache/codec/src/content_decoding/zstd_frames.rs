//! Zstandard frames whose windows are charged to a device before the library takes them.
use crate::{
    decompress::{Corrupt, Progress, Zstd},
    memory_shares::{MemoryReservation, MemoryShare},
};

/// RFC 9659: a recipient must support windows of 8 MiB and should reject larger ones.
const WINDOW_LOG: u8 = 23;
/// What the library takes in addition to the window: two blocks.
const BLOCKS: u64 = 256 * 1024;

/// Decoder of consecutive frames.
pub(super) struct Frames {
    decoder: Zstd,
    /// First bytes of a frame, which the decoder gets once its header is complete.
    header: Vec<u8>,
    share: Option<MemoryShare>,
    /// For the largest window so far: the library keeps it.
    reserved: Option<(u64, MemoryReservation)>,
    lacks_memory: bool,
}

impl Frames {
    pub(super) fn new(share: Option<MemoryShare>) -> Result<Self, Corrupt> {
        Ok(Self {
            decoder: Zstd::new(WINDOW_LOG, &[])?,
            header: Vec::new(),
            share,
            reserved: None,
            lacks_memory: false,
        })
    }

    pub(super) const fn ended(&self) -> bool {
        self.header.is_empty() && self.decoder.ended()
    }

    /// True if decoding failed because the device may use no more memory.
    pub(super) const fn lacks_memory(&self) -> bool {
        self.lacks_memory
    }

    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress, Corrupt> {
        if !self.decoder.ended() {
            return self.decoder.step(input, output);
        }
        let mut read = 0;
        while window(&self.header).is_none() {
            let Some(byte) = input.get(read) else {
                return Ok(Progress { read, written: 0 });
            };
            self.header.push(*byte);
            read += 1;
        }
        self.reserve(window(&self.header).unwrap_or(0))?;
        let header = std::mem::take(&mut self.header);
        // The decoder keeps a header, which gives no output, completely.
        let progress = self.decoder.step(&header, output)?;
        self.header.extend_from_slice(&header[progress.read..]);
        Ok(Progress {
            read,
            written: progress.written,
        })
    }

    /// Reserves memory for a window, unless one of this size is reserved, or the decoder rejects it.
    fn reserve(&mut self, window: u64) -> Result<(), Corrupt> {
        let reserved = self.reserved.as_ref().map_or(0, |(window, _)| *window);
        let Some(share) = self.share.as_ref() else {
            return Ok(());
        };
        if window <= reserved || window > 1 << WINDOW_LOG {
            return Ok(());
        }
        self.reserved = None;
        let reservation = share.reserve(window.saturating_add(BLOCKS));
        self.lacks_memory = reservation.is_none();
        self.reserved = Some((window, reservation.ok_or(Corrupt)?));
        Ok(())
    }
}

/// Returns the window size of the frame that begins with these bytes: 0 for a skippable frame, and for what is no frame;
/// `None` if more bytes are needed (RFC 8878 sections 3.1.1.1 and 3.1.2).
fn window(header: &[u8]) -> Option<u64> {
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let magic = header.get(..4)?;
    if magic != MAGIC {
        return Some(0);
    }
    let descriptor = *header.get(4)?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let window = u64::from(*header.get(5)?);
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * (window & 7));
    }
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let content = header.get(5 + dictionary..5 + dictionary + size)?;
    let size = content
        .iter()
        .rev()
        .fold(0, |size, byte| size << 8 | u64::from(*byte));
    // A size in two bytes begins at 256.
    Some(if content.len() == 2 { size + 256 } else { size })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_window_is_that_of_the_header() {
        for (level, length) in [(1, 10), (3, 300), (3, 70_000), (19, 4_000_000)] {
            let whole = zstd::bulk::compress(&vec![b'x'; length], level).unwrap();
            assert_eq!(
                window(&whole),
                Some(length as u64),
                "a single segment of {length} bytes"
            );
        }
        for log in [10, 17, 23, 27] {
            let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
            encoder.window_log(log).unwrap();
            std::io::copy(&mut std::io::repeat(b'x').take(1 << 20), &mut encoder).unwrap();
            let streamed = encoder.finish().unwrap();
            assert_eq!(window(&streamed), Some(1 << log));
            assert!((0..5).all(|length| window(&streamed[..length]).is_none()));
        }
        assert_eq!(window(b"\x50\x2a\x4d\x18"), Some(0));
        assert_eq!(window(b"<!DOCTYPE"), Some(0));
    }
}
