//! The conversion that a device's user requests, and the effort that link and processor permit.
use longhaul_codec::{EffortPolicy, Load};
use longhaul_session::{self as session, Preferences};
use longhaul_transcode::{ImageLevel, Limits, Request, TranscodeEffort, Viewport};
use longhaul_types::BitRate;

/// Link rate below which `TranscodeEffort::Standard` is used: it makes images about 5 % smaller but takes most of a
/// second for the images of a page. On umts-384 it delayed pages more than it saved.
const SLOW: BitRate = BitRate::kbps(100);

/// The requested image conversion of a device's user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageConversion {
    /// The level.
    pub level: ImageLevel,
    /// The size at which the page displays images.
    pub viewport: Viewport,
    /// Rate towards the agent, if known.
    pub link: Option<BitRate>,
    /// The operator's effort policy.
    pub effort: EffortPolicy,
}

impl ImageConversion {
    /// The conversion that the user's preferences request over a link of this rate.
    pub fn of(preferences: &Preferences, link: Option<BitRate>, effort: EffortPolicy) -> Self {
        Self {
            level: match preferences.images {
                session::ImageLevel::High => ImageLevel::High,
                session::ImageLevel::Medium => ImageLevel::Medium,
                // At level text an image is loaded only if the user requests it, and then as the original.
                session::ImageLevel::Original | session::ImageLevel::Text => ImageLevel::Original,
                session::ImageLevel::Low => ImageLevel::Low,
            },
            viewport: Viewport {
                width: preferences.viewport_width.into(),
                height: preferences.viewport_height.into(),
                ratio_percent: preferences.pixel_ratio_percent.into(),
            },
            link,
            effort,
        }
    }

    /// The transcoding request for an image; `None` if the original is to be sent.
    pub(super) fn request(&self, limits: Limits) -> Option<Request> {
        self.level.target()?;
        let effort = match (self.effort, self.link) {
            (EffortPolicy::Fixed, _) => TranscodeEffort::Fixed,
            (EffortPolicy::ByLink | EffortPolicy::Off, Some(link)) if link < SLOW => {
                TranscodeEffort::Standard
            }
            (EffortPolicy::ByLink | EffortPolicy::Off, Some(_) | None) => TranscodeEffort::Quick,
        };
        Some(Request {
            level: self.level,
            viewport: self.viewport,
            effort,
            limits,
        })
    }
}

/// The request with less effort, if the processor is so busy that the higher effort would take longer than it
/// saves.
pub(super) fn eased(request: Request, link: Option<BitRate>, load: Load) -> Option<Request> {
    let dear = link.is_some_and(|link| load.as_if_free(link) >= SLOW);
    (request.effort == TranscodeEffort::Standard && dear).then_some(Request {
        effort: TranscodeEffort::Quick,
        ..request
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_effort_is_the_same_on_every_link() {
        let effort = |kbps, effort| {
            let conversion = ImageConversion {
                level: ImageLevel::Medium,
                viewport: Viewport::default(),
                link: Some(BitRate::kbps(kbps)),
                effort,
            };
            conversion
                .request(Limits::default())
                .map(|request| request.effort)
        };
        assert_eq!(
            [40, 384, 12_000].map(|kbps| effort(kbps, EffortPolicy::ByLink)),
            [
                Some(TranscodeEffort::Standard),
                Some(TranscodeEffort::Quick),
                Some(TranscodeEffort::Quick)
            ]
        );
        assert_eq!(
            [40, 384, 12_000].map(|kbps| effort(kbps, EffortPolicy::Fixed)),
            [Some(TranscodeEffort::Fixed); 3]
        );
    }

    #[test]
    fn pictures_take_less_effort_when_the_processor_is_busy() {
        let standard = Request {
            effort: TranscodeEffort::Standard,
            ..Request::default()
        };
        let link = Some(BitRate::kbps(40));
        assert_eq!(eased(standard, link, Load::of(2, 2)), None);
        let eased_by = |jobs| eased(standard, link, Load::of(jobs, 2)).map(|request| request.effort);
        assert_eq!(eased_by(4), None);
        assert_eq!(eased_by(5), Some(TranscodeEffort::Quick));
        let quick = Request {
            effort: TranscodeEffort::Quick,
            ..standard
        };
        assert_eq!(eased(quick, link, Load::of(100, 2)), None);
    }
}
