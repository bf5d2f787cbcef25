//! What a picture will take.
use longhaul_transcode::{Header, Request, memory};

use super::queue::Demand;

/// A picture of more pixels, those of all its frames together, is large: it takes longer than others should wait.
const SMALL_PIXELS: u64 = 1_500_000;
/// A picture that takes more memory is large, too.
const SMALL_MEMORY: u64 = 32 << 20;

/// `None` if the picture exceeds a limit of the request.
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
