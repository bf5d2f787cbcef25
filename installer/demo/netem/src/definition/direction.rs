//! Keys that each direction of a link has.
use longhaul_types::Timestamp;
use toml::{Table, Value};

use crate::{
    Arq, Capacity, Codel, DeliveryTrace, GilbertElliott, HopConfig, LinkConfig, Loss, Outage, OutageError,
    OutageSchedule, Policer, Reordering, WhileOut,
};

use super::{
    mistake::Mistake,
    value::{self, Fields, Report},
};

/// Maximum number of outages in one direction.
const MAX_OUTAGES: usize = 10_000;

const OFF: &str = "off";
const LOSS: &str =
    "a probability, or a table { p-good-bad, p-bad-good, loss-good, loss-bad } (Gilbert-Elliott)";
const ARQ: &str = "a table { frame-loss, frame-size, repair-delay, max-transmissions } or \"off\"";
const CODEL: &str = "a table { target, interval }, \"rfc-8289\" or \"off\"";
const POLICER: &str = "a table { rate, burst } or \"off\"";
const REORDERING: &str = "a table { share, extra-delay, max-distance } or \"off\"";
const OUTAGES: &str = "a list of at most 10000 tables { start, length, behaviour }";
const OUTAGE: &str = "a table { start, length, behaviour }";
const BEHAVIOUR: &str = "\"hold\" or \"drop\"";
const OUTAGE_LENGTH: &str = "a time above 0";
const APART: &str = "a time without another outage";

/// Reads one value for both directions, or a table `{ down, up }` with one or both.
fn each<T: Clone>(
    report: &mut Report<'_>,
    fields: &mut Fields<'_>,
    name: &'static str,
    hop: &mut HopConfig,
    mut read: impl FnMut(&mut Report<'_>, &str, &Value) -> Option<T>,
    set: impl Fn(&mut LinkConfig, T),
) -> Given {
    let mut given = Given::default();
    let Some(value) = fields.take(name) else {
        return given;
    };
    let key = fields.key_of(name);
    let split = value
        .as_table()
        .filter(|table| table.contains_key("down") || table.contains_key("up"));
    let Some(table) = split else {
        given = Given { down: true, up: true };
        if let Some(value) = read(report, &key, value) {
            set(&mut hop.down, value.clone());
            set(&mut hop.up, value);
        }
        return given;
    };
    let mut sides = Fields::new(&key, table);
    for (side, link, given) in [
        ("down", &mut hop.down, &mut given.down),
        ("up", &mut hop.up, &mut given.up),
    ] {
        let Some(value) = sides.take(side) else { continue };
        *given = true;
        if let Some(read) = read(report, &sides.key_of(side), value) {
            set(link, read);
        }
    }
    sides.finish(report);
    given
}

/// The directions for which a key has a value, valid or invalid.
#[derive(Clone, Copy, Default)]
struct Given {
    down: bool,
    up: bool,
}

/// Source of the values that a definition omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The link has a base and inherits them.
    Inherited,
    /// The link has no base: rate, delay and queue are required.
    Blank,
}

