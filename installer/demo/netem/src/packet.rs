//! Payload of the model.
use longhaul_types::ByteCount;

/// A payload that a link can carry: an IP packet, or its equivalent in a simulation.
pub trait Packet: Clone {
    /// Length on the link in bytes, including headers. The model counts an empty packet as one byte, so that
    /// a queue bound in bytes also bounds the number of packets.
    fn len_on_link(&self) -> ByteCount;

    /// Inverts one bit, numbered from 0 to `8 * len_on_link - 1`: corruption in transit. A payload that does
    /// not contain all of its bytes defines the effect of an inverted bit in the others.
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
