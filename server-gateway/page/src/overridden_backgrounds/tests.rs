use super::*;
use crate::{Discovery, Viewport};

fn page() -> Url {
    Url::parse("http://a.test/").unwrap()
}

/// The certainties of a document's references, by path.
fn certainties(html: &str) -> Vec<(String, Certainty)> {
    let mut discovery = Discovery::new(&page(), None, Viewport::default());
    let mut found = discovery.write(html.as_bytes());
    found.extend(discovery.finish());
    let found = found.into_iter();
    found
        .map(|found| (found.url.path().to_owned(), found.certainty))
        .collect()
}

#[test]
fn backgrounds_that_an_earlier_rule_overrides_are_unlikely() {
    let html = "<style>.js .lazy { background: 0 0 !important } p { background: none }
            @container (width > 1px) { .unsure { background: none !important } } .mark:hover { background: red !important }
            .hack { background: red\\9 !important } @keyframes x { .key { background: red !important } }</style>
        <img class='wide lazy' style='background: url(lazy.png)'><i class=lazy style='background-image: url(img.png)'>
        <i class=lazy style='background: url(important.png) !important'><i class=lazy style='list-style: url(list.png)'>
        <i class=late style='background: url(shown.png)'><p style='background: url(p.png)'>
        <i class=unsure style='background: url(unsure.png)'><i class=mark style='background: url(mark.png)'>
        <i class=hack style='background: url(hack.png)'><i class=key style='background: url(key.png)'>
        <img src=img.png>";
    let expected = [
        ("/lazy.png", Certainty::Unlikely),
        ("/img.png", Certainty::Unlikely),
        ("/important.png", Certainty::Likely),
        ("/list.png", Certainty::Likely),
        ("/shown.png", Certainty::Likely),
        ("/p.png", Certainty::Likely),
        ("/unsure.png", Certainty::Likely),
        ("/mark.png", Certainty::Likely),
        ("/hack.png", Certainty::Likely),
        ("/key.png", Certainty::Likely),
        ("/img.png", Certainty::Sure),
    ];
    let expected = expected.map(|(path, certainty)| (path.to_owned(), certainty));
    assert_eq!(certainties(html), expected);
}

#[test]
fn later_style_sheets_override_backgrounds_that_no_other_element_displays() {
    let mut discovery = Discovery::new(&page(), None, Viewport::default());
    let markup = discovery.markup();
    let html = b"<i class=lazy style='background: url(1.png)'></i><i class=lazy style='background: url(2.png)'></i>
        <i style='background: url(2.png)'></i><i class=later style='background: url(3.png)'></i>
        <i class=lazy style='background: url(3.png)'></i><iframe srcdoc=\"<i class=lazy style='background: url(4.png)'>\"></iframe>";
    let found = discovery.write(html);
    let is_likely = |found: &Reference| found.certainty == Certainty::Likely;
    assert!(found.len() == 4 && found.iter().all(is_likely));
    let inline: Vec<bool> = found.iter().map(|found| found.is_inline_background).collect();
    assert_eq!(
        inline,
        [true, true, true, false],
        "a frame has style sheets of its own"
    );
    let paths = || {
        let urls = markup.overridden().into_iter();
        urls.map(|url| url.path().to_owned()).collect::<Vec<_>>()
    };
    assert!(paths().is_empty());
    let sheet = |css: &[u8]| markup.sheet(css, &page(), None);
    sheet(b".lazy { background: none !important }");
    assert_eq!(paths(), ["/1.png"]);
    sheet(b"@media print { .later { background: none !important } } .later { background-image: none!important }");
    assert_eq!(paths(), ["/3.png"]);
    // Known style sheets also override the backgrounds of new elements, and of these alone.
    let found = discovery.write(
        b"<i class=lazy style='background: url(5.png)'></i><style>i { background: red !important }</style>",
    );
    assert_eq!((found.len(), found[0].certainty), (1, Certainty::Unlikely));
    assert_eq!(paths(), ["/2.png"]);
}

#[test]
fn a_second_use_of_the_image_is_no_background_of_an_attribute() {
    for second in ["<img src=1.png>", "<style>i { background: url(1.png) }</style>"] {
        let mut discovery = Discovery::new(&page(), None, Viewport::default());
        let html = format!("<i style='background: url(1.png)'></i>{second}");
        let found = discovery.write(html.as_bytes());
        let inline: Vec<bool> = found.iter().map(|found| found.is_inline_background).collect();
        assert_eq!(inline, [true, false], "{second}");
    }
}

#[test]
fn further_backgrounds_than_the_limit_count_as_displayed() {
    let mut discovery = Discovery::new(&page(), None, Viewport::default());
    let markup = discovery.markup();
    let html: String = (0..=MAX_BACKGROUNDS)
        .map(|n| format!("<i class=lazy style='background: url({n}.png)'></i>"))
        .collect();
    let found = discovery.write(html.as_bytes());
    assert!(found[0].is_inline_background && !found[MAX_BACKGROUNDS].is_inline_background);
    let css: String = (0..2 * MAX_RULES)
        .map(|n| format!(".c{n}, .lazy {{ background: none !important }}"))
        .collect();
    for _ in 0..4 {
        markup.sheet(css.as_bytes(), &page(), None);
    }
    assert!(markup.overridden().len() <= MAX_BACKGROUNDS);
}
