//! Character references in attribute values (HTML Living Standard 13.2.5.72): the parser returns attributes
//! unresolved.

/// Names that are also valid without a semicolon, for the characters from U+00A0 on, in order.
const LATIN: [&str; 96] = [
    "nbsp", "iexcl", "cent", "pound", "curren", "yen", "brvbar", "sect", "uml", "copy", "ordf", "laquo",
    "not", "shy", "reg", "macr", "deg", "plusmn", "sup2", "sup3", "acute", "micro", "para", "middot",
    "cedil", "sup1", "ordm", "raquo", "frac14", "frac12", "frac34", "iquest", "Agrave", "Aacute", "Acirc",
    "Atilde", "Auml", "Aring", "AElig", "Ccedil", "Egrave", "Eacute", "Ecirc", "Euml", "Igrave", "Iacute",
    "Icirc", "Iuml", "ETH", "Ntilde", "Ograve", "Oacute", "Ocirc", "Otilde", "Ouml", "times", "Oslash",
    "Ugrave", "Uacute", "Ucirc", "Uuml", "Yacute", "THORN", "szlig", "agrave", "aacute", "acirc", "atilde",
    "auml", "aring", "aelig", "ccedil", "egrave", "eacute", "ecirc", "euml", "igrave", "iacute", "icirc",
    "iuml", "eth", "ntilde", "ograve", "oacute", "ocirc", "otilde", "ouml", "divide", "oslash", "ugrave",
    "uacute", "ucirc", "uuml", "yacute", "thorn", "yuml",
];
/// Further names that are valid without a semicolon.
const BARE: [(&str, char); 10] = [
    ("amp", '&'),
    ("AMP", '&'),
    ("lt", '<'),
    ("LT", '<'),
    ("gt", '>'),
    ("GT", '>'),
    ("quot", '"'),
    ("QUOT", '"'),
    ("REG", '®'),
    ("COPY", '©'),
];
/// Names that require the semicolon, limited to those that occur in and around URLs.
const WHOLE: [(&str, char); 27] = [
    ("apos", '\''),
    ("sol", '/'),
    ("bsol", '\\'),
    ("colon", ':'),
    ("equals", '='),
    ("quest", '?'),
    ("period", '.'),
    ("num", '#'),
    ("percnt", '%'),
    ("lpar", '('),
    ("rpar", ')'),
    ("comma", ','),
    ("plus", '+'),
    ("lowbar", '_'),
    ("dollar", '$'),
    ("semi", ';'),
    ("ast", '*'),
    ("excl", '!'),
    ("lsqb", '['),
    ("rsqb", ']'),
    ("commat", '@'),
    ("vert", '|'),
    ("hyphen", '\u{2010}'),
    ("ndash", '\u{2013}'),
    ("mdash", '\u{2014}'),
    ("Tab", '\t'),
    ("NewLine", '\n'),
];
/// Meaning of the numbers from 0x80 on according to windows-1252; zero: as in Unicode.
const WINDOWS: [u16; 32] = [
    0x20ac, 0, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0,
    0x017d, 0, 0, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a,
    0x0153, 0, 0x017e, 0x0178,
];

/// Resolves the character references of a value.
pub(crate) fn resolve(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match reference(rest) {
            Some((character, length)) => {
                out.push(character);
                rest = &rest[length..];
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    out
}

/// Parses the character reference at the start of `text`, which follows an ampersand; returns the character
/// and the reference's length.
fn reference(text: &str) -> Option<(char, usize)> {
    if let Some(number) = text.strip_prefix('#') {
        return numeric(number).map(|(character, length)| (character, length + 1));
    }
    let length = text
        .bytes()
        .take_while(u8::is_ascii_alphanumeric)
        .take(10)
        .count();
    let name = &text[..length];
    let ended = text[length..].starts_with(';');
    // A name without a semicolon that continues like a query parameter is not a reference: `?a=1&copy=2`.
    let parameter = text[length..].starts_with('=');
    let latin = || {
        let at = LATIN.iter().position(|latin| *latin == name)?;
        char::from_u32(0xa0 + u32::try_from(at).ok()?)
    };
    let among = |names: &[(&str, char)]| names.iter().find(|(known, _)| *known == name).map(|(_, c)| *c);
    let bare = among(&BARE).or_else(latin);
    let found = if ended {
        bare.or_else(|| among(&WHOLE))
    } else {
        bare.filter(|_| !parameter)
    };
    found.map(|character| (character, length + usize::from(ended)))
}

fn numeric(text: &str) -> Option<(char, usize)> {
    let hex = text.strip_prefix(['x', 'X']);
    let (digits, radix, skipped) = hex.map_or((text, 10, 0), |digits| (digits, 16, 1));
    let length = digits
        .bytes()
        .take_while(|byte| char::from(*byte).is_digit(radix))
        .count();
    if length == 0 {
        return None;
    }
    // A number that overflows is also out of range.
    let number = u32::from_str_radix(&digits[..length], radix).unwrap_or(u32::MAX);
    let windows = number
        .checked_sub(0x80)
        .and_then(|at| WINDOWS.get(usize::try_from(at).ok()?))
        .filter(|code| **code != 0);
    let code = windows.map_or(number, |code| u32::from(*code));
    let character = char::from_u32(code).filter(|c| *c != '\0').unwrap_or('\u{fffd}');
    let ended = digits[length..].starts_with(';');
    Some((character, skipped + length + usize::from(ended)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved() {
        let cases = [
            ("a?b&c=1&amp;d&#47;&#x2f;&bogus;é&", "a?b&c=1&d//&bogus;é&"),
            ("?x&copy=1&copyx=2&copy;", "?x&copy=1&copyx=2©"),
            ("&amp", "&"),
            ("&amp&lt", "&<"),
            ("&ouml;&Ouml;&yuml;&nbsp;&szlig", "öÖÿ\u{a0}ß"),
            ("&sol;&sol;b.test&colon;80&sol", "//b.test:80&sol"),
            ("&#38x&#x26;&#X26g", "&x&&g"),
            (
                "&#0;&#xffffffff;&#xd800;&#99999999999;",
                "\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
            ),
            ("&#128;&#x99;&#129;", "€™\u{81}"),
            ("&#;&#x;&;&", "&#;&#x;&;&"),
            ("&amp;amp;", "&amp;"),
        ];
        for (written, meant) in cases {
            assert_eq!(resolve(written), meant, "{written}");
        }
    }
}
