//! Pacing rate of FEEDBACK as a 16-bit float (transport.md section 5.4).
use longhaul_types::BitRate;

const MANTISSA_BITS: u32 = 11;
const MANTISSA_MAX: u64 = (1 << MANTISSA_BITS) - 1;
/// 8 byte/s.
const UNIT_BPS: u64 = 64;

/// A rate: 5 bits exponent e (high), 11 bits mantissa m (low), m x 2^e in units of 8 byte/s. The relative
/// error is below 1/1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateFloat(u16);

impl RateFloat {
    /// Returns the largest float that is not above `rate`. Rates from 64 bit/s to 281 Tbit/s are
    /// representable; larger rates become the largest float.
    pub fn of(rate: BitRate) -> Self {
        let units = rate.as_bps() / UNIT_BPS;
        let exponent = (u64::BITS - units.leading_zeros()).saturating_sub(MANTISSA_BITS);
        if exponent > 31 {
            return Self(u16::MAX);
        }
        let bits = u64::from(exponent << MANTISSA_BITS) | (units >> exponent);
        Self(u16::try_from(bits).unwrap_or(u16::MAX))
    }
    /// Returns the rate.
    pub fn rate(self) -> BitRate {
        let mantissa = u64::from(self.0) & MANTISSA_MAX;
        BitRate::bps((mantissa << (self.0 >> MANTISSA_BITS)) * UNIT_BPS)
    }
    /// The 16 bits on the wire.
    pub const fn to_bits(self) -> u16 {
        self.0
    }
    /// Creates a float from the wire; all 65,536 values are valid.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_smallest_and_largest_rates_are_encoded() {
        assert_eq!(RateFloat::of(BitRate::bps(0)).to_bits(), 0);
        assert_eq!(RateFloat::of(BitRate::bps(64)).to_bits(), 1);
        assert_eq!(RateFloat::of(BitRate::bps(2048 * 64)).to_bits(), 0x0c00);
        assert_eq!(RateFloat::of(BitRate::bps(u64::MAX)).to_bits(), u16::MAX);
        assert_eq!(RateFloat::from_bits(u16::MAX).rate(), BitRate::bps(2047 << 37));
    }

    proptest! {
        #[test]
        fn rounds_down_by_less_than_a_thousandth(bps in 65_536_u64..(2047 << 37)) {
            let back = RateFloat::of(BitRate::bps(bps)).rate().as_bps();
            prop_assert!(back <= bps);
            prop_assert!(bps - back <= bps / 1000, "{} became {}", bps, back);
        }

        #[test]
        fn representable_rates_round_trip(bits in any::<u16>()) {
            let rate = RateFloat::from_bits(bits).rate();
            prop_assert_eq!(RateFloat::of(rate).rate(), rate);
        }
    }
}
