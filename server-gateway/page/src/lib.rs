//! The objects that a page loads, their order, and their requests: pure.
//!
//! [`Discovery`] parses HTML while it arrives, [`discover_css`] parses style sheets, and
//! [`discover_link_header`] the `Link` fields of responses; the results are [`Reference`]s. [`Markup`] omits
//! the images of style sheets for elements that the document does not contain. [`order`] determines the order
//! and the priority classes of the bodies, [`jar`] and [`predict`] the requests, [`learn`] the objects that
//! the markup does not reveal. An [`Initiator`] is the document that makes a request: its policies decide
//! which references are fetched.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod attributes;
mod character_reference;
mod charset;
mod csp;
mod css;
mod css_length;
mod destination;
mod discovery;
mod document;
mod element_match;
mod fonts;
mod image_selection;
mod initiator;
mod inline_styles;
pub mod jar;
pub mod learn;
mod link;
mod link_header;
mod literal_urls;
mod markup;
mod matching_budget;
mod media;
mod media_type;
pub mod order;
mod overridden_backgrounds;
mod port;
pub mod predict;
mod reference;
mod references;
mod referrer;
mod sandbox;
mod selector_text;
mod srcset;
mod viewport;
mod viewport_estimate;
mod vocabulary;

pub use css::{discover_css, discover_css_for};
pub use destination::{Destination, UnknownDestination};
pub use discovery::{Discovery, discover_html};
pub use initiator::{Initiator, Relation, RequestChain};
pub use link_header::discover_link_header;
pub use literal_urls::LiteralUrls;
pub use markup::{Markup, PendingReferences};
pub use media_type::MediaType;
pub use port::is_blocked as is_blocked_port;
pub use reference::{Certainty, CredentialsPermission, CrossOrigin, Importance, Inserter, Reference};
pub use references::{Added, MAX_REFERENCES, References};
pub use referrer::ReferrerPolicy;
pub use sandbox::Sandbox;
pub use srcset::Descriptor;
pub use viewport::Viewport;
pub use viewport_estimate::{ImageChoice, estimated_viewport};
pub use vocabulary::Vocabulary;
