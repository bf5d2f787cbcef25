//! Parts of selectors that several readers of selectors have in common.

/// Takes an identifier from the start of `rest`. Escapes of single characters are resolved; a numeric escape stays with
/// its backslash.
pub(crate) fn take_name(rest: &mut &str) -> String {
    let mut name = String::new();
    let mut characters = rest.char_indices();
    let mut end = rest.len();
    while let Some((at, c)) = characters.next() {
        if c == '\\' {
            match characters.next() {
                Some((_, escaped)) if !escaped.is_ascii_hexdigit() => name.push(escaped),
                _ => name.push('\\'),
            }
        } else if is_name(c) {
            name.push(c);
        } else {
            end = at;
            break;
        }
    }
    *rest = &rest[end..];
    name
}

/// Takes the block that the bracket `open` at the start of `rest` opens; returns its contents.
pub(crate) fn take_block<'a>(rest: &mut &'a str, open: char) -> &'a str {
    let close = if open == '[' { ']' } else { ')' };
    let mut depth = 0_usize;
    let end = rest.find(|c: char| {
        if c == open {
            depth += 1;
        } else if c == close {
            depth = depth.saturating_sub(1);
        }
        depth == 0
    });
    let (block, behind) = match end {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (*rest, ""),
    };
    *rest = behind;
    block.strip_prefix(open).unwrap_or(block)
}

/// Returns true for characters of identifiers.
pub(crate) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '\\') || !c.is_ascii()
}
