//! Drawing of the bars of recorded traces.
use std::collections::BTreeMap;

use crate::{
    bars::{BarGroup, groups},
    chart::{
        Palette,
        traces::{Cloud, Panel, Point, draw},
    },
    measurements::Name,
    results::Results,
};

/// Prefix of the ids of traces; the offset in seconds follows.
const TRACE: &str = "2 trace from ";
const SHARE: &str = "utilisation";
const DELAY: &str = "queue p95 (s)";

/// The two bars of a part of a trace that the drawing shows.
#[derive(Default)]
struct Part<'a> {
    share: Option<&'a BarGroup>,
    delay: Option<&'a BarGroup>,
}

/// Returns throughput versus queueing delay on every trace of these results, a panel each, as one SVG file;
/// empty without traces.
pub fn trace_plot(results: &[(String, Results)]) -> String {
    let groups = groups(results.iter().flat_map(|(_, results)| &results.bars));
    let mut parts: BTreeMap<(Name, u32), Part<'_>> = BTreeMap::new();
    for group in &groups {
        let Some((offset, what)) = group
            .id
            .strip_prefix(TRACE)
            .and_then(|rest| rest.split_once(" s "))
        else {
            continue;
        };
        let Ok(offset) = offset.parse() else { continue };
        let part = parts.entry((group.link.clone(), offset)).or_default();
        match what {
            SHARE => part.share = Some(group),
            DELAY => part.delay = Some(group),
            _ => {}
        }
    }
    let mut panels: BTreeMap<Name, Panel> = BTreeMap::new();
    for ((link, offset), part) in parts {
        let (Some(shares), Some(delays)) = (part.share, part.delay) else {
            continue;
        };
        let panel = panels.entry(link.clone()).or_insert_with(|| Panel {
            title: link.text.clone(),
            bar: None,
            systems: BTreeMap::new(),
        });
        if let (Some(share), Some(delay)) = (shares.limit(), delays.limit()) {
            panel.bar = Some(Point { delay, share });
        }
        for (system, found) in points(shares, delays) {
            let cloud: &mut Cloud = panel.systems.entry(system).or_default();
            if offset == 0 {
                cloud.repeated.extend(found);
            } else {
                cloud.elsewhere.extend(found);
            }
        }
    }
    let panels: Vec<Panel> = panels.into_values().collect();
    let systems = crate::bars::systems(&groups);
    draw(
        &panels,
        &Palette::new(systems.into_iter().map(|system| system.text)),
    )
    .into_string()
}

/// Returns a part's measurements by system. A repetition adds both figures, so that they are in the same
/// order.
fn points<'a>(shares: &'a BarGroup, delays: &'a BarGroup) -> impl Iterator<Item = (String, Vec<Point>)> + 'a {
    shares.systems.iter().filter_map(|(system, share)| {
        let delay = delays.systems.get(system)?;
        let pairs = share.values.iter().zip(&delay.values);
        let found = pairs.map(|(share, delay)| Point {
            share: *share,
            delay: *delay,
        });
        Some((system.text.clone(), found.collect()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Bar;

    #[test]
    fn each_trace_has_a_panel_with_its_systems() {
        let bar = |id: &str, system: &str, value: f64| Bar {
            id: id.to_owned(),
            link: "car <1>".to_owned(),
            system: system.to_owned(),
            value,
            limit: None,
            met: None,
        };
        let results = Results {
            bars: vec![
                bar("2 trace from 0 s utilisation", "longhaul", 0.9),
                bar("2 trace from 0 s queue p95 (s)", "longhaul", 0.3),
                bar("2 trace from 150 s utilisation", "cubic", 1.0),
                bar("2 trace from 150 s queue p95 (s)", "cubic", 12.0),
                bar("1 bulk utilisation", "bbr", 0.9),
            ],
            ..Results::default()
        };
        let svg = trace_plot(&[(String::new(), results)]);
        assert!(svg.contains("car &lt;1&gt;") && svg.contains("longhaul") && svg.contains("cubic"));
        assert!(svg.starts_with("<svg xmlns="));
        assert_eq!(trace_plot(&[]), "");
    }
}
