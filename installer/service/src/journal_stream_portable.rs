//! The journal on systems other than Unix: there is none.

/// True if standard error is connected to the journal.
pub(crate) const fn is_stderr() -> bool {
    false
}
