//! Properties that hold for all values of settings.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount};
use proptest::prelude::*;

use super::{Home, NAME, PATHS, SHOUT, SIZE, resolve, source};
use crate::*;

/// A value of each layer, or none.
fn layers() -> impl Strategy<Value = [Option<u32>; 4]> {
    let value = || proptest::option::of(0..1000_u32);
    (value(), value(), value(), value()).prop_map(|(own, named, variable, flag)| [own, named, variable, flag])
}

proptest! {
    #[test]
    fn the_last_layer_takes_effect([own, named, variable, flag] in layers()) {
        let text = |value: u32| format!("name = 'n{value}'\n");
        let home = Home::new(own.map(text).as_deref(), named.map(text).as_deref());
        let value = variable.map(|value| format!("n{value}"));
        let variables: Vec<_> = value.iter().map(|value| ("LONGHAUL_NAME", value.as_str())).collect();
        let environment = home.environment(&variables);
        let mut flags = if named.is_some() { home.flags() } else { Flags::default() };
        if let Some(value) = flag {
            flags.set(&NAME, &format!("n{value}"));
        }
        // A named file replaces the default files.
        let file = named.or(own);
        let expected = flag.or(variable).or(file);
        let (read, report) = resolve(&flags, &environment, DefaultFiles::Read).unwrap();
        prop_assert_eq!(read.name, expected.map_or_else(|| "nobody".to_owned(), |value| format!("n{value}")));
        let found = match source(&report, "name") {
            Source::Flag(_) => flag,
            Source::Variable(_) => variable,
            Source::File { line: 1, .. } => file,
            Source::Default | Source::File { .. } => None,
        };
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn durations_are_parsed_as_they_are_shown(nanos in 0..1_000_000_000_000_000_u64) {
        let duration = Duration::from_nanos(nanos);
        prop_assert_eq!(units::parse_duration(&units::show_duration(duration)), Ok(duration));
        let bound = units::bound_of_duration(Duration::from_secs(nanos / 1_000_000_000));
        let whole = Duration::from_secs(nanos / 1_000_000_000);
        prop_assert_eq!(units::parse_duration(&bound), Ok(whole));
    }

    #[test]
    fn sizes_are_parsed_as_they_are_shown(bytes in 0..1_u64 << 50, shift in 0..40_u32) {
        let size = ByteCount::new(bytes >> shift << shift);
        prop_assert_eq!(units::parse_size(&units::show_size(size)), Ok(size));
        prop_assert_eq!(units::parse_size(&units::bound_of_size(size)), Ok(size));
    }

    #[test]
    fn rates_are_parsed_as_they_are_shown(bits in 0..1_u64 << 40, zeros in 0..8_u32) {
        let rate = BitRate::bps(bits / 10_u64.pow(zeros) * 10_u64.pow(zeros));
        prop_assert_eq!(units::parse_rate(&units::show_rate(rate)), Ok(rate));
    }

    #[test]
    fn effective_settings_are_a_file_with_the_same_meaning(
        name in "[a-z'\" #\\\\]{0,8}[a-z]",
        paths in proptest::collection::vec("[a-z/'\"\\\\]{1,8}", 0..4),
        shout: bool,
        seconds in 1..3600_u64,
        mib in 1..4096_u64,
    ) {
        let mut flags = Flags::default().with(&NAME, &name).with(&SIZE, &format!("{mib} MiB"));
        for path in &paths {
            flags.set(&PATHS, path);
        }
        if shout {
            flags.set(&SHOUT, "yes");
        }
        let wait = format!("{seconds}s");
        let environment = Environment::from([("LONGHAUL_LIMITS_WAIT", wait.as_str())]);
        let (read, report) = resolve(&flags, &environment, DefaultFiles::Ignored).unwrap();
        let home = Home::new(None, Some(&report.to_toml()));
        let (again, _) = resolve(&home.flags(), &Environment::new(), DefaultFiles::Read).unwrap();
        prop_assert_eq!(read, again);
    }
}
