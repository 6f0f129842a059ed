//! How long each measurement runs: short, so that all of them fit into a coffee break.

use std::time::Duration;

use criterion::Criterion;

/// Twenty samples in about two seconds; the command line overrides each of these.
pub fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2))
}
