//! Adler-32 (RFC 1950 section 8.2), xdelta3's checksum of a target window.

const MODULUS: u32 = 65_521;
/// Number of bytes after which the sums must be reduced to avoid overflow of 32 bits (as in zlib).
const RUN: usize = 5552;

/// The checksum of `bytes`.
pub(super) fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1, 0);
    for run in bytes.chunks(RUN) {
        for byte in run {
            a += u32::from(*byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(adler32(b""), 1);
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
        // Closed form of the sums of a million bytes of 0xff.
        let n = 1_000_000_u64;
        let a = (1 + 255 * n) % u64::from(MODULUS);
        let b = (n + 255 * (n * (n + 1) / 2)) % u64::from(MODULUS);
        assert_eq!(u64::from(adler32(&vec![0xff; 1_000_000])), b << 16 | a);
    }
}
