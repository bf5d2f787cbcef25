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
mod mixer;
mod model;
mod range;
mod slots;
mod syntax;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use longhaul_types::ByteCount;

pub(crate) use decoder::MixDecoder;
pub(crate) use encoder::MixEncoder;

/// Memory of all encoders of a process: more bodies at a time would wait longer for a core than they save.
pub const MIX_MEMORY: ByteCount = ByteCount::mib(256);
/// Memory of the encoders of one session: four of the largest models, for which the peer must have memory
/// (`docs/protocol/mix.md` section 1).
pub const MIX_SESSION_MEMORY: ByteCount = ByteCount::mib(32);

/// Version of the format; any change of the coded bytes requires a new version.
const VERSION: u8 = 1;

/// First bytes of a window whose bytes follow uncoded. Coded windows never begin with them.
const STORED: [u8; 2] = [0, 0];
