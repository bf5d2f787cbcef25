//! Pages of the benchmark: generated reference pages and recorded pages.
//!
//! A [`Page`] answers requests for all objects of one page, on any host, and returns the sizes of its ideal
//! download ([`ideal_sizes`]). Module [`mod@reference`] generates the pages that the papers measured,
//! [`recorded`] reads WARC files. This crate opens no sockets.
//!
//! ```
//! use http::Method;
//!
//! let page = longhaul_pages::reference::named("mail").unwrap();
//! let answer = page.answer(&Method::GET, page.url()).unwrap();
//! assert_eq!(answer.status, 200);
//! assert!(answer.body.starts_with(b"<!DOCTYPE html"));
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod ideal;
mod media;
mod page;
pub mod recorded;
pub mod reference;
mod rename;

pub use answer::Answer;
pub use ideal::{IdealSizes, ideal_sizes};
pub use media::is_text;
pub use page::{Facts, Page, Provenance, Replay, Scheme};
pub use rename::site;
