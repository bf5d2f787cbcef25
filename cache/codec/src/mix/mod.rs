//! A context-mixing coder for text, for links on which bytes cost far more than processor time.
//!
//! Many contexts (the last bytes, words, the place in the markup, matches) predict each bit, adaptive weights
//! mix the predictions, and an arithmetic coder codes the bit. The decoder does the same computation, so both
//! take the same time. All arithmetic uses integers and gives equal results on every machine.
//!
//! Wire format: `docs/protocol/mix.md`. The method is that of M. Mahoney, "Adaptive Weighing of Context
//! Models for Lossless Data Compression" (Florida Tech. CS-2005-16).

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

/// Version of the format; any change of the coded bytes requires a new version.
const VERSION: u8 = 1;

/// First bytes of a window whose bytes follow uncoded. Coded windows never begin with them.
const STORED: [u8; 2] = [0, 0];
