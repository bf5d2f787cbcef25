//! WARC files (ISO 28500:2017) as recordings of web pages: reading them, and answering requests from them.
//!
//! [`WarcReader`] streams records; [`Recording`] keeps the HTTP exchanges of one file and applies the replay
//! rule.

mod http;
mod reader;
mod recording;

pub use http::{ParseResponseError, RecordedResponse};
pub use reader::{Record, RecordKind, WarcError, WarcFault, WarcReader};
pub use recording::{Exchange, LoadError, Recording};
