//! Drawn pictures: bullets, rules, buttons, icons, logos, banners, charts.
use super::{
    noise,
    raster::{Area, Colour, Raster, mix, shade, text_width},
    scene::Scene,
};
use crate::reference::{
    numbers::{float, floor},
    random::Random,
    text::words,
};

const INKS: &[Colour] = &[
    [0.80, 0.0, 0.0],
    [0.0, 0.2, 0.6],
    [0.0, 0.4, 0.2],
    [1.0, 0.8, 0.0],
    [0.2, 0.2, 0.2],
    [0.4, 0.0, 0.4],
    [1.0, 0.4, 0.0],
];
const PAPERS: &[Colour] = &[
    [1.0, 1.0, 1.0],
    [0.93, 0.93, 0.93],
    [0.8, 0.87, 0.93],
    [1.0, 1.0, 0.8],
];

/// A list bullet: arrow, ball or square.
pub(super) fn bullet(random: &mut Random, scale: f32) -> Raster {
    let side = floor(scale).clamp(5, 40);
    let (ink, paper) = (random.pick(INKS), random.pick(PAPERS));
    let mut raster = Raster::new(side, side, paper);
    match random.below(3) {
        0 => raster.blend(Area::ALL, |x, y| {
            let inside = (0.15..0.9).contains(&x) && (y - 0.5).abs() < (0.9 - x) * 0.55;
            (ink, f32::from(u8::from(inside)))
        }),
        1 => {
            raster.disc(0.5, 0.5, 0.42, ink);
            raster.disc(0.4, 0.38, 0.12, mix(ink, [1.0; 3], 0.6));
        }
        _ => {
            raster.fill(Area::new(0.15, 0.15, 0.85, 0.85), ink);
            raster.fill(Area::new(0.3, 0.3, 0.7, 0.7), mix(ink, paper, 0.5));
        }
    }
    raster
}

/// A horizontal rule, or the shadow at an edge.
pub(super) fn rule(random: &mut Random, scale: f32) -> Raster {
    let (ink, paper) = (random.pick(INKS), random.pick(PAPERS));
    let height = random.range(1, 4);
    Raster::paint(floor(scale * 8.0).clamp(8, 760), height, |x, _| {
        let distance = (x - 0.5).abs() * 2.0;
        mix(ink, paper, distance * distance)
    })
}

/// A button with lettering, as in menus.
pub(super) fn label(random: &mut Random, scale: f32) -> Raster {
    let words = words::label(random);
    let (ink, paper) = (random.pick(INKS), random.pick(PAPERS));
    let glow = random.between(0.0, 0.35);
    let height = floor(scale).clamp(11, 60);
    let letters = text_width(&words) * 0.5 + 0.9;
    let width = floor(float(height) * letters).clamp(16, 700);
    let mut raster = Raster::paint(width, height, |_, y| mix(shade(ink, 1.0 + glow), ink, y));
    let (edge_x, edge_y) = (1.0 / float(width), 1.0 / float(height));
    let light = mix(ink, [1.0; 3], 0.5);
    raster.fill(Area::new(0.0, 0.0, 1.0, edge_y * 0.9), light);
    raster.fill(Area::new(0.0, 0.0, edge_x * 0.9, 1.0), light);
    raster.fill(Area::new(0.0, 1.0 - edge_y * 0.9, 1.0, 1.0), shade(ink, 0.5));
    raster.fill(Area::new(1.0 - edge_x * 0.9, 0.0, 1.0, 1.0), shade(ink, 0.5));
    let lettering = if ink.iter().sum::<f32>() > 1.5 {
        [0.0; 3]
    } else {
        paper
    };
    let left = 0.4 * float(height) / float(width);
    raster.text(Area::new(left, 0.25, 1.0 - edge_x * 2.0, 0.75), &words, lettering);
    raster
}

/// A small pictogram with light and shadow.
pub(super) fn icon(random: &mut Random, scale: f32) -> Raster {
    let side = floor(scale).clamp(12, 160);
    let (ink, accent, paper) = (random.pick(INKS), random.pick(INKS), random.pick(PAPERS));
    let light = random.between(0.3, 0.5);
    let kind = random.below(4);
    let mut raster = Raster::new(side, side, paper);
    let shaded = |x: f32, y: f32| {
        let distance = ((x - light).powi(2) + (y - light).powi(2)).sqrt();
        mix(
            mix(ink, [1.0; 3], 0.7),
            shade(ink, 0.6),
            (distance * 1.6).min(1.0),
        )
    };
    match kind {
        0 => raster.blend(Area::ALL, |x, y| {
            let distance = ((x - 0.5).powi(2) + (y - 0.5).powi(2)).sqrt();
            (shaded(x, y), (0.44 - distance) * float(side))
        }),
        1 => {
            raster.blend(Area::new(0.1, 0.25, 0.9, 0.8), |x, y| (shaded(x, y), 1.0));
            raster.blend(Area::new(0.1, 0.25, 0.9, 0.6), |x, y| {
                let flap = (y - 0.25) < 0.32 - (x - 0.5).abs() * 0.7;
                (mix(accent, [1.0; 3], 0.4), f32::from(u8::from(flap)))
            });
        }
        2 => {
            raster.blend(Area::new(0.2, 0.08, 0.8, 0.92), |x, y| (shaded(x, y), 1.0));
            for line in 0_u8..5 {
                let top = 0.2 + f32::from(line) * 0.13;
                raster.fill(Area::new(0.28, top, 0.72, top + 0.04), shade(accent, 0.8));
            }
        }
        _ => {
            for bar in 0_u8..4 {
                let left = 0.12 + f32::from(bar) * 0.2;
                let top = random.between(0.15, 0.7);
                raster.blend(Area::new(left, top, left + 0.15, 0.88), |x, y| {
                    (shaded(x, y), 1.0)
                });
            }
        }
    }
    raster
}

