//! Derivation of the viewport from a browser's requests.
use url::Url;

use crate::{
    Viewport,
    srcset::{self, Candidate, Descriptor},
};

/// Maximum number of image choices kept per document.
pub(crate) const MAX_CHOICES: usize = 64;
/// Common device pixel ratios of screens and zoom levels, in percent.
const RATIOS: [u32; 12] = [100, 200, 125, 150, 175, 110, 90, 80, 225, 250, 300, 350];
/// Common window widths.
const WIDTHS: [u32; 14] = [
    1366, 1920, 1536, 1440, 1280, 1600, 1680, 2560, 1024, 1512, 768, 412, 390, 360,
];

/// An image with several sizes, of which a browser loads one.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageChoice {
    candidates: Vec<Candidate<Url>>,
    sizes: String,
}

impl ImageChoice {
    /// Returns `None` if there are fewer than two candidates.
    pub(crate) fn new(candidates: Vec<Candidate<Url>>, sizes: &str) -> Option<Self> {
        (candidates.len() > 1).then(|| Self {
            candidates,
            sizes: sizes.to_owned(),
        })
    }

    /// The candidate URLs with their descriptors.
    pub fn candidates(&self) -> impl Iterator<Item = (&Url, Descriptor)> {
        self.candidates
            .iter()
            .map(|candidate| (&candidate.target, candidate.descriptor))
    }

    /// Returns the URL that a browser with this viewport loads.
    pub fn select(&self, viewport: Viewport) -> Option<&Url> {
        let index = srcset::select(&self.candidates, &self.sizes, viewport)?;
        self.candidates.get(index).map(|candidate| &candidate.target)
    }

    fn offers(&self, url: &Url) -> bool {
        self.candidates.iter().any(|candidate| candidate.target == *url)
    }
}

/// Returns the viewport that explains the candidates that the browser requested: the believed one if it
/// explains all, else the likeliest one that explains more of them.
///
/// The ratio is varied first, then the width: the choice mostly depends on the ratio, while layouts bound the
/// width.
pub fn estimated_viewport(believed: Viewport, observed: &[(&ImageChoice, &Url)]) -> Viewport {
    let observed: Vec<_> = observed
        .iter()
        .filter(|(choice, url)| choice.offers(url))
        .take(MAX_CHOICES)
        .collect();
    let explains = |viewport: Viewport| {
        let right = observed
            .iter()
            .filter(|(choice, url)| choice.select(viewport) == Some(url));
        right.count()
    };
    let widths = std::iter::once(believed.width).chain(WIDTHS);
    let guesses = widths.flat_map(|width| {
        let ratios = std::iter::once(believed.ratio_percent).chain(RATIOS);
        ratios.map(move |ratio_percent| Viewport {
            width,
            ratio_percent,
            ..believed
        })
    });
    let (mut best, mut most) = (believed, explains(believed));
    for guess in guesses {
        if most == observed.len() {
            break;
        }
        let explained = explains(guess);
        if explained > most {
            (best, most) = (guess, explained);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(srcset: &str, sizes: &str) -> ImageChoice {
        let base = Url::parse("http://a.test/").unwrap();
        let candidates = srcset::candidates(Some(srcset), None).into_iter();
        let resolved = candidates.map(|candidate| Candidate {
            target: base.join(&candidate.target).unwrap(),
            descriptor: candidate.descriptor,
        });
        ImageChoice::new(resolved.collect(), sizes).unwrap()
    }

    fn url(path: &str) -> Url {
        Url::parse("http://a.test/").unwrap().join(path).unwrap()
    }

    #[test]
    fn the_pixel_ratio_is_inferred_from_requested_images() {
        let believed = Viewport::default();
        let logo = choice("1.png, 15.png 1.5x, 2.png 2x", "");
        let photo = choice("s.jpg 400w, m.jpg 800w, l.jpg 1600w", "400px");
        let asked = (url("2.png"), url("m.jpg"));
        let corrected = estimated_viewport(believed, &[(&logo, &asked.0), (&photo, &asked.1)]);
        assert_eq!(corrected.ratio_percent, 200);
        assert_eq!(corrected.width, believed.width);
        let settled = estimated_viewport(corrected, &[(&photo, &asked.1)]);
        assert_eq!(settled, corrected);
    }

    #[test]
    fn the_width_is_inferred_where_the_ratio_cannot() {
        let wide = choice("s.jpg 1400w, l.jpg 2000w", "100vw");
        let logo = choice("1.png, 15.png 1.2x", "");
        let asked = (url("l.jpg"), url("1.png"));
        let corrected = estimated_viewport(Viewport::default(), &[(&logo, &asked.1), (&wide, &asked.0)]);
        assert_eq!((corrected.width, corrected.ratio_percent), (1920, 100));
    }

    #[test]
    fn requests_without_a_matching_choice_change_nothing() {
        let logo = choice("1.png, 2.png 2x", "");
        let other = url("other.png");
        assert_eq!(
            estimated_viewport(Viewport::default(), &[(&logo, &other)]),
            Viewport::default()
        );
        assert_eq!(estimated_viewport(Viewport::default(), &[]), Viewport::default());
    }
}
