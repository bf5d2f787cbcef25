//! Order and priority classes of the bodies of a page.
//!
//! A browser paints when it has all blocking style sheets and scripts before the body, and adds text fonts
//! and images afterwards. The order is therefore: blocking objects in document order; fonts and frames;
//! deferred scripts; images in document order; lazy and large objects.
use longhaul_types::ByteCount;

use crate::{Certainty, Destination, Importance, Reference};

/// Bodies above this size belong to class bulk, because they would delay all other bodies of a class.
pub const BULK: ByteCount = ByteCount::new(1024 * 1024);

/// Position of a reference on its page: the references of a style sheet or frame directly follow it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(Vec<u32>);

impl Position {
    /// Returns the position of the `index`th reference of the page's own document.
    pub fn of_page(index: u32) -> Self {
        Self(vec![index])
    }

    /// Returns the position of the `index`th reference of the object at this position.
    #[must_use]
    pub fn child(&self, index: u32) -> Self {
        let mut path = self.0.clone();
        path.push(index);
        Self(path)
    }

    /// Returns the number of references from the page's own document to this position.
    pub fn depth(&self) -> usize {
        self.0.len()
    }
}

/// Priority classes of pushed bodies (docs/protocol/session.md section 2). A lower class is sent first;
/// docs/protocol/transport.md section 4.2 defines the order within a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PushClass {
    /// The first paint, or its text, needs the body: style sheets, parser-blocking scripts, fonts, frames.
    Paint = 2,
    /// Other content of the page.
    Content = 3,
    /// Objects that the page does not display at first.
    Lazy = 4,
    /// Bodies above [`BULK`].
    Bulk = 5,
}

impl PushClass {
    /// Returns the class of a body; `length` is `None` if unknown.
    pub fn of(reference: &Reference, length: Option<ByteCount>) -> Self {
        if length.is_some_and(|length| length > BULK) {
            return Self::Bulk;
        }
        if reference.certainty == Certainty::Unlikely {
            return Self::Lazy;
        }
        match (reference.destination, reference.importance) {
            (_, Importance::Lazy) => Self::Lazy,
            (_, Importance::Blocking) => Self::Paint,
            (Destination::Font | Destination::Frame | Destination::Style | Destination::Document, _) => {
                Self::Paint
            }
            (
                Destination::InactiveStyle
                | Destination::Script
                | Destination::Image
                | Destination::Other
                | Destination::Icon
                | Destination::Manifest,
                Importance::High | Importance::Normal,
            ) => Self::Content,
        }
    }

    /// Returns the class of a body that the browser requested: one class higher, or `Paint` for a destination
    /// that may block. Images wait for what blocks, also if the browser requested them: within a class the shortest
    /// body is sent first, and images are short.
    #[must_use]
    pub fn asked(self, destination: Destination) -> Self {
        match (self, destination) {
            (_, Destination::Document | Destination::Frame | Destination::Style | Destination::Script) => {
                Self::Paint
            }
            (Self::Content, Destination::Image | Destination::Icon) => Self::Content,
            (Self::Paint | Self::Content, _) => Self::Paint,
            (Self::Lazy, _) => Self::Content,
            (Self::Bulk, _) => Self::Lazy,
        }
    }

    /// Number of the class in the transport.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// Sort key of the sending order: the lowest rank is sent first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    class: PushClass,
    importance: Importance,
    certainty: Certainty,
    position: Position,
}

impl Rank {
    /// Returns the rank of the reference at `position`; `length` is `None` if unknown.
    pub fn of(reference: &Reference, position: Position, length: Option<ByteCount>) -> Self {
        // An unused font costs little; a used font delays text.
        let certainty = if reference.destination == Destination::Font {
            Certainty::Sure
        } else {
            reference.certainty
        };
        Self {
            class: PushClass::of(reference, length),
            importance: reference.importance,
            certainty,
            position,
        }
    }

    /// The body's priority class.
    pub const fn class(&self) -> PushClass {
        self.class
    }
}

/// Returns the indices of `bodies` in sending order.
pub fn sending_order(bodies: &[(Reference, Position, Option<ByteCount>)]) -> Vec<usize> {
    let ranks = bodies
        .iter()
        .map(|(reference, position, length)| Rank::of(reference, position.clone(), *length));
    let mut order: Vec<(Rank, usize)> = ranks.zip(0..).collect();
    order.sort();
    order.into_iter().map(|(_, index)| index).collect()
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    fn reference(path: &str, destination: Destination) -> Reference {
        let url = Url::parse("http://a.test/").unwrap().join(path).unwrap();
        Reference::new(url, destination)
    }

    #[test]
    fn objects_that_paint_first_are_sent_first() {
        let small = Some(ByteCount::new(1000));
        let page = Position::of_page;
        let bodies = [
            (reference("icon", Destination::Icon), page(0), None),
            (reference("site.css", Destination::Style), page(1), small),
            (
                reference("bg.png", Destination::Image).with_certainty(Certainty::Likely),
                page(1).child(0),
                small,
            ),
            (reference("font", Destination::Font), page(1).child(1), small),
            (
                reference("import.css", Destination::Style),
                page(1).child(2),
                small,
            ),
            (reference("head.js", Destination::Script), page(2), None),
            (
                reference("async.js", Destination::Script).with_importance(Importance::High),
                page(3),
                small,
            ),
            (
                reference("film.gif", Destination::Image),
                page(4),
                Some(ByteCount::new(2_000_000)),
            ),
            (reference("one.png", Destination::Image), page(5), small),
            (
                reference("lazy.png", Destination::Image).with_importance(Importance::Lazy),
                page(6),
                small,
            ),
            (reference("frame", Destination::Frame), page(7), None),
            (reference("two.png", Destination::Image), page(8), small),
            (reference("last.js", Destination::Script), page(9), small),
        ];
        let order: Vec<&str> = sending_order(&bodies)
            .into_iter()
            .map(|index| bodies[index].0.url.path().trim_start_matches('/'))
            .collect();
        let expected = [
            "site.css",
            "import.css",
            "head.js",
            "last.js",
            "font",
            "frame",
            "async.js",
            "one.png",
            "two.png",
            "bg.png",
            "lazy.png",
            "icon",
            "film.gif",
        ];
        assert_eq!(order, expected);
        let numbers: Vec<u8> = bodies
            .iter()
            .map(|(reference, _, length)| PushClass::of(reference, *length).number())
            .collect();
        assert_eq!(numbers, [4, 2, 3, 2, 2, 2, 3, 5, 3, 4, 2, 3, 2]);
        let unlikely = reference("hover.png", Destination::Image).with_certainty(Certainty::Unlikely);
        assert_eq!(PushClass::of(&unlikely, small), PushClass::Lazy);
    }

    #[test]
    fn requested_objects_move_up() {
        assert_eq!(PushClass::Bulk.asked(Destination::Image), PushClass::Lazy);
        assert_eq!(PushClass::Lazy.asked(Destination::Image), PushClass::Content);
        assert_eq!(PushClass::Content.asked(Destination::Image), PushClass::Content);
        assert_eq!(PushClass::Content.asked(Destination::Other), PushClass::Paint);
        assert_eq!(PushClass::Bulk.asked(Destination::Script), PushClass::Paint);
    }
}
