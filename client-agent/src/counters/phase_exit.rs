//! The reasons for which requests leave their phases.

/// A phase that a request left, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it, and `name` says it to users")]
pub enum PhaseExit {
    LookupFresh,
    LookupNotModified,
    LookupAnnounced,
    LookupRedirected,
    LookupPageLoad,
    LookupNoPageLoad,
    LookupNavigation,
    LookupIneligible,
    LookupImageReplaced,
    LookupUnreachable,
    ManifestAnnounced,
    ManifestNotFound,
    ManifestTime,
    ManifestOpen,
    PromisedHead,
    PromisedNotModified,
    PromisedWithdrawn,
    PromisedFailed,
    PromisedMismatch,
    PromisedUsed,
    PromisedStuck,
    PromisedLost,
    PromisedSilent,
    ArrivingPushed,
    ArrivingHeld,
    ArrivingLater,
    ArrivingEmpty,
    ArrivingBroken,
    ArrivingStuck,
    ArrivingLost,
    ArrivingSilent,
    SentForwarded,
    SentHeld,
    SentHeldMissing,
    SentBaseMissing,
    SentPromised,
    SentAnnounced,
    SentPromisedUnknown,
    SentRepeated,
    SentLost,
    SentFailed,
    SentUnreachable,
    Direct,
}

impl PhaseExit {
    /// All values, in the order of their discriminants.
    pub const ALL: [Self; 43] = [
        Self::LookupFresh,
        Self::LookupNotModified,
        Self::LookupAnnounced,
        Self::LookupRedirected,
        Self::LookupPageLoad,
        Self::LookupNoPageLoad,
        Self::LookupNavigation,
        Self::LookupIneligible,
        Self::LookupImageReplaced,
        Self::LookupUnreachable,
        Self::ManifestAnnounced,
        Self::ManifestNotFound,
        Self::ManifestTime,
        Self::ManifestOpen,
        Self::PromisedHead,
        Self::PromisedNotModified,
        Self::PromisedWithdrawn,
        Self::PromisedFailed,
        Self::PromisedMismatch,
        Self::PromisedUsed,
        Self::PromisedStuck,
        Self::PromisedLost,
        Self::PromisedSilent,
        Self::ArrivingPushed,
        Self::ArrivingHeld,
        Self::ArrivingLater,
        Self::ArrivingEmpty,
        Self::ArrivingBroken,
        Self::ArrivingStuck,
        Self::ArrivingLost,
        Self::ArrivingSilent,
        Self::SentForwarded,
        Self::SentHeld,
        Self::SentHeldMissing,
        Self::SentBaseMissing,
        Self::SentPromised,
        Self::SentAnnounced,
        Self::SentPromisedUnknown,
        Self::SentRepeated,
        Self::SentLost,
        Self::SentFailed,
        Self::SentUnreachable,
        Self::Direct,
    ];

    /// Name in `/status.json`: the phase, a dot, and the reason.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LookupFresh => "lookup.fresh",
            Self::LookupNotModified => "lookup.not-modified",
            Self::LookupAnnounced => "lookup.announced",
            Self::LookupRedirected => "lookup.redirected",
            Self::LookupPageLoad => "lookup.page-load",
            Self::LookupNoPageLoad => "lookup.no-page-load",
            Self::LookupNavigation => "lookup.navigation",
            Self::LookupImageReplaced => "lookup.image-replaced",
            Self::LookupIneligible => "lookup.ineligible",
            Self::LookupUnreachable => "lookup.unreachable",
            Self::ManifestAnnounced => "manifest.announced",
            Self::ManifestNotFound => "manifest.not-found",
            Self::ManifestTime => "manifest.time",
            Self::ManifestOpen => "manifest.open",
            Self::PromisedHead => "promised.head",
            Self::PromisedNotModified => "promised.not-modified",
            Self::PromisedWithdrawn => "promised.withdrawn",
            Self::PromisedFailed => "promised.failed",
            Self::PromisedMismatch => "promised.mismatch",
            Self::PromisedUsed => "promised.used",
            Self::PromisedStuck => "promised.stuck",
            Self::PromisedLost => "promised.lost",
            Self::PromisedSilent => "promised.silent",
            Self::ArrivingPushed => "arriving.pushed",
            Self::ArrivingHeld => "arriving.held",
            Self::ArrivingLater => "arriving.later",
            Self::ArrivingEmpty => "arriving.empty",
            Self::ArrivingBroken => "arriving.broken",
            Self::ArrivingStuck => "arriving.stuck",
            Self::ArrivingLost => "arriving.lost",
            Self::ArrivingSilent => "arriving.silent",
            Self::SentForwarded => "sent.forwarded",
            Self::SentHeld => "sent.held",
            Self::SentHeldMissing => "sent.held-missing",
            Self::SentBaseMissing => "sent.base-missing",
            Self::SentPromised => "sent.promised",
            Self::SentAnnounced => "sent.announced",
            Self::SentPromisedUnknown => "sent.promised-unknown",
            Self::SentRepeated => "sent.repeated",
            Self::SentLost => "sent.lost",
            Self::SentFailed => "sent.failed",
            Self::SentUnreachable => "sent.unreachable",
            Self::Direct => "direct",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_exit_has_its_index_and_a_unique_name() {
        let mut names: Vec<&str> = PhaseExit::ALL.iter().map(|exit| exit.name()).collect();
        for (place, exit) in PhaseExit::ALL.iter().enumerate() {
            assert_eq!(*exit as usize, place, "{}", exit.name());
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PhaseExit::ALL.len());
    }
}
