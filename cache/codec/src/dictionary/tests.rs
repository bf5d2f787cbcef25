use std::collections::BTreeSet;

use longhaul_types::{BitRate, ByteCount};

use super::{kept::bytes_kept, *};
use crate::{
    AdaptiveEncoder, Base, BodyDecoder, BodyEvent, BodyLimits, BodyTraits, Coding, Finished, MAX_BASE,
};

/// Lengths and BLAKE3 hashes of the dictionaries of set 1, which never change.
const FIRST_SET: [(usize, &str); 8] = [
    (
        117_833,
        "f4b94ac45730882b36957443dab1759ecf25f657bae02a1da3281002e339d923",
    ),
    (
        516_524,
        "5519969b5ce9bce686bca620380189d195003b934e85985923aa1c114cc168c5",
    ),
    (
        193_314,
        "e4ce0b1697787e5515d112a854e31ba5cc208b1cfd564c081d3c18a2419c9930",
    ),
    (
        32_130,
        "254b02a79f2cff625de87bdc73343162ad2c2486e5adfb2b36e6bedb33dd83f7",
    ),
    (
        297_873,
        "ac6fb46cb4eb072cf0fc89eab3ec37afa774dd39de5419d39ae351a97efdb78b",
    ),
    (
        255_084,
        "24cdae1b8c3d61fdb32ba762455e7ced994bf180f2f9383dc3f5ca1a3249c0d9",
    ),
    (
        182_964,
        "b5b15d3f49168bb429a86298f260abaee4ccf623c61f1a40e966ed37d23de705",
    ),
    (
        107_421,
        "8b886415451fce1baf896f25d99c57a2d209957e53c21021886e1ce464079de5",
    ),
];

#[test]
fn dictionary_contents_match_their_pinned_hashes() {
    let here: Vec<_> = ALL
        .iter()
        .map(|dictionary| {
            let contents = find(dictionary.hash.as_bytes()).unwrap();
            (
                dictionary.set,
                contents.len(),
                ContentHash::of(&contents).to_string(),
            )
        })
        .collect();
    let first = FIRST_SET.map(|(bytes, hash)| (1, bytes, hash.to_owned()));
    assert_eq!(here, first);
    assert!(ALL.iter().all(|dictionary| dictionary.set <= NEWEST_SET));
}

#[test]
fn each_dictionary_has_its_own_name() {
    let names: BTreeSet<_> = all().map(|hash| hash.as_bytes()[..6].to_vec()).collect();
    assert_eq!(names.len(), ALL.len());
    assert!(names.iter().all(|name| knows(name)));
    for unknown in [&[][..], &[0; 6], &[0; 33]] {
        assert!(!knows(unknown) && find(unknown).is_none());
    }
}

#[test]
fn unpacked_dictionaries_use_bounded_memory() {
    for _ in 0..2 {
        for hash in all() {
            assert!(find(hash.as_bytes()).unwrap().len() <= MAX_BASE, "{hash}");
            assert!(bytes_kept() <= 1024 * 1024);
        }
    }
}

#[test]
fn libraries_are_recognised_by_their_banner() {
    let fitting = |media, first: &[u8]| {
        fitting(1, media, first)
            .filter(|dictionary| dictionary.fit != Fit::Any)
            .count()
    };
    let banner = b"/*! jQuery v2.1.4 | (c) 2005, 2015 jQuery Foundation, Inc. | jquery.org/license */";
    assert_eq!(fitting(Media::Script, banner), 1);
    assert_eq!(fitting(Media::Style, banner), 0);
    assert_eq!(fitting(Media::Script, b"(function($){})(jQuery)"), 0);
    let late = [&[b' '; fit::BANNER][..], banner].concat();
    assert_eq!(fitting(Media::Script, &late), 0);
    let styles = b"@charset \"UTF-8\";/*!\n * Bootstrap  v5.2.0 (https://getbootstrap.com/)";
    assert_eq!(fitting(Media::Style, styles), 1);
    assert_eq!(
        fitting(Media::Style, b"/*! Font Awesome Free 6.1.0 by @fontawesome"),
        1
    );
    let bare = b"!function(e,t){throw new Error(\"jQuery requires a window with a document\")}";
    assert_eq!(fitting(Media::Script, bare), 1);
    for (content_type, media) in [
        ("Text/CSS; charset=utf-8", Some(Media::Style)),
        ("application/javascript", Some(Media::Script)),
        ("application/json", None),
        ("text/html", None),
        ("", None),
    ] {
        assert_eq!(Media::of(content_type), media, "{content_type}");
    }
}

