mod random_values;

use std::{fs, path::Path, time::Duration};

use longhaul_types::{ByteCount, Techniques};

use super::*;

#[derive(Clone, Copy, Debug, Default)]
struct Example;

const NAME: Setting<String> = Setting::new(
    "name",
    Form::Text("a name"),
    |_| "nobody".to_owned(),
    |value, form| form.text(value),
    |name| Some(quoted(name)),
)
.flag("--name", "NAME")
.meaning("name");
const WAIT: Setting<Duration> = Setting::duration(
    "limits.wait",
    Duration::from_secs(1),
    Duration::from_secs(3600),
    |_| Duration::from_secs(30),
)
.reloadable()
.meaning("longest wait");
const SIZE: Setting<ByteCount> = Setting::size(
    "limits.size",
    Form::Size {
        least: ByteCount::mib(1),
        most: Some(ByteCount::mib(4096)),
        zero: Some("no limit"),
    },
    |_| ByteCount::mib(64),
)
.flag("--size", "SIZE")
.meaning("largest size")
.reason("Most are smaller");
const PATHS: Setting<Vec<String>> = Setting::new(
    "paths",
    Form::Text("paths"),
    |_| Vec::new(),
    |value, _| value.texts(),
    |paths| Some(list(paths)),
)
.repeated_flag("--path", "PATH")
.meaning("paths");
const SHOUT: Setting<bool> = Setting::yes_no("shout", |_| false)
    .switch("--shout", "yes", "Shout")
    .meaning("volume");

impl Configured for Example {
    const PROGRAM: &'static Program = &Program {
        name: "example",
        settings: &[&NAME, &PATHS, &SHOUT, &WAIT, &SIZE],
        hidden_settings: &[&WITHOUT],
        system_file: "/nonexistent/longhaul/example.toml",
        user_file: Some("longhaul/example.toml"),
        empty_variables: EmptyVariables::AreUnset,
        other_variables: &["LONGHAUL_OTHER"],
        flag_scope: FlagScope::OneCommand,
    };
}

#[derive(Clone, Debug, PartialEq)]
struct Resolution {
    name: String,
    wait: Duration,
    size: ByteCount,
    paths: Vec<String>,
    shout: bool,
    without: Techniques,
}

fn resolve(
    flags: &Flags<Example>,
    environment: &Environment,
    default_files: DefaultFiles,
) -> Result<(Resolution, Report), Mistakes> {
    let mut layers = Layers::read(flags, environment, default_files);
    let resolution = Resolution {
        name: layers.get(&NAME),
        paths: layers.get(&PATHS),
        shout: layers.get(&SHOUT),
        wait: layers.get(&WAIT),
        size: layers.get(&SIZE),
        without: layers.get_hidden(&WITHOUT),
    };
    layers.finish().map(|report| (resolution, report))
}

/// A home directory with a file of the user's own and a file that is named.
struct Home(tempfile::TempDir);

impl Home {
    fn new(own: Option<&str>, named: Option<&str>) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(home.path(".config/longhaul")).unwrap();
        if let Some(text) = own {
            fs::write(home.path(".config/longhaul/example.toml"), text).unwrap();
        }
        if let Some(text) = named {
            fs::write(home.path("named.toml"), text).unwrap();
        }
        home
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn environment(&self, variables: &[(&str, &str)]) -> Environment {
        let home = ("HOME".to_owned(), self.path(""));
        let others = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        others.chain([home]).collect()
    }

    fn flags(&self) -> Flags<Example> {
        let mut flags = Flags::default();
        flags.config = Some(self.path("named.toml").into());
        flags
    }
}

fn source<'a>(report: &'a Report, key: &str) -> &'a Source {
    let mut settings = report.settings.iter();
    &settings.find(|setting| setting.key == key).unwrap().source
}

#[test]
fn files_are_read_where_they_exist_and_none_is_named() {
    let home = Home::new(Some("name = 'own'\n"), Some("paths = ['named']\n"));
    let (nothing, environment) = (Flags::default(), home.environment(&[]));
    let (read, report) = resolve(&nothing, &environment, DefaultFiles::Read).unwrap();
    assert_eq!((read.name.as_str(), read.paths.len()), ("own", 0));
    assert_eq!(
        report.sources.files,
        [
            ("/nonexistent/longhaul/example.toml".into(), FileState::Absent),
            (
                home.path(".config/longhaul/example.toml").into(),
                FileState::Read(1)
            ),
        ]
    );
    let (ignored, report) = resolve(&nothing, &environment, DefaultFiles::Ignored).unwrap();
    assert_eq!((ignored.name.as_str(), report.sources.files.len()), ("nobody", 0));
    let (named, _) = resolve(&home.flags(), &environment, DefaultFiles::Read).unwrap();
    assert_eq!((named.name.as_str(), named.paths.len()), ("nobody", 1));
    let empty = home.environment(&[("LONGHAUL_CONFIG", "/dev/null")]);
    let (without, _) = resolve(&nothing, &empty, DefaultFiles::Read).unwrap();
    assert_eq!(without.name, "nobody");
    let elsewhere = home.environment(&[("XDG_CONFIG_HOME", "/nonexistent"), ("LONGHAUL_CONFIG", "")]);
    let (without, report) = resolve(&nothing, &elsewhere, DefaultFiles::Read).unwrap();
    assert_eq!((without.name.as_str(), report.sources.files.len()), ("nobody", 2));
}

