//! Every format and variety of input keeps its content.
use image::{DynamicImage, GrayImage, ImageBuffer, Rgb, RgbaImage};
use longhaul_transcode::{
    Compression, ImageFormat, ImageLevel, Outcome, Reason, Score, TranscodeEffort, inspect, transcode,
};

use crate::pictures::{
    Scans, assert_shows, drawing, exif, interlaced_png, jpeg, photo, png, raw_png, request, shown,
    tagged_png, transcoded,
};

#[test]
fn jpegs_of_every_process_decode_to_the_same_image() {
    let picture = photo(200, 150);
    for scans in [Scans::One, Scans::Several, Scans::Progressive] {
        let file = jpeg(&picture, 92, scans);
        let header = inspect(&file).unwrap();
        assert_eq!(
            (header.format, header.width, header.height),
            (ImageFormat::Jpeg, 200, 150)
        );
        let variant = transcoded(&file, ImageLevel::High);
        assert_shows(&variant.webp, &picture, 6.0);
    }
}

#[test]
fn subsampled_jpegs_of_several_scans_are_right() {
    let picture = photo(203, 149);
    let file = crate::pictures::jpeg_with(
        picture.as_raw(),
        picture.dimensions(),
        jpeg_encoder::ColorType::Rgb,
        92,
        |encoder| {
            encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::F_2_2);
            encoder.set_optimized_huffman_tables(true);
        },
    );
    assert_eq!(file.windows(2).filter(|pair| pair == b"\xff\xda").count(), 3);
    assert_shows(&transcoded(&file, ImageLevel::High).webp, &picture, 6.0);
}

#[test]
fn gray_jpegs_stay_gray() {
    let gray = DynamicImage::ImageRgb8(photo(120, 90)).into_luma8();
    let file = crate::pictures::jpeg_with(
        gray.as_raw(),
        gray.dimensions(),
        jpeg_encoder::ColorType::Luma,
        92,
        |_| {},
    );
    let wanted = DynamicImage::ImageLuma8(gray).into_rgb8();
    assert_shows(&transcoded(&file, ImageLevel::High).webp, &wanted, 6.0);
}

#[test]
fn pngs_of_every_depth_decode_to_the_same_image() {
    let picture = photo(160, 120);
    let deep = ImageBuffer::from_fn(160, 120, |x, y| {
        Rgb(picture.get_pixel(x, y).0.map(|channel| u16::from(channel) * 257))
    });
    for file in [
        png(&DynamicImage::ImageRgb8(picture.clone())),
        png(&DynamicImage::ImageRgb16(deep)),
        interlaced_png(&picture),
    ] {
        assert_eq!(inspect(&file).unwrap().format, ImageFormat::Png);
        assert_shows(&transcoded(&file, ImageLevel::High).webp, &picture, 6.0);
    }
}

#[test]
fn deep_gray_and_single_bits_are_read() {
    let gray = DynamicImage::ImageRgb8(photo(160, 120)).into_luma16();
    let wanted = DynamicImage::ImageLuma16(gray.clone()).into_rgb8();
    let file = png(&DynamicImage::ImageLuma16(gray));
    assert_shows(&transcoded(&file, ImageLevel::High).webp, &wanted, 6.0);

    // Columns of four pixels, black and white, one bit each, hardly compressed.
    let rows: Vec<u8> = (0..64).flat_map(|_| [&[0][..], &[0xf0; 32]].concat()).collect();
    let file = raw_png(256, 64, [1, 0, 0, 0, 0], &rows);
    match transcode(&file, &request(ImageLevel::High, TranscodeEffort::Standard)).unwrap() {
        Outcome::Kept(reason) => assert_eq!(reason, Reason::NotSmaller),
        Outcome::Transcoded(variant) => {
            let wanted = GrayImage::from_fn(256, 64, |x, _| image::Luma([if x % 8 < 4 { 255 } else { 0 }]));
            assert_shows(&variant.webp, &DynamicImage::ImageLuma8(wanted).into_rgb8(), 1.0);
        }
    }
}

#[test]
fn alpha_is_preserved_exactly() {
    let picture = photo(160, 120);
    let soft = RgbaImage::from_fn(160, 120, |x, y| {
        let [red, green, blue] = picture.get_pixel(x, y).0;
        let alpha = u8::try_from((x * 255 / 159).min(255)).unwrap();
        image::Rgba([red, green, blue, alpha])
    });
    let variant = transcoded(&png(&DynamicImage::ImageRgba8(soft.clone())), ImageLevel::Low);
    for (one, other) in shown(&variant.webp).pixels().zip(soft.pixels()) {
        assert_eq!(one.0[3], other.0[3]);
    }
}

#[test]
fn drawings_are_coded_without_loss() {
    let picture = drawing(300, 200);
    let rows: Vec<u8> = picture
        .as_raw()
        .chunks(900)
        .flat_map(|row| [&[0], row].concat())
        .collect();
    let file = raw_png(300, 200, [8, 2, 0, 0, 0], &rows);
    let variant = transcoded(&file, ImageLevel::High);
    assert_eq!(variant.compression, Compression::Lossless);
    assert_eq!(variant.score, Score::Measured(100.0));
    assert_shows(&variant.webp, &picture, 0.001);
}

