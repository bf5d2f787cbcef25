//! Selection of the images of `img` and `picture` elements among their candidates.
use crate::{
    Certainty, Destination, ImageChoice, Reference, Viewport,
    link::is_displayed,
    media,
    reference::Base,
    srcset::{self, Candidate},
    viewport_estimate::MAX_CHOICES,
};

/// The open `picture` elements of a document, and its images with several sizes.
#[derive(Default)]
pub(crate) struct ImageSelection {
    /// For each open `picture`, the image that its sources selected.
    pictures: Vec<Option<Image>>,
    choices: Vec<ImageChoice>,
}

/// The candidates of an image, and its `sizes`.
#[derive(Clone, Default)]
struct Image {
    candidates: Vec<Candidate<String>>,
    sizes: String,
}

impl ImageSelection {
    pub(crate) fn open_picture(&mut self) {
        self.pictures.push(None);
    }

    pub(crate) fn close_picture(&mut self) {
        self.pictures.pop();
    }

    /// Reads a `source` of a `picture`; those of `video` and `audio` have no `srcset`.
    pub(crate) fn source(&mut self, attribute: &dyn Fn(&str) -> Option<String>, viewport: Viewport) {
        let Some(picture @ None) = self.pictures.last_mut() else {
            return;
        };
        let media = attribute("media").unwrap_or_default();
        if is_displayed(&attribute("type").unwrap_or_default()) && media::applies(&media, viewport) {
            let candidates = srcset::candidates(attribute("srcset").as_deref(), None);
            let sizes = attribute("sizes").unwrap_or_default();
            *picture = (!candidates.is_empty()).then_some(Image { candidates, sizes });
        }
    }

    /// Returns the image that an `img` displays in the viewport.
    pub(crate) fn select(
        &mut self,
        attribute: &dyn Fn(&str) -> Option<String>,
        base: &Base,
        viewport: Viewport,
    ) -> Option<Reference> {
        let from_picture = self.pictures.last().cloned().flatten();
        let image = from_picture.unwrap_or_else(|| Image {
            candidates: srcset::candidates(attribute("srcset").as_deref(), attribute("src").as_deref()),
            sizes: attribute("sizes").unwrap_or_default(),
        });
        let url = srcset::select(&image.candidates, &image.sizes, viewport)
            .and_then(|index| image.candidates.get(index))
            .and_then(|candidate| base.resolve(&candidate.target))?;
        self.keep_choice(&image, base);
        let reference = Reference::new(url, Destination::Image);
        if image.candidates.len() > 1 && image.sizes.trim_start().starts_with("auto") {
            Some(reference.with_certainty(Certainty::Likely))
        } else {
            Some(reference)
        }
    }

    /// Returns the images with several sizes since the last call.
    pub(crate) fn take_choices(&mut self) -> Vec<ImageChoice> {
        std::mem::take(&mut self.choices)
    }

    fn keep_choice(&mut self, image: &Image, base: &Base) {
        if self.choices.len() >= MAX_CHOICES || image.candidates.len() < 2 {
            return;
        }
        let resolved = image.candidates.iter().filter_map(|candidate| {
            Some(Candidate {
                target: base.resolve(&candidate.target)?,
                descriptor: candidate.descriptor,
            })
        });
        self.choices
            .extend(ImageChoice::new(resolved.collect(), &image.sizes));
    }
}
