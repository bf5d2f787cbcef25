//! The hidden setting of both programs for measurements.
use longhaul_types::Techniques;

use crate::{Form, Setting, Value, Wrong, quoted};

/// `without`
pub const WITHOUT: Setting<Techniques> = Setting::new(
    "without",
    Form::Text("names of techniques, separated by commas"),
    |_| Techniques::NONE,
    techniques,
    |set| Some(quoted(&set.to_string())),
)
.meaning("techniques that are switched off, for measurements")
.reason("Both programs need the same value, which `longhaul-bench` passes to them (BENCHMARKING.md)");

fn techniques(value: &Value, _: &Form) -> Result<Techniques, Wrong> {
    let names = value.texts()?.join(",");
    names.parse().map_err(Wrong::explained)
}
