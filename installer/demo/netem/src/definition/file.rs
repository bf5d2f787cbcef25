//! Parser of link definition files.
use std::{collections::BTreeMap, io, time::Duration};

use longhaul_types::{BitRate, ByteCount, Timestamp};
use toml::{Table, Value};

use crate::{AddressChanges, Capacity, DeliveryTrace, HopConfig, LinkConfig, Profile};

use super::{
    LinkDefinition,
    direction::{self, Origin},
    mistake::{LinkFileError, LinkMistake, Mistake},
    value::{self, Fields, Report},
};

/// Maximum number of links in a file: a plan that contains each of them once already takes days.
pub const MAX_LINKS: usize = 256;
/// Maximum length of a file in bytes, 4 kB per link; traces are separate files.
const MAX_TEXT: usize = 1024 * 1024;
/// Maximum number of address changes of a link.
const MAX_ADDRESS_CHANGES: usize = 10_000;
/// Maximum characters of a name, because names are printed in tables.
const MAX_NAME: usize = 40;

const LINK: &str = "a table of keys, [link.NAME]";
const LINKS: &str = "tables [link.NAME], at most 256";
const NAME: &str = "a name of 1 to 40 letters, digits and . _ + -";
const FRESH: &str = "a new name: a built-in link has it";
const BASE: &str = "the name of a link, in quotes";
const CHANGES: &str = "a list of at most 10000 times, such as [\"30 s\", \"5 min\"]";

/// Reads links from TOML. `read` reads a trace from the path in the text, once per path.
///
/// Every key of a direction takes one value for both directions, or a table `{ down = …, up = … }`. A link
/// without `base` needs `rate` or `trace`, `delay` and `queue`; a link with a base inherits every key that it
/// omits.
///
/// ```toml
/// [link.village]
/// base = "umts-384"                    # a built-in link, or a link of this file
/// rate = { down = "250 kbit/s", up = "48 kbit/s" }
/// loss = 0.01                          # or "1 %"
///
/// [link.everything]
/// trace = { down = "car.down", up = "car.up" }   # in mahimahi's format, instead of a rate
/// trace-offset = "30 s"
/// delay = "100 ms"                     # one-way
/// jitter = "20 ms"                     # uniform from 0, keeps the order
/// queue = "120 kB"
/// mtu = "1400 B"
/// loss = { p-good-bad = 0.01, p-bad-good = 0.2, loss-good = 0, loss-bad = 0.5 }
/// arq = { frame-loss = 0.2, frame-size = "320 B", repair-delay = "150 ms", max-transmissions = 32 }
/// codel = { target = "5 ms", interval = "100 ms" }    # or "rfc-8289"
/// policer = { rate = "200 kbit/s", burst = "32 kB" }
/// reordering = { share = 0.01, extra-delay = "20 ms", max-distance = 3 }
/// duplication = 0.001
/// corruption = 0.0001
/// outages = [{ start = "20 s", length = "5 s", behaviour = "hold" }]
/// address-changes = ["60 s"]           # of the client
/// ```
///
/// An inherited key is disabled by `"off"` (`mtu`, `arq`, `codel`, `policer`, `reordering`), by 0 or by an
/// empty list. The links are returned sorted by name.
///
/// # Errors
/// The text is not TOML, or contains invalid keys or values; the error contains all such mistakes.
pub fn parse_links(
    text: &str,
    mut read: impl FnMut(&str) -> io::Result<String>,
) -> Result<Vec<LinkDefinition>, LinkFileError> {
    if text.len() > MAX_TEXT {
        return Err(LinkFileError::TooLong {
            bytes: text.len(),
            limit: MAX_TEXT,
        });
    }
    let file: Table = text
        .parse()
        .map_err(|error: toml::de::Error| LinkFileError::Syntax(error.to_string()))?;
    let mut mistakes = Vec::new();
    let links = links(&file, &mut mistakes);
    let mut reader = Reader {
        links: &links,
        done: BTreeMap::new(),
        open: Vec::new(),
        traces: BTreeMap::new(),
        read: &mut read,
        mistakes: &mut mistakes,
    };
    for name in links.keys() {
        reader.resolve(name);
    }
    let done = reader.done;
    if !mistakes.is_empty() {
        return Err(LinkFileError::Mistakes(mistakes));
    }
    Ok(done
        .into_iter()
        .map(|(name, hop)| LinkDefinition {
            name: name.to_owned(),
            hop,
        })
        .collect())
}

