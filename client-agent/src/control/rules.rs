//! Orders that change the user's rules for sites.
use http::{Response, StatusCode};
use longhaul_session::ImageLevel;

use super::{Control, form::Fields, text};
use crate::{
    dashboard::{RULES_ORIGINALS, RULES_PAUSE, RULES_REMOVE, RULES_RESUME, RULES_SET},
    host_name::HostName,
    https::HttpsDecision,
    proxy_body::ProxyBody,
    rules::{ChangeError, HttpsRule, RuleChange},
};

/// Value of a field that removes a rule.
const DEFAULT: &str = "default";

/// Returns the changes that a request orders; `None` if its path is none of the rules'.
pub(super) fn changes(path: &str, query: &str) -> Option<Result<Vec<RuleChange>, String>> {
    let fields = Fields::of(query);
    Some(match path {
        RULES_SET => set(&fields),
        RULES_ORIGINALS => named(&fields).map(|name| vec![RuleChange::Originals(name)]),
        RULES_PAUSE => optional(&fields).map(|name| vec![RuleChange::Pause(name)]),
        RULES_RESUME => optional(&fields).map(|name| vec![RuleChange::Resume(name)]),
        RULES_REMOVE if fields.get("all") == Some("yes") => Ok(vec![RuleChange::RemoveAll]),
        RULES_REMOVE => named(&fields).map(|name| vec![RuleChange::Remove(name)]),
        _ => return None,
    })
}

fn set(fields: &Fields) -> Result<Vec<RuleChange>, String> {
    let name = named(fields)?;
    let mut changes = Vec::new();
    if let Some(https) = fields.get("https") {
        let rule = (https != DEFAULT).then(|| HttpsRule::named(https).ok_or(()));
        let rule = rule
            .transpose()
            .map_err(|()| "https= is accelerate, tunnel or default".to_owned())?;
        changes.push(RuleChange::Https(name.clone(), rule));
    }
    if let Some(images) = fields.get("images") {
        let found = || ImageLevel::ALL.into_iter().find(|level| level.name() == images);
        let level = (images != DEFAULT).then(|| found().ok_or(())).transpose();
        let level =
            level.map_err(|()| "images= is original, high, medium, low, text or default".to_owned())?;
        changes.push(RuleChange::Images(name, level));
    }
    if changes.is_empty() {
        return Err("give https= or images=".to_owned());
    }
    Ok(changes)
}

fn optional(fields: &Fields) -> Result<Option<HostName>, String> {
    let name = fields.get("name").map(str::parse).transpose();
    name.map_err(|error: crate::host_name::InvalidHost| error.to_string())
}

fn named(fields: &Fields) -> Result<HostName, String> {
    optional(fields)?.ok_or_else(|| "give a site or host as name=".to_owned())
}

impl Control {
    /// Changes the rules and says what applies now.
    pub(super) async fn change_rules(&self, changes: &[RuleChange]) -> Response<ProxyBody> {
        let https = &self.handles.acceleration.https;
        let accelerated = changes.iter().find_map(|change| {
            let RuleChange::Https(name, Some(HttpsRule::Accelerate)) = change else {
                return None;
            };
            Some(name)
        });
        if let Some(refusal) = accelerated.and_then(|name| contradiction(name, &https.decide(name.as_str())))
        {
            return text(StatusCode::CONFLICT, refusal);
        }
        match self.handles.upstream.site_rules.change(changes).await {
            Ok(()) => {}
            Err(error @ ChangeError::TooMany(_)) => return text(StatusCode::CONFLICT, error.to_string()),
            Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
        if let Some(name) = accelerated {
            // The user wants it now, whatever was learned before.
            let _words = https.forget_bypasses(Some(name)).await;
        }
        let mut words: Vec<String> = changes.iter().map(|change| self.outcome(change)).collect();
        words.dedup();
        text(StatusCode::OK, words.join("\n"))
    }

    fn outcome(&self, change: &RuleChange) -> String {
        let later = "This applies to the next request; what the browser itself has stored stays until a reload without \
                     caches (Ctrl+Shift+R)";
        match change {
            RuleChange::Https(name, _) => {
                let decision = self.handles.acceleration.https.decide(name.as_str());
                format!("{name}: https {decision}")
            }
            RuleChange::Images(name, Some(level)) => {
                format!("Pages of {name} get pictures at level {}. {later}", level.name())
            }
            RuleChange::Images(name, None) => {
                format!("Pages of {name} get pictures at the level of all sites. {later}")
            }
            RuleChange::Originals(name) => {
                format!("Pages of {name} get original pictures for ten minutes. {later}")
            }
            RuleChange::Pause(name) => format!("{} {}", subject(name.as_ref()), self.pause_words()),
            RuleChange::Resume(None) => {
                "Longhaul is used again, but for sites with a pause of their own".to_owned()
            }
            RuleChange::Resume(Some(name)) if self.handles.upstream.site_rules.is_paused(name.as_str()) => {
                format!("{name} has no pause of its own any more; another pause still applies to it")
            }
            RuleChange::Resume(Some(name)) => format!("Longhaul is used again for {name}"),
            RuleChange::Remove(name) => format!("there is no rule for {name} now"),
            RuleChange::RemoveAll => "there are no rules now".to_owned(),
        }
    }

    fn pause_words(&self) -> &'static str {
        if self.handles.upstream.rules.load().fallback_after.is_some() {
            "is paused for an hour: it loads directly, without the gateway"
        } else {
            "is paused for an hour: it loads unchanged, through the gateway, because the setting fallback.after is never"
        }
    }
}

