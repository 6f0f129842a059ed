//! The middle of some runs, and how far apart they are.

/// Of the values of one figure over several runs; "not a number" where there was no run.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub lowest: f64,
    /// The largest.
    pub highest: f64,
}

impl Spread {
    /// That of `values`, in any order.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
        let median = f64::midpoint(at(low), at(high));
        Self { median, lowest: at(0), highest: at(values.len().saturating_sub(1)) }
    }

    /// From lowest to highest, in percent of the median.
    #[must_use]
    pub fn percent(&self) -> f64 {
        (self.highest - self.lowest) / self.median * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        for (values, median) in [(&[3.0, 1.0, 2.0][..], 2.0), (&[4.0, 1.0, 2.0, 3.0], 2.5)] {
            let spread = Spread::of(values.iter().copied());
            assert!((spread.median - median).abs() < 1e-9, "{spread:?}");
        }
        let spread = Spread::of([5.0, 4.0, 6.0]);
        assert!((spread.percent() - 40.0).abs() < 1e-9, "{spread:?}");
        assert!(Spread::of([]).median.is_nan());
    }
}
