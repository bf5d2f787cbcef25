//! Kinds of small records that other parts keep here.

/// The most records of one kind; beyond it the one that was not used for longest is dropped.
pub const MAX_RECORDS: usize = 4_096;
/// The longest record in bytes; a longer one is not kept.
pub const MAX_RECORD: usize = 1 << 20;

/// A kind of record: each has its own keys and its own bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// The last manifest of a page.
    Manifest = 1,
    /// What was learned about a page: what its scripts load.
    Plan = 2,
    /// What a browser sends per destination.
    RequestTemplate = 3,
    /// Which bodies of an origin an agent holds, as bases for others.
    Bases = 4,
    /// What became of a picture at a level.
    Variant = 5,
    /// What a body was coded to.
    Coded = 6,
}

impl RecordKind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Manifest,
        Self::Plan,
        Self::RequestTemplate,
        Self::Bases,
        Self::Variant,
        Self::Coded,
    ];

    pub(crate) fn code(self) -> i64 {
        self as i64
    }
}
