//! Media types of responses.
use http::{HeaderMap, header};

use crate::charset;

/// Parts of a response's `Content-Type` that discovery uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaType {
    /// Type and subtype in lower case; empty if the response has none.
    pub essence: String,
    /// The charset as written.
    pub charset: Option<String>,
}

impl MediaType {
    /// Returns the media type of a response with these fields.
    pub fn of_response(headers: &HeaderMap) -> Self {
        let field = headers.get(header::CONTENT_TYPE);
        let value = field.map_or_else(Default::default, |value| {
            String::from_utf8_lossy(value.as_bytes())
        });
        let essence = value
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        Self {
            essence,
            charset: charset::in_content_type(&value).map(|label| label.trim().to_owned()),
        }
    }

    /// Returns true if browsers parse the response as HTML.
    pub fn is_html(&self) -> bool {
        matches!(self.essence.as_str(), "text/html" | "application/xhtml+xml")
    }

    /// Returns true if browsers use the response as a style sheet; a response without type qualifies.
    pub fn is_css(&self) -> bool {
        matches!(self.essence.as_str(), "text/css" | "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_type_and_charset_are_separated() {
        let mut headers = HeaderMap::new();
        assert_eq!(MediaType::of_response(&headers), MediaType::default());
        headers.insert("content-type", "Text/HTML ;Charset=\"UTF-8\"".parse().unwrap());
        let html = MediaType::of_response(&headers);
        assert!(html.is_html() && !html.is_css());
        assert_eq!(html.charset.as_deref(), Some("UTF-8"));
        headers.insert("content-type", "text/css".parse().unwrap());
        assert!(MediaType::of_response(&headers).is_css());
    }
}
