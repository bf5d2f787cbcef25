//! At-rules.
use cssparser::{ParseError, Parser};

use super::{
    Sheet,
    font::{self, FaceRule},
    import, supports,
    syntax::prelude,
};
use crate::{Destination, Reference, fonts::Face, media};

impl Sheet<'_> {
    /// Reads the at-rule after its name.
    pub(super) fn at_rule(&mut self, name: &str, parser: &mut Parser<'_, '_>, depth: usize) {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "import" => return self.import(parser),
            // Also print rules, and obsolete rules of single browsers.
            "charset" | "namespace" | "page" | "-moz-document" => {
                prelude(parser);
                return;
            }
            _ => {}
        }
        let (condition, block) = prelude(parser);
        // The statement `@layer a, b;` may occur between imports.
        self.imports &= name == "layer" && !block;
        if !block {
            return;
        }
        match name.as_str() {
            "font-face" => self.font_face(parser),
            "media" if !media::applies(&condition, self.viewport) => {}
            "supports" if !supports::holds(&condition) => {}
            "media" | "supports" => self.nested(parser, depth),
            // The preludes of keyframe blocks are not selectors.
            "keyframes" | "-webkit-keyframes" => {
                let vocabulary = self.vocabulary.take();
                self.unordered(parser, depth);
                self.vocabulary = vocabulary;
            }
            // For example `@container`, `@layer` and `@scope`.
            _ => self.unordered(parser, depth),
        }
    }

    /// Reads a block whose rules may apply in another order, or not at all.
    fn unordered(&mut self, parser: &mut Parser<'_, '_>, depth: usize) {
        let outer = std::mem::replace(&mut self.is_ordered, false);
        self.nested(parser, depth);
        self.is_ordered = outer;
    }

    fn import(&mut self, parser: &mut Parser<'_, '_>) {
        let import = import::read(parser, self.viewport);
        if let (Some((target, destination)), true) = (import, self.imports) {
            self.add(&target, destination);
        }
    }

    fn font_face(&mut self, parser: &mut Parser<'_, '_>) {
        let face = parser.parse_nested_block(|parser| Ok::<_, ParseError<'_, ()>>(font::read(parser)));
        if let Ok(Some(face)) = face {
            self.add_face(face);
        }
    }

    fn add_face(&mut self, face: FaceRule) {
        let Some(fonts) = &mut self.fonts else {
            if face.range.covers_latin() {
                self.add(&face.source, Destination::Font);
            }
            return;
        };
        let url = self.base.resolve(&face.source);
        if let (Some(url), Some(family)) = (url, face.family) {
            fonts.add_face(Face {
                family,
                traits: face.traits,
                range: face.range,
                reference: Reference::new(url, Destination::Font),
            });
        }
    }
}
