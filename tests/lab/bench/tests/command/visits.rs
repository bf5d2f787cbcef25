//! Visits through one agent that compares some of them with direct ones.
use crate::{bench, folder, json, path, programs, run, stderr_text, worlds};

#[test]
fn an_agent_in_use_compares_one_visit_in_fifty() {
    if !worlds() || !programs() {
        return;
    }
    let folder = folder();
    let results = path(&folder, "visits.json");
    let mut command = bench(&[
        "visits", "--link", "lan-fast", "--pages", "mail", "--loader", "model",
    ]);
    command.args(["--visits", "120", "--json"]).arg(&results);
    let output = run(&mut command);
    assert!(output.status.success(), "{}", stderr_text(&output));
    let found = json(&results);
    let visits = found[0]["visits"].as_array().cloned().unwrap_or_default();
    assert_eq!(visits.len(), 120);
    for visit in &visits {
        assert_eq!(
            (&visit["page"], visit["failed"].as_u64()),
            (&"mail".into(), Some(0)),
            "{visit}"
        );
    }
    // The machine may be so busy that the round trip leaves the class of fast links for a while; each class has a count
    // of its own.
    let direct = visits.iter().filter(|visit| visit["is_direct"] == true).count();
    assert!(direct <= 2, "{direct}");
    let pages = found[0]["hold_out"].as_array().cloned().unwrap_or_default();
    let pages = pages.iter().find(|compared| compared["kind"] == "pages");
    let held_out = pages.and_then(|pages| pages["held_out"].as_u64());
    assert!(held_out <= Some(2), "{found}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        printed.starts_with("longhaul: 120 visits; through the gateway: "),
        "{printed}"
    );
    assert!(printed.contains("regression rate"), "{printed}");
}

#[test]
fn a_system_without_an_agent_compares_nothing() {
    let output = run(&mut bench(&[
        "visits", "--link", "lan-fast", "--pages", "mail", "--system", "squid",
    ]));
    assert!(!output.status.success());
    let error = stderr_text(&output);
    assert!(
        error.contains("visits --system squid") && error.contains("longhaul-unknown"),
        "{error}"
    );
}
