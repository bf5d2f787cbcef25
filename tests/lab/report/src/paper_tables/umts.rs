//! UMTS-PROXY, Table 1 and Figures 9 to 12: proxies on UMTS, and loss in the Internet.
use super::{
    figures::{Average, Figures, Loads},
    parts::{Grid, Part, Section, seconds},
};
use crate::{
    chart::{Join, Line, LineChart, Palette},
    papers, quantity,
    results::SeriesPoint,
};

const LINK: &str = "umts-dch256";
/// Pages of news sites on several hosts, as the paper's.
const PAGES: [&str; 2] = ["yahoo", "bbc"];
/// Condition of origins that end idle connections sooner than pages follow each other.
const IMPATIENT: &str = "origins end idle connections after 200 ms";

/// A line of the figures: name, system without and with pipelining, state.
type Proxy = (&'static str, &'static str, Option<&'static str>, &'static str);

/// The paper's systems, and the gateway as a proxy.
const PROXIES: [Proxy; 4] = [
    ("no proxy", "direct", Some("direct-pipelined"), "cold"),
    ("TCP proxy", "tcp-proxy", Some("tcp-proxy-pipelined"), "cold"),
    (
        "Squid, with cache",
        "squid-cache",
        Some("squid-pipelined"),
        "revisit",
    ),
    (
        "Longhaul, gateway alone",
        "clientless",
        Some("clientless-pipelined"),
        "revisit",
    ),
];
const AGENT: Proxy = ("Longhaul, agent and gateway", "longhaul", None, "cold");

const fn loads(system: &'static str, state: &'static str) -> Loads<'static> {
    Loads::of(LINK, system).in_state(state)
}

pub(super) fn sections(figures: &Figures<'_>) -> Vec<Section> {
    vec![table(figures), curves(figures)]
}

fn table(figures: &Figures<'_>) -> Section {
    let mut grid = Grid::new(
        "umts-dch256, no loss in the Internet: seconds, mean and median over pages",
        &[
            "system",
            "paper: mean",
            "today: mean",
            "paper: median",
            "today: median",
            "paper: mean, pipelined",
            "today: mean, pipelined",
            "paper: median, pipelined",
            "today: median, pipelined",
        ],
    );
    for (name, plain, pipelined, state) in PROXIES.into_iter().chain([AGENT]) {
        let paper = papers::UMTS_PROXY.iter().find(|loads| loads.system == name);
        let of_paper = |time: fn(&papers::ProxyLoads) -> f64| paper.map(time);
        let plain = figures.average(loads(plain, state), &PAGES);
        let pipelined = pipelined.and_then(|system| figures.average(loads(system, state), &PAGES));
        let mean = |average: Option<Average>| average.map(|average| average.mean);
        let middle = |average: Option<Average>| average.map(|average| average.median);
        let cells = [
            of_paper(|loads| loads.mean),
            mean(plain),
            of_paper(|loads| loads.median),
            middle(plain),
            of_paper(|loads| loads.mean_pipelined),
            mean(pipelined),
            of_paper(|loads| loads.median_pipelined),
            middle(pipelined),
        ];
        grid.row(name, cells.map(seconds));
    }
    let why = "The pages are two news pages on several hosts, not the paper's site. Proxies with a cache were measured with the \
               page in the proxy's cache and an empty browser cache, as in the paper's later cycles. The browser has two connections \
               without a proxy and through the TCP proxy, and six through the others. A TCP proxy still makes the ideal case \
               slower without pipelining, as the paper found. Squid by default reads one pipelined request at a time, so that it \
               gains little from pipelining, then as now.";
    Section {
        anchor: "umts-1",
        title: "UMTS-PROXY Table 1: proxies without loss",
        parts: vec![Part::Table(grid), Part::Words(why.to_owned())],
    }
}

fn curves(figures: &Figures<'_>) -> Section {
    let palette = Palette::new(PROXIES.iter().chain([&AGENT]).map(|proxy| proxy.0.to_owned()));
    let mut parts = vec![Part::Words(papers::UMTS_PROXY_LOSS.to_owned())];
    let mut grid = Grid::new(
        "umts-dch256: mean load time in seconds by the Internet's loss",
        &["system", "0 %", "1 %", "2 %", "3 %", "4 %", "5 %"],
    );
    for (figure, name, is_pipelined, of) in [
        (
            "Figure 9",
            "mean, no pipelining",
            false,
            (|average| average.mean) as fn(Average) -> f64,
        ),
        ("Figure 10", "median, no pipelining", false, |average| {
            average.median
        }),
        ("Figure 11", "mean, pipelined", true, |average| average.mean),
        ("Figure 12", "median, pipelined", true, |average| average.median),
    ] {
        let lines = PROXIES
            .into_iter()
            .chain([AGENT])
            .filter_map(|(name, plain, pipelined, state)| {
                let system = if is_pipelined { pipelined? } else { plain };
                Some(line(figures, name, loads(system, state), &palette, of))
            });
        let chart = LineChart {
            title: format!("{figure}: {name}, today"),
            x_axis: "packets lost in the Internet, %".to_owned(),
            y_axis: "load time, s".to_owned(),
            join: Join::Marked,
            lines: lines.filter(|line| !line.points.is_empty()).collect(),
        };
        parts.push(Part::Chart(chart.draw()));
    }
    for (name, plain, pipelined, state) in PROXIES.into_iter().chain([AGENT]) {
        for (system, suffix) in [(Some(plain), ""), (pipelined, ", pipelined")] {
            let Some(system) = system else { continue };
            grid.row(&format!("{name}{suffix}"), by_loss(figures, loads(system, state)));
        }
    }
    for (name, system) in [
        ("Squid, with cache", "squid-cache"),
        ("Longhaul, gateway alone", "clientless"),
    ] {
        let impatient = Loads {
            conditions: IMPATIENT,
            ..loads(system, "revisit")
        };
        grid.row(
            &format!("{name}, idle connections closed"),
            by_loss(figures, impatient),
        );
    }
    parts.push(Part::Table(grid));
    parts.push(Part::Words(
        "The paper prints curves without values, so only their shapes can be compared. The last rows repeat its explanation of \
         Squid's fall: origins that end idle connections before the next page begins make the proxy start again. The kernel's \
         TCP today recovers by selective acknowledgements and probes (RFC 8985), where the paper measured timeouts of 10 s, so the \
         lines rise less. A dash is a loss that this run left out."
            .to_owned(),
    ));
    Section {
        anchor: "umts-9",
        title: "UMTS-PROXY Figures 9 to 12: loss in the Internet",
        parts,
    }
}

fn by_loss(figures: &Figures<'_>, loads: Loads<'_>) -> Vec<String> {
    [0.0, 0.01, 0.02, 0.03, 0.04, 0.05]
        .map(|loss| {
            let average = figures.average(Loads { loss, ..loads }, &PAGES);
            quantity::number_or_none(average.map(|average| average.mean))
        })
        .to_vec()
}

fn line(
    figures: &Figures<'_>,
    name: &str,
    loads: Loads<'_>,
    palette: &Palette,
    of: fn(Average) -> f64,
) -> Line {
    let points = figures.losses(loads).into_iter().filter_map(|loss| {
        let average = figures.average(Loads { loss, ..loads }, &PAGES)?;
        Some(SeriesPoint {
            at: loss * 100.0,
            value: of(average),
        })
    });
    Line {
        label: name.to_owned(),
        look: palette.look(name),
        points: points.collect(),
    }
}
