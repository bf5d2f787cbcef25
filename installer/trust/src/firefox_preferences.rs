//! Preference files of Firefox: `user.js`, which is the user's, and `prefs.js`, which Firefox writes. Pure.

/// Lines around ours; Firefox ignores them.
const BEGIN: &str = "// longhaul up: begin; `longhaul down` removes these lines\n";
const END: &str = "// longhaul up: end\n";

/// Names and values as JavaScript literals.
pub(crate) type Preferences = [(String, String)];

/// The lines that set the preferences, with their marks.
pub(crate) fn block(preferences: &Preferences) -> String {
    let lines = preferences.iter().map(|(name, value)| line(name, value));
    format!("{BEGIN}{}{END}", lines.collect::<String>())
}

/// Returns `text` with the block at its end, where it overrides earlier lines.
pub(crate) fn with_block(text: &str, preferences: &Preferences) -> String {
    let mut text = without_block(text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text + &block(preferences)
}

/// Returns `text` without marked blocks.
pub(crate) fn without_block(text: &str) -> String {
    let mut rest = text.to_owned();
    while let Some(start) = rest.find(BEGIN) {
        // Without its end mark, only the lines that look like ours belong to the block.
        let end = match rest[start..].find(END) {
            Some(length) => start + length + END.len(),
            None => start + BEGIN.len(),
        };
        rest.replace_range(start..end, "");
    }
    rest
}

/// Returns the last line that sets a preference.
pub(crate) fn line_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let start = format!("user_pref(\"{name}\",");
    text.split_inclusive('\n')
        .rfind(|line| line.trim_start().starts_with(&start))
}

/// Replaces our values by the lines of `before`, in a file that Firefox wrote meanwhile.
pub(crate) fn restore(text: &str, before: &str, preferences: &Preferences) -> String {
    let lines = text.split_inclusive('\n').map(|present| {
        let ours = preferences
            .iter()
            .find(|(name, value)| present.trim_end() == line(name, value).trim_end());
        ours.map_or(present, |(name, _)| line_of(before, name).unwrap_or_default())
    });
    lines.collect()
}

fn line(name: &str, value: &str) -> String {
    format!("user_pref(\"{name}\", {value});\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Vec<(String, String)> {
        vec![("network.proxy.type".to_owned(), "2".to_owned())]
    }

    #[test]
    fn the_users_lines_stay() {
        for text in ["", "user_pref(\"a\", 1);\n", "// no end"] {
            let with = with_block(text, &ours());
            assert!(with.contains("user_pref(\"network.proxy.type\", 2);\n"), "{with}");
            assert_eq!(without_block(&with).trim_end(), text.trim_end());
            assert_eq!(with_block(&with, &ours()), with, "once is enough");
            let changed = format!("user_pref(\"z\", 9);\n{with}user_pref(\"b\", 2);\n");
            let left = without_block(&changed);
            assert!(left.contains("\"z\"") && left.contains("\"b\"") && !left.contains("proxy"));
        }
        assert_eq!(
            without_block(&format!("x\n{BEGIN}y\n")),
            "x\ny\n",
            "the end mark is lost"
        );
    }

    #[test]
    fn what_firefox_copied_is_put_back() {
        let before = "user_pref(\"network.proxy.type\", 5);\n";
        let copied = "user_pref(\"a\", 1);\nuser_pref(\"network.proxy.type\", 2);\nuser_pref(\"z\", 1);\n";
        let back = restore(copied, before, &ours());
        assert_eq!(back, copied.replace("type\", 2", "type\", 5"));
        assert_eq!(
            restore(copied, "", &ours()),
            "user_pref(\"a\", 1);\nuser_pref(\"z\", 1);\n"
        );
        let by_user = copied.replace(", 2", ", 1");
        assert_eq!(restore(&by_user, before, &ours()), by_user);
    }
}