#[test]
fn a_named_file_has_to_exist_and_a_default_file_has_to_be_readable() {
    let home = Home::new(None, None);
    let missing = resolve(&home.flags(), &home.environment(&[]), DefaultFiles::Read).unwrap_err();
    assert!(
        missing.to_string().contains("named.toml: cannot be read: ")
            && missing
                .to_string()
                .contains("; check --config and LONGHAUL_CONFIG"),
        "{missing}"
    );
    fs::create_dir(home.path(".config/longhaul/example.toml")).unwrap();
    let folder = resolve(&Flags::default(), &home.environment(&[]), DefaultFiles::Read).unwrap_err();
    assert!(
        folder.to_string().contains("example.toml: cannot be read: "),
        "{folder}"
    );
    fs::write(home.path("named.toml"), [0xff, 0xfe, 0]).unwrap();
    let binary = resolve(&home.flags(), &home.environment(&[]), DefaultFiles::Read).unwrap_err();
    assert!(binary.to_string().contains("it must be UTF-8 text"), "{binary}");
}

#[test]
fn all_mistakes_are_reported_with_source_key_and_action() {
    let home = Home::new(
        None,
        Some("nam = 'x'\npaths = [1]\n[limits]\nwait = '2h'\nsice = 1\n[other]\na = 1\n"),
    );
    let environment = home.environment(&[("LONGHAUL_SHOUT", "perhaps")]);
    let flags = home.flags().with(&SIZE, "64");
    let mistakes = resolve(&flags, &environment, DefaultFiles::Read).unwrap_err();
    let text = mistakes.to_string().replace(&home.path(""), "");
    assert_eq!(
        text,
        "the configuration has 7 problems:\n  \
         named.toml:1: unknown key `nam` (did you mean `name`?)\n  \
         named.toml:5: unknown key `limits.sice` (did you mean `limits.size`?)\n  \
         named.toml:7: unknown key `other.a`; `example check-config` lists all keys\n  \
         named.toml:2: paths: texts are needed, not a number; write paths\n  \
         environment variable LONGHAUL_SHOUT: shout: `perhaps` is neither yes nor no; write `yes` or `no`\n  \
         named.toml:4: limits.wait: `2h` is too short or too long; write a time with its unit, from `1s` to `1h`\n  \
         flag --size: limits.size: `64` needs a unit, one of B, kB, MB, GB, KiB, MiB, GiB; write a size with its unit, \
         from `1 MiB` to `4 GiB`; or `0` for no limit"
    );
}

#[test]
fn all_errors_of_syntax_are_reported_with_their_lines() {
    let text = "name = = 1\npaths = ['a']\n\nshout yes\n[limits\nwait = '1s'\n";
    let home = Home::new(None, Some(text));
    let mistakes = resolve(&home.flags(), &home.environment(&[]), DefaultFiles::Read).unwrap_err();
    let lines: Vec<_> = mistakes
        .list
        .iter()
        .map(|mistake| mistake.source_of_value().unwrap().line().unwrap())
        .collect();
    assert_eq!(lines, [1, 4, 5], "{mistakes}");
    assert!(
        mistakes
            .to_string()
            .contains("named.toml:1: TOML parse error at line 1")
    );
    let home = Home::new(None, Some(&format!("paths = [\n{}", "name = 1\n".repeat(100))));
    let mistakes = resolve(&home.flags(), &home.environment(&[]), DefaultFiles::Read).unwrap_err();
    assert_eq!(mistakes.list.len(), 10, "{mistakes}");
}

#[test]
fn a_wrong_value_that_is_overridden_is_only_mentioned() {
    let home = Home::new(None, Some("name = 7\n[limits]\nsize = 'much'\n"));
    let flags = home.flags().with(&NAME, "flag");
    let environment = home.environment(&[("LONGHAUL_LIMITS_SIZE", "2 MiB")]);
    let (read, report) = resolve(&flags, &environment, DefaultFiles::Read).unwrap();
    assert_eq!((read.name.as_str(), read.size), ("flag", ByteCount::mib(2)));
    let keys: Vec<_> = report.overridden.iter().filter_map(Mistake::key).collect();
    assert_eq!(keys, ["name", "limits.size"]);
    assert!(report.to_string().contains("is overridden: "), "{report}");
}

