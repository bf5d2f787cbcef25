//! The user's rules for sites: whether their https is accelerated, the image level of their pages, and pauses.
//!
//! `rule_set` decides which rule applies to a host, `file` is its form on disk, [`SiteRules`] keeps the rules of the
//! running agent. Rules name sites that the user visits: no log contains their names, and only the control port's token
//! shows them.
mod file;
mod rule_set;
mod site_rules;

pub use file::{MAX_RULES_FILE, RulesFileError};
pub use rule_set::{HttpsRule, Pause, Rule, RuleChange, RuleSet, TooManyRules};
pub use site_rules::{ChangeError, RulesError, SiteRules, change_stored, stored};
