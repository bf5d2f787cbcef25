//! Raster images at the quality and size that a link affords: pure.
//!
//! [`inspect`] reads an image's header, [`transcode`] makes a smaller WebP of it for a [`Request`], or says why the original
//! is kept. Both take any bytes. Nothing here reads a clock: work is bounded by [`Limits`], and [`transcode_until`] asks
//! its caller now and then whether to go on.
//!
//! The quality that reaches a level's SSIMULACRA2 score is looked up by what the picture shows ([`ContentKind`]) and how
//! large it is, in a table that `longhaul-bench images --task fit` makes, and by all but [`Effort::Quick`] corrected: by
//! measuring a sample of the picture, or ([`Effort::Checked`]) the whole.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod animation;
pub mod calibration;
mod colour;
mod content;
mod decode;
mod encode;
pub mod exchange;
mod inspect;
mod level;
mod limits;
pub mod memory;
mod metric;
mod quality;
mod raster;
mod request;
mod sample;
mod scale;
mod search;
mod transcode;

pub use content::ContentKind;
pub use decode::DecodeError;
pub use encode::EncodeError;
pub use inspect::{Animation, Header, InspectError, Kind, Plays, inspect};
pub use level::{ImageLevel, ParseLevelError};
pub use limits::{LimitError, Limits};
pub use quality::SizeClass;
pub use request::{Effort, Request, Viewport};
pub use transcode::{
    Compression, Outcome, Reason, Score, TranscodeError, Variant, transcode, transcode_until,
};

/// Version of all that decides what [`transcode`] makes of an input and a request: belongs to the key of cached variants.
///
/// Raised with each change of an encoder's settings, of the quality table, or of a library that encodes.
pub const RECIPE_VERSION: u32 = 1;
