//! The common layout of all pages of the agent: one file, no external resources.
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Content security policy: the page contains only text and its own style, and may load and execute nothing.
pub(crate) const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";

/// The design is that of the dashboard and of the demo; as pages of other sites cannot load its style sheet, the part
/// that they need is here.
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;color:#17202c;background:#fbfaf7;margin:0}\
main{max-width:44rem;margin:0 auto;padding:0 1.5rem 2rem}\
h1{font-size:1.5rem;line-height:1.25;margin:0 -50vw 1.2rem;padding:1.4rem 50vw;color:#fff;\
background:linear-gradient(100deg,#10213a 40%,#7a3a2c 82%,#a8451d)}\
h2{font-size:1.1rem;margin:1.6rem 0 .4rem}\
dt{color:#4c5665;margin-top:.9rem}dd{margin:0;font-weight:600}\
code{font:13px/1.4 ui-monospace,monospace;font-weight:400;color:#4c5665;overflow-wrap:anywhere}\
button{font:inherit;font-weight:600;padding:.45rem 1rem;border:0;border-radius:6px;color:#fff;background:#a8451d}\
footer{color:#4c5665;font-size:.875rem;margin-top:1.6rem}a{color:#a8451d}html{overflow-x:hidden}\
@media(prefers-color-scheme:dark){body{color:#e8ebf0;background:#0e1622}dt,code,footer{color:#aeb7c4}a{color:#f0966d}}";

/// Returns a document around `main`.
pub(crate) fn document(title: &str, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (main)
                    footer { "Longhaul agent " (env!("CARGO_PKG_VERSION")) }
                }
            }
        }
    }
}
