//! Medians, spreads and ratios of a comparison, for people and as JSON.

use millrace_tests::{load::Run, manifest::quote, spread::Spread};

use crate::scenario::Scenario;

/// Which broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Ours.
    Millrace,
    /// Apache Kafka.
    Kafka,
}

/// All runs of a scenario.
#[derive(Debug)]
pub struct Comparison {
    scenario: Scenario,
    ours: Vec<Run>,
    theirs: Vec<Run>,
}

impl Comparison {
    /// Without a run so far.
    pub fn new(scenario: &Scenario) -> Self {
        Self { scenario: scenario.clone(), ours: Vec::new(), theirs: Vec::new() }
    }

    /// Adds a run of one side.
    pub fn add(&mut self, side: Side, run: Run) {
        match side {
            Side::Millrace => self.ours.push(run),
            Side::Kafka => self.theirs.push(run),
        }
    }

    /// A table: each figure's median on both sides, the ratio, and each side's spread.
    pub fn table(&self) -> String {
        let mut table = format!("{}: {}\n", self.scenario.name, self.scenario.shows);
        let heads = ["", "millrace", "kafka", "ratio", "spread", "spread"];
        table.push_str(&row(&heads.map(str::to_owned)));
        for (at, name) in Run::NAMES.iter().enumerate() {
            let (ours, theirs) = (spread(&self.ours, at), spread(&self.theirs, at));
            table.push_str(&row(&[
                (*name).to_owned(),
                format!("{:.2}", ours.median),
                format!("{:.2}", theirs.median),
                format!("{:.2}", ours.median / theirs.median),
                format!("{:.0} %", ours.percent()),
                format!("{:.0} %", theirs.percent()),
            ]));
        }
        table
    }

    /// Everything, as JSON.
    pub fn to_json(&self) -> String {
        let (scenario, load) = (&self.scenario, &self.scenario.load);
        let setting = |(name, value): (&str, &str)| format!("{name}={value}");
        let producer = load.producer.iter().map(|(name, value)| setting((name, value)));
        let ours = scenario.our_topic.iter().copied().map(setting).collect::<Vec<_>>().join(" ");
        let ours = if ours.is_empty() { "flush.messages=1 (default)".to_owned() } else { ours };
        let ratios = (0..Run::NAMES.len()).map(|at| {
            let ratio = spread(&self.ours, at).median / spread(&self.theirs, at).median;
            format!("{}: {}", quote(Run::NAMES[at]), number(ratio))
        });
        let lines = [
            format!("\"scenario\": {}", quote(scenario.name)),
            format!("\"shows\": {}", quote(scenario.shows)),
            format!("\"client\": {}", quote(load.client.name())),
            format!("\"record_bytes\": {}", load.record_bytes),
            format!("\"target_records_per_second\": {}", load.records_per_second),
            format!("\"producer\": {}", quote(&producer.collect::<Vec<_>>().join(" "))),
            format!("\"partitions\": {}", crate::PARTITIONS),
            format!("\"millrace\": {}", side_json(&self.ours, &ours)),
            format!("\"kafka\": {}", side_json(&self.theirs, "never flushed (default)")),
            format!("\"ratio_of_medians\": {{ {} }}", ratios.collect::<Vec<_>>().join(", ")),
        ];
        format!("{{\n  {}\n}}\n", lines.join(",\n  "))
    }
}

fn side_json(runs: &[Run], durability: &str) -> String {
    let figures = (0..Run::NAMES.len()).map(|at| {
        let values: Vec<String> = runs.iter().map(|run| number(run.figures()[at])).collect();
        let spread = spread(runs, at);
        format!(
            "\n    {}: {{ \"median\": {}, \"spread_percent\": {}, \"runs\": [{}] }}",
            quote(Run::NAMES[at]),
            number(spread.median),
            number(spread.percent()),
            values.join(", ")
        )
    });
    let figures: Vec<String> = figures.collect();
    format!("{{\n    \"durability\": {},{}\n  }}", quote(durability), figures.join(","))
}

/// Of one of the figures of [`Run::NAMES`], by its place there.
fn spread(runs: &[Run], figure: usize) -> Spread {
    Spread::of(runs.iter().map(|run| run.figures()[figure]))
}

/// JSON knows no infinity and no "not a number".
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.3}") } else { "null".to_owned() }
}

/// One run in a line.
pub fn line(run: &Run) -> String {
    format!(
        "{:.0} records/s, p50 {} ms, p99 {} ms, p99.9 {} ms, broker CPU {:.2} us/record, {} MiB",
        run.rate, run.p50_ms, run.p99_ms, run.p999_ms, run.cpu_us_per_record, run.resident_mib
    )
}

fn row(cells: &[String; 6]) -> String {
    let [name, cells @ ..] = cells;
    let cells: String = cells.iter().map(|cell| format!("{cell:>14}")).collect();
    format!("{name:<20}{cells}\n")
}
