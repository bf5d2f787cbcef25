//! Which texts a dictionary is made for.

/// What kind of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Style,
    Script,
}

impl Media {
    /// By a `Content-Type` value, with or without parameters.
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

/// Which texts of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// All: it is made of fragments of many.
    Any,
    /// Those that name one of these near their beginning: it is made of other releases of the same libraries.
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

/// Bytes in which a library's name is looked for: sites put short texts of their own before it.
pub(super) const BANNER: usize = 1024;
