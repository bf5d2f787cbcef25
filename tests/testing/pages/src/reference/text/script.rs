//! Scripts. They define functions and data and run without error, but load and change nothing.
use std::fmt::Write as _;

use super::{
    Variety, style,
    words::{CLASSES, NOUNS, PLACES, SECTIONS, VERBS, capital, headline, key, person, token},
};
use crate::reference::random::Random;

/// Returns a script of `length` bytes.
pub(crate) fn script(seed: u64, length: usize, variety: Variety) -> String {
    let random = &mut Random::new(seed).with_evenness(variety.0);
    let mut script = format!("// site scripts, build {}\n", key(random, 24));
    let mut number = 0;
    loop {
        number += 1;
        let part = if random.chance(variety.chance(0.25, 0.95)) {
            data(random, number, variety)
        } else {
            function(random, number)
        };
        if script.len() + part.len() > length {
            break;
        }
        script.push_str(&part);
    }
    style::close(&mut script, length, random);
    script
}

/// Returns an array of records. The number makes names unique, so that nothing is declared twice.
pub(super) fn data(random: &mut Random, number: usize, variety: Variety) -> String {
    let name = format!("{}{}{number}", SECTIONS.pick(random), capital(NOUNS.pick(random)));
    let mut data = format!("var {name} = [\n");
    let count = random.range(3, 9);
    for entry in 0..count {
        let section = SECTIONS.pick(random);
        let digits = if random.chance(variety.chance(0.0, 1.0)) {
            12
        } else {
            4
        };
        let id = token(random, digits);
        let _ = write!(data, "    {{ id: \"{id}\", section: \"{section}\"");
        // Fields that editors fill in by hand differ between entries.
        if random.chance(variety.0) {
            let (updated, author) = (random.range(1_046_000_000, 1_046_999_999), person(random));
            let _ = write!(
                data,
                ", updated: {updated}, author: \"{author}\", key: \"{}\"",
                key(random, 32)
            );
        } else {
            let _ = write!(data, ", city: \"{}\"", PLACES.pick(random));
        }
        let end = if entry + 1 < count { "," } else { "" };
        let _ = writeln!(data, ", title: \"{}\" }}{end}", headline(random));
    }
    data.push_str("];\n");
    data
}

fn function(random: &mut Random, number: usize) -> String {
    let (verb, noun) = (VERBS.pick(random), NOUNS.pick(random));
    let name = format!("{verb}{}{number}", capital(noun));
    let class = CLASSES.pick(random);
    let index = random.range(1, 40);
    match random.below(4) {
        0 => format!(
            "function {name}(name) {{\n    var {noun}Element = document.getElementById(\"{class}\" + name);\n    if \
             ({noun}Element) {{\n        {noun}Element.className = \"{class} {}\";\n        return true;\n    }}\n    \
             return false;\n}}\n",
            CLASSES.pick(random)
        ),
        1 => format!(
            "// {}\nfunction {name}(list) {{\n    var total = 0;\n    for (var i = 0; i < list.length; i++) {{\n        \
             if (list[i].section == \"{}\") {{\n            total += {index};\n        }}\n    }}\n    return total;\n}}\n",
            headline(random),
            SECTIONS.pick(random)
        ),
        2 => format!(
            "function {name}(value, days) {{\n    var expires = new Date();\n    expires.setTime(expires.getTime() + \
             days * {index} * 3600000);\n    return \"{noun}_{class}=\" + escape(value) + \"; path=/{}; expires=\" + \
             expires.toGMTString();\n}}\n",
            SECTIONS.pick(random)
        ),
        _ => format!(
            "function {name}(form) {{\n    if (form.{noun}.value == \"\" || form.{noun}.value.length > {index}) {{\n        \
             alert(\"{}\");\n        form.{noun}.focus();\n        return false;\n    }}\n    return true;\n}}\n",
            headline(random)
        ),
    }
}
