//! The constants of the congestion control algorithm (congestion.md section 11).
//!
//! Each constant has a name, a value, a unit, a range in which it may move, and the reason for its value. The
//! product uses [`CongestionParameters::STANDARD`]; the simulation varies single constants to measure the
//! sensitivity of the algorithm. Times are in seconds, sizes in packets or bytes, rates in byte/s.
mod loss;
mod measurement;
mod probing;
mod window;

pub use loss::{LossBoundParameters, LossBurstParameters, LossParameters, TrialParameters};
pub use measurement::{
    FeedbackParameters, LateFeedbackParameters, PathParameters, QueueParameters, RateParameters,
};
pub use probing::ProbingParameters;
pub use window::{
    CutParameters, GrowthParameters, PacingParameters, RampParameters, SilenceParameters, StartParameters,
    TargetParameters, UpdateParameters,
};

/// A constant of the algorithm, for documentation and for measurements of its sensitivity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constant {
    /// Group of the constant, which is a field of [`CongestionParameters`].
    pub group: &'static str,
    /// Field of the group.
    pub name: &'static str,
    /// Section of congestion.md that uses the constant.
    pub section: &'static str,
    /// Standard value.
    pub value: f64,
    /// Unit of the value.
    pub unit: &'static str,
    /// Lower end of the range in which the constant may move.
    pub low: f64,
    /// Upper end of this range.
    pub high: f64,
}

/// Defines a group of constants: for each its value, unit and range.
macro_rules! constants {
    (
        $(#[$about:meta])*
        $group:ident: $name:ident, section $section:literal;
        $($(#[$reason:meta])* $field:ident = $value:expr, $unit:literal, $low:expr => $high:expr;)+
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$reason])* pub $field: f64,)+
        }

        impl $name {
            /// The values of congestion.md section 11.
            pub const STANDARD: Self = Self { $($field: $value,)+ };

            pub(super) const LIST: &[$crate::congestion::parameters::Constant] = &[
                $($crate::congestion::parameters::Constant {
                    group: stringify!($group),
                    name: stringify!($field),
                    section: $section,
                    value: $value,
                    unit: $unit,
                    low: $low,
                    high: $high,
                },)+
            ];

            pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut f64> {
                match name {
                    $(stringify!($field) => Some(&mut self.$field),)+
                    _ => None,
                }
            }
        }
    };
}
use constants;

/// Defines all constants as one structure of groups.
macro_rules! groups {
    ($($(#[$about:meta])* $group:ident: $name:ident,)+) => {
        /// The constants of the congestion control algorithm, grouped by concern.
        #[derive(Clone, Debug, PartialEq)]
        pub struct CongestionParameters {
            $($(#[$about])* pub $group: $name,)+
        }

        impl CongestionParameters {
            /// The values of congestion.md section 11.
            pub const STANDARD: Self = Self { $($group: $name::STANDARD,)+ };

            /// All constants, in the order of congestion.md section 11.
            pub fn constants() -> impl Iterator<Item = &'static Constant> {
                [$($name::LIST,)+].into_iter().flatten()
            }

            /// The value of a constant; `None` if the group or the name is unknown.
            pub fn get_mut(&mut self, group: &str, name: &str) -> Option<&mut f64> {
                match group {
                    $(stringify!($group) => self.$group.get_mut(name),)+
                    _ => None,
                }
            }
        }
    };
}

groups! {
    /// Bounds of the path's quantities.
    path: PathParameters,
    /// Start of a session.
    start: StartParameters,
    /// Start on an unknown link.
    probing: ProbingParameters,
    /// Feedback interval.
    feedback: FeedbackParameters,
    /// Measurement of late feedback.
    late_feedback: LateFeedbackParameters,
    /// Measurement of the delivery rate.
    rate: RateParameters,
    /// Measurement of the queueing delay.
    queue: QueueParameters,
    /// Target queueing delay.
    target: TargetParameters,
    /// Updates and floor of the window.
    update: UpdateParameters,
    /// Cuts of the window.
    cut: CutParameters,
    /// Growth of the window.
    growth: GrowthParameters,
    /// Ramp: fast growth of the window.
    ramp: RampParameters,
    /// Classification of losses and the reaction to them.
    loss: LossParameters,
    /// Bounds of queue and window after losses.
    loss_bound: LossBoundParameters,
    /// Trial of the cause of losses.
    trial: TrialParameters,
    /// Loss bursts.
    burst: LossBurstParameters,
    /// Stalls and idle times.
    silence: SilenceParameters,
    /// Grants and the pacer.
    pacing: PacingParameters,
}

impl Default for CongestionParameters {
    fn default() -> Self {
        Self::STANDARD
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_constant_has_a_name_of_its_own_and_a_range_around_its_value() {
        let mut names = BTreeSet::new();
        let mut parameters = CongestionParameters::default();
        for constant in CongestionParameters::constants() {
            let Constant {
                group, name, value, ..
            } = *constant;
            assert!(names.insert((group, name)), "{group}.{name} twice");
            assert!(
                constant.low <= value && value <= constant.high && constant.low < constant.high,
                "range of {group}.{name}"
            );
            let found = parameters.get_mut(group, name).expect("listed");
            assert!((*found - value).abs() < f64::EPSILON, "{group}.{name}");
        }
        assert_eq!(parameters.get_mut("path", "unknown"), None);
        assert_eq!(parameters.get_mut("unknown", "least_rtt"), None);
    }
}
