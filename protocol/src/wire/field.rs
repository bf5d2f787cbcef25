//! Fixed-width fields, big-endian.

/// Error: the input ends inside a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes end inside a field")]
pub struct Truncated;

/// Removes `count` bytes from the start of `input`.
///
/// # Errors
/// Fewer bytes are left; `input` is then unchanged.
pub fn take<'a>(input: &mut &'a [u8], count: usize) -> Result<&'a [u8], Truncated> {
    let (front, rest) = input.split_at_checked(count).ok_or(Truncated)?;
    *input = rest;
    Ok(front)
}

/// Removes an array of `N` bytes from the start of `input`.
///
/// # Errors
/// Fewer bytes are left.
pub fn array<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], Truncated> {
    let (front, rest) = input.split_first_chunk::<N>().ok_or(Truncated)?;
    *input = rest;
    Ok(*front)
}

/// Removes one byte.
///
/// # Errors
/// No byte is left.
pub fn u8(input: &mut &[u8]) -> Result<u8, Truncated> {
    array::<1>(input).map(|[byte]| byte)
}

/// Removes a number of 2 bytes.
///
/// # Errors
/// Fewer bytes are left.
pub fn u16(input: &mut &[u8]) -> Result<u16, Truncated> {
    array(input).map(u16::from_be_bytes)
}

/// Removes a number of 3 bytes.
///
/// # Errors
/// Fewer bytes are left.
pub fn u24(input: &mut &[u8]) -> Result<u32, Truncated> {
    array::<3>(input).map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
}

/// Removes a number of 4 bytes.
///
/// # Errors
/// Fewer bytes are left.
pub fn u32(input: &mut &[u8]) -> Result<u32, Truncated> {
    array(input).map(u32::from_be_bytes)
}

/// Removes a number of 8 bytes.
///
/// # Errors
/// Fewer bytes are left.
pub fn u64(input: &mut &[u8]) -> Result<u64, Truncated> {
    array(input).map(u64::from_be_bytes)
}

/// Appends the low 24 bits of `value`.
pub fn put_u24(value: u32, out: &mut Vec<u8>) {
    let [_, a, b, c] = value.to_be_bytes();
    out.extend_from_slice(&[a, b, c]);
}
