//! Processor load as an input of the choice of a coder.
use longhaul_types::BitRate;

/// Running and waiting jobs of the thread pool, in thousandths of the number of cores. Up to one job per
/// core, jobs do not delay each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load(u32);

impl Load {
    /// No other work.
    pub const NONE: Self = Self(0);

    /// Load of `jobs` running or waiting jobs, including the present one, on `cores` cores.
    pub fn of(jobs: usize, cores: usize) -> Self {
        let permille = jobs.saturating_mul(1000) / cores.max(1);
        Self(u32::try_from(permille).unwrap_or(u32::MAX))
    }

    /// Thousandths.
    pub const fn permille(self) -> u32 {
        self.0
    }

    /// The link rate for which an idle processor justifies the effort that `link` justifies under this load.
    ///
    /// The best effort minimises `load * time + bytes / rate`, because the time of a job also delays all jobs
    /// that wait behind it. Dividing by the load does not move the minimum, so the link counts as faster by
    /// the factor `load`.
    pub fn as_if_free(self, link: BitRate) -> BitRate {
        let permille = u64::from(self.0.max(1000));
        BitRate::bps(link.as_bps().saturating_mul(permille) / 1000)
    }
}
