//! As much of HPACK (RFC 7541) as the odd origin needs: it finds the path of a request, and writes fields as they are.

/// Codes of up to seven bits of the Huffman code (RFC 7541 appendix B), as (code, bits, character): the paths of the driver
/// have no others.
const SHORT_CODES: &[(u32, u32, u8)] = &[
    (0x0, 5, b'0'),
    (0x1, 5, b'1'),
    (0x2, 5, b'2'),
    (0x3, 5, b'a'),
    (0x4, 5, b'c'),
    (0x5, 5, b'e'),
    (0x6, 5, b'i'),
    (0x7, 5, b'o'),
    (0x8, 5, b's'),
    (0x9, 5, b't'),
    (0x14, 6, b' '),
    (0x15, 6, b'%'),
    (0x16, 6, b'-'),
    (0x17, 6, b'.'),
    (0x18, 6, b'/'),
    (0x19, 6, b'3'),
    (0x1a, 6, b'4'),
    (0x1b, 6, b'5'),
    (0x1c, 6, b'6'),
    (0x1d, 6, b'7'),
    (0x1e, 6, b'8'),
    (0x1f, 6, b'9'),
    (0x20, 6, b'='),
    (0x21, 6, b'A'),
    (0x22, 6, b'_'),
    (0x23, 6, b'b'),
    (0x24, 6, b'd'),
    (0x25, 6, b'f'),
    (0x26, 6, b'g'),
    (0x27, 6, b'h'),
    (0x28, 6, b'l'),
    (0x29, 6, b'm'),
    (0x2a, 6, b'n'),
    (0x2b, 6, b'p'),
    (0x2c, 6, b'r'),
    (0x2d, 6, b'u'),
    (0x74, 7, b'j'),
    (0x75, 7, b'k'),
    (0x76, 7, b'q'),
    (0x77, 7, b'v'),
    (0x78, 7, b'w'),
    (0x79, 7, b'x'),
    (0x7a, 7, b'y'),
    (0x7b, 7, b'z'),
];
/// Index of `:path` in the static table, with the values `/` and `/index.html`.
const PATHS: [usize; 2] = [4, 5];

/// Returns the path of a request's field block; none if it has none that the origin understands.
pub(super) fn path(mut block: &[u8]) -> Option<String> {
    while let Some(first) = block.first().copied() {
        if first & 0x80 != 0 {
            let index = integer(&mut block, 7)?;
            if index == PATHS[0] {
                return Some("/".to_owned());
            }
            continue;
        }
        // A change of the size of the dynamic table, or a literal with or without indexing.
        if first & 0xe0 == 0x20 {
            integer(&mut block, 5)?;
            continue;
        }
        let prefix = if first & 0xc0 == 0x40 { 6 } else { 4 };
        let index = integer(&mut block, prefix)?;
        if index == 0 {
            text(&mut block)?;
        }
        let value = text(&mut block)?;
        if PATHS.contains(&index) {
            return Some(value);
        }
    }
    None
}

fn integer(block: &mut &[u8], prefix: u32) -> Option<usize> {
    let mask = (1usize << prefix) - 1;
    let mut value = usize::from(*block.first()?) & mask;
    *block = &block[1..];
    if value < mask {
        return Some(value);
    }
    let mut shift = 0;
    loop {
        let byte = usize::from(*block.first()?);
        *block = &block[1..];
        value += (byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 || shift > 28 {
            return Some(value);
        }
    }
}

fn text(block: &mut &[u8]) -> Option<String> {
    let coded = *block.first()? & 0x80 != 0;
    let length = integer(block, 7)?;
    let bytes = block.get(..length)?;
    *block = &block[length..];
    let bytes = if coded { decoded(bytes) } else { bytes.to_vec() };
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Decodes up to the first character with a longer code.
fn decoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut code, mut bits) = (0, 0);
    for byte in bytes {
        for shift in (0..8).rev() {
            code = code << 1 | u32::from(byte >> shift & 1);
            bits += 1;
            if let Some((_, _, character)) = SHORT_CODES
                .iter()
                .find(|(short, length, _)| (*short, *length) == (code, bits))
            {
                out.push(*character);
                (code, bits) = (0, 0);
            } else if bits > 7 {
                return out;
            }
        }
    }
    out
}

/// Writes fields as literals without indexing, whatever bytes they have.
pub(super) fn write(fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for part in [name, value] {
            let length = part.len();
            if length < 127 {
                block.push(u8::try_from(length).unwrap_or_default());
            } else {
                block.push(127);
                let mut rest = length - 127;
                while rest >= 128 {
                    block.push(u8::try_from(rest % 128).unwrap_or_default() | 0x80);
                    rest /= 128;
                }
                block.push(u8::try_from(rest).unwrap_or_default());
            }
            block.extend_from_slice(part);
        }
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_in_each_representation() {
        // RFC 7541 appendix C.4.1 has the path `/`; the others are literals, plain and with the Huffman code.
        assert_eq!(path(&[0x82, 0x86, 0x84]).as_deref(), Some("/"));
        assert_eq!(path(b"\x82\x04\x05/c/12").as_deref(), Some("/c/12"));
        assert_eq!(
            path(&[0x3f, 0xe1, 0x1f, 0x44, 0x84, 0x60, 0x8c, 0x04, 0x20]).as_deref(),
            Some("/c/110")
        );
        assert_eq!(path(b"\x40\x01a\x01b"), None);
    }
}
