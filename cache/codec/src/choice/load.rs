//! How much of the processor is left for a coder.
use longhaul_types::BitRate;

/// How many jobs for computing run and wait, in thousandths of those that can run at a time. Up to one job for each
/// core they do not hinder each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load(u32);

impl Load {
    /// Nothing else is to be done.
    pub const NONE: Self = Self(0);

    /// With `jobs` that run or wait on `cores` processors; this one is among them.
    pub fn of(jobs: usize, cores: usize) -> Self {
        let permille = jobs.saturating_mul(1000) / cores.max(1);
        Self(u32::try_from(permille).unwrap_or(u32::MAX))
    }

    /// Thousandths.
    pub const fn permille(self) -> u32 {
        self.0
    }

    /// The rate of a link on which, with the processor free, the same effort is right as on this one under the load.
    ///
    /// The best effort minimises `load * time + bytes / rate`: a job's time delays all that wait behind it as well. The
    /// minimum stays where it is if all is divided by the load, and then the link is faster by it.
    pub fn as_if_free(self, link: BitRate) -> BitRate {
        let permille = u64::from(self.0.max(1000));
        BitRate::bps(link.as_bps().saturating_mul(permille) / 1000)
    }
}
