//! Values that must not appear in a log above DEBUG: URLs, host names, addresses of users.
use std::fmt;

/// A private value. `Debug` and `Display` hide the value; the alternate form `{:#}` shows it, for DEBUG and
/// TRACE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pii<T>(pub T);

impl<T> Pii<T> {
    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Pii<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            self.0.fmt(f)
        } else {
            f.write_str("<private>")
        }
    }
}

impl<T: fmt::Display> fmt::Display for Pii<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            self.0.fmt(f)
        } else {
            f.write_str("<private>")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_text_is_hidden_except_in_the_alternate_format() {
        assert_eq!(
            format!("{} {:?}", Pii("a.test"), Pii("a.test")),
            "<private> <private>"
        );
        assert_eq!(format!("{:#}", Pii("a.test")), "a.test");
    }
}