#[test]
fn webp_images_are_decoded() {
    let picture = photo(160, 120);
    let mut lossless = std::io::Cursor::new(Vec::new());
    DynamicImage::ImageRgb8(picture.clone())
        .write_to(&mut lossless, image::ImageFormat::WebP)
        .unwrap();
    let first = transcoded(lossless.get_ref(), ImageLevel::High);
    assert_shows(&first.webp, &picture, 6.0);
    // Lossy input.
    assert_eq!(inspect(&first.webp).unwrap().format, ImageFormat::Webp);
    let second = transcoded(&first.webp, ImageLevel::Low);
    assert!(second.webp.len() < first.webp.len());
    assert_shows(&second.webp, &picture, 12.0);
}

#[test]
fn the_smallest_images_keep_their_size() {
    for (width, height) in [(1, 1), (1, 40), (40, 1), (7, 7), (8, 8)] {
        for effort in [
            TranscodeEffort::Quick,
            TranscodeEffort::Standard,
            TranscodeEffort::Checked,
        ] {
            let picture = photo(width, height);
            for file in [
                jpeg(&picture, 90, Scans::One),
                png(&DynamicImage::ImageRgb8(picture.clone())),
            ] {
                let outcome = transcode(&file, &request(ImageLevel::Medium, effort)).unwrap();
                if let Outcome::Transcoded(variant) = outcome {
                    assert_eq!((variant.width, variant.height), (width, height));
                    assert_eq!(shown(&variant.webp).dimensions(), (width, height));
                }
            }
        }
    }
}

#[test]
fn levels_without_transcoding_keep_the_original() {
    let file = jpeg(&photo(200, 150), 95, Scans::One);
    for level in [ImageLevel::Original, ImageLevel::Text] {
        let outcome = transcode(&file, &request(level, TranscodeEffort::Checked)).unwrap();
        assert_eq!(outcome, Outcome::Kept(Reason::Level));
    }
}

#[test]
fn small_images_are_kept() {
    let original = jpeg(&photo(300, 200), 90, Scans::One);
    let file = transcoded(&original, ImageLevel::Low).webp;
    let outcome = transcode(&file, &request(ImageLevel::High, TranscodeEffort::Checked)).unwrap();
    assert_eq!(outcome, Outcome::Kept(Reason::NotSmaller));
}

#[test]
fn lower_levels_take_fewer_bytes() {
    let file = jpeg(&photo(400, 300), 92, Scans::One);
    for effort in [
        TranscodeEffort::Quick,
        TranscodeEffort::Standard,
        TranscodeEffort::Checked,
    ] {
        let lengths: Vec<usize> = [ImageLevel::High, ImageLevel::Medium, ImageLevel::Low]
            .into_iter()
            .map(|level| match transcode(&file, &request(level, effort)).unwrap() {
                Outcome::Transcoded(variant) => variant.webp.len(),
                Outcome::Kept(_) => file.len(),
            })
            .collect();
        assert!(lengths.is_sorted_by(|one, other| one > other), "{lengths:?}");
    }
}

#[test]
fn checked_results_meet_their_level() {
    let file = jpeg(&photo(400, 300), 95, Scans::One);
    for level in [ImageLevel::High, ImageLevel::Medium, ImageLevel::Low] {
        let outcome = transcode(&file, &request(level, TranscodeEffort::Checked)).unwrap();
        let Outcome::Transcoded(variant) = outcome else {
            panic!("kept at {level}")
        };
        let Score::Measured(score) = variant.score else {
            panic!("not measured")
        };
        assert!((score - level.target().unwrap()).abs() < 4.0, "{level}: {score}");
        let mut original = request(level, TranscodeEffort::Checked);
        original.level = level;
        let picture = longhaul_transcode::calibration::Picture::open(&file, &original).unwrap();
        let similarity = picture.compare(&variant.webp).unwrap().unwrap();
        assert!((similarity.ssimulacra2 - score).abs() < 0.01);
    }
}

#[test]
fn large_pictures_come_near_their_level_by_a_sample() {
    let file = jpeg(&photo(900, 640), 95, Scans::One);
    for level in [ImageLevel::High, ImageLevel::Medium, ImageLevel::Low] {
        let request = request(level, TranscodeEffort::Standard);
        let Outcome::Transcoded(variant) = transcode(&file, &request).unwrap() else {
            panic!("kept at {level}")
        };
        assert_eq!(variant.score, Score::Expected(level.target().unwrap()));
        let picture = longhaul_transcode::calibration::Picture::open(&file, &request).unwrap();
        let score = picture.compare(&variant.webp).unwrap().unwrap().ssimulacra2;
        let off = score - level.target().unwrap();
        // At low qualities some parts of this image keep their grain and others lose it.
        let above = if level == ImageLevel::Low { 15.0 } else { 6.0 };
        assert!((-6.0..above).contains(&off), "{level}: {score}");
    }
}

#[test]
fn a_png_with_exif_orientation_is_turned_upright() {
    let picture = photo(160, 90);
    let file = tagged_png(&picture, None, Some(exif(6)));
    let variant = transcoded(&file, ImageLevel::High);
    assert_eq!((variant.width, variant.height), (90, 160));
    let turned = DynamicImage::ImageRgb8(picture).rotate90().into_rgb8();
    assert_shows(&variant.webp, &turned, 6.0);
}
