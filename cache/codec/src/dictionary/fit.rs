//! Selection of dictionaries for a text.

/// Kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Style,
    Script,
}

impl Media {
    /// Returns the kind for a `Content-Type` value, with or without parameters.
    pub(crate) fn of(content_type: &str) -> Option<Self> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match essence.to_ascii_lowercase().as_str() {
            "text/css" => Some(Self::Style),
            "text/javascript"
            | "text/ecmascript"
            | "application/javascript"
            | "application/x-javascript"
            | "application/ecmascript" => Some(Self::Script),
            _ => None,
        }
    }
}

/// Texts of a kind for which a dictionary is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// All texts: the dictionary consists of fragments of many texts.
    Any,
    /// Texts that contain one of these names near their beginning: the dictionary consists of releases of
    /// these libraries.
    Naming(&'static [&'static str]),
}

impl Fit {
    pub(crate) fn suits(self, first: &[u8]) -> bool {
        let Self::Naming(names) = self else { return true };
        let first = &first[..first.len().min(BANNER)];
        names.iter().any(|name| {
            first
                .windows(name.len())
                .any(|window| window.eq_ignore_ascii_case(name.as_bytes()))
        })
    }
}

/// Number of first bytes that are searched for a library's name: sites insert short texts of their own before
/// it.
pub(super) const BANNER: usize = 1024;
