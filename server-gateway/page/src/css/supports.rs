//! Evaluation of `@supports` conditions (CSS Conditional Rules Level 4) as in current browsers.

/// Maximum depth of nested conditions.
const MAX_DEPTH: usize = 16;

/// Returns true if the condition holds. Declarations count as supported unless the property has another
/// engine's prefix.
pub(super) fn holds(condition: &str) -> bool {
    evaluate(&condition.trim().to_ascii_lowercase(), 0)
}

fn evaluate(text: &str, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    let text = text.trim();
    if let Some(rest) = negated(text) {
        return !evaluate(rest, depth + 1);
    }
    let operands = operands(text);
    match operands.as_slice() {
        [] => false,
        [(_, only)] => operand(only, depth),
        [_, (operator, _), ..] => {
            let mut operands = operands.iter();
            if *operator == Operator::Or {
                operands.any(|(_, text)| operand(text, depth))
            } else {
                operands.all(|(_, text)| operand(text, depth))
            }
        }
    }
}

fn negated(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("not")?;
    rest.starts_with(|c: char| c == '(' || c.is_ascii_whitespace())
        .then(|| rest.trim_start())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    And,
    Or,
}

/// Splits at ` and ` and ` or ` outside parentheses; each part has the operator before it.
fn operands(text: &str) -> Vec<(Operator, &str)> {
    let mut found = Vec::new();
    let (mut depth, mut start, mut operator) = (0_usize, 0, Operator::And);
    let mut after_space = false;
    for (at, c) in text.char_indices() {
        // The first space of a run suffices; checking after each space would take quadratic time.
        let seen = std::mem::replace(&mut after_space, c.is_ascii_whitespace());
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 0 || !((c.is_ascii_whitespace() && !seen) || c == ')') {
            continue;
        }
        let rest = text[at + 1..].trim_start();
        let next = [("and", Operator::And), ("or", Operator::Or)]
            .into_iter()
            .find(|(word, _)| {
                let after = rest.strip_prefix(word);
                after.is_some_and(|after| after.starts_with(|c: char| c == '(' || c.is_ascii_whitespace()))
            });
        if let Some((word, next)) = next {
            let end = if c == ')' { at + 1 } else { at };
            if let Some(part) = text
                .get(start..end)
                .map(str::trim)
                .filter(|part| !part.is_empty())
            {
                found.push((operator, part));
            }
            operator = next;
            start = text.len() - rest.len() + word.len();
        }
    }
    if let Some(part) = text.get(start..).map(str::trim).filter(|part| !part.is_empty()) {
        found.push((operator, part));
    }
    found
}

fn operand(text: &str, depth: usize) -> bool {
    if let Some(rest) = negated(text) {
        return !evaluate(rest, depth + 1);
    }
    if let Some(inner) = text.strip_prefix('(') {
        let inner = inner.strip_suffix(')').unwrap_or(inner).trim();
        return if inner.starts_with('(') || negated(inner).is_some() {
            evaluate(inner, depth + 1)
        } else {
            declaration(inner)
        };
    }
    let function = text.split_once('(').filter(|(name, _)| !name.contains(':'));
    let Some((name, argument)) = function else {
        return declaration(text);
    };
    let argument = argument.trim_end_matches(')').trim();
    match name.trim() {
        "selector" => !argument.contains(":-moz-") && !argument.contains(":-ms-"),
        "font-tech" => true,
        "font-format" => matches!(argument, "woff" | "woff2" | "truetype" | "opentype"),
        _ => declaration(text),
    }
}

fn declaration(text: &str) -> bool {
    let Some((property, value)) = text.split_once(':') else {
        // For example `selector(…)` in a second pair of parentheses.
        return text.contains('(') && !text.starts_with('-');
    };
    let property = property.trim();
    let foreign = ["-ms-", "-moz-", "-o-", "-khtml-"];
    !value.trim().is_empty() && !foreign.iter().any(|prefix| property.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supports_conditions_evaluate_as_in_current_browsers() {
        for yes in [
            "(display: grid)",
            "(display: grid) and  (not (-ms-flow: a))  and (gap: 1px)",
            "not (-ms-ime-align: auto)",
            "(-webkit-appearance: none) or (-moz-appearance: none)",
            "((display: grid) and (gap: 1px))",
            "selector(:focus-visible)",
            "(--css: variables)",
            "display: grid",
            "(background: url(x.png)) and (color: red)",
            "NOT (-MS-FLOW: a)",
            "font-format(woff2)",
        ] {
            assert!(holds(yes), "{yes}");
        }
        for no in [
            "",
            "not (display: grid)",
            "(-ms-ime-align: auto)",
            "(-moz-appearance: none) and (display: grid)",
            "(display: grid) and (not (gap: 1px))",
            "(not (display: grid))",
            "selector(:-moz-focusring)",
            "()",
            "unknown",
        ] {
            assert!(!holds(no), "{no}");
        }
        let _ = holds(&"(".repeat(100_000));
        let _ = holds(&"not ".repeat(100_000));
        assert!(holds(&format!("(a: b){}and (c: d)", " ".repeat(1_000_000))));
    }
}
