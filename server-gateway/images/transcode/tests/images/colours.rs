//! Profiles, inks and orientations.
use image::{DynamicImage, RgbImage};
use jpeg_encoder::ColorType;
use longhaul_transcode::ImageLevel;
use moxcms::{ColorProfile, Layout, TransformOptions};

use crate::pictures::{
    Scans, assert_shows, corners, exif, jpeg, jpeg_with, photo, shown, tagged_png, transcoded,
};

#[test]
fn every_exif_orientation_is_turned_upright() {
    let picture = corners(160, 96);
    let [red, green, blue, white] = [[220, 40, 40], [40, 220, 40], [40, 40, 220], [230, 230, 230]];
    // The displayed corners: top left, top right, bottom left, bottom right (Exif 2.3, tag 274).
    let expected = [
        [red, green, blue, white],
        [green, red, white, blue],
        [white, blue, green, red],
        [blue, white, red, green],
        [red, blue, green, white],
        [blue, red, white, green],
        [white, green, blue, red],
        [green, white, red, blue],
    ];
    for (orientation, wanted) in (1..).zip(expected) {
        let file = jpeg_with(picture.as_raw(), (160, 96), ColorType::Rgb, 92, |encoder| {
            encoder.add_exif_metadata(&exif(orientation)).unwrap();
        });
        let variant = transcoded(&file, ImageLevel::High);
        let size = if orientation < 5 { (160, 96) } else { (96, 160) };
        assert_eq!((variant.width, variant.height), size, "orientation {orientation}");
        let picture = shown(&variant.webp);
        let (right, bottom) = (size.0 - 12, size.1 - 12);
        let places = [(12, 12), (right, 12), (12, bottom), (right, bottom)];
        for ((x, y), wanted) in places.into_iter().zip(wanted) {
            let found = picture.get_pixel(x, y).0;
            for (channel, wanted) in found.into_iter().zip(wanted) {
                assert!(
                    channel.abs_diff(wanted) < 40,
                    "orientation {orientation}: {found:?}"
                );
            }
        }
    }
}

/// Converts colours of the profile to sRGB.
fn in_srgb(profile: &ColorProfile, picture: &RgbImage) -> RgbImage {
    let mut data = vec![0; picture.as_raw().len()];
    profile
        .create_transform_8bit(
            Layout::Rgb,
            &ColorProfile::new_srgb(),
            Layout::Rgb,
            TransformOptions::default(),
        )
        .unwrap()
        .transform(picture.as_raw(), &mut data)
        .unwrap();
    RgbImage::from_raw(picture.width(), picture.height(), data).unwrap()
}

#[test]
fn profiles_are_applied() {
    let picture = corners(160, 96);
    for profile in [ColorProfile::new_display_p3(), ColorProfile::new_adobe_rgb()] {
        let icc = profile.encode().unwrap();
        let wanted = in_srgb(&profile, &picture);
        let moved = wanted.as_raw().iter().zip(picture.as_raw());
        assert!(moved.filter(|(one, other)| one.abs_diff(**other) > 15).count() > 10_000);
        let of_jpeg = jpeg_with(picture.as_raw(), (160, 96), ColorType::Rgb, 95, |encoder| {
            encoder.add_icc_profile(&icc).unwrap();
        });
        for file in [of_jpeg, tagged_png(&picture, Some(icc.clone()), None)] {
            let variant = transcoded(&file, ImageLevel::High);
            assert_shows(&variant.webp, &wanted, 6.0);
        }
    }
}

#[test]
fn a_broken_profile_is_ignored() {
    let picture = photo(160, 96);
    let file = tagged_png(&picture, Some(vec![7; 300]), None);
    assert_shows(&transcoded(&file, ImageLevel::High).webp, &picture, 6.0);
}

#[test]
fn cmyk_images_become_rgb() {
    // Cyan, magenta, yellow, black; then paper.
    let paint = |x: u32| match x / 40 {
        0 => [255, 0, 0, 0],
        1 => [0, 255, 0, 0],
        2 => [0, 0, 255, 0],
        3 => [0, 0, 0, 255],
        _ => [0, 0, 0, 0],
    };
    let wanted = [
        [0, 255, 255],
        [255, 0, 255],
        [255, 255, 0],
        [0, 0, 0],
        [255, 255, 255],
    ];
    let grain = photo(200, 100);
    // Adobe's programs store inverted inks.
    let inks: Vec<u8> = (0..100)
        .flat_map(|y| (0..200).map(move |x| (x, y)))
        .flat_map(|(x, y)| {
            let grain = grain.get_pixel(x, y).0[0] / 16;
            paint(x).map(|ink: u8| if ink == 0 { grain } else { ink - grain })
        })
        .collect();
    for colours in [ColorType::Cmyk, ColorType::CmykAsYcck] {
        let file = jpeg_with(&inks, (200, 100), colours, 92, |_| {});
        let picture = shown(&transcoded(&file, ImageLevel::High).webp);
        for (x, wanted) in (20..).step_by(40).zip(wanted) {
            let found = picture.get_pixel(x, 50).0;
            for (channel, wanted) in found.into_iter().zip(wanted) {
                assert!(i32::from(channel).abs_diff(wanted) < 45, "{x}: {found:?}");
            }
        }
    }
}

#[test]
fn scaling_keeps_the_brightness_of_fine_detail() {
    let dots = RgbImage::from_fn(2732, 1000, |x, y| {
        let light = (x / 2 + y / 2) % 2 == 0;
        image::Rgb(if light { [255; 3] } else { [(x * y % 7) as u8; 3] })
    });
    let variant = transcoded(&jpeg(&dots, 90, Scans::One), ImageLevel::Medium);
    let picture = DynamicImage::ImageRgba8(shown(&variant.webp)).into_luma8();
    let mean = picture.iter().map(|&value| u64::from(value)).sum::<u64>() / picture.len() as u64;
    // Half the light of white is 188 in sRGB, not 128.
    assert!((175..=200).contains(&mean), "{mean}");
}
