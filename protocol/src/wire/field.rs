//! Fixed-width fields, big-endian.

/// The bytes end before the field does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes end inside a field")]
pub struct Truncated;

/// Takes `count` bytes off the front of `input`.
///
/// # Errors
/// Fewer are left; `input` is then unchanged.
pub fn take<'a>(input: &mut &'a [u8], count: usize) -> Result<&'a [u8], Truncated> {
    let (front, rest) = input.split_at_checked(count).ok_or(Truncated)?;
    *input = rest;
    Ok(front)
}

/// Takes an array of `N` bytes off the front of `input`.
///
/// # Errors
/// Fewer are left.
pub fn array<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], Truncated> {
    let (front, rest) = input.split_first_chunk::<N>().ok_or(Truncated)?;
    *input = rest;
    Ok(*front)
}

/// Takes one byte.
///
/// # Errors
/// None is left.
pub fn u8(input: &mut &[u8]) -> Result<u8, Truncated> {
    array::<1>(input).map(|[byte]| byte)
}

/// Takes a number of 2 bytes.
///
/// # Errors
/// Fewer are left.
pub fn u16(input: &mut &[u8]) -> Result<u16, Truncated> {
    array(input).map(u16::from_be_bytes)
}

/// Takes a number of 3 bytes.
///
/// # Errors
/// Fewer are left.
pub fn u24(input: &mut &[u8]) -> Result<u32, Truncated> {
    array::<3>(input).map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
}

/// Takes a number of 4 bytes.
///
/// # Errors
/// Fewer are left.
pub fn u32(input: &mut &[u8]) -> Result<u32, Truncated> {
    array(input).map(u32::from_be_bytes)
}

/// Takes a number of 8 bytes.
///
/// # Errors
/// Fewer are left.
pub fn u64(input: &mut &[u8]) -> Result<u64, Truncated> {
    array(input).map(u64::from_be_bytes)
}

/// Appends the low 24 bits of `value`.
pub fn put_u24(value: u32, out: &mut Vec<u8>) {
    let [_, a, b, c] = value.to_be_bytes();
    out.extend_from_slice(&[a, b, c]);
}
