//! Settings of the journal.
use longhaul_settings::Setting;

/// `journal.keep`
pub const JOURNAL_KEEP: Setting<bool> = Setting::yes_no("journal.keep", |_| false)
    .flag("--journal-keep", "YES|NO")
    .meaning("whether the journal, the list of the last 4,000 requests, survives a restart of the agent")
    .reason(
        "Off, because the list says which pages were loaded. `yes`: it is also in the file `journal.sqlite` of the state \
         directory, which only its owner can read; `longhaul-agent forget` and the buttons of the dashboard delete from \
         it. `no`: a file of an earlier run is removed at the start",
    );
