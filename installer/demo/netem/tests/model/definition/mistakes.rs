use longhaul_netem::{LinkFileError, Mistake, parse_links};

use super::parse;

const VALID: &str = "rate = \"1 Mbit/s\"\ndelay = \"50 ms\"\nqueue = \"64 kB\"\n";

/// Returns the mistakes of a text as a user reads them.
fn mistakes(text: &str) -> Vec<String> {
    match parse(text) {
        Err(LinkFileError::Mistakes(mistakes)) => mistakes.iter().map(ToString::to_string).collect(),
        other => panic!("{text}\n{other:?}"),
    }
}

#[test]
fn an_unknown_key_is_rejected_with_the_known_keys() {
    let found = mistakes(&format!("[link.mine]\n{VALID}latency = \"50 ms\"\n[[other]]\n"));
    assert_eq!(found.len(), 2);
    assert_eq!(found[0], "`other`: there is no such key; known are: link");
    assert!(
        found[1]
            .starts_with("link `mine`, key `latency`: there is no such key; known are: base, rate, trace,"),
        "{}",
        found[1]
    );
    let found = mistakes(&format!(
        "[link.mine]\n{VALID}jitter = {{ down = \"1 ms\", out = \"2 ms\" }}\n\
         codel = {{ target = \"5 ms\", interval = \"1 s\", limit = 3 }}"
    ));
    assert_eq!(
        found,
        [
            "link `mine`, key `jitter.out`: there is no such key; known are: down, up",
            "link `mine`, key `codel.limit`: there is no such key; known are: target, interval",
        ]
    );
}

#[test]
fn a_mistake_contains_link_key_and_expected_value() {
    for (line, key, expected) in [
        ("rate = 39600", "rate", "a rate above 0 with its unit"),
        ("rate = \"0 kbit/s\"", "rate", "a rate above 0"),
        (
            "rate = { down = \"1 kbit/s\", up = \"fast\" }",
            "rate.up",
            "a rate above 0",
        ),
        ("delay = \"100\"", "delay", "a time of at most 60 s with its unit"),
        ("delay = \"61 s\"", "delay", "a time of at most 60 s"),
        ("queue = \"120 B\"", "queue", "a size from 1500 B"),
        ("mtu = \"on\"", "mtu", "a size from 68 B to 65535 B"),
        ("loss = 3", "loss", "a probability: a number from 0 to 1"),
        ("loss = nan", "loss", "a probability"),
        ("loss = \"101 %\"", "loss", "a probability"),
        ("loss = [0.1]", "loss", "a probability, or a table"),
        (
            "loss = { p-good-bad = 0.1, p-bad-good = 1, loss-good = 0 }",
            "loss.loss-bad",
            "a probability",
        ),
        ("arq = \"on\"", "arq", "a table { frame-loss,"),
        (
            "arq = { frame-loss = 0.1, frame-size = \"0 B\", repair-delay = \"1 s\", max-transmissions = 1 }",
            "arq.frame-size",
            "a size above 0",
        ),
        (
            "arq = { frame-loss = 0.1, frame-size = \"9 B\", repair-delay = \"1 s\", max-transmissions = 0 }",
            "arq.max-transmissions",
            "a whole number from 1",
        ),
        ("codel = true", "codel", "a table { target, interval }"),
        ("outages = \"often\"", "outages", "a list of at most"),
        (
            "outages = [3]",
            "outages[1]",
            "a table { start, length, behaviour }",
        ),
        (
            "outages = [{ start = \"1 s\", length = \"1 s\", behaviour = \"wait\" }]",
            "outages[1].behaviour",
            "\"hold\" or \"drop\"",
        ),
        (
            "outages = [{ start = \"1 s\", length = \"0 s\", behaviour = \"hold\" }]",
            "outages",
            "a time above 0",
        ),
        (
            "address-changes = [\"1 s\", 2]",
            "address-changes[2]",
            "a time of at most 30 d",
        ),
        ("trace-offset = \"1 s\"", "trace-offset", "it needs a trace"),
        (
            "base = \"3g\"",
            "base",
            "there is no link `3g`; known are: gprs-3+1,",
        ),
        ("base = 3", "base", "the name of a link"),
    ] {
        let found = mistakes(&format!("[link.mine]\n{}", with(line)));
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(
            found[0].starts_with(&format!("link `mine`, key `{key}`: ")) && found[0].contains(expected),
            "{line}: {}",
            found[0]
        );
    }
}

