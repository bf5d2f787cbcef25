//! Damaged files, decompression bombs and noise.
use image::DynamicImage;
use longhaul_transcode::{
    ImageLevel, InspectError, LimitError, Outcome, TranscodeEffort, TranscodeError, inspect, transcode,
    transcode_until,
};
use proptest::prelude::*;

use crate::pictures::{Scans, drawing, jpeg, photo, png, raw_png, request, transcoded};

fn files() -> Vec<Vec<u8>> {
    let small = photo(48, 32);
    let mut files = vec![
        jpeg(&small, 80, Scans::One),
        jpeg(&small, 80, Scans::Several),
        jpeg(&small, 80, Scans::Progressive),
        png(&DynamicImage::ImageRgb8(drawing(48, 32))),
        png(&DynamicImage::ImageRgba8(
            DynamicImage::ImageRgb8(small.clone()).into_rgba8(),
        )),
    ];
    for format in [image::ImageFormat::Gif, image::ImageFormat::WebP] {
        let mut file = std::io::Cursor::new(Vec::new());
        DynamicImage::ImageRgb8(small.clone())
            .write_to(&mut file, format)
            .unwrap();
        files.push(file.into_inner());
    }
    files.push(transcoded(&jpeg(&photo(96, 64), 95, Scans::One), ImageLevel::High).webp);
    files
}

#[test]
fn truncated_files_are_refused() {
    for file in files() {
        for part in [0, 1, 5, 20, file.len() / 2, file.len() - 20] {
            let cut = &file[..part.min(file.len() - 20)];
            let outcome = transcode(cut, &request(ImageLevel::Low, TranscodeEffort::Quick));
            assert!(
                outcome.is_err(),
                "{} of {} bytes: {outcome:?}",
                cut.len(),
                file.len()
            );
        }
    }
}

#[test]
fn bombs_are_refused_by_their_header() {
    let side = 50_000_u32;
    let mut bombs = vec![raw_png(side, side, [8, 2, 0, 0, 0], &[0; 100])];
    let mut bomb = jpeg(&photo(16, 16), 80, Scans::One);
    let frame = bomb.windows(2).position(|pair| pair == b"\xff\xc0").unwrap();
    let short = u16::try_from(side).unwrap().to_be_bytes();
    bomb[frame + 5..frame + 9].copy_from_slice(&[short, short].concat());
    bombs.push(bomb);
    let mut bomb = files().swap_remove(5);
    let short = u16::try_from(side).unwrap().to_le_bytes();
    bomb[6..10].copy_from_slice(&[short, short].concat());
    bombs.push(bomb);
    let mut bomb = b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0".to_vec();
    bomb.extend([&side.to_le_bytes()[..3], &side.to_le_bytes()[..3]].concat());
    bombs.push(bomb);
    for bomb in bombs {
        assert!(inspect(&bomb).is_ok());
        let outcome = transcode(&bomb, &request(ImageLevel::Low, TranscodeEffort::Quick));
        assert!(
            matches!(outcome, Err(TranscodeError::Limit(LimitError::Pixels { .. }))),
            "{outcome:?}"
        );
    }
}

#[test]
fn too_large_files_are_not_inspected() {
    let mut request = request(ImageLevel::Low, TranscodeEffort::Quick);
    request.limits.input_bytes = 10;
    let outcome = transcode(&[0; 11], &request);
    assert!(matches!(
        outcome,
        Err(TranscodeError::Limit(LimitError::InputBytes(11)))
    ));
}

#[test]
fn other_files_are_reported_as_no_image() {
    for input in [
        &b""[..],
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"BM  ",
        b"\0\0\0\x18ftypavif",
    ] {
        assert_eq!(inspect(input), Err(InspectError::UnknownFormat));
    }
}

#[test]
fn many_scans_are_refused() {
    let mut file = jpeg(&photo(64, 64), 80, Scans::Progressive);
    let scan = file.windows(2).rposition(|pair| pair == b"\xff\xda").unwrap();
    let last = file[scan..file.len() - 2].to_vec();
    file.truncate(file.len() - 2);
    for _ in 0..200 {
        file.extend_from_slice(&last);
    }
    file.extend(b"\xff\xd9");
    assert!(transcode(&file, &request(ImageLevel::Low, TranscodeEffort::Quick)).is_err());
}

#[test]
fn the_caller_can_stop_a_still_image() {
    let file = jpeg(&photo(300, 200), 90, Scans::One);
    let request = request(ImageLevel::Low, TranscodeEffort::Standard);
    assert!(matches!(
        transcode_until(&file, &request, &|| true),
        Err(TranscodeError::Encode(_))
    ));
}

/// Transcodes any bytes, with an outcome or an error.
fn survives(input: &[u8]) {
    let _malformed = inspect(input);
    let mut request = request(ImageLevel::Low, TranscodeEffort::Standard);
    request.limits.pixels = 100_000;
    request.limits.animation_pixels = 200_000;
    if let Ok(Outcome::Transcoded(variant)) = transcode(input, &request) {
        assert!(variant.webp.len() < input.len());
        let header = inspect(&variant.webp).expect("our own WebP");
        assert_eq!((header.width, header.height), (variant.width, variant.height));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_not_panic(kind in 0_usize..5, bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let signatures = [&b""[..], b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF\x50\0\0\0WEBP"];
        survives(&[signatures[kind], &bytes].concat());
    }

    #[test]
    fn mutated_files_do_not_panic(
        file in 0_usize..8,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut input = files().swap_remove(file);
        for (place, value) in changes {
            let place = place.index(input.len());
            input[place] = value;
        }
        survives(&input);
    }
}
