//! The page of an agent that has no invite.
use maud::{Markup, html};

use super::document;
use crate::dashboard::ENROL;

/// Returns the page; the form is there if the request has presented the token. `problem` says what is wrong with the
/// invite that was sent.
pub(crate) fn enrolment_page(may_change: bool, problem: Option<&str>) -> Markup {
    let header = html! {
        h1 { "This device is not enrolled" }
        p { "The agent needs the invite that your gateway\u{2019}s operator gave you" }
    };
    let main = html! {
        section class="connect first" {
            h2 { "Enrol this device" }
            @if let Some(problem) = problem {
                p class="notice" role="alert" { (problem) }
            }
            @if may_change {
                form method="post" action=(ENROL) {
                    p {
                        label class="invite" {
                            "Invite: one line that begins with " code { "longhaul1:" } " "
                            input name="invite" required maxlength="2000" autocapitalize="none" spellcheck="false" autocomplete="off";
                        }
                    }
                    button { "Enrol" }
                }
                p class="quiet" {
                    "The invite is a secret: whoever has it can use the gateway as this device. It stays on this computer."
                }
            } @else {
                p {
                    "Open the address that " code { "longhaul-agent setup" } " has printed, with its token; or run "
                    code { "longhaul enroll LINE" } " with the invite."
                }
            }
        }
    };
    document("Longhaul", "down", &header, &main, false)
}
