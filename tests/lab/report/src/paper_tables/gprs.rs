//! GPRS-WWW, Figure 9: the pipelining factor.
use super::{
    figures::{Figures, Loads},
    parts::{Grid, Part, Section, saved, seconds},
};
use crate::{
    chart::{Join, Line, LineChart, Palette},
    quantity,
    results::{SeriesPoint, outstanding},
};

const PAGE: &str = "static";
/// Outstanding requests, the paper's pipelining factor, and the part of the time that it saves by the paper's text.
const DEPTHS: [(u32, f64, Option<f64>); 6] = [
    (1, 1.0, Some(0.0)),
    (3, 1.97, Some(0.35)),
    (5, 2.95, None),
    (7, 4.08, None),
    (9, 4.95, Some(0.50)),
    (45, 23.0, None),
];
const SYSTEMS: [(&str, &str); 2] = [
    ("kernel TCP", "direct-pipelined"),
    ("TCP proxy with the sender of decision 48", "tcp-wwan-pipelined"),
];

pub(super) fn section(figures: &Figures<'_>) -> Section {
    let mut grid = Grid::new(
        "gprs-3+1, the static page over one pipelined connection: pipelining factor, seconds, and the share saved of one outstanding \
         request",
        &[
            "outstanding requests",
            "paper: PF",
            "paper: saved",
            "today: PF",
            "kernel TCP",
            "today: PF",
            "with the sender",
        ],
    );
    let measured = |system: &'static str, depth: u32| {
        let conditions = outstanding(depth);
        let loads = Loads {
            conditions: &conditions,
            ..Loads::of("gprs-3+1", system)
        };
        let factor = figures.median(loads, PAGE, |row| row.pipelining_factor.unwrap_or(f64::NAN));
        (factor, figures.time(loads, PAGE))
    };
    let palette = Palette::new(["the paper", SYSTEMS[0].0, SYSTEMS[1].0].map(str::to_owned));
    let mut lines = vec![Line {
        label: "the paper".to_owned(),
        look: palette.look("the paper"),
        points: DEPTHS
            .iter()
            .filter_map(|(_, factor, share)| {
                Some(SeriesPoint {
                    at: *factor,
                    value: 1.0 - (*share)?,
                })
            })
            .collect(),
    }];
    for (name, system) in SYSTEMS {
        let (_, one) = measured(system, 1);
        let points = DEPTHS.iter().filter_map(|(depth, ..)| {
            let (factor, time) = measured(system, *depth);
            Some(SeriesPoint {
                at: factor?,
                value: quantity::quotient(time?, one?)?,
            })
        });
        lines.push(Line {
            label: name.to_owned(),
            look: palette.look(name),
            points: points.filter(|point| point.at < 10.0).collect(),
        });
    }
    let bases = SYSTEMS.map(|(_, system)| measured(system, 1).1);
    for (depth, paper, share) in DEPTHS {
        let mut cells = vec![quantity::number(paper), quantity::percent_or_none(share)];
        for ((_, system), base) in SYSTEMS.into_iter().zip(bases) {
            let (factor, time) = measured(system, depth);
            cells.push(quantity::ratio_or_none(factor));
            cells.push(format!("{} ({})", seconds(time), saved(base, time)));
        }
        grid.row(&depth.to_string(), cells);
    }
    let chart = LineChart {
        title: "Load time over the pipelining factor, as a part of the time with PF 1".to_owned(),
        x_axis: "pipelining factor".to_owned(),
        y_axis: "part of the time with PF 1".to_owned(),
        join: Join::Marked,
        lines,
    };
    let why = "PF is the mean over requests of the requests sent, this one included, minus the responses received before it. The \
               scripted browser sends a request as soon as another is answered, and the page's HTML comes first; the paper's client \
               sent requests in groups, so its factor is lower for the same number. Today the first steps save more: with one \
               outstanding request, the emulated link is idle for two thirds of the load, because a request also takes the \
               uplink's time. The paper's clamp of the congestion window saved another 15 to 20 %; the sender that has its place \
               here saves nothing: today's kernel starts with ten segments, more than this link's bandwidth-delay product of \
               3.3 kB, so there is no slow start to avoid.";
    Section {
        anchor: "gprs-9",
        title: "GPRS-WWW Figure 9: the pipelining factor",
        parts: vec![
            Part::Table(grid),
            Part::Chart(chart.draw()),
            Part::Words(why.to_owned()),
        ],
    }
}