/// Fragments of three sites may still be numbers or addresses; the trainer removes those.
#[test]
fn dictionaries_of_fragments_hold_no_addresses_and_no_long_numbers() {
    for dictionary in ALL.iter().filter(|dictionary| dictionary.fit == Fit::Any) {
        let contents = dictionary.contents().unwrap();
        let digits = contents
            .split(|byte| !byte.is_ascii_digit())
            .map(<[u8]>::len)
            .max();
        assert!(digits < Some(7));
        for word in contents.split(|byte| byte.is_ascii_whitespace() || b"\"'<>()=,;:".contains(byte)) {
            let mut parts = word.splitn(2, |byte| *byte == b'@');
            let (mailbox, host) = (parts.next().unwrap(), parts.next().unwrap_or_default());
            let is_address = mailbox.last().is_some_and(u8::is_ascii_alphanumeric)
                && host.first().is_some_and(u8::is_ascii_alphanumeric)
                && host.contains(&b'.');
            assert!(!is_address, "{}", String::from_utf8_lossy(word));
        }
    }
}

const KEY: [u8; 32] = [7; 32];

fn coded(body: &[u8], content_type: &str, kbps: u64, set: u32, length: Option<u64>) -> (Finished, Vec<u8>) {
    let traits = BodyTraits {
        content_type: Some(content_type),
        length: length.map(ByteCount::new),
        link: Some(BitRate::kbps(kbps)),
        ..BodyTraits::default()
    };
    let mut encoder = AdaptiveEncoder::new(KEY, traits)
        .with_dictionaries(set)
        .hiding(crate::SizeHiding::Based);
    let mut wire = Vec::new();
    encoder.push(body, &mut wire).unwrap();
    let finished = encoder.finish(&mut wire).unwrap();
    assert_eq!(decoded(&finished, &wire), body);
    (finished, wire)
}

fn decoded(finished: &Finished, mut wire: &[u8]) -> Vec<u8> {
    let base = match finished.base {
        Some(Base::BuiltInDictionary(hash)) => find(&hash.as_bytes()[..6]).unwrap(),
        Some(Base::Offered(_)) | None => Bytes::new(),
    };
    let mut decoder = BodyDecoder::with_base(KEY, finished.coding, BodyLimits::default(), &base);
    let mut body = Vec::new();
    while let BodyEvent::Window(window) = decoder.next(&mut wire).unwrap() {
        body.extend_from_slice(&window);
    }
    decoder.finish().unwrap();
    body
}

/// A style sheet of a site that is not in any dictionary.
const STYLES: &[u8] =
    b".tides { display: -webkit-box; display: -ms-flexbox; display: flex; position: relative }\n\
    .tides > li { list-style: none; margin: 0; padding: 0; text-align: center; cursor: pointer }\n\
    .harbour::after { content: \"\"; position: absolute; top: 0; left: 0; width: 100%; height: 100% }\n\
    @media screen and (max-width: 768px) { .harbour { display: none; box-sizing: border-box } }\n";

#[test]
fn a_style_sheet_of_a_new_site_gets_smaller() {
    let (finished, wire) = coded(STYLES, "text/css", 40, 1, None);
    let (alone, without) = coded(STYLES, "text/css", 40, 0, None);
    assert_eq!((finished.coding, alone.coding), (Coding::Brotli, Coding::Brotli));
    assert!(matches!(finished.base, Some(Base::BuiltInDictionary(_))));
    assert_eq!(alone.base, None);
    assert!(
        wire.len() + 8 < without.len(),
        "{} and {}",
        wire.len(),
        without.len()
    );
    assert_eq!(coded(STYLES, "text/html", 40, 1, None).0.base, None);
    assert_eq!(coded(STYLES, "text/css", 10_000, 1, None).0.base, None);
}

/// Another release: parts of the shipped ones after another banner.
fn release() -> Vec<u8> {
    let jquery = ALL
        .iter()
        .find(|dictionary| dictionary.length == 297_873)
        .unwrap();
    let contents = jquery.contents().unwrap();
    let mut release = b"/*! jQuery v3.9.9 | (c) OpenJS Foundation */".to_vec();
    release.extend_from_slice(&contents[210_500..240_000]);
    release.extend_from_slice(&contents[245_000..297_000]);
    release
}

#[test]
fn another_release_of_a_library_costs_its_difference() {
    let release = release();
    for (kbps, length) in [(40, None), (384, Some(81_544)), (10_000, None)] {
        let (finished, wire) = coded(&release, "application/javascript", kbps, 1, length);
        assert!(
            matches!(finished.base, Some(Base::BuiltInDictionary(_))),
            "at {kbps} kbit/s"
        );
        assert!(wire.len() < 600, "{} bytes at {kbps} kbit/s", wire.len());
    }
    assert_eq!(
        coded(&release, "application/javascript", 40, 0, None).0.base,
        None
    );
}
