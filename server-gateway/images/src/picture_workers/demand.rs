//! Estimates of the memory and time of an image.
use longhaul_transcode::{Header, Request, memory};

use super::queue::Demand;

/// Maximum pixels of a small image, all frames together; larger images take longer than others should wait.
const SMALL_PIXELS: u64 = 1_500_000;
/// Maximum memory of a small image in bytes.
const SMALL_MEMORY: u64 = 32 << 20;

/// Estimates the demand of an image; `None` if it exceeds a limit of the request.
pub(super) fn of(picture: &[u8], header: &Header, request: &Request) -> Option<Demand> {
    if request.limits.check(header).is_err() || picture.len() > request.limits.input_bytes {
        return None;
    }
    let memory = memory::estimate(picture, header, request);
    let frames = header.animation.map_or(1, |animation| animation.frames);
    let pixels = u64::from(header.width) * u64::from(header.height) * u64::from(frames.max(1));
    Some(Demand {
        memory,
        is_large: memory > SMALL_MEMORY || pixels > SMALL_PIXELS,
    })
}
