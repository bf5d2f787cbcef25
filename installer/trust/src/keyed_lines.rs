//! Keys in sectioned text files: INI, and TOML with one line per key. Pure.
//!
//! All other lines keep their bytes.
use crate::step::KeyForm;

/// Returns the value of a key as written in the file; section `""` is the part before the first header.
pub fn value<'a>(text: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let place = Place::find(&lines, section, key);
    place.key.and_then(|at| parse(lines[at])).map(|(_, value)| value)
}

/// Sets a key. The reason is returned if the file has a form that is not edited here.
pub(crate) fn set(
    text: &str,
    section: &str,
    key: &str,
    value: &str,
    form: KeyForm,
) -> Result<String, String> {
    if form == KeyForm::Toml {
        check_toml(text, section, key)?;
    }
    let line = match form {
        KeyForm::Ini => format!("{key}={value}\n"),
        KeyForm::Toml => format!("{key} = {value}\n"),
    };
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let place = Place::find(&lines, section, key);
    let header = format!("[{section}]\n");
    let ends_open = lines.last().is_some_and(|last| !last.ends_with('\n'));
    match (place.key, place.header) {
        (Some(at), _) => lines[at] = &line,
        // The header may be the last line and lack its end.
        (None, Some(at)) if ends_open && at + 1 == lines.len() => lines.extend(["\n", &line]),
        (None, Some(at)) => lines.insert(at + 1, &line),
        (None, None) => {
            if ends_open {
                lines.push("\n");
            }
            if !lines.is_empty() {
                lines.push("\n");
            }
            lines.extend([header.as_str(), &line]);
        }
    }
    Ok(lines.concat())
}

/// Gives a key the value that it has in `before`, if its value is still `ours`.
pub(crate) fn restore(text: &str, before: &str, section: &str, key: &str, ours: &str) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let place = Place::find(&lines, section, key);
    let Some(at) = place
        .key
        .filter(|at| parse(lines[*at]).is_some_and(|(_, value)| value == ours))
    else {
        return text.to_owned();
    };
    let earlier: Vec<&str> = before.split_inclusive('\n').collect();
    let earlier_place = Place::find(&earlier, section, key);
    match earlier_place.key {
        Some(earlier_at) => lines[at] = earlier[earlier_at],
        None => {
            lines.remove(at);
            let is_blank = |line: &&str| line.trim().is_empty();
            let header = place.header.filter(|_| earlier_place.header.is_none());
            if let Some(header) =
                header.filter(|header| lines[header + 1..place.end - 1].iter().all(is_blank))
            {
                lines.remove(header);
                if header > 0 && is_blank(&lines[header - 1]) {
                    lines.remove(header - 1);
                }
            }
        }
    }
    lines.concat()
}

/// Line numbers of a section and of a key in it.
struct Place {
    header: Option<usize>,
    key: Option<usize>,
    /// The line after the section.
    end: usize,
}

impl Place {
    fn find(lines: &[&str], section: &str, key: &str) -> Self {
        let is_header = |line: &&str| line.trim_start().starts_with('[');
        let header = lines
            .iter()
            .position(|line| !section.is_empty() && header_name(line) == Some(section));
        let start = match header {
            Some(header) => header + 1,
            None if section.is_empty() => 0,
            None => {
                let end = lines.len();
                return Self {
                    header,
                    key: None,
                    end,
                };
            }
        };
        let end = lines[start..]
            .iter()
            .position(is_header)
            .map_or(lines.len(), |length| start + length);
        let key = (start..end).find(|at| parse(lines[*at]).is_some_and(|(name, _)| name == key));
        Self { header, key, end }
    }
}

fn header_name(line: &str) -> Option<&str> {
    let line = line.split('#').next().unwrap_or(line).trim();
    Some(line.strip_prefix('[')?.strip_suffix(']')?.trim())
}

fn parse(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (name, value) = line.split_once('=')?;
    (!line.starts_with(['#', ';'])).then(|| (name.trim(), value.trim()))
}

/// Refuses forms of TOML that one line cannot replace.
fn check_toml(text: &str, section: &str, key: &str) -> Result<(), String> {
    for line in text.lines().map(str::trim) {
        let other_form = [
            format!("{section}."),
            format!("{section} "),
            format!("{section}="),
        ];
        let quoted = [format!("\"{section}\""), format!("'{section}'")];
        if other_form
            .iter()
            .chain(&quoted)
            .any(|start| line.starts_with(start.as_str()))
        {
            return Err(format!(
                "it sets `{section}` in the line `{line}`: write it as a table [{section}]"
            ));
        }
    }
    let present = value(text, section, key).unwrap_or_default();
    if (present.starts_with('[') && !present.contains(']')) || present.starts_with("\"\"\"") {
        return Err(format!(
            "its value of `{section}.{key}` has several lines: write it in one line"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_set_where_they_belong() {
        let toml = |text: &str| set(text, "https", "accelerate", "\"all\"", KeyForm::Toml);
        assert_eq!(toml("").unwrap(), "[https]\naccelerate = \"all\"\n");
        assert_eq!(
            toml("listen = \"x\"").unwrap(),
            "listen = \"x\"\n\n[https]\naccelerate = \"all\"\n"
        );
        let other = "[https] # mine\nexcept = [\"a.test\"]\n[cache]\naccelerate = 1\n";
        let set_there =
            "[https] # mine\naccelerate = \"all\"\nexcept = [\"a.test\"]\n[cache]\naccelerate = 1\n";
        assert_eq!(toml(other).unwrap(), set_there);
        assert_eq!(
            toml("[https]\n  accelerate=\"off\"\nx = 1\n").unwrap(),
            "[https]\naccelerate = \"all\"\nx = 1\n"
        );
        assert_eq!(toml("[https]").unwrap(), "[https]\naccelerate = \"all\"\n");
        for unsuitable in [
            "https.accelerate = \"off\"\n",
            "https = {}\n",
            "[https]\naccelerate = [\n\"a\"]\n",
        ] {
            assert!(toml(unsuitable).is_err(), "{unsuitable}");
        }
        assert_eq!(value("control = \"a\"\n[x]\ny=2", "", "control"), Some("\"a\""));
        assert_eq!(value("[x]\n#y=1\ny=2", "x", "y"), Some("2"));
        assert_eq!(value("[x]\ny=2", "", "y"), None);
    }

    #[test]
    fn only_our_value_is_restored() {
        let before = "a = 1\n[https]\nexcept = []\n";
        let ours = set(before, "https", "accelerate", "\"all\"", KeyForm::Toml).unwrap();
        let restore = |text: &str, before: &str| restore(text, before, "https", "accelerate", "\"all\"");
        assert_eq!(restore(&ours, before), before);
        assert_eq!(
            restore(&format!("{ours}b = 2\n"), before),
            format!("{before}b = 2\n")
        );
        let by_user = ours.replace("\"all\"", "\"off\"");
        assert_eq!(restore(&by_user, before), by_user, "the user's value stays");
        let added = set("a = 1\n", "https", "accelerate", "\"all\"", KeyForm::Toml).unwrap();
        assert_eq!(restore(&format!("# top\n{added}"), "a = 1\n"), "# top\na = 1\n");
        assert_eq!(
            restore(&added, "[https]\naccelerate=\"off\"\n"),
            "a = 1\n\n[https]\naccelerate=\"off\"\n"
        );
    }
}