/// A name in large letters with a shadow, on a smooth gradient.
pub(super) fn logo(random: &mut Random, scale: f32, name: &str) -> Raster {
    let (ink, accent, paper) = (random.pick(INKS), random.pick(INKS), random.pick(PAPERS));
    let height = floor(scale).clamp(14, 140);
    let width = floor(float(height) * (text_width(name) * 0.5 + 1.9)).clamp(24, 760);
    let mut raster = Raster::paint(width, height, |x, y| {
        mix(paper, mix(paper, accent, 0.35), x * 0.7 + y * 0.3)
    });
    let unit = float(height) / float(width);
    raster.disc(unit * 0.55, 0.5, 0.4, accent);
    raster.disc(unit * 0.47, 0.42, 0.16, mix(accent, [1.0; 3], 0.6));
    for (offset, colour) in [(0.05, shade(paper, 0.6)), (0.0, ink)] {
        let left = unit * 1.15 + offset * unit;
        raster.text(Area::new(left, 0.24 + offset, 1.0, 0.76 + offset), name, colour);
    }
    raster
}

/// An advertisement: a photograph with lettering.
pub(super) fn banner(random: &mut Random, scale: f32) -> Raster {
    let (ink, accent) = (random.pick(INKS), random.pick(INKS));
    let line = words::label(random);
    let offer = words::label(random);
    let height = floor(scale).clamp(24, 120);
    let width = floor(float(height) * 7.8).clamp(60, 760);
    let scene = Scene::new(random);
    let mut raster = Raster::paint(width, height, |x, y| {
        mix(ink, shade(ink, 0.55), x * 0.6 + y * 0.4)
    });
    let photo = scene.shoot(width / 4, height);
    raster.blend(Area::new(0.72, 0.0, 1.0, 1.0), |x, y| {
        let column = floor((x - 0.72) / 0.28 * float(photo.width)).min(photo.width - 1);
        let row = floor(y * float(photo.height)).min(photo.height - 1);
        let pixel = photo.pixels.get(row * photo.width + column);
        (pixel.copied().unwrap_or_default(), ((x - 0.72) * 12.0).min(1.0))
    });
    raster.text(Area::new(0.03, 0.14, 0.7, 0.5), &line, [1.0; 3]);
    raster.text(
        Area::new(0.03, 0.6, 0.7, 0.85),
        &offer,
        mix(accent, [1.0; 3], 0.55),
    );
    raster
}

/// A line chart, as on finance and weather pages.
pub(super) fn chart(random: &mut Random, scale: f32) -> Raster {
    let (ink, accent) = (random.pick(INKS), random.pick(INKS));
    let height = floor(scale).clamp(24, 320);
    let width = floor(float(height) * 1.5);
    let mut raster = Raster::new(width, height, [1.0; 3]);
    let thin = 1.0 / float(height);
    for line in 1_u8..6 {
        let at = f32::from(line) / 6.0;
        raster.fill(Area::new(0.08, at, 0.97, at + thin * 0.5), [0.8; 3]);
        let value = format!("{}", random.range(10, 90));
        raster.text(Area::new(0.0, at - 0.02, 0.08, at + 0.02), &value, [0.3; 3]);
    }
    let place = (random.unit() * 9.0, random.unit() * 9.0);
    let curve = |x: f32| 0.1 + 0.8 * (noise::sample(place.0 + x * 0.4, place.1) * 1.6 - 0.3).clamp(0.0, 1.0);
    raster.blend(Area::new(0.08, 0.0, 0.97, 0.95), |x, y| {
        let under = f32::from(u8::from(y > curve(x)));
        (mix(accent, [1.0; 3], 0.7), under * 0.8)
    });
    raster.blend(Area::new(0.08, 0.0, 0.97, 0.95), |x, y| {
        (ink, 1.6 - (y - curve(x)).abs() / thin)
    });
    raster.text(Area::new(0.1, 0.02, 0.9, 0.09), &words::label(random), [0.1; 3]);
    raster
}
