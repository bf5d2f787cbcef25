//! Images of origins.
use std::io::Cursor;

use image::{Delay, DynamicImage, Frame, ImageFormat, RgbImage, codecs::gif::GifEncoder};
use jpeg_encoder::{ColorType, Encoder};
use longhaul_transcode::{
    ImageLevel, Limits, Outcome, Request, TranscodeEffort,
    exchange::{ExchangeError, Job, MAX_JOB, PREFIX, Refusal, Reply, frame_length},
    inspect, transcode,
};

/// So large that an input of a few kilobytes may decode, so small that a run takes milliseconds.
const PIXELS: u64 = 20_000;

/// A header is parsed or rejected; an animation has several frames.
pub(crate) fn image_headers(bytes: &[u8]) {
    if let Ok(header) = inspect(bytes) {
        assert!(header.width > 0 && header.height > 0, "an image without pixels");
        assert!(
            header.animation.is_none_or(|animation| animation.frames > 1),
            "an animation with a single frame"
        );
    }
}

/// An image is transcoded, kept or rejected. A transcoded image is smaller and has the reported dimensions.
pub(crate) fn images(bytes: &[u8]) {
    let request = Request {
        level: ImageLevel::Low,
        effort: TranscodeEffort::Quick,
        limits: Limits {
            pixels: PIXELS,
            animation_pixels: 4 * PIXELS,
            frames: 16,
            ..Limits::default()
        },
        ..Request::default()
    };
    if let Ok(Outcome::Transcoded(variant)) = transcode(bytes, &request) {
        assert!(variant.webp.len() < bytes.len(), "a larger image");
        let header = inspect(&variant.webp).expect("the transcoded image has a header");
        assert_eq!((header.width, header.height), (variant.width, variant.height));
    }
}

pub(crate) fn image_seeds() -> Vec<Vec<u8>> {
    let picture = |shift: u32| {
        RgbImage::from_fn(24, 18, |x, y| {
            let channel = |factor: u32| u8::try_from((x * factor + y * 11 + shift) % 256).unwrap_or_default();
            image::Rgb([channel(3), channel(9), channel(27)])
        })
    };
    let mut seeds = Vec::new();
    for format in [
        ImageFormat::Png,
        ImageFormat::Gif,
        ImageFormat::Jpeg,
        ImageFormat::WebP,
    ] {
        let mut file = Cursor::new(Vec::new());
        let image = DynamicImage::ImageRgb8(picture(0));
        image.write_to(&mut file, format).expect("a small picture");
        seeds.push(file.into_inner());
    }
    for progressive in [false, true] {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, 80);
        encoder.set_progressive(progressive);
        encoder.set_optimized_huffman_tables(true);
        encoder
            .encode(&picture(0), 24, 18, ColorType::Rgb)
            .expect("a small picture");
        seeds.push(file);
    }
    let mut animation = Vec::new();
    let frames = (0..3).map(|number| {
        let image = DynamicImage::ImageRgb8(picture(number * 90)).into_rgba8();
        Frame::from_parts(image, 0, 0, Delay::from_numer_denom_ms(100, 1))
    });
    GifEncoder::new(&mut animation)
        .encode_frames(frames)
        .expect("a small animation");
    // Lossy WebP, static and animated, because no other encoder here writes it.
    let large =
        DynamicImage::ImageRgb8(picture(0)).resize_exact(96, 72, image::imageops::FilterType::Triangle);
    let mut still = Cursor::new(Vec::new());
    large.write_to(&mut still, ImageFormat::Png).expect("a picture");
    for file in [still.get_ref(), &animation] {
        if let Ok(Outcome::Transcoded(variant)) = transcode(file, &Request::default()) {
            seeds.push(variant.webp);
        }
    }
    seeds.push(animation);
    seeds
}

/// The bytes between image workers and their gateway: either end parses them as a message in canonical form,
/// or returns an error.
pub(crate) fn picture_messages(bytes: &[u8]) {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else {
        return;
    };
    let framed = |most| -> Result<&[u8], ExchangeError> {
        let length = frame_length(*prefix, most)?;
        assert!(length <= most, "more memory than is allowed");
        rest.get(..length).ok_or(ExchangeError::Length)
    };
    if let Ok(frame) = framed(MAX_JOB)
        && let Ok((job, picture)) = Job::decode(frame)
    {
        let head = job.encode(picture.len()).expect("a decoded value can be encoded");
        assert_eq!([&head, picture].concat(), bytes[..PREFIX + frame.len()]);
    }
    if let Ok(frame) = framed(Reply::longest(1_000))
        && let Ok(reply) = Reply::decode(frame)
    {
        let again = reply.encode().expect("a decoded value can be encoded");
        assert_eq!(again, bytes[..PREFIX + frame.len()]);
    }
}

pub(crate) fn picture_message_seeds() -> Vec<Vec<u8>> {
    let job = Job {
        request: Request::default(),
        milliseconds: 8_000,
        memory: 1 << 24,
    };
    let head = job.encode(7).expect("a small picture");
    let replies = [
        Reply::Ready,
        Reply::Kept,
        Reply::Refused(Refusal::Time),
        Reply::Transcoded(b"RIFF".to_vec()),
    ];
    let mut seeds = vec![[&head[..], b"picture"].concat()];
    seeds.extend(replies.map(|reply| reply.encode().expect("a small picture")));
    seeds
}
