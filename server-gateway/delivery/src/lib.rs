//! Encodes the bodies of responses and pushes for the agent.
//!
//! * A [`BodyPipeline`] encodes one body into windows; long steps run in the thread pool. Responses and pushes
//!   use the same pipeline.
//! * [`DeltaBases`] selects the bodies that the agent holds and against which a body may be encoded
//!   ([`DeltaCandidates`], chosen by [`DeltaKey`]).
//! * [`EncodedCache`] stores encoded bodies that every device may get.
//! * [`Mirror`] records the bodies that the agent holds.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod body_coder;
mod delta_bases;
mod encoded_cache;
mod mirror;
mod pipeline;
mod window_coding;

pub use body_coder::{CodeError, Progress};
pub use delta_bases::{DELTA_BASE_MEMORY, DeltaBases, DeltaCandidates, DeltaKey};
pub use encoded_cache::EncodedCache;
pub use mirror::{EvictionCount, Mirror};
pub use pipeline::{BodyPipeline, SessionEncoding};
pub use window_coding::WindowCoding;
