//! What the model asks of the payload it carries.
use longhaul_types::ByteCount;

/// A payload that a link can carry: an IP packet, or a simulation's stand-in for one.
pub trait Packet: Clone {
    /// The bytes it occupies on the link, headers included. The model counts an empty packet as one byte, so that a
    /// queue bound in bytes bounds packets too.
    fn len_on_link(&self) -> ByteCount;

    /// Inverts one bit, numbered from 0 to `8 * len_on_link - 1`: corruption in transit. A payload that does not
    /// carry all the bytes it occupies decides what a flipped bit in the rest means.
    fn flip_bit(&mut self, bit: u64);
}

impl Packet for Vec<u8> {
    fn len_on_link(&self) -> ByteCount {
        ByteCount::new(self.len() as u64)
    }

    fn flip_bit(&mut self, bit: u64) {
        let byte = usize::try_from(bit / 8).ok().and_then(|at| self.get_mut(at));
        if let Some(byte) = byte {
            *byte ^= 1 << (bit % 8);
        }
    }
}
