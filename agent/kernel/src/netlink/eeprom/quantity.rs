//! What modules measure, and its units.

/// What a word measures; the three formats have the same units.
#[derive(Debug, Clone, Copy)]
pub(super) enum Quantity {
    /// Of 1/256 degree.
    Temperature,
    /// Of 100 microvolts.
    Voltage,
    /// Of 0.1 microwatts.
    Power,
    /// Of 2 microamperes, times the scale.
    Bias(i64),
}

impl Quantity {
    /// Whether exactly 0 is what a module without a sensor gives. No light is a measurement.
    pub(super) fn is_never_zero(self) -> bool {
        matches!(self, Self::Temperature | Self::Voltage)
    }

    /// In the unit of `Measure`; `None` if no module can have it.
    pub(super) fn of(self, word: u16) -> Option<i64> {
        let number = i64::from(word);
        match self {
            Self::Temperature => {
                let degrees = i64::from(word.cast_signed()) * 1000 / 256;
                (-60_000..=150_000).contains(&degrees).then_some(degrees)
            }
            Self::Voltage | Self::Power => (number != 0xffff).then_some(number * 100),
            Self::Bias(scale) => (number != 0xffff).then_some(number * 2 * scale),
        }
    }
}
