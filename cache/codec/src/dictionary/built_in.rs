//! The dictionaries of this version: compressed files in this directory.
use bytes::Bytes;
use longhaul_types::ContentHash;

use super::{Fit, Media, kept::kept};

/// A dictionary that is part of the program.
pub(crate) struct BuiltInDictionary {
    pub(crate) hash: ContentHash,
    /// Length in bytes after decompression.
    pub(super) length: usize,
    /// The first set that contains the dictionary.
    pub(super) set: u32,
    pub(crate) media: Media,
    pub(crate) fit: Fit,
    packed: &'static [u8],
}

impl BuiltInDictionary {
    /// Contents of the dictionary; `None` only if the program itself is damaged.
    pub(crate) fn contents(&self) -> Option<Bytes> {
        kept(self.hash, || {
            let contents = zstd::bulk::decompress(self.packed, self.length).ok()?;
            (ContentHash::of(&contents) == self.hash).then(|| contents.into())
        })
    }
}

/// The most common release of a library is last, nearest to the body. A library is recognised by its first
/// comment or, if the comment was removed, by other text near its beginning.
pub(super) static ALL: [BuiltInDictionary; 8] = [
    BuiltInDictionary {
        hash: hash("f4b94ac45730882b36957443dab1759ecf25f657bae02a1da3281002e339d923"),
        length: 117_833,
        set: 1,
        media: Media::Style,
        fit: Fit::Any,
        packed: include_bytes!("styles.zst"),
    },
    BuiltInDictionary {
        hash: hash("5519969b5ce9bce686bca620380189d195003b934e85985923aa1c114cc168c5"),
        length: 516_524,
        set: 1,
        media: Media::Style,
        fit: Fit::Naming(&[
            "bootstrap v",
            "bootstrap  v",
            "getbootstrap.com",
            "indigo:#6610f2",
        ]),
        packed: include_bytes!("bootstrap-css.zst"),
    },
    BuiltInDictionary {
        hash: hash("e4ce0b1697787e5515d112a854e31ba5cc208b1cfd564c081d3c18a2419c9930"),
        length: 193_314,
        set: 1,
        media: Media::Style,
        fit: Fit::Naming(&["font awesome", "fontawesome"]),
        packed: include_bytes!("font-awesome.zst"),
    },
    BuiltInDictionary {
        hash: hash("254b02a79f2cff625de87bdc73343162ad2c2486e5adfb2b36e6bedb33dd83f7"),
        length: 32_130,
        set: 1,
        media: Media::Style,
        fit: Fit::Naming(&["jquery ui", "jqueryui.com"]),
        packed: include_bytes!("jquery-ui-css.zst"),
    },
    BuiltInDictionary {
        hash: hash("ac6fb46cb4eb072cf0fc89eab3ec37afa774dd39de5419d39ae351a97efdb78b"),
        length: 297_873,
        set: 1,
        media: Media::Script,
        fit: Fit::Naming(&[
            "jquery v",
            "jquery javascript library",
            "jquery requires a window",
            "jquery migrate",
        ]),
        packed: include_bytes!("jquery.zst"),
    },
    BuiltInDictionary {
        hash: hash("24cdae1b8c3d61fdb32ba762455e7ced994bf180f2f9383dc3f5ca1a3249c0d9"),
        length: 255_084,
        set: 1,
        media: Media::Script,
        fit: Fit::Naming(&["jquery ui", "jqueryui.com"]),
        packed: include_bytes!("jquery-ui.zst"),
    },
    BuiltInDictionary {
        hash: hash("b5b15d3f49168bb429a86298f260abaee4ccf623c61f1a40e966ed37d23de705"),
        length: 182_964,
        set: 1,
        media: Media::Script,
        fit: Fit::Naming(&[
            "bootstrap v",
            "bootstrap.js v",
            "getbootstrap.com",
            "bootstrap's javascript",
        ]),
        packed: include_bytes!("bootstrap-js.zst"),
    },
    BuiltInDictionary {
        hash: hash("8b886415451fce1baf896f25d99c57a2d209957e53c21021886e1ce464079de5"),
        length: 107_421,
        set: 1,
        media: Media::Script,
        fit: Fit::Naming(&["window.slick", "ken wheeler", "owl carousel", "magnific popup"]),
        packed: include_bytes!("carousels.zst"),
    },
];

/// Parses a hash of 64 lower-case hexadecimal digits; a test checks the results.
const fn hash(digits: &str) -> ContentHash {
    let digits = digits.as_bytes();
    let mut bytes = [0; 32];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = digit(digits[2 * at]) << 4 | digit(digits[2 * at + 1]);
        at += 1;
    }
    ContentHash::from_bytes(bytes)
}

const fn digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit - b'a' + 10,
    }
}
