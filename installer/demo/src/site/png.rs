//! A PNG writer (PNG specification, third edition): 8-bit RGB, one filter per row.
use std::io::Write as _;

use flate2::{Compression, Crc, write::ZlibEncoder};

use super::paint::Picture;

const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
/// Bit depth 8, colour type 2 (RGB), deflate, adaptive filters, no interlace.
const FORMAT: [u8; 5] = [8, 2, 0, 0, 0];
const PIXEL: usize = 3;

/// Encodes the image as a PNG file.
pub(super) fn encode(picture: &Picture) -> Vec<u8> {
    let mut header = Vec::with_capacity(13);
    header.extend_from_slice(&u32::from(picture.width).to_be_bytes());
    header.extend_from_slice(&u32::from(picture.height).to_be_bytes());
    header.extend_from_slice(&FORMAT);
    let mut file = SIGNATURE.to_vec();
    chunk(&mut file, b"IHDR", &header);
    chunk(&mut file, b"IDAT", &compress(&filtered(picture)));
    chunk(&mut file, b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut check = Crc::new();
    check.update(kind);
    check.update(data);
    file.extend_from_slice(&length.to_be_bytes());
    file.extend_from_slice(kind);
    file.extend_from_slice(data);
    file.extend_from_slice(&check.sum().to_be_bytes());
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut coder = ZlibEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    let coded = coder.write_all(bytes).and_then(|()| coder.finish());
    coded.unwrap_or_default()
}

/// Returns each row after the number of its filter: the one with the smallest sum of absolute differences, as
/// the specification recommends (section 12.7).
fn filtered(picture: &Picture) -> Vec<u8> {
    let row_length = usize::from(picture.width) * PIXEL;
    let mut above = vec![0; row_length];
    let mut out = Vec::with_capacity(picture.rgb.len() + usize::from(picture.height));
    for row in picture.rgb.chunks_exact(row_length) {
        let candidates = [1_u8, 2, 4].map(|filter| (filter, filter_row(filter, row, &above)));
        let best = candidates.into_iter().min_by_key(|(_, coded)| {
            coded
                .iter()
                .map(|&byte| u64::from(byte.min(byte.wrapping_neg())))
                .sum::<u64>()
        });
        if let Some((filter, coded)) = best {
            out.push(filter);
            out.extend_from_slice(&coded);
        }
        above.copy_from_slice(row);
    }
    out
}

fn filter_row(filter: u8, row: &[u8], above: &[u8]) -> Vec<u8> {
    let code = |at: usize| {
        let left = if at >= PIXEL { row[at - PIXEL] } else { 0 };
        let corner = if at >= PIXEL { above[at - PIXEL] } else { 0 };
        let predicted = match filter {
            1 => left,
            2 => above[at],
            _ => paeth(left, above[at], corner),
        };
        row[at].wrapping_sub(predicted)
    };
    (0..row.len()).map(code).collect()
}

fn paeth(left: u8, above: u8, corner: u8) -> u8 {
    let estimate = i16::from(left) + i16::from(above) - i16::from(corner);
    let distance = |value: u8| (estimate - i16::from(value)).abs();
    let (a, b, c) = (distance(left), distance(above), distance(corner));
    if a <= b && a <= c {
        left
    } else if b <= c {
        above
    } else {
        corner
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::ZlibDecoder;

    use super::*;

    /// Reverses the filters like a PNG reader (specification section 9.2).
    fn decode(file: &[u8], width: usize) -> Vec<u8> {
        let idat = file.windows(4).position(|window| window == b"IDAT").unwrap();
        let mut rows = Vec::new();
        ZlibDecoder::new(&file[idat + 4..])
            .read_to_end(&mut rows)
            .unwrap();
        let mut above = vec![0_u8; width * PIXEL];
        let mut out = Vec::new();
        for coded in rows.chunks_exact(width * PIXEL + 1) {
            let mut row = coded[1..].to_vec();
            for at in 0..row.len() {
                let left = if at >= PIXEL { row[at - PIXEL] } else { 0 };
                let corner = if at >= PIXEL { above[at - PIXEL] } else { 0 };
                let predicted = match coded[0] {
                    1 => left,
                    2 => above[at],
                    4 => paeth(left, above[at], corner),
                    other => panic!("filter {other}"),
                };
                row[at] = row[at].wrapping_add(predicted);
            }
            out.extend_from_slice(&row);
            above = row;
        }
        out
    }

    #[test]
    fn file_decodes_to_the_picture() {
        let rgb: Vec<u8> = (0..7 * 5 * 3)
            .map(|at: u32| u8::try_from((at * at * 31) % 251).unwrap())
            .collect();
        let picture = Picture {
            width: 7,
            height: 5,
            rgb: rgb.clone(),
        };
        let file = encode(&picture);
        assert_eq!(file[..8], SIGNATURE);
        assert_eq!(file[16..24], [0, 0, 0, 7, 0, 0, 0, 5]);
        assert_eq!(
            file[file.len() - 4..],
            [0xae, 0x42, 0x60, 0x82],
            "the CRC of an empty IEND"
        );
        assert_eq!(decode(&file, 7), rgb);
    }
}