#[test]
fn variables_that_no_setting_has_are_listed() {
    let home = Home::new(None, None);
    let environment = home.environment(&[
        ("LONGHAUL_NAMES", "x"),
        ("LONGHAUL_NAME", "y"),
        ("LONGHAUL_OTHER", "z"),
        ("LONGHAUL_BIN_DIR", "/"),
    ]);
    let (_, report) = resolve(&Flags::default(), &environment, DefaultFiles::Ignored).unwrap();
    assert_eq!(
        report.sources.to_string(),
        "environment variable LONGHAUL_BIN_DIR: not a setting of this program\n\
         environment variable LONGHAUL_NAME: read\n\
         environment variable LONGHAUL_NAMES: not a setting of this program (did you mean LONGHAUL_NAME?)\n\
         environment variable LONGHAUL_OTHER: read\n"
    );
}

#[test]
fn the_command_line_has_the_described_flags() {
    use clap::{Args as _, FromArgMatches as _};
    let command = Flags::<Example>::augment_args(clap::Command::new("example"));
    let words = [
        "example",
        "--name",
        "a",
        "--path=b",
        "--path",
        "c,d",
        "--shout",
        "--config=f",
    ];
    let matches = command.clone().try_get_matches_from(words).unwrap();
    let mut flags = Flags::<Example>::from_arg_matches(&matches).unwrap();
    assert_eq!(flags.config.as_deref(), Some(Path::new("f")));
    flags.config = None;
    let (read, report) = resolve(&flags, &Environment::new(), DefaultFiles::Ignored).unwrap();
    assert_eq!((read.name.as_str(), read.shout), ("a", true));
    assert_eq!(read.paths, ["b", "c", "d"]);
    assert_eq!(source(&report, "shout"), &Source::Flag("--shout"));
    assert!(
        command
            .try_get_matches_from(["example", "--name", "a", "--name", "b"])
            .is_err()
    );
}

#[test]
fn the_reference_has_a_row_for_each_setting() {
    let table = reference_table(Example::PROGRAM);
    assert_eq!(table.lines().count(), 2 + Example::PROGRAM.settings.len());
    assert!(
        table.contains(
            "\n| `limits.size` | `--size SIZE` | a size with its unit, from `1 MiB` to `4 GiB`; or `0` for no limit \
             | `64 MiB` | no | largest size. Most are smaller |\n"
        ),
        "{table}"
    );
    assert!(table.contains("| `30s` | yes | longest wait |"), "{table}");
    let document = format!("# A\n\n| x |\n\n## B\ntext\n{table}\n| y |\n");
    assert_eq!(table_after(&document, "## B"), table);
}

#[test]
fn a_hidden_setting_is_accepted_and_reported_only_if_it_is_given() {
    let environment = Environment::from([("LONGHAUL_WITHOUT", "delta,chk")]);
    let (read, report) = resolve(&Flags::default(), &environment, DefaultFiles::Ignored).unwrap();
    assert_eq!(read.without.to_string(), "chk,delta");
    assert_eq!(
        source(&report, "without"),
        &Source::Variable("LONGHAUL_WITHOUT".to_owned())
    );
    let (read, report) = resolve(&Flags::default(), &Environment::new(), DefaultFiles::Ignored).unwrap();
    assert!(read.without.is_empty());
    assert!(report.settings.iter().all(|setting| setting.key != "without"));
    assert!(!reference_table(Example::PROGRAM).contains("without"));
    let environment = Environment::from([("LONGHAUL_WITHOUT", "fec")]);
    let mistakes = resolve(&Flags::default(), &environment, DefaultFiles::Ignored).unwrap_err();
    assert!(
        mistakes.to_string().contains("`fec` is no technique"),
        "{mistakes}"
    );
}

#[test]
fn changes_are_separated_by_when_they_take_effect() {
    let home = Home::new(None, Some("name = 'a'\n[limits]\nwait = '5s'\n"));
    let read = |text: &str| {
        fs::write(home.path("named.toml"), text).unwrap();
        let environment = Environment::from([("LONGHAUL_CONFIG", home.path("named.toml").as_str())]);
        let (_, report) = resolve(&Flags::default(), &environment, DefaultFiles::Ignored).unwrap();
        report
    };
    let started = read("name = 'a'\n[limits]\nwait = '5s'\n");
    let between = |applied: &Report, new: &Report| Changes::between(Example::PROGRAM, &started, applied, new);
    // Another line of the file and other comments are no change.
    let moved = read("\n# moved\n[limits]\nwait = '5s'\n");
    assert_eq!(
        between(&started, &read("# x\nname = 'a'\n[limits]\nwait = '5s'\n")),
        Changes::default()
    );
    assert_eq!(between(&started, &moved).at_next_start, ["name"]);
    let both = read("name = 'b'\n[limits]\nwait = '6s'\n");
    let changes = between(&started, &both);
    assert_eq!(
        (changes.at_once, changes.at_next_start),
        (vec!["limits.wait"], vec!["name"])
    );
    // A setting that waits for the next start is reported at every reload until then, an applied one once.
    let again = between(&both, &both);
    assert_eq!((again.at_once, again.at_next_start), (vec![], vec!["name"]));
}
