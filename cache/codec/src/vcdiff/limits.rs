//! Limits and errors of the decoder.
use longhaul_types::ByteCount;

/// Limits of the decoder, on memory and time. A delta of a few bytes may claim any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of the source. Default 256 MiB; values above 2 GiB count as 2 GiB.
    pub max_source: ByteCount,
    /// Maximum length of the target, all windows together. Default 64 MiB.
    pub max_target: ByteCount,
    /// Maximum length of a target window, which is held in memory. Default 16 MiB, as in xdelta3.
    pub max_window: ByteCount,
    /// Maximum coded bytes of a window, which are held in memory until the window is complete. Default 24
    /// MiB: windows of 16 MiB that do not compress, and room for their instructions.
    pub max_coded_window: ByteCount,
    /// Length of the start of the target that later windows may copy from (`VCD_TARGET`) and that is held in
    /// memory. Default 16 MiB. xdelta3 and [`encode`](super::encode) write no such windows; 0 saves the
    /// memory.
    pub max_history: ByteCount,
    /// Maximum number of windows. Default 65,536.
    pub max_windows: u64,
    /// Maximum number of instructions, all windows together. Default 2^24. An opcode of the code table has
    /// one or two of them.
    pub max_instructions: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_source: ByteCount::mib(256),
            max_target: ByteCount::mib(64),
            max_window: ByteCount::mib(16),
            max_coded_window: ByteCount::mib(24),
            max_history: ByteCount::mib(16),
            max_windows: 65_536,
            max_instructions: 1 << 24,
        }
    }
}

/// A section of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The bytes of ADD and RUN.
    Data,
    /// Opcodes and sizes.
    Instructions,
    /// The addresses of COPY.
    Addresses,
}

impl std::fmt::Display for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Data => "data",
            Self::Instructions => "instructions",
            Self::Addresses => "addresses",
        })
    }
}

/// Errors of decoding. Unless stated otherwise, the delta is damaged or was made with another source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A copy begins at or after the byte that it produces.
    #[error("the delta copies from an address that is not before the byte at {here}")]
    Address {
        /// Address, in source segment and target window, of the byte to be produced.
        here: u32,
    },
    /// The decoded window differs from the coded one.
    #[error(
        "the delta's window {window} decodes to other bytes: its checksum is {found:08x} instead of {expected:08x}"
    )]
    Checksum {
        /// Number of the window, from 0.
        window: u64,
        /// Checksum in the delta.
        expected: u32,
        /// Checksum of the decoded bytes.
        found: u32,
    },
    /// The delta contains a code table, which no known encoder writes.
    #[error("the delta has a code table of its own, which is not supported")]
    CodeTable,
    /// Sections with secondary compression, although the header names no compressor.
    #[error("the delta's window claims compressed sections ({0:#04x}) without a compressor")]
    CompressedSections(u8),
    /// The sections of a window exceed [`Limits::max_coded_window`].
    #[error("a window of the delta is larger than the limit of {0}")]
    CodedWindowTooLarge(ByteCount),
    /// A copy begins in the segment and ends in the target window.
    #[error("the delta copies {size} bytes from address {address} across the end of its segment")]
    CopyCrossesSegment {
        /// Start address of the copy.
        address: u32,
        /// Length of the copy.
        size: u32,
    },
    /// The claimed length of a window differs from that of its parts.
    #[error("the delta's window claims {claimed} coded bytes but its parts take {parts}")]
    CodedLength {
        /// Claimed length of the delta encoding.
        claimed: u64,
        /// Sum of the lengths of the parts.
        parts: u64,
    },
    /// A window copies from earlier target beyond [`Limits::max_history`].
    #[error("the delta copies from earlier windows of its target beyond the limit of {0}")]
    HistoryTooLarge(ByteCount),
    /// An integer larger than any delta needs.
    #[error("the delta has an integer that is too large")]
    Integer,
    /// The data is not VCDIFF.
    #[error("these bytes are no VCDIFF delta")]
    NotVcdiff,
    /// A section has bytes that no instruction uses.
    #[error("the delta's window has {left} bytes of {section} too many")]
    SectionLeft {
        /// The section.
        section: Section,
        /// Number of unused bytes.
        left: usize,
    },
    /// An instruction needs more bytes than its section has.
    #[error("the delta's window has too few {0}")]
    SectionShort(Section),
    /// Secondary compression: the delta was made without `-S none`.
    #[error(
        "the delta is compressed once more (compressor {id}), which is not supported: make it with `xdelta3 -S none`"
    )]
    SecondaryCompression {
        /// xdelta3's number of the compressor: 1 DJW, 2 LZMA, 16 FGK.
        id: u8,
    },
    /// The source segment exceeds the source.
    #[error("the delta needs {length} bytes from byte {start} of a source of {source_length}")]
    SourceSegment {
        /// First byte of the segment.
        start: u64,
        /// Length of the segment.
        length: u64,
        /// Length of the source.
        source_length: u64,
    },
    /// The source exceeds [`Limits::max_source`].
    #[error("the source of the delta is larger than the limit of {0}")]
    SourceTooLarge(ByteCount),
    /// A window copies from a part of the target that no earlier window produced.
    #[error(
        "the delta needs {length} bytes from byte {start} of the {target_length} target bytes decoded so far"
    )]
    TargetSegment {
        /// First byte of the segment.
        start: u64,
        /// Length of the segment.
        length: u64,
        /// Total length of the previous windows.
        target_length: u64,
    },
    /// The target exceeds [`Limits::max_target`].
    #[error("the delta's target is larger than the limit of {0}")]
    TargetTooLarge(ByteCount),
    /// More instructions than [`Limits::max_instructions`].
    #[error("the delta has more than {0} instructions, the limit")]
    TooManyInstructions(u64),
    /// More windows than [`Limits::max_windows`].
    #[error("the delta has more than {0} windows, the limit")]
    TooManyWindows(u64),
    /// The delta ends within its header or a window.
    #[error("the delta ends too early, after {offset} bytes of its target")]
    Truncated {
        /// Target bytes before the incomplete window.
        offset: u64,
    },
    /// A window claims a segment of the source and one of the target, which RFC 3284 section 4.2 forbids.
    #[error("the delta's window claims segments of both source and target")]
    TwoSegments,
    /// Undefined bits of the header's indicator.
    #[error("the delta's header indicator {0:#04x} has unknown bits")]
    UnknownHeaderBits(u8),
    /// Undefined bits of a window's indicator.
    #[error("the delta's window indicator {0:#04x} has unknown bits")]
    UnknownWindowBits(u8),
    /// A version other than that of RFC 3284.
    #[error("the delta is of VCDIFF version {0:#04x}, which is not supported")]
    Version(u8),
    /// The instructions produce another number of bytes than the window's length.
    #[error("the delta's instructions make {made} bytes of a window of {length}")]
    WindowLength {
        /// Number of bytes that the instructions produce, at least.
        made: u64,
        /// Length of the window.
        length: u64,
    },
    /// A window exceeds [`Limits::max_window`].
    #[error("a window of the delta's target is larger than the limit of {0}")]
    WindowTooLarge(ByteCount),
}
