//! PEP-WWAN, Tables II to IV: factors, and pictures.
use super::{
    PictureFigure,
    figures::{Figures, Loads},
    parts::{Grid, Part, Section},
};
use crate::{
    chart::{Pair, PairGroup, paired_chart},
    papers::{self, Factors},
    quantity,
    statistics::median,
};

const HEADS: [&str; 6] = [
    "system",
    "pages",
    "download time",
    "bytes down",
    "bytes up",
    "perceived bandwidth",
];

pub(super) fn sections(figures: &Figures<'_>, pictures: &[PictureFigure]) -> Vec<Section> {
    vec![
        factors(
            figures,
            ("pep-2", "PEP-WWAN Table II: factors over GPRS"),
            "gprs-3+1",
            papers::FACTORS_GPRS,
        ),
        factors(
            figures,
            ("pep-3", "PEP-WWAN Table III: factors over UMTS"),
            "umts-384",
            papers::FACTORS_UMTS,
        ),
        quality(pictures),
    ]
}

fn factors(
    figures: &Figures<'_>,
    (anchor, title): (&'static str, &'static str),
    link: &'static str,
    published: &[Factors],
) -> Section {
    let mut grid = Grid::new(
        &format!("{link}: factors against a browser with two connections; higher is better"),
        &HEADS,
    );
    let base = Loads::of(link, "direct");
    let today = [
        ("Longhaul, agent and gateway (C/S), level low", "longhaul"),
        ("Longhaul, gateway alone (CLS), level low", "clientless"),
    ]
    .map(|(name, system)| (name, figures.factors(Loads::of(link, system).at("low"), base)));
    for (name, factors) in &today {
        let cells = factors.map(|[time, down, up, bandwidth, pages]| {
            let ratios = [time, down, up, bandwidth].map(quantity::ratio);
            std::iter::once(format!("{pages:.0}"))
                .chain(ratios)
                .collect::<Vec<_>>()
        });
        grid.row(name, cells.unwrap_or_default());
    }
    for system in published {
        let ratios = [system.time, system.down, system.up, system.bandwidth].map(quantity::ratio);
        grid.row(
            &format!("paper: {}", system.system),
            std::iter::once("10".to_owned()).chain(ratios),
        );
    }
    let groups = [
        ("agent and gateway", "NettGain C/S", 0),
        ("gateway alone", "NettGain CLS", 1),
    ]
    .into_iter()
    .map(|(title, name, index)| {
        let paper = published.iter().find(|system| system.system == name);
        let today = today.get(index).and_then(|(_, factors)| *factors);
        let pair = |label: &str, paper: Option<f64>, place: usize| Pair {
            label: label.to_owned(),
            paper,
            today: today.and_then(|factors| factors.get(place).copied()),
        };
        PairGroup {
            title: format!("{title}; the paper's is {name}"),
            pairs: vec![
                pair("download time", paper.map(|paper| paper.time), 0),
                pair("bytes down", paper.map(|paper| paper.down), 1),
                pair("bytes up", paper.map(|paper| paper.up), 2),
                pair("perceived bandwidth", paper.map(|paper| paper.bandwidth), 3),
            ],
        }
    });
    let chart = paired_chart(title, "factor", &groups.collect::<Vec<_>>());
    let why = "Sums over the pages that both systems loaded, of the paper's Table I. NettGain ran at its lowest picture quality, whose \
               pictures may be smaller than those of level `low` (compare Table IV): Longhaul's bytes down are reduced less, but \
               its time is not, because it waits less. Its uplink factor is greater, because pushed objects need no requests. The \
               gateway alone has a browser with six connections, which acknowledge and ask as much as a direct load does; this browser \
               accepts gzip.";
    Section {
        anchor,
        title,
        parts: vec![Part::Table(grid), Part::Chart(chart), Part::Words(why.to_owned())],
    }
}

/// Original size in KB, then PSNR and KB of Macara and of NettGain.
const PICTURES: [(&str, f64, [f64; 2], [f64; 2]); 6] = [
    ("image1.jpg", 48.4, [29.07, 12.9], [30.29, 16.3]),
    ("image2.gif", 4.75, [36.80, 2.87], [39.86, 2.75]),
    ("image3.jpg", 16.0, [27.98, 2.01], [29.38, 2.47]),
    ("image4.jpeg", 16.0, [27.74, 1.56], [28.48, 1.99]),
    ("image5.jpeg", 10.0, [29.07, 0.75], [30.10, 0.91]),
    ("image6.jpeg", 10.3, [28.84, 1.30], [29.58, 1.55]),
];

fn quality(pictures: &[PictureFigure]) -> Section {
    let mut grid = Grid::new(
        "Size of a converted picture, and its similarity to the original (PSNR on luminance); medians over pictures",
        &["pictures", "number", "size left", "PSNR, dB"],
    );
    for (name, original, macara, nettgain) in PICTURES {
        for (system, [psnr, size]) in [("Macara", macara), ("NettGain, high quality", nettgain)] {
            grid.row(
                &format!("paper: {name}, {system}"),
                [
                    "1".to_owned(),
                    quantity::percent(size / original),
                    quantity::number(psnr),
                ],
            );
        }
    }
    for level in ["high", "medium", "low"] {
        for (what, range) in [
            ("from 1 to 8 kB", 1_000..8_000),
            ("from 8 to 20 kB", 8_000..20_000),
            ("from 20 to 80 kB", 20_000..80_000),
        ] {
            let chosen: Vec<_> = pictures
                .iter()
                .filter(|picture| picture.level == level && range.contains(&picture.bytes_in))
                .collect();
            if chosen.is_empty() {
                continue;
            }
            let shares: Vec<f64> = chosen
                .iter()
                .map(|picture| quantity::count(picture.bytes_out) / quantity::count(picture.bytes_in))
                .collect();
            let psnr: Vec<f64> = chosen
                .iter()
                .filter_map(|picture| picture.luminance_psnr_db)
                .collect();
            grid.row(
                &format!("Longhaul, level {level}, pictures {what}"),
                [
                    chosen.len().to_string(),
                    quantity::percent_or_none(median(&shares)),
                    quantity::number_or_none(median(&psnr)),
                ],
            );
        }
    }
    let why = "The paper's six pictures are not published; these are the pictures of the reference pages. The level is a target of \
               SSIMULACRA2, which judges what people see; PSNR is what the paper had. At a similar PSNR, WebP leaves a similar or \
               larger share of these pictures, because they were compressed well already (JPEG of quality 80 to 85, optimised \
               PNG and GIF); the paper's originals were of unknown quality.";
    Section {
        anchor: "pep-4",
        title: "PEP-WWAN Table IV: picture quality",
        parts: vec![Part::Table(grid), Part::Words(why.to_owned())],
    }
}
