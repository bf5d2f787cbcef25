//! Transcoding of all image formats.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up fails"
)]

mod animations;
mod colours;
mod hostile;
mod kinds;
mod pictures;
mod sizes;
