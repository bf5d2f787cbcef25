//! Documents in encodings other than UTF-8.
use longhaul_page::{Discovery, Viewport};

use crate::page;

/// Returns the references of a document that arrives byte by byte.
fn urls(html: &[u8], charset: Option<&str>) -> Vec<String> {
    let mut discovery = Discovery::new(&page(), charset, Viewport::default());
    let mut found: Vec<_> = html.iter().flat_map(|byte| discovery.write(&[*byte])).collect();
    found.extend(discovery.finish());
    let whole = longhaul_page::discover_html(html, &page(), charset, Viewport::default());
    assert_eq!(found, whole);
    found
        .into_iter()
        .map(|reference| reference.url.to_string())
        .collect()
}

fn utf16(text: &str, unit: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(unit).collect()
}

#[test]
fn utf16_is_read_by_its_mark_or_header() {
    let text = "<img src='\u{e4}.png?\u{e4}'>";
    let expected = ["http://a.test/dir/%C3%A4.png?%C3%A4"];
    let marked = format!("\u{feff}{text}");
    assert_eq!(urls(&utf16(&marked, u16::to_le_bytes), Some("utf-8")), expected);
    assert_eq!(urls(&utf16(&marked, u16::to_be_bytes), None), expected);
    assert_eq!(urls(&utf16(text, u16::to_be_bytes), Some("UTF-16BE")), expected);
    // A declaration of UTF-16 in ASCII-compatible markup is wrong.
    let claimed = format!("<meta charset=utf-16>{text}");
    assert_eq!(
        urls(claimed.as_bytes(), Some("utf-8")),
        ["http://a.test/dir/%C3%A4.png?%C3%A4"]
    );
}

#[test]
fn queries_are_written_in_the_documents_encoding() {
    let latin = b"<img src='\xe4.png?\xe4'>";
    let expected = ["http://a.test/dir/%C3%A4.png?%E4"];
    assert_eq!(urls(latin, Some("iso-8859-1")), expected);
    // Documents without declaration are windows-1252.
    assert_eq!(urls(latin, None), expected);
    let mut declared = b"<meta charset=windows-1252>".to_vec();
    declared.extend_from_slice(latin);
    assert_eq!(urls(&declared, None), expected);
    let mut japanese = b"<meta http-equiv=Content-Type content='text/html; charset=Shift_JIS'>".to_vec();
    japanese.extend_from_slice(b"<a><img src='\x93\xfa.png?q=\x93\xfa'>");
    assert_eq!(
        urls(&japanese, None),
        ["http://a.test/dir/%E6%97%A5.png?q=%93%FA"]
    );
    // The header takes precedence over the markup.
    let mut wrong = b"<meta charset=shift_jis>".to_vec();
    wrong.extend_from_slice("<img src='ä.png?ä'>".as_bytes());
    assert_eq!(
        urls(&wrong, Some("utf-8")),
        ["http://a.test/dir/%C3%A4.png?%C3%A4"]
    );
}

#[test]
fn byte_order_marks_are_not_text() {
    let html = b"\xef\xbb\xbf<img src='\xc3\xa4.png?\xc3\xa4'>";
    assert_eq!(
        urls(html, Some("windows-1252")),
        ["http://a.test/dir/%C3%A4.png?%C3%A4"]
    );
    assert_eq!(urls(b"\xef\xbb", None), Vec::<String>::new());
    assert_eq!(urls(b"", None), Vec::<String>::new());
}

#[test]
fn markup_in_non_ascii_encodings_is_found() {
    let html = b"<img src='\x1b$BF|\x1b(B.png'>";
    assert_eq!(
        urls(html, Some("iso-2022-jp")),
        ["http://a.test/dir/%E6%97%A5.png"]
    );
    assert_eq!(urls(b"<img src=x>", Some("iso-2022-kr")), Vec::<String>::new());
    assert_eq!(urls(b"<img src=x>", Some("no-such-charset")).len(), 1);
}
