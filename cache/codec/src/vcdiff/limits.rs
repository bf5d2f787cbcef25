//! What a decoder puts up with, and what it says of the rest.
use longhaul_types::ByteCount;

/// Limits on what is decoded. A delta of a few bytes may claim anything: these bound memory and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest source. Default 256 MiB; at most 2 GiB count.
    pub max_source: ByteCount,
    /// The longest target, all windows together. Default 64 MiB.
    pub max_target: ByteCount,
    /// The longest window of the target, which is held in memory. Default 16 MiB, as much as xdelta3 accepts.
    pub max_window: ByteCount,
    /// The most coded bytes of a window, which are held in memory until the window is complete. Default 24 MiB: windows
    /// of 16 MiB that do not compress, and room for what their instructions take.
    pub max_coded_window: ByteCount,
    /// How much of the start of the target later windows may copy from (`VCD_TARGET`): so much is held in memory.
    /// Default 16 MiB. xdelta3 and [`encode`](super::encode) write no such windows; 0 spares the memory.
    pub max_history: ByteCount,
    /// The most windows. Default 65,536.
    pub max_windows: u64,
    /// The most instructions, all windows together. Default 2^24. An opcode of the code table has one or two of them.
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

/// Why a delta cannot be decoded. Unless it says otherwise the delta is damaged, or was made with another source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A copy begins at or behind the byte it is to make.
    #[error("the delta copies from an address that is not before the byte at {here}")]
    Address {
        /// The address, in source segment and target window, of the byte to be made.
        here: u32,
    },
    /// The decoded window is not the one that was coded.
    #[error(
        "the delta's window {window} decodes to other bytes: its checksum is {found:08x} instead of {expected:08x}"
    )]
    Checksum {
        /// The number of the window, from 0.
        window: u64,
        /// The checksum in the delta.
        expected: u32,
        /// That of the decoded bytes.
        found: u32,
    },
    /// A code table of the delta's own, which nobody writes.
    #[error("the delta has a code table of its own, which is not supported")]
    CodeTable,
    /// Sections with secondary compression, though the header names no compressor.
    #[error("the delta's window claims compressed sections ({0:#04x}) without a compressor")]
    CompressedSections(u8),
    /// The sections of a window exceed [`Limits::max_coded_window`].
    #[error("a window of the delta is larger than the limit of {0}")]
    CodedWindowTooLarge(ByteCount),
    /// A copy begins in the segment and ends in the target window.
    #[error("the delta copies {size} bytes from address {address} across the end of its segment")]
    CopyCrossesSegment {
        /// Where the copy begins.
        address: u32,
        /// Its length.
        size: u32,
    },
    /// The length of a window is not that of its parts.
    #[error("the delta's window claims {claimed} coded bytes but its parts take {parts}")]
    CodedLength {
        /// The length of the delta encoding as claimed.
        claimed: u64,
        /// As summed up.
        parts: u64,
    },
    /// A window copies from earlier target beyond [`Limits::max_history`].
    #[error("the delta copies from earlier windows of its target beyond the limit of {0}")]
    HistoryTooLarge(ByteCount),
    /// An integer beyond what any delta needs.
    #[error("the delta has an integer that is too large")]
    Integer,
    /// No VCDIFF at all.
    #[error("these bytes are no VCDIFF delta")]
    NotVcdiff,
    /// A section has bytes that no instruction uses.
    #[error("the delta's window has {left} bytes of {section} too many")]
    SectionLeft {
        /// Which section.
        section: Section,
        /// Bytes not used.
        left: usize,
    },
    /// An instruction wants more than its section has.
    #[error("the delta's window has too few {0}")]
    SectionShort(Section),
    /// Secondary compression: made without `-S none`.
    #[error(
        "the delta is compressed once more (compressor {id}), which is not supported: make it with `xdelta3 -S none`"
    )]
    SecondaryCompression {
        /// xdelta3's number of the compressor: 1 DJW, 2 LZMA, 16 FGK.
        id: u8,
    },
    /// The source segment lies outside of the source.
    #[error("the delta wants {length} bytes from byte {start} of a source of {source_length}")]
    SourceSegment {
        /// Its first byte.
        start: u64,
        /// Its length.
        length: u64,
        /// The length of the source.
        source_length: u64,
    },
    /// The source exceeds [`Limits::max_source`].
    #[error("the source of the delta is larger than the limit of {0}")]
    SourceTooLarge(ByteCount),
    /// A window copies from target that no earlier window made.
    #[error("the delta wants {length} bytes from byte {start} of the {target_length} bytes of target before")]
    TargetSegment {
        /// Its first byte.
        start: u64,
        /// Its length.
        length: u64,
        /// The length of all windows before.
        target_length: u64,
    },
    /// The target exceeds [`Limits::max_target`].
    #[error("the delta's target is larger than the limit of {0}")]
    TargetTooLarge(ByteCount),
    /// More than [`Limits::max_instructions`].
    #[error("the delta has more than {0} instructions, the limit")]
    TooManyInstructions(u64),
    /// More than [`Limits::max_windows`].
    #[error("the delta has more than {0} windows, the limit")]
    TooManyWindows(u64),
    /// The delta ends within its header or a window.
    #[error("the delta ends too early, after {offset} bytes of its target")]
    Truncated {
        /// Target bytes before the window that is incomplete.
        offset: u64,
    },
    /// A window claims a segment of the source and one of the target, which RFC 3284 section 4.2 forbids.
    #[error("the delta's window claims segments of both source and target")]
    TwoSegments,
    /// Bits of the header's indicator that no standard or program defines.
    #[error("the delta's header indicator {0:#04x} has unknown bits")]
    UnknownHeaderBits(u8),
    /// Bits of a window's indicator that no standard or program defines.
    #[error("the delta's window indicator {0:#04x} has unknown bits")]
    UnknownWindowBits(u8),
    /// A version other than that of RFC 3284.
    #[error("the delta is of VCDIFF version {0:#04x}, which is not supported")]
    Version(u8),
    /// Instructions that make another number of bytes than the window has.
    #[error("the delta's instructions make {made} bytes of a window of {length}")]
    WindowLength {
        /// What they make, at least.
        made: u64,
        /// The length of the window.
        length: u64,
    },
    /// A window exceeds [`Limits::max_window`].
    #[error("a window of the delta's target is larger than the limit of {0}")]
    WindowTooLarge(ByteCount),
}
