//! The font matching algorithm (CSS Fonts Level 4 section 5.2), for one family.
use std::collections::{BTreeMap, BTreeSet};

/// Traits of a face by which a browser selects it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Traits {
    /// The `font-stretch` of the face, as it is written; empty for `normal`.
    pub(crate) stretch: String,
    pub(crate) italic: bool,
    /// Lowest and highest weight.
    pub(crate) weights: (u16, u16),
}

/// A style of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TextStyle {
    pub(crate) weight: u16,
    pub(crate) italic: bool,
}

/// Returns the faces that a browser selects among all faces of a family, for text in this style. Faces of
/// different stretch do not compete, because the stretch of text is not known.
pub(crate) fn selected(faces: &BTreeSet<Traits>, style: TextStyle) -> impl Iterator<Item = &Traits> {
    let mut best = BTreeMap::new();
    for face in faces {
        let rank = (face.italic != style.italic, distance(face.weights, style.weight));
        let known = best.entry(face.stretch.as_str()).or_insert((rank, face));
        if rank < known.0 {
            *known = (rank, face);
        }
    }
    best.into_values().map(|(_, face)| face)
}

/// Rank of a face with these weights for text of a weight: smaller ranks are preferred.
fn distance((low, high): (u16, u16), wanted: u16) -> (u8, u16) {
    if (low..=high).contains(&wanted) {
        return (0, 0);
    }
    let above = low > wanted;
    let gap = if above {
        low - wanted
    } else {
        wanted.saturating_sub(high)
    };
    let rank = match (wanted, above) {
        // Medium text prefers faces up to 500, then lighter ones, then bolder ones.
        (400..=500, true) if low <= 500 => 1,
        (400..=500, false) | (0..400, false) | (501.., true) => 2,
        _ => 3,
    };
    (rank, gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights_selected(weights: &[(u16, u16)], wanted: u16) -> (u16, u16) {
        let traits = |&weights| Traits {
            stretch: String::new(),
            italic: false,
            weights,
        };
        let faces: BTreeSet<Traits> = weights.iter().map(traits).collect();
        let style = TextStyle {
            weight: wanted,
            italic: false,
        };
        let selected: Vec<&Traits> = selected(&faces, style).collect();
        assert_eq!(selected.len(), 1);
        selected[0].weights
    }

    #[test]
    fn the_nearest_weight_is_selected() {
        let all = [(100, 100), (300, 300), (500, 500), (800, 800)];
        for (wanted, expected) in [
            (400, 500),
            (450, 500),
            (200, 100),
            (350, 300),
            (600, 800),
            (900, 800),
        ] {
            assert_eq!(weights_selected(&all, wanted).0, expected, "{wanted}");
        }
        assert_eq!(weights_selected(&[(300, 300), (600, 600)], 400).0, 300);
        assert_eq!(weights_selected(&[(600, 600), (700, 700)], 400).0, 600);
        assert_eq!(weights_selected(&[(200, 200), (400, 400)], 700).0, 400);
        assert_eq!(weights_selected(&[(400, 400), (500, 500)], 100).0, 400);
        assert_eq!(weights_selected(&[(100, 900), (400, 400)], 500), (100, 900));
        assert_eq!(weights_selected(&[(100, 300), (500, 900)], 400), (500, 900));
    }

    #[test]
    fn a_style_without_a_face_uses_the_other() {
        let face = |italic| Traits {
            stretch: String::new(),
            italic,
            weights: (400, 400),
        };
        let italic = TextStyle {
            weight: 700,
            italic: true,
        };
        let upright = TextStyle {
            italic: false,
            ..italic
        };
        let both = BTreeSet::from([face(false), face(true)]);
        assert!(selected(&both, italic).eq([&face(true)]) && selected(&both, upright).eq([&face(false)]));
        let one = BTreeSet::from([face(false)]);
        assert!(selected(&one, italic).eq([&face(false)]));
    }
}
