//! Style sheets.
use std::fmt::Write as _;

use super::{
    Variety, pad,
    words::{CLASSES, NOUNS, key, prose},
};
use crate::reference::random::Random;

const COLOURS: &[&str] = &[
    "#000000", "#ffffff", "#cc0000", "#003366", "#336699", "#666666", "#999999", "#eeeeee", "#ffcc00",
];
const FAMILIES: &[&str] = &[
    "Verdana, Arial, Helvetica, sans-serif",
    "Arial, Helvetica, sans-serif",
    "Georgia, \"Times New Roman\", serif",
];

/// Returns a style sheet of `length` bytes that shows each of `backgrounds` behind the elements of class
/// `bg0`, `bg1`, ….
pub(crate) fn sheet(seed: u64, length: usize, backgrounds: &[String], variety: Variety) -> String {
    let random = &mut Random::new(seed).with_evenness(variety.0);
    let mut sheet = format!(
        "/* site styles, build {} */\nbody {{ margin: 0; padding: 0; background-color: #ffffff; }}\n",
        key(random, 24)
    );
    for (number, url) in backgrounds.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(
            sheet,
            ".bg{number} {{ background: #eeeeee url({url}) repeat-x; }}"
        );
    }
    loop {
        let rule = rule(random, variety);
        if sheet.len() + rule.len() > length {
            break;
        }
        sheet.push_str(&rule);
    }
    close(&mut sheet, length, random);
    sheet
}

/// Ends a style sheet or script with a comment of the missing length.
pub(super) fn close(text: &mut String, length: usize, random: &mut Random) {
    let missing = length.saturating_sub(text.len());
    if missing > 12 {
        let words = prose(random, missing);
        let words: String = words.chars().take(missing - 7).collect();
        let _ = write!(text, "/* {words} */");
    }
    pad(text, length);
}

fn rule(random: &mut Random, variety: Variety) -> String {
    let mut selector = format!(".{}", CLASSES.pick(random));
    if random.chance(0.5) {
        let _ = write!(selector, " .{}", CLASSES.even(random));
    }
    if random.chance(variety.chance(0.1, 0.8)) {
        let _ = write!(selector, "-{}", NOUNS.even(random));
    }
    if random.chance(0.25) {
        selector.push_str(random.pick(&[" a", " a:hover", " td", " li", " h2", " p"]));
    }
    let mut rule = format!("{selector} {{\n");
    for _ in 0..random.range(2, 5) {
        let declaration = declaration(random);
        let _ = writeln!(rule, "    {declaration};");
    }
    rule.push_str("}\n");
    rule
}

fn declaration(random: &mut Random) -> String {
    let pixels = random.range(0, 30);
    match random.below(10) {
        0 => format!("font-family: {}", random.pick(FAMILIES)),
        1 => format!("font-size: {}px", random.range(9, 18)),
        2 => format!("color: {}", random.pick(COLOURS)),
        3 => format!("background-color: {}", random.pick(COLOURS)),
        4 => format!("padding: {pixels}px {}px", random.range(0, 12)),
        5 => format!("margin: {pixels}px 0 {}px 0", random.range(0, 20)),
        6 => format!(
            "border-{}: 1px solid {}",
            random.pick(&["top", "bottom", "left", "right"]),
            random.pick(COLOURS)
        ),
        7 => format!("width: {}px", random.range(4, 76) * 10),
        8 => format!("text-align: {}", random.pick(&["left", "center", "right"])),
        _ => random
            .pick(&[
                "font-weight: bold",
                "text-decoration: none",
                "vertical-align: top",
                "float: left",
            ])
            .to_owned(),
    }
}
