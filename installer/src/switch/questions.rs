//! Questions on the terminal.
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use longhaul_trust::{Accelerate, Browser};

/// The user's answer to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Apply the plan; https as it is set, or as given.
    Yes(Option<Accelerate>),
    /// Change nothing.
    No,
}

/// True if somebody can answer.
pub(super) fn is_possible() -> bool {
    io::stdin().is_terminal()
}

/// Shows the plan and asks whether to apply it, and for which sites https is accelerated.
pub(super) fn confirm(plan: &str, asks_for_https: bool) -> Answer {
    say(plan);
    if !asks_for_https {
        return match ask("Apply this plan? [Y/n] ").as_deref() {
            Some("" | "y" | "yes") => Answer::Yes(None),
            _ => Answer::No,
        };
    }
    say(HTTPS);
    loop {
        let Some(line) = ask("Apply this plan? [Y/n/all/SITES] ") else {
            return Answer::No;
        };
        match parse(&line) {
            Ok(answer) => return answer,
            Err(problem) => say(&format!("{problem}\n")),
        }
    }
}

/// Asks a question whose default is no.
pub(super) fn is_sure(question: &str) -> bool {
    matches!(ask(&format!("{question} [y/N] ")).as_deref(), Some("y" | "yes"))
}

/// Asks to close browsers; false if nobody answers or they shall be left out.
pub(super) fn wait_for(running: &[(Browser, String)]) -> bool {
    let names: Vec<&str> = running.iter().map(|(_, name)| name.as_str()).collect();
    say(&format!(
        "These browsers run and hold the files that are to be changed: {}.\n",
        names.join(", ")
    ));
    matches!(
        ask("Close them and press Enter, or type `skip` to leave them out: ").as_deref(),
        Some("")
    )
}

const HTTPS: &str = "
By default https is not accelerated: every https connection is a tunnel, and nobody between browser and site can read
it. For accelerated sites, the gateway's operator can read the traffic, passwords included.
  Enter            apply; https is not accelerated
  all              apply; accelerate https of all sites except the built-in exclusions (banks, health, government, ...)
  a.test b.test    apply; accelerate https of these sites and their subdomains
  n                change nothing
";

fn parse(line: &str) -> Result<Answer, String> {
    match line {
        "" | "y" | "yes" => Ok(Answer::Yes(Some(Accelerate::Off))),
        "n" | "no" => Ok(Answer::No),
        "all" => Ok(Answer::Yes(Some(Accelerate::All))),
        names => {
            let names = names.split([' ', ',']).filter(|name| !name.is_empty());
            let hosts: Result<Vec<String>, String> = names.map(host).collect();
            let hosts = hosts?;
            if hosts.iter().any(|host| host.contains('.')) {
                Ok(Answer::Yes(Some(Accelerate::Hosts(hosts))))
            } else {
                Err(format!("`{line}` is neither an answer nor a list of sites"))
            }
        }
    }
}

/// Checks a host name, as the agent does.
pub(super) fn host(name: &str) -> Result<String, String> {
    let host = name.trim_start_matches("*.").to_ascii_lowercase();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if !host.is_empty() && host.len() <= 253 && host.chars().all(is_plain) {
        Ok(host)
    } else {
        Err(format!(
            "`{name}` is no host name; write such as example.org, without https:// and path"
        ))
    }
}

/// Returns the answer, without blanks around it; `None` at the end of the input.
fn ask(question: &str) -> Option<String> {
    say(question);
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line.trim().to_ascii_lowercase()),
    }
}

/// Questions go to stderr, so that stdout has only the result.
fn say(text: &str) {
    let mut stderr = io::stderr().lock();
    // If stderr is closed, nobody sees the question.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        assert_eq!(parse(""), Ok(Answer::Yes(Some(Accelerate::Off))));
        assert_eq!(parse("all"), Ok(Answer::Yes(Some(Accelerate::All))));
        let hosts = vec!["a.test".to_owned(), "b.test".to_owned()];
        assert_eq!(
            parse("a.test, *.b.test"),
            Ok(Answer::Yes(Some(Accelerate::Hosts(hosts))))
        );
        assert_eq!(parse("no"), Ok(Answer::No));
        assert!(parse("yess").is_err() && parse("https://a.test/").is_err());
    }
}
