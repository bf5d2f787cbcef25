//! Attributes of elements whose value decides whether a resource is loaded at all.
use std::collections::BTreeSet;

use lol_html::send::Element;

use crate::character_reference;

/// Looks up an attribute of an element by its name; character references are resolved.
pub(crate) type Attribute<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the nonce of an element, unless an injection may have merged another tag into its tag (HTML Living
/// Standard, "is element nonceable").
pub(crate) fn nonce(element: &Element<'_, '_>) -> Option<Box<str>> {
    let nonce = element.get_attribute("nonce").filter(|nonce| !nonce.is_empty())?;
    let mut names = BTreeSet::new();
    let is_plain = element.attributes().iter().all(|attribute| {
        let (name, value) = (attribute.name(), attribute.value());
        let holds_tag = |text: &str| {
            let text = text.to_ascii_lowercase();
            text.contains("<script") || text.contains("<style")
        };
        !holds_tag(&name) && !holds_tag(&value) && names.insert(name)
    });
    is_plain.then(|| character_reference::resolve(&nonce).into_boxed_str())
}

/// Returns the URL of plug-in content, unless browsers no longer load its type.
pub(crate) fn plugin(attribute: Attribute<'_>, name: &str) -> Option<String> {
    let kind = attribute("type").unwrap_or_default().to_ascii_lowercase();
    let gone = ["flash", "silverlight", "java-", "x-mplayer", "realaudio"];
    let target = attribute(name)?;
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let flash = path.len() >= 4 && path.as_bytes()[path.len() - 4..].eq_ignore_ascii_case(b".swf");
    (!flash && !gone.iter().any(|gone| kind.contains(gone))).then_some(target)
}
