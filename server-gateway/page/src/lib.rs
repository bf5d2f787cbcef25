//! What a page loads, in what order, and with which requests: pure.
//!
//! [`Discovery`] reads HTML while it arrives, [`discover_css`] style sheets and [`discover_link_header`] the `Link` fields of
//! responses; all yield [`Reference`]s. [`Markup`] leaves out what a sheet has for elements that its document does not have. [`order`] says in which order and transport class their bodies are sent,
//! [`jar`] and [`predict`] with which requests they are fetched, [`learn`] what the markup does not tell. An [`Initiator`] is
//! the document that makes a request: by it a request is judged, and what the document would not fetch is left out.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod character_reference;
mod charset;
mod collection;
mod correction;
mod csp;
mod css;
mod destination;
mod discovery;
mod document;
mod initiator;
pub mod jar;
pub mod learn;
mod length;
mod link;
mod link_header;
mod markup;
mod media;
mod media_type;
pub mod order;
mod port;
pub mod predict;
mod reference;
mod referrer;
mod srcset;
mod viewport;
mod vocabulary;

pub use collection::{Added, References};
pub use correction::{ImageChoice, corrected_viewport};
pub use css::{discover_css, discover_css_for};
pub use destination::{Destination, UnknownDestination};
pub use discovery::{Discovery, MAX_REFERENCES, discover_html};
pub use initiator::{Cause, Initiator, Relation, Sandbox};
pub use link_header::discover_link_header;
pub use markup::{Markup, PendingImages};
pub use media_type::MediaType;
pub use reference::{Certainty, CrossOrigin, Importance, Inserter, Reference, Trust};
pub use referrer::ReferrerPolicy;
pub use srcset::Descriptor;
pub use viewport::Viewport;
pub use vocabulary::Vocabulary;
