//! Conversions between counts and fractions, for values within the precision of the types.

/// Converts a count into a fraction.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of pixels and bytes stay below 2^24"
)]
pub(crate) fn float(count: usize) -> f32 {
    count as f32
}

/// Returns the integer part of a number; 0 if it is negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates as intended"
)]
pub(crate) fn floor(value: f32) -> usize {
    value as usize
}

/// Converts a channel from 0 to 1 into a byte.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the range of a byte"
)]
pub(crate) fn byte(channel: f32) -> u8 {
    (channel.clamp(0.0, 1.0) * 255.0 + 0.5) as u8
}