fn subject(name: Option<&HostName>) -> String {
    name.map_or_else(|| "Everything".to_owned(), ToString::to_string)
}

/// Why a rule that accelerates a name would have no effect.
fn contradiction(name: &HostName, decision: &HttpsDecision) -> Option<String> {
    match decision {
        HttpsDecision::Off => Some(format!(
            "{name}: the setting https.accelerate is off, so that this device has no certificate authority; set it to a \
             list or to all first"
        )),
        HttpsDecision::Excepted => Some(format!(
            "{name}: the setting https.except lists it, and comes before rules; remove it there first"
        )),
        HttpsDecision::NoAuthority => Some(format!(
            "{name}: the certificate authority was removed; start the agent again first"
        )),
        HttpsDecision::Paused(_)
        | HttpsDecision::Rule(..)
        | HttpsDecision::Bypassed(_)
        | HttpsDecision::Listed
        | HttpsDecision::NotListed
        | HttpsDecision::All
        | HttpsDecision::Excluded => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_from_fields() {
        let name = || "a.test".parse::<HostName>().unwrap();
        let of = |path, query| changes(path, query).unwrap();
        assert_eq!(
            of(RULES_SET, "name=A.test&https=tunnel&images=original"),
            Ok(vec![
                RuleChange::Https(name(), Some(HttpsRule::Tunnel)),
                RuleChange::Images(name(), Some(ImageLevel::Original)),
            ])
        );
        assert_eq!(
            of(RULES_SET, "name=a.test&https=default&images=default"),
            Ok(vec![
                RuleChange::Https(name(), None),
                RuleChange::Images(name(), None)
            ])
        );
        assert_eq!(
            of(RULES_PAUSE, "name=+a.test"),
            Ok(vec![RuleChange::Pause(Some(name()))])
        );
        assert_eq!(of(RULES_PAUSE, ""), Ok(vec![RuleChange::Pause(None)]));
        assert_eq!(of(RULES_RESUME, "name="), Ok(vec![RuleChange::Resume(None)]));
        assert_eq!(
            of(RULES_ORIGINALS, "name=a.test"),
            Ok(vec![RuleChange::Originals(name())])
        );
        assert_eq!(of(RULES_REMOVE, "all=yes"), Ok(vec![RuleChange::RemoveAll]));
        for (path, query) in [
            (RULES_SET, ""),
            (RULES_SET, "name=a.test"),
            (RULES_SET, "name=a.test&https=yes"),
            (RULES_SET, "name=a.test&images=best"),
            (RULES_SET, "name=http://a.test/&images=low"),
            (RULES_REMOVE, ""),
            (RULES_PAUSE, "name=a%2Fb"),
        ] {
            assert!(of(path, query).is_err(), "{path}?{query}");
        }
        assert!(changes("/forget", "").is_none());
    }
}
