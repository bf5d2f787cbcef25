//! Pictures that the tests make.
use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::ZlibEncoder};
use jpeg_encoder::{ColorType, Encoder};

/// A synthetic photograph: waves and noise.
pub(super) fn photo(side: u16) -> Bytes {
    let mut pixels = Vec::new();
    let mut grain = 1_u32;
    for y in 0..u32::from(side) {
        for x in 0..u32::from(side) {
            grain = grain.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let shade = |value: u32| u8::try_from(value % 200 + (grain >> 29)).unwrap();
            pixels.extend([shade(x * x / 97 + y), shade(y / 2 + x), shade(x / 3)]);
        }
    }
    let mut file = Vec::new();
    Encoder::new(&mut file, 90)
        .encode(&pixels, side, side, ColorType::Rgb)
        .unwrap();
    file.into()
}

/// A PNG image of one colour.
pub(super) fn flat(width: u32, height: u32) -> Bytes {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |name: &[u8; 4], data: &[u8]| {
        let mut sum = flate2::Crc::new();
        sum.update(name);
        sum.update(data);
        file.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        file.extend(name);
        file.extend(data);
        file.extend(sum.sum().to_be_bytes());
    };
    let sides = [width.to_be_bytes(), height.to_be_bytes()].concat();
    chunk(b"IHDR", &[&sides[..], &[8, 2, 0, 0, 0]].concat());
    let mut pixels = ZlibEncoder::new(Vec::new(), Compression::best());
    let row = vec![0; usize::try_from(width).unwrap() * 3 + 1];
    for _ in 0..height {
        pixels.write_all(&row).unwrap();
    }
    chunk(b"IDAT", &pixels.finish().unwrap());
    chunk(b"IEND", &[]);
    file.into()
}

/// An image that takes seconds to transcode.
pub(super) fn slow() -> Bytes {
    flat(3_900, 3_900)
}
