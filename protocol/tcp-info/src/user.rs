//! Users of the operating system.
use std::fmt;

/// A user of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(u32);

impl UserId {
    /// Returns the user with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the effective user of this process, who owns its sockets.
    pub fn own() -> Self {
        Self(nix::unistd::geteuid().as_raw())
    }

    /// The user's number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
