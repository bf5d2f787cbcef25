//! Page bundles: the objects that a page loads, announced in a manifest and pushed before the browser
//! requests them.
//!
//! * `load` is one page load: a task that owns all its state, the `plan` among it. Fetches and pushes are
//!   tasks of their own; they, the page's parser (`tap`) and the agent's messages send events to the task.
//! * `manifest` writes the records, `push` the bodies. `memory` stores a manifest as base of the next one.
//! * `learned` loads and updates the learned plans. `shared_lesson` is the part that other devices may use, by the rules
//!   of `publicity` and `public_words`; `unplanned_answer` is what a request outside of the plan teaches.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod context;
mod learned;
mod learned_records;
mod load;
mod manifest;
mod memory;
mod plan;
mod public_words;
mod publicity;
mod push;
mod push_body;
pub mod registry;
mod shared_lesson;
mod unplanned_answer;

pub use load::{BodyEnd, PageTap, Promise};
