//! A context-mixing coder for text, for links on which bytes cost far more than processor time.
//!
//! Every bit is predicted from many contexts (the last bytes, words, the place in the markup, matches), the
//! predictions are mixed by weights that learn, and an arithmetic coder codes the bit. The decoder does all the same, so
//! both take the same time. All of it is integer arithmetic and gives the same on every machine.
//!
//! Wire format: `docs/protocol/mix.md`. The family of methods is that of M. Mahoney, "Adaptive Weighing of Context Models
//! for Lossless Data Compression" (Florida Tech. CS-2005-16).

mod apm;
mod contexts;
mod counter;
mod decoder;
mod encoder;
mod history;
mod logistic;
mod matcher;
mod memory;
mod mixer;
mod model;
mod range;
mod slots;
mod syntax;
mod table;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use decoder::MixDecoder;
pub(crate) use encoder::MixEncoder;
pub use memory::MixMemory;

/// The format's version: any change of what bodies code to raises it.
const VERSION: u8 = 1;

/// How a window begins whose bytes follow as they are. Coded windows begin otherwise.
const STORED: [u8; 2] = [0, 0];
