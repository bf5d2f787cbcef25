//! Animations keep their frames, display times and loops.
use std::io::Cursor;

use gif::{DisposalMethod, Frame, Repeat};
use image::{AnimationDecoder, RgbaImage, codecs::webp::WebPDecoder};
use longhaul_transcode::{
    ImageLevel, LimitError, Outcome, Plays, TranscodeEffort, TranscodeError, inspect, transcode,
    transcode_until,
};

use crate::pictures::{photo, request, transcoded};

const SIDE: u16 = 128;
/// In hundredths of a second.
const DELAYS: [u16; 4] = [5, 10, 40, 120];

/// Returns a frame of grain in shades of one colour.
fn frame(width: u16, height: u16, tint: [bool; 3], delay: u16) -> Frame<'static> {
    let grain = photo(u32::from(width), u32::from(height));
    let mut pixels: Vec<u8> = grain
        .pixels()
        .flat_map(|pixel| {
            let value = 120 + pixel.0[0] / 2;
            let [red, green, blue] = tint.map(|lit| if lit { value } else { 10 });
            [red, green, blue, 255]
        })
        .collect();
    let mut frame = Frame::from_rgba_speed(width, height, &mut pixels, 10);
    frame.delay = delay;
    frame
}

fn gif(repeat: Option<Repeat>, frames: &[Frame<'_>]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = gif::Encoder::new(&mut file, SIDE, SIDE, &[]).unwrap();
    if let Some(repeat) = repeat {
        encoder.set_repeat(repeat).unwrap();
    }
    for frame in frames {
        encoder.write_frame(frame).unwrap();
    }
    drop(encoder);
    file
}

const RED: [bool; 3] = [true, false, false];
const GREEN: [bool; 3] = [false, true, false];
const BLUE: [bool; 3] = [false, false, true];
const GRAY: [bool; 3] = [true, true, true];

fn colours() -> Vec<Frame<'static>> {
    let tints = [RED, GREEN, BLUE, GRAY];
    tints
        .into_iter()
        .zip(DELAYS)
        .map(|(tint, delay)| frame(SIDE, SIDE, tint, delay))
        .collect()
}

/// Returns the displayed frames and their milliseconds.
fn frames(webp: &[u8]) -> Vec<(RgbaImage, u32)> {
    let decoder = WebPDecoder::new(Cursor::new(webp)).unwrap();
    let frames = decoder.into_frames().map(|frame| frame.unwrap());
    frames
        .map(|frame| {
            let (numerator, denominator) = frame.delay().numer_denom_ms();
            (frame.into_buffer(), numerator / denominator)
        })
        .collect()
}

/// Returns the colour of a pixel as its lit channels.
fn tint(picture: &RgbaImage, x: u32, y: u32) -> [bool; 3] {
    let [red, green, blue, _] = picture.get_pixel(x, y).0;
    [red, green, blue].map(|channel| channel > 75)
}

#[test]
fn frames_times_and_loops_are_preserved() {
    let repeats = [
        (None, Plays::Times(1)),
        (Some(Repeat::Infinite), Plays::Forever),
        (Some(Repeat::Finite(2)), Plays::Times(3)),
    ];
    for (repeat, plays) in repeats {
        let file = gif(repeat, &colours());
        let before = inspect(&file).unwrap().animation.unwrap();
        assert_eq!((before.frames, before.plays), (4, plays));
        let variant = transcoded(&file, ImageLevel::Medium);
        let after = inspect(&variant.webp).unwrap().animation.unwrap();
        assert_eq!((after.frames, after.plays), (4, plays));
        let frames = frames(&variant.webp);
        let times: Vec<u32> = frames.iter().map(|(_, time)| *time).collect();
        assert_eq!(times, DELAYS.map(|delay| u32::from(delay) * 10));
        let tints: Vec<_> = frames.iter().map(|(picture, _)| tint(picture, 60, 60)).collect();
        assert_eq!(tints, [RED, GREEN, BLUE, GRAY]);
    }
}

#[test]
fn disposal_is_obeyed() {
    let mut patch = frame(40, 40, GREEN, 10);
    (patch.left, patch.top) = (8, 8);
    patch.dispose = DisposalMethod::Previous;
    let mut hole = frame(40, 40, BLUE, 10);
    (hole.left, hole.top) = (70, 70);
    hole.dispose = DisposalMethod::Background;
    let mut last = frame(20, 20, GRAY, 10);
    (last.left, last.top) = (100, 10);
    let file = gif(
        Some(Repeat::Infinite),
        &[frame(SIDE, SIDE, RED, 10), patch, hole, last],
    );
    let frames = frames(&transcoded(&file, ImageLevel::Medium).webp);
    let [first, second, third, fourth] = frames.as_slice() else {
        panic!("{} frames", frames.len())
    };
    assert_eq!((tint(&first.0, 25, 25), tint(&first.0, 90, 90)), (RED, RED));
    assert_eq!((tint(&second.0, 25, 25), tint(&second.0, 90, 90)), (GREEN, RED));
    assert_eq!((tint(&third.0, 25, 25), tint(&third.0, 90, 90)), (RED, BLUE));
    assert_eq!(tint(&fourth.0, 25, 25), RED);
    assert_eq!(
        fourth.0.get_pixel(90, 90).0[3],
        0,
        "the background is transparent"
    );
    assert_eq!(tint(&fourth.0, 110, 20), GRAY);
}

#[test]
fn animated_webp_is_read() {
    let file = gif(Some(Repeat::Finite(4)), &colours());
    let first = transcoded(&file, ImageLevel::High).webp;
    let outcome = transcode(&first, &request(ImageLevel::Low, TranscodeEffort::Checked)).unwrap();
    let Outcome::Transcoded(second) = outcome else {
        panic!("kept")
    };
    let header = inspect(&second.webp).unwrap().animation.unwrap();
    assert_eq!((header.frames, header.plays), (4, Plays::Times(5)));
    let times: Vec<u32> = frames(&second.webp).iter().map(|(_, time)| *time).collect();
    assert_eq!(times, DELAYS.map(|delay| u32::from(delay) * 10));
}

#[test]
fn limits_hold_for_animations() {
    let file = gif(None, &colours());
    let mut few = request(ImageLevel::Low, TranscodeEffort::Quick);
    few.limits.frames = 3;
    assert!(matches!(
        transcode(&file, &few),
        Err(TranscodeError::Limit(LimitError::Frames(4)))
    ));
    let mut small = request(ImageLevel::Low, TranscodeEffort::Quick);
    small.limits.animation_pixels = 4 * 128 * 128 - 1;
    assert!(matches!(
        transcode(&file, &small),
        Err(TranscodeError::Limit(LimitError::AnimationPixels(65_536)))
    ));
}

#[test]
fn the_caller_can_stop_an_animation() {
    let file = gif(None, &colours());
    let stopped = transcode_until(&file, &request(ImageLevel::Low, TranscodeEffort::Quick), &|| true);
    assert!(matches!(stopped, Err(TranscodeError::Encode(_))), "{stopped:?}");
}
