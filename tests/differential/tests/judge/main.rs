//! The browser and programs as judges.
mod browser;
mod documents;
mod programs;

/// A number of the environment.
fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}
