//! A film for seeking: WebM (RFC 8794, RFC 9559) whose pictures encode the second that they belong to.
//!
//! Each picture is a VP8 key frame, taken from a lossy WebP (RFC 9649 section 2.5). The index is at the end,
//! where most programs write it, so that players request the end first.
use anyhow::{Context as _, Result, ensure};
use webpx::{Encoder, Unstoppable};

use crate::content::noise;

/// Width in pixels. The upper half shows the second in black and white, lowest bit first; the rest is noise.
const WIDTH: usize = 320;
const HEIGHT: usize = 240;
/// Bits of the second that a picture shows.
const BITS: usize = 8;
/// Pictures per second; the pictures of a second are equal.
const RATE: u16 = 5;
/// The highest quality, which gives the largest film.
const QUALITY: f32 = 100.0;

const EBML: u32 = 0x1A45_DFA3;
const SEGMENT: u32 = 0x1853_8067;
const SEEK_HEAD: u32 = 0x114D_9B74;
const SEEK: u32 = 0x4DBB;
const SEEK_ID: u32 = 0x53AB;
const SEEK_POSITION: u32 = 0x53AC;
const INFO: u32 = 0x1549_A966;
const TIMESTAMP_SCALE: u32 = 0x2A_D7B1;
const DURATION: u32 = 0x4489;
const MUXING_APP: u32 = 0x4D80;
const WRITING_APP: u32 = 0x5741;
const TRACKS: u32 = 0x1654_AE6B;
const TRACK_ENTRY: u32 = 0xAE;
const TRACK_NUMBER: u32 = 0xD7;
const TRACK_UID: u32 = 0x73C5;
const TRACK_TYPE: u32 = 0x83;
const CODEC_ID: u32 = 0x86;
const VIDEO: u32 = 0xE0;
const PIXEL_WIDTH: u32 = 0xB0;
const PIXEL_HEIGHT: u32 = 0xBA;
const CLUSTER: u32 = 0x1F43_B675;
const TIMESTAMP: u32 = 0xE7;
const SIMPLE_BLOCK: u32 = 0xA3;
const CUES: u32 = 0x1C53_BB6B;
const CUE_POINT: u32 = 0xBB;
const CUE_TIME: u32 = 0xB3;
const CUE_TRACK_POSITIONS: u32 = 0xB7;
const CUE_TRACK: u32 = 0xF7;
const CUE_CLUSTER_POSITION: u32 = 0xF1;

/// A film of this many seconds.
pub(super) fn film(seconds: u8) -> Result<Vec<u8>> {
    let clusters: Vec<Vec<u8>> = (0..seconds).map(cluster).collect::<Result<_>>()?;
    let (info, tracks) = (info(seconds), tracks());
    // All numbers have eight bytes, so that the length of the seek head does not depend on its values.
    let index = seek_head([0; 3]).len();
    let after_tracks = index + info.len() + tracks.len();
    let mut at = after_tracks;
    let mut starts = Vec::new();
    for cluster in &clusters {
        starts.push(at);
        at += cluster.len();
    }
    let mut segment = seek_head([index, index + info.len(), at]);
    segment.extend_from_slice(&info);
    segment.extend_from_slice(&tracks);
    segment.extend(clusters.into_iter().flatten());
    segment.extend_from_slice(&cues(&starts));
    let mut film = element(EBML, &element(0x4282, b"webm"));
    film.extend_from_slice(&element(SEGMENT, &segment));
    Ok(film)
}

/// JavaScript function that returns the second that a `<video>` element shows.
pub(super) const SECOND_SHOWN: &str = "video => {
    const canvas = document.createElement('canvas'); canvas.width = 320; canvas.height = 240;
    const pen = canvas.getContext('2d'); pen.drawImage(video, 0, 0);
    let second = 0;
    for (let bit = 0; bit < 8; bit++)
        if (pen.getImageData(bit * 40 + 20, 60, 1, 1).data[1] > 127) second += 1 << bit;
    return second;
}";

