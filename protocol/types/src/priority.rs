//! The priority class of a stream.

/// A class of the scheduler (docs/protocol/transport.md section 4.2): 0 is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// Number of classes.
    pub const COUNT: u8 = 8;
    /// Control messages.
    pub const CONTROL: Self = Self(0);
    /// The default class.
    pub const NORMAL: Self = Self(3);
    /// The last class: prefetching.
    pub const LAST: Self = Self(7);

    /// The class `number`; [`LAST`](Self::LAST) if there is no such class.
    pub const fn new(number: u8) -> Self {
        if number < Self::COUNT {
            Self(number)
        } else {
            Self::LAST
        }
    }

    /// The number of the class.
    pub const fn number(self) -> u8 {
        self.0
    }
}