/// Reads all keys of both directions into `hop`.
pub(super) fn apply(
    report: &mut Report<'_>,
    fields: &mut Fields<'_>,
    hop: &mut HopConfig,
    origin: Origin,
    trace: &mut dyn FnMut(&mut Report<'_>, &str, &Value) -> Option<DeliveryTrace>,
) {
    let capacity = apply_capacity(report, fields, hop, trace);
    let delay = each(report, fields, "delay", hop, value::delay, |link, delay| {
        link.delay = delay;
    });
    each(report, fields, "jitter", hop, value::delay, |link, jitter| {
        link.jitter = jitter;
    });
    let queue = each(report, fields, "queue", hop, value::queue, |link, queue| {
        link.queue = queue;
    });
    if origin == Origin::Blank {
        require(report, capacity, "rate", value::RATE);
        require(report, delay, "delay", value::DELAY);
        require(report, queue, "queue", value::QUEUE);
    }
    each(report, fields, "mtu", hop, mtu, |link, mtu| link.mtu = mtu);
    each(report, fields, "loss", hop, loss, |link, loss| link.loss = loss);
    each(report, fields, "arq", hop, arq, |link, arq| link.arq = arq);
    each(report, fields, "codel", hop, codel, |link, codel| {
        link.codel = codel
    });
    each(report, fields, "policer", hop, policer, |link, policer| {
        link.policer = policer;
    });
    each(
        report,
        fields,
        "reordering",
        hop,
        reordering,
        |link, reordering| {
            link.reordering = reordering;
        },
    );
    each(
        report,
        fields,
        "duplication",
        hop,
        value::probability,
        |link, share| {
            link.duplication = share;
        },
    );
    each(
        report,
        fields,
        "corruption",
        hop,
        value::probability,
        |link, share| {
            link.corruption = share;
        },
    );
    each(report, fields, "outages", hop, outages, |link, outages| {
        link.outages = outages;
    });
}

fn require(report: &mut Report<'_>, given: Given, name: &str, expected: &'static str) {
    let keys = match (given.down, given.up) {
        (true, true) => return,
        (false, false) => name.to_owned(),
        (false, true) => format!("{name}.down"),
        (true, false) => format!("{name}.up"),
    };
    report.add(&keys, Mistake::Missing { expected });
}

fn apply_capacity(
    report: &mut Report<'_>,
    fields: &mut Fields<'_>,
    hop: &mut HopConfig,
    trace: &mut dyn FnMut(&mut Report<'_>, &str, &Value) -> Option<DeliveryTrace>,
) -> Given {
    let rate = each(report, fields, "rate", hop, value::rate, |link, rate| {
        link.capacity = Capacity::Rate(rate);
    });
    let traced = each(report, fields, "trace", hop, trace, |link, trace| {
        link.capacity = Capacity::Trace(trace);
    });
    if (rate.down && traced.down) || (rate.up && traced.up) {
        let advice = "a direction has a rate or a trace";
        report.add(
            "trace",
            Mistake::Conflict {
                other: "rate",
                advice,
            },
        );
    }
    let offset = each(
        report,
        fields,
        "trace-offset",
        hop,
        value::time,
        |link, offset| {
            if let Capacity::Trace(trace) = &link.capacity {
                link.capacity = Capacity::Trace(trace.clone().starting_at(offset));
            }
        },
    );
    let has_trace = |link: &LinkConfig| matches!(link.capacity, Capacity::Trace(_));
    let used = offset.down && has_trace(&hop.down) || offset.up && has_trace(&hop.up);
    // The mistake of a trace that cannot be read has already been reported.
    if (offset.down || offset.up) && !used && !traced.down && !traced.up {
        let advice = "it needs a trace";
        report.add(
            "trace-offset",
            Mistake::Conflict {
                other: "rate",
                advice,
            },
        );
    }
    Given {
        down: rate.down || traced.down,
        up: rate.up || traced.up,
    }
}

fn is_off(value: &Value) -> bool {
    value.as_str() == Some(OFF)
}

fn mtu(report: &mut Report<'_>, key: &str, value: &Value) -> Option<Option<longhaul_types::ByteCount>> {
    if is_off(value) {
        return Some(None);
    }
    value::mtu(report, key, value).map(Some)
}

/// Reads `off` as `None` and a table with `read`.
fn table_or_off<T>(
    report: &mut Report<'_>,
    key: &str,
    value: &Value,
    expected: &'static str,
    read: impl Fn(&mut Report<'_>, &mut Fields<'_>) -> Option<T>,
) -> Option<Option<T>> {
    if is_off(value) {
        return Some(None);
    }
    match value.as_table() {
        Some(table) => read_table(report, key, table, read).map(Some),
        None => report.wrong(key, value, expected),
    }
}

fn read_table<T>(
    report: &mut Report<'_>,
    key: &str,
    table: &Table,
    read: impl Fn(&mut Report<'_>, &mut Fields<'_>) -> Option<T>,
) -> Option<T> {
    let mut fields = Fields::new(key, table);
    let read = read(report, &mut fields);
    fields.finish(report);
    read
}

fn loss(report: &mut Report<'_>, key: &str, value: &Value) -> Option<Loss> {
    let Some(table) = value.as_table() else {
        if matches!(value, Value::Array(_) | Value::Boolean(_)) {
            return report.wrong(key, value, LOSS);
        }
        let probability = value::probability(report, key, value)?;
        return Some(if probability == crate::Probability::ZERO {
            Loss::Never
        } else {
            Loss::Random(probability)
        });
    };
    read_table(report, key, table, |report, fields| {
        let mut field = |name| fields.required(report, name, value::PROBABILITY, value::probability);
        let (p_gb, p_bg) = (field("p-good-bad"), field("p-bad-good"));
        let (loss_good, loss_bad) = (field("loss-good"), field("loss-bad"));
        Some(Loss::Bursts(GilbertElliott {
            p_gb: p_gb?,
            p_bg: p_bg?,
            loss_good: loss_good?,
            loss_bad: loss_bad?,
        }))
    })
}

fn arq(report: &mut Report<'_>, key: &str, value: &Value) -> Option<Option<Arq>> {
    table_or_off(report, key, value, ARQ, |report, fields| {
        let frame_loss = fields.required(report, "frame-loss", value::PROBABILITY, value::probability);
        let frame_size = fields.required(report, "frame-size", value::SIZE, value::size);
        let repair_delay = fields.required(report, "repair-delay", value::DELAY, value::delay);
        let transmissions = fields.required(report, "max-transmissions", value::ATTEMPTS, value::attempts);
        Some(Arq {
            frame_loss: frame_loss?,
            frame_size: frame_size?,
            repair_delay: repair_delay?,
            max_transmissions: transmissions?,
        })
    })
}

fn codel(report: &mut Report<'_>, key: &str, value: &Value) -> Option<Option<Codel>> {
    if value.as_str() == Some("rfc-8289") {
        return Some(Some(Codel::RFC_8289));
    }
    table_or_off(report, key, value, CODEL, |report, fields| {
        let target = fields.required(report, "target", value::DELAY, value::delay);
        let interval = fields.required(report, "interval", value::DELAY, value::delay);
        Some(Codel {
            target: target?,
            interval: interval?,
        })
    })
}

fn policer(report: &mut Report<'_>, key: &str, value: &Value) -> Option<Option<Policer>> {
    table_or_off(report, key, value, POLICER, |report, fields| {
        let rate = fields.required(report, "rate", value::RATE, value::rate);
        let burst = fields.required(report, "burst", value::QUEUE, value::queue);
        Some(Policer {
            rate: rate?,
            burst: burst?,
        })
    })
}

fn reordering(report: &mut Report<'_>, key: &str, value: &Value) -> Option<Option<Reordering>> {
    table_or_off(report, key, value, REORDERING, |report, fields| {
        let share = fields.required(report, "share", value::PROBABILITY, value::probability);
        let extra_delay = fields.required(report, "extra-delay", value::DELAY, value::delay);
        let max_distance = fields.required(report, "max-distance", value::COUNT, value::count);
        Some(Reordering {
            share: share?,
            extra_delay: extra_delay?,
            max_distance: max_distance?.into(),
        })
    })
}

fn outages(report: &mut Report<'_>, key: &str, value: &Value) -> Option<OutageSchedule> {
    let list = value.as_array().filter(|list| list.len() <= MAX_OUTAGES);
    let Some(list) = list else {
        return report.wrong(key, value, OUTAGES);
    };
    let read: Vec<_> = (1..)
        .zip(list)
        .map(|(number, value)| outage(report, &format!("{key}[{number}]"), value))
        .collect();
    let outages: Option<Vec<Outage>> = read.into_iter().collect();
    match OutageSchedule::new(outages?) {
        Ok(schedule) => Some(schedule),
        Err(error) => {
            let (OutageError::Empty(at) | OutageError::Overlap(at)) = error;
            let expected = match error {
                OutageError::Empty(_) => OUTAGE_LENGTH,
                OutageError::Overlap(_) => APART,
            };
            let found = format!("the outage at {:?}", at - Timestamp::ZERO);
            report.add(key, Mistake::Value { found, expected });
            None
        }
    }
}

fn outage(report: &mut Report<'_>, key: &str, value: &Value) -> Option<Outage> {
    let Some(table) = value.as_table() else {
        return report.wrong(key, value, OUTAGE);
    };
    read_table(report, key, table, |report, fields| {
        let start = fields.required(report, "start", value::TIME, value::time);
        let length = fields.required(report, "length", value::TIME, value::time);
        let behaviour = fields.required(report, "behaviour", BEHAVIOUR, behaviour);
        Some(Outage {
            start: Timestamp::ZERO + start?,
            length: length?,
            behaviour: behaviour?,
        })
    })
}

fn behaviour(report: &mut Report<'_>, key: &str, value: &Value) -> Option<WhileOut> {
    match value.as_str() {
        Some("hold") => Some(WhileOut::Hold),
        Some("drop") => Some(WhileOut::Drop),
        _ => report.wrong(key, value, BEHAVIOUR),
    }
}