/// Returns a valid link in which this line replaces the line with the same key.
fn with(line: &str) -> String {
    let key = line.split(' ').next().unwrap_or_default();
    let mut lines: Vec<_> = VALID.lines().filter(|valid| !valid.starts_with(key)).collect();
    lines.push(line);
    lines.join("\n")
}

#[test]
fn a_missing_key_is_reported_by_direction() {
    assert_eq!(
        mistakes("[link.mine]\nrate = { down = \"1 kbit/s\" }\nqueue = \"64 kB\"")
            .iter()
            .map(|mistake| mistake.split("; expected").next().unwrap())
            .collect::<Vec<_>>(),
        [
            "link `mine`, key `rate.up`: is missing",
            "link `mine`, key `delay`: is missing"
        ]
    );
}

#[test]
fn invalid_names_bases_and_traces_are_rejected() {
    for (text, expected) in [
        (
            "[link.lte]\nbase = \"edge\"",
            "`link.lte`: `lte` is not a new name: a built-in link has it",
        ),
        (
            "[link.\"a,b\"]\nbase = \"edge\"",
            "`link`: `a,b` is not a name of 1 to 40 letters",
        ),
        ("link = 3", "`link`: `3` is not tables [link.NAME]"),
        (
            "[link]\nx = 3",
            "`link.x`: `3` is not a table of keys, [link.NAME]",
        ),
        (
            "[link.a]\nbase = \"a\"",
            "link `a`, key `base`: the bases of the links form a circle",
        ),
        (
            "[link.a]\nbase = \"b\"\n[link.b]\nbase = \"a\"",
            "link `b`, key `base`: the bases of the links form a circle",
        ),
        (
            "[link.a]\ntrace = \"x\"\ndelay = \"1 ms\"\nqueue = \"9 kB\"",
            "link `a`, key `trace`: cannot read the trace `x`: no x here",
        ),
        (
            "[link.a]\nrate = \"1 kbit/s\"\ntrace = \"x\"\ndelay = \"1 ms\"\nqueue = \"9 kB\"",
            "conflicts with `rate`; a direction has a rate or a trace",
        ),
    ] {
        let found = mistakes(text);
        assert!(
            found.iter().any(|mistake| mistake.contains(expected)),
            "{text}: {found:?}"
        );
    }
    let bad = parse_links(
        "[link.a]\ntrace = \"x\"\ndelay = \"1 ms\"\nqueue = \"9 kB\"",
        |_| Ok("soon".to_owned()),
    );
    let Err(LinkFileError::Mistakes(mistakes)) = bad else {
        panic!("{bad:?}")
    };
    assert!(matches!(mistakes[0].mistake, Mistake::Trace { .. }));
}

#[test]
fn a_mistake_in_a_base_is_reported_once() {
    let text = "[link.a]\nbase = \"b\"\n[link.b]\nbase = \"c\"\n[link.c]\nbase = \"edge\"\nloss = 7";
    assert_eq!(mistakes(text).len(), 1);
}

#[test]
fn texts_beyond_the_limits_are_rejected() {
    assert!(matches!(parse("[link"), Err(LinkFileError::Syntax(_))));
    assert_eq!(parse(""), Ok(Vec::new()));
    let long = "#".repeat(2_000_000);
    assert!(matches!(parse(&long), Err(LinkFileError::TooLong { .. })));
    let deep = format!("x = {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(parse(&deep).is_err());
    let chain: Vec<_> = (0..256)
        .map(|number| format!("[link.l{number}]\nbase = \"l{}\"\n", number + 1))
        .collect();
    assert_eq!(mistakes(&chain.concat()).len(), 1);
    let many: Vec<_> = (0..257)
        .map(|number| format!("[link.l{number}]\nbase = \"edge\"\n"))
        .collect();
    assert_eq!(mistakes(&many.concat()).len(), 1);
    let wrong: Vec<_> = (0..200)
        .map(|number| format!("[link.l{number}]\nloss = 2\n"))
        .collect();
    assert!(mistakes(&wrong.concat()).len() <= 50);
}
