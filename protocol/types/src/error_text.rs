//! The text of an error with its causes.
use std::error::Error;

/// Returns the messages of an error and of its causes, separated by colons, each once: a cause that an earlier
/// message already contains is left out.
pub fn error_text(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{fmt, io};

    use super::*;

    #[derive(Debug)]
    struct Failed {
        message: &'static str,
        source: io::Error,
    }

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.message)
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.source)
        }
    }

    fn text(message: &'static str) -> String {
        error_text(&Failed {
            message,
            source: io::Error::other("disk full"),
        })
    }

    #[test]
    fn each_cause_is_shown_once() {
        assert_eq!(text("cannot write x"), "cannot write x: disk full");
        assert_eq!(
            text("cannot write x: disk full; free some"),
            "cannot write x: disk full; free some"
        );
    }
}
