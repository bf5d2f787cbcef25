//! Destinations of subresources.

/// Destination of a subresource: the request destinations of the Fetch standard (section 2.2.5) that planning
/// distinguishes.
///
/// The numbers are used in manifests and stored learned plans: they never change, and new ones are appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Destination {
    /// The page itself.
    Document = 0,
    /// A document in a frame.
    Frame = 1,
    /// A style sheet.
    Style = 2,
    /// A style sheet for another medium: browsers fetch it, but not the objects that it refers to.
    InactiveStyle = 3,
    /// A script.
    Script = 4,
    /// An image.
    Image = 5,
    /// A font.
    Font = 6,
    /// Any other object, such as those that scripts load with `fetch()`, and plug-in content.
    Other = 7,
    /// The icon of a tab or bookmark; requested like an image.
    Icon = 8,
    /// The manifest of an installable application.
    Manifest = 9,
}

impl Destination {
    /// All destinations, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Document,
        Self::Frame,
        Self::Style,
        Self::InactiveStyle,
        Self::Script,
        Self::Image,
        Self::Font,
        Self::Other,
        Self::Icon,
        Self::Manifest,
    ];

    /// The number of the destination in manifests.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns true if the body is an image.
    pub const fn is_picture(self) -> bool {
        matches!(self, Self::Image | Self::Icon)
    }

    /// Returns true if the body is HTML that is searched for references.
    pub const fn is_document(self) -> bool {
        matches!(self, Self::Document | Self::Frame)
    }
}

/// Number of a destination that this version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is the number of no known destination")]
pub struct UnknownDestination(pub u8);

impl TryFrom<u8> for Destination {
    type Error = UnknownDestination;

    fn try_from(number: u8) -> Result<Self, UnknownDestination> {
        Self::ALL
            .get(usize::from(number))
            .copied()
            .ok_or(UnknownDestination(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stable() {
        for (number, destination) in (0_u8..).zip(Destination::ALL) {
            assert_eq!(destination.number(), number);
            assert_eq!(Destination::try_from(number), Ok(destination));
        }
        assert_eq!(Destination::try_from(10), Err(UnknownDestination(10)));
        assert_eq!(Destination::Font.number(), 6);
    }
}
