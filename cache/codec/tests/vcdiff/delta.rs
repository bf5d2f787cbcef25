//! Deltas written by hand.

/// A window without its lengths.
#[derive(Clone, Default)]
pub(crate) struct Window {
    /// Length and start of the segment.
    pub(crate) segment: Option<(u32, u32)>,
    /// True if the segment is a part of the earlier target.
    pub(crate) from_target: bool,
    pub(crate) length: u32,
    pub(crate) data: Vec<u8>,
    pub(crate) instructions: Vec<u8>,
    pub(crate) addresses: Vec<u8>,
    pub(crate) checksum: Option<u32>,
}

pub(crate) const HEADER: [u8; 5] = [0xd6, 0xc3, 0xc4, 0, 0];

pub(crate) fn integer(value: u32, out: &mut Vec<u8>) {
    let digits = (32 - (value | 1).leading_zeros()).div_ceil(7);
    for digit in (0..digits).rev() {
        let low = (value >> (7 * digit)).to_le_bytes()[0] & 0x7f;
        out.push(if digit == 0 { low } else { low | 0x80 });
    }
}

impl Window {
    /// Appends the window.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut coded = Vec::new();
        integer(self.length, &mut coded);
        coded.push(0);
        for section in [&self.data, &self.instructions, &self.addresses] {
            integer(u32::try_from(section.len()).unwrap(), &mut coded);
        }
        coded.extend(self.checksum.iter().flat_map(|checksum| checksum.to_be_bytes()));
        for section in [&self.data, &self.instructions, &self.addresses] {
            coded.extend_from_slice(section);
        }
        let origin = match (self.segment, self.from_target) {
            (None, _) => 0,
            (Some(_), false) => 1,
            (Some(_), true) => 2,
        };
        out.push(origin | if self.checksum.is_some() { 4 } else { 0 });
        if let Some((length, start)) = self.segment {
            integer(length, out);
            integer(start, out);
        }
        integer(u32::try_from(coded.len()).unwrap(), out);
        out.extend_from_slice(&coded);
    }

    /// Returns a delta of this window alone.
    pub(crate) fn delta(&self) -> Vec<u8> {
        let mut delta = HEADER.to_vec();
        self.put(&mut delta);
        delta
    }
}