/// An element with a length of eight bytes.
fn element(id: u32, contents: &[u8]) -> Vec<u8> {
    let id = id.to_be_bytes();
    let mut element: Vec<u8> = id.into_iter().skip_while(|byte| *byte == 0).collect();
    element.extend_from_slice(&(contents.len() as u64 | 1 << 56).to_be_bytes());
    element.extend_from_slice(contents);
    element
}

fn number(id: u32, value: usize) -> Vec<u8> {
    element(id, &(value as u64).to_be_bytes())
}

/// Positions of the parts in the segment: information, tracks, index.
fn seek_head(positions: [usize; 3]) -> Vec<u8> {
    let entries = [INFO, TRACKS, CUES].into_iter().zip(positions);
    let entries = entries.flat_map(|(id, position)| {
        let entry = [
            element(SEEK_ID, &id.to_be_bytes()),
            number(SEEK_POSITION, position),
        ];
        element(SEEK, &entry.concat())
    });
    element(SEEK_HEAD, &entries.collect::<Vec<u8>>())
}

fn info(seconds: u8) -> Vec<u8> {
    let duration = f64::from(seconds) * 1000.0;
    let parts = [
        number(TIMESTAMP_SCALE, 1_000_000),
        element(DURATION, &duration.to_be_bytes()),
        element(MUXING_APP, b"test"),
        element(WRITING_APP, b"test"),
    ];
    element(INFO, &parts.concat())
}

fn tracks() -> Vec<u8> {
    let picture = [number(PIXEL_WIDTH, WIDTH), number(PIXEL_HEIGHT, HEIGHT)].concat();
    let track = [
        number(TRACK_NUMBER, 1),
        number(TRACK_UID, 1),
        number(TRACK_TYPE, 1),
        element(CODEC_ID, b"V_VP8"),
        element(VIDEO, &picture),
    ];
    element(TRACKS, &element(TRACK_ENTRY, &track.concat()))
}

/// A cluster with one second of the film.
fn cluster(second: u8) -> Result<Vec<u8>> {
    /// Flag of a block whose frames are key frames.
    const KEY: u8 = 0x80;
    /// Number of the only track, encoded as a length.
    const TRACK: u8 = 0x81;
    let picture = picture(second)?;
    let mut contents = number(TIMESTAMP, usize::from(second) * 1000);
    for frame in 0..RATE {
        let [high, low] = (frame * (1000 / RATE)).to_be_bytes();
        let mut block = vec![TRACK, high, low, KEY];
        block.extend_from_slice(&picture);
        contents.extend_from_slice(&element(SIMPLE_BLOCK, &block));
    }
    Ok(element(CLUSTER, &contents))
}

fn cues(starts: &[usize]) -> Vec<u8> {
    let points = starts.iter().enumerate().flat_map(|(second, start)| {
        let place = [number(CUE_TRACK, 1), number(CUE_CLUSTER_POSITION, *start)].concat();
        let point = [
            number(CUE_TIME, second * 1000),
            element(CUE_TRACK_POSITIONS, &place),
        ];
        element(CUE_POINT, &point.concat())
    });
    element(CUES, &points.collect::<Vec<u8>>())
}

/// The VP8 key frame that shows a second.
fn picture(second: u8) -> Result<Vec<u8>> {
    /// `RIFF`, length, `WEBP`, then name and length of the only chunk.
    const HEAD: usize = 20;
    let mut pixels = noise(WIDTH * HEIGHT * 3, u64::from(second) + 1);
    for (at, pixel) in pixels.chunks_exact_mut(3).enumerate().take(WIDTH * HEIGHT / 2) {
        let bit = (at % WIDTH) * BITS / WIDTH;
        pixel.fill(if second >> bit & 1 == 1 { 255 } else { 0 });
    }
    let webp = Encoder::new_rgb(&pixels, u32::try_from(WIDTH)?, u32::try_from(HEIGHT)?)
        .quality(QUALITY)
        .encode(Unstoppable)
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    ensure!(webp.get(12..16) == Some(b"VP8 "), "not a simple lossy WebP");
    let length = webp
        .get(16..HEAD)
        .context("the length of the chunk")?
        .try_into()?;
    let length = usize::try_from(u32::from_le_bytes(length))?;
    Ok(webp
        .get(HEAD..HEAD + length)
        .context("a complete chunk")?
        .to_vec())
}
