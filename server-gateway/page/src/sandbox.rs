//! Sandboxing of documents (HTML Living Standard 7.1.5).

/// Restrictions of a document by a `sandbox` attribute or directive; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sandbox {
    /// The origin is opaque.
    pub opaque: bool,
    /// Scripts are not loaded.
    pub scriptless: bool,
}

impl Sandbox {
    /// Returns the restrictions of a sandbox with these tokens.
    pub fn of_tokens<'a>(allowed: impl Iterator<Item = &'a str>) -> Self {
        let mut sandbox = Self {
            opaque: true,
            scriptless: true,
        };
        for token in allowed {
            sandbox.opaque &= !token.eq_ignore_ascii_case("allow-same-origin");
            sandbox.scriptless &= !token.eq_ignore_ascii_case("allow-scripts");
        }
        sandbox
    }

    /// Returns the union of both restrictions.
    pub fn and(self, other: Self) -> Self {
        Self {
            opaque: self.opaque || other.opaque,
            scriptless: self.scriptless || other.scriptless,
        }
    }
}
