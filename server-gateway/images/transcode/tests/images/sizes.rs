//! Images larger than the screen.
use longhaul_transcode::{ImageLevel, Outcome, TranscodeEffort, Viewport, transcode};

use crate::pictures::{Scans, assert_shows, jpeg, photo, request};

fn size(file: &[u8], level: ImageLevel, viewport: Viewport) -> (u32, u32) {
    let mut request = request(level, TranscodeEffort::Quick);
    request.viewport = viewport;
    match transcode(file, &request).unwrap() {
        Outcome::Transcoded(variant) => (variant.width, variant.height),
        Outcome::Kept(reason) => panic!("kept: {reason:?}"),
    }
}

#[test]
fn photographs_are_scaled_to_the_screen_at_level_medium_and_below() {
    let file = jpeg(&photo(800, 600), 90, Scans::One);
    let small = Viewport {
        width: 400,
        height: 700,
        ratio_percent: 100,
    };
    assert_eq!(size(&file, ImageLevel::High, small), (800, 600));
    assert_eq!(size(&file, ImageLevel::Medium, small), (400, 300));
    assert_eq!(size(&file, ImageLevel::Low, small), (400, 300));
    let sharp = Viewport {
        ratio_percent: 150,
        ..small
    };
    assert_eq!(size(&file, ImageLevel::Low, sharp), (600, 450));
    assert_eq!(size(&file, ImageLevel::Low, Viewport::default()), (800, 600));
}

#[test]
fn a_scaled_image_shows_the_same_picture() {
    let file = jpeg(&photo(800, 600), 95, Scans::One);
    let mut request = request(ImageLevel::Medium, TranscodeEffort::Checked);
    request.viewport.width = 400;
    let Outcome::Transcoded(variant) = transcode(&file, &request).unwrap() else {
        panic!("kept")
    };
    let wanted = image::imageops::resize(&photo(800, 600), 400, 300, image::imageops::FilterType::Triangle);
    assert_shows(&variant.webp, &wanted, 6.0);
}

#[test]
fn a_screen_of_size_zero_is_ignored() {
    let file = jpeg(&photo(80, 60), 95, Scans::One);
    let none = Viewport {
        width: 0,
        height: 0,
        ratio_percent: 0,
    };
    assert_eq!(size(&file, ImageLevel::Low, none), (1, 1));
}