/// Returns the tables of the links, and reports the mistakes of the text as a whole.
fn links<'a>(file: &'a Table, mistakes: &mut Vec<LinkMistake>) -> BTreeMap<&'a str, &'a Table> {
    let mut report = Report { link: "", mistakes };
    let mut fields = Fields::new("", file);
    let links = fields.take("link");
    fields.finish(&mut report);
    let Some(links) = links else {
        return BTreeMap::new();
    };
    let Some(links) = links.as_table().filter(|links| links.len() <= MAX_LINKS) else {
        report.wrong::<()>("link", links, LINKS);
        return BTreeMap::new();
    };
    let mut tables = BTreeMap::new();
    for (name, value) in links {
        let is_name = (1..=MAX_NAME).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte));
        let key = format!("link.{name}");
        let named = Value::String(name.clone());
        if !is_name {
            report.wrong::<()>("link", &named, NAME);
        } else if Profile::named(name).is_ok() {
            report.wrong::<()>(&key, &named, FRESH);
        } else if let Some(table) = value.as_table() {
            tables.insert(name.as_str(), table);
        } else {
            report.wrong::<()>(&key, value, LINK);
        }
    }
    tables
}

struct Reader<'a, 'r> {
    links: &'a BTreeMap<&'a str, &'a Table>,
    /// Links that have been read. A link with mistakes is included, so that links with it as their base do
    /// not repeat its mistakes.
    done: BTreeMap<&'a str, HopConfig>,
    /// Links whose bases have not been read.
    open: Vec<&'a str>,
    traces: BTreeMap<String, DeliveryTrace>,
    read: &'r mut dyn FnMut(&str) -> io::Result<String>,
    mistakes: &'r mut Vec<LinkMistake>,
}

impl<'a> Reader<'a, '_> {
    fn resolve(&mut self, name: &'a str) -> Option<HopConfig> {
        if let Some(hop) = self.done.get(name) {
            return Some(hop.clone());
        }
        let table = *self.links.get(name)?;
        let mut fields = Fields::new("", table);
        self.open.push(name);
        let base = fields.take("base").map(|value| self.base(name, value));
        self.open.pop();
        let origin = match base {
            Some(_) => Origin::Inherited,
            None => Origin::Blank,
        };
        let mut hop = base.unwrap_or_else(blank);
        let Self {
            traces,
            read,
            mistakes,
            ..
        } = self;
        let mut report = Report { link: name, mistakes };
        let mut trace = |report: &mut Report<'_>, key: &str, value: &Value| {
            trace(report, key, value, traces, &mut **read)
        };
        direction::apply(&mut report, &mut fields, &mut hop, origin, &mut trace);
        if let Some(changes) = fields.optional(&mut report, "address-changes", address_changes) {
            hop.address_changes = changes;
        }
        fields.finish(&mut report);
        self.done.insert(name, hop.clone());
        Some(hop)
    }

    /// Returns the base of link `name`, or a blank link after a mistake.
    fn base(&mut self, name: &str, value: &'a Value) -> HopConfig {
        let mistake = match value.as_str() {
            Some(base) if self.open.contains(&base) => Mistake::Circle,
            Some(base) => {
                if let Ok(profile) = Profile::named(base) {
                    return profile.into();
                }
                if let Some(hop) = self.resolve(base) {
                    return hop;
                }
                let mut known: Vec<&str> = Profile::names().collect();
                known.extend(self.links.keys());
                Mistake::UnknownBase {
                    base: base.chars().take(MAX_NAME).collect(),
                    known: known.join(", "),
                }
            }
            None => {
                let mut report = Report {
                    link: name,
                    mistakes: self.mistakes,
                };
                report.wrong::<()>("base", value, BASE);
                return blank();
            }
        };
        let mut report = Report {
            link: name,
            mistakes: self.mistakes,
        };
        report.add("base", mistake);
        blank()
    }
}

/// Returns a link before its keys are read.
fn blank() -> HopConfig {
    let link = LinkConfig::new(Capacity::Rate(BitRate::bps(0)), Duration::ZERO, ByteCount::ZERO);
    HopConfig::new(link.clone(), link)
}

fn trace(
    report: &mut Report<'_>,
    key: &str,
    value: &Value,
    traces: &mut BTreeMap<String, DeliveryTrace>,
    read: &mut dyn FnMut(&str) -> io::Result<String>,
) -> Option<DeliveryTrace> {
    let path = value::text(report, key, value, value::PATH)?;
    if let Some(trace) = traces.get(path) {
        return Some(trace.clone());
    }
    let path = path.to_owned();
    let mistake = match read(&path) {
        Ok(text) => match DeliveryTrace::parse(&text) {
            Ok(trace) => {
                traces.insert(path, trace.clone());
                return Some(trace);
            }
            Err(error) => Mistake::Trace { path, error },
        },
        Err(error) => Mistake::Unreadable {
            path,
            reason: error.to_string(),
        },
    };
    report.add(key, mistake);
    None
}

fn address_changes(report: &mut Report<'_>, key: &str, value: &Value) -> Option<AddressChanges> {
    let list = value.as_array().filter(|list| list.len() <= MAX_ADDRESS_CHANGES);
    let Some(list) = list else {
        return report.wrong(key, value, CHANGES);
    };
    let times: Vec<_> = (1..)
        .zip(list)
        .map(|(number, value)| value::time(report, &format!("{key}[{number}]"), value))
        .collect();
    let times: Option<Vec<Duration>> = times.into_iter().collect();
    Some(AddressChanges::at(
        times?.into_iter().map(|time| Timestamp::ZERO + time),
    ))
}
