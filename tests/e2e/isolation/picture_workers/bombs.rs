//! Small files that decode to large images.
use std::{collections::BTreeMap, io::Write as _};

use bytes::Bytes;
use flate2::{Compression, Crc, write::ZlibEncoder};
use jpeg_encoder::{ColorType, Encoder};

/// A black PNG: colour type 2 or 6 with 8 bits, or 6 with 16. `more` are chunks after the header.
pub(super) fn png(
    (width, height): (u32, u32),
    depth: u8,
    colour: u8,
    more: &[(&[u8; 4], Vec<u8>)],
) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |name: &[u8; 4], data: &[u8]| {
        let mut sum = Crc::new();
        sum.update(name);
        sum.update(data);
        file.extend(u32::try_from(data.len()).expect("a small chunk").to_be_bytes());
        file.extend(name);
        file.extend(data);
        file.extend(sum.sum().to_be_bytes());
    };
    let sides = [width.to_be_bytes(), height.to_be_bytes()].concat();
    chunk(b"IHDR", &[&sides[..], &[depth, colour, 0, 0, 0]].concat());
    for (name, data) in more {
        chunk(name, data);
    }
    let channels = if colour == 6 { 4 } else { 3 };
    let row = u64::from(width) * channels * u64::from(depth / 8) + 1;
    chunk(b"IDAT", &zeros(row * u64::from(height)));
    chunk(b"IEND", &[]);
    file
}

/// Compressed zeros.
pub(super) fn zeros(mut count: u64) -> Vec<u8> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
    let block = vec![0; 1 << 16];
    while count > 0 {
        let part = count.min(block.len() as u64);
        packed
            .write_all(&block[..usize::try_from(part).expect("a block")])
            .expect("memory");
        count -= part;
    }
    packed.finish().expect("memory")
}

/// A black JPEG.
pub(super) fn jpeg(side: u16) -> Vec<u8> {
    let mut file = Vec::new();
    let pixels = vec![0; usize::from(side) * usize::from(side) * 3];
    Encoder::new(&mut file, 50)
        .encode(&pixels, side, side, ColorType::Rgb)
        .expect("a picture");
    file
}

/// An animation of black frames.
pub(super) fn gif((width, height): (u16, u16), frames: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = gif::Encoder::new(&mut file, width, height, &[0; 6]).expect("a header");
    for _ in 0..frames {
        let pixels = vec![0; usize::from(width) * usize::from(height)];
        let frame = gif::Frame::from_indexed_pixels(width, height, pixels, None);
        encoder.write_frame(&frame).expect("a frame");
    }
    drop(encoder);
    file
}

/// A lossless black WebP.
pub(super) fn webp(side: u32) -> Vec<u8> {
    let pixels = vec![0; usize::try_from(side * side * 3).expect("memory")];
    let config = webpx::EncoderConfig::new().lossless(true).quality(0.0).method(0);
    config
        .encode_rgb(&pixels, side, side, webpx::Unstoppable)
        .expect("a picture")
}

/// A detailed image, as pages display it.
pub(super) fn photograph() -> Vec<u8> {
    const SIDE: u16 = 300;
    let grain = crate::content::noise(usize::from(SIDE) * usize::from(SIDE), 5);
    let mut pixels = Vec::new();
    for (place, grain) in grain.iter().enumerate() {
        let (x, y) = (place % usize::from(SIDE), place / usize::from(SIDE));
        let shade = |value: usize| u8::try_from(value % 256).unwrap_or(0);
        pixels.extend([
            shade((x * x / 37 + y * 3) % 200),
            shade(y / 2) ^ (grain & 15),
            shade(x / 2),
        ]);
    }
    let mut file = Vec::new();
    Encoder::new(&mut file, 95)
        .encode(&pixels, SIDE, SIDE, ColorType::Rgb)
        .expect("a picture");
    file
}

/// A copy of a file with other bytes at an offset.
fn patched(mut file: Vec<u8>, place: usize, bytes: &[u8]) -> Vec<u8> {
    file[place..place + bytes.len()].copy_from_slice(bytes);
    file
}

pub(super) type Files = BTreeMap<String, Bytes>;

/// Ten different images of 40 megapixels in at most 166 kB each.
pub(super) fn forty_megapixels() -> Files {
    let named = |number: u8| (format!("/forty{number}.png"), vec![number]);
    let file = |(name, text): (String, Vec<u8>)| {
        let comment = [&b"Comment\0"[..], &text].concat();
        let file = png((8_000, 5_000), 8, 2, &[(b"tEXt", comment)]);
        (name, Bytes::from(file))
    };
    (0..10).map(named).map(file).collect()
}

/// Further images: of the largest decoded size, far larger by their headers, and malformed.
pub(super) fn other_bombs() -> Files {
    let mut files = sixteen_megapixels();
    let large_jpeg = jpeg(4_000);
    let frame = large_jpeg.windows(2).position(|pair| pair == b"\xff\xc0");
    let frame = frame.expect("a frame's header");
    let profile = [&b"icc\0\0"[..], &zeros(400 << 20)].concat();
    let cut = png((4_000, 4_000), 8, 2, &[]);
    let others = [
        (
            "/absurd.jpg".to_owned(),
            patched(large_jpeg.clone(), frame + 5, &[0xff; 4]),
        ),
        ("/large.jpg".to_owned(), large_jpeg),
        ("/absurd.gif".to_owned(), patched(gif((8, 8), 2), 6, &[0xff; 4])),
        ("/frames.gif".to_owned(), gif((1_400, 1_400), 12)),
        ("/many.gif".to_owned(), gif((190, 190), 600)),
        ("/too-many.gif".to_owned(), gif((16, 16), 5_000)),
        ("/large.webp".to_owned(), webp(3_000)),
        (
            "/profile.png".to_owned(),
            png((64, 64), 8, 2, &[(b"iCCP", profile)]),
        ),
        ("/alpha.png".to_owned(), png((4_000, 4_000), 8, 6, &[])),
        ("/deep.png".to_owned(), png((4_000, 4_000), 16, 6, &[])),
        ("/cut.png".to_owned(), cut[..cut.len() / 2].to_vec()),
        ("/absurd.png".to_owned(), patched(cut, 16, &[0x7f; 8])),
    ];
    files.extend(others.map(|(name, file)| (name, Bytes::from(file))));
    files
}

/// Images of the largest decoded size.
pub(super) fn sixteen_megapixels() -> Files {
    let file = |number: u32| {
        let file = png((3_990 + number, 4_000), 8, 2, &[]);
        (format!("/sixteen{number}.png"), Bytes::from(file))
    };
    (0..10).map(file).collect()
}
