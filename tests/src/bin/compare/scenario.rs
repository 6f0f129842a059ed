//! What is compared, as data.

use millrace_tests::load::{Client, Load};

/// One comparison.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name on the command line and of its result.
    pub name: &'static str,
    /// What it shows, in a sentence.
    pub shows: &'static str,
    /// What the client does; its records are set by [`Scenario::for_seconds`].
    pub load: Load,
    /// Records per second that either side is expected to reach, to size a run.
    pub expected_rate: u64,
    /// Settings of the topic on our side; Kafka's has its defaults, so is never flushed.
    pub our_topic: &'static [(&'static str, &'static str)],
}

/// Kafka's own default of `flush.messages`: the page cache decides.
const RELAXED: &[(&str, &str)] = &[("flush.messages", "9223372036854775807")];

/// Every scenario.
#[must_use]
pub fn all() -> Vec<Scenario> {
    let load = |record_bytes, records_per_second, producer: &[(&str, &str)]| {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let producer = producer.iter().map(owned).collect();
        let client = Client::Java;
        Load { client, record_bytes, records: 0, warm_up_records: 0, records_per_second, producer }
    };
    let steady = load(1024, 20_000, &[("linger.ms", "0"), ("acks", "all")]);
    let fast = |record_bytes| load(record_bytes, -1, &[("acks", "all")]);
    let native = Load { client: Client::Native, ..steady.clone() };
    vec![
        Scenario {
            name: "ack-latency-native",
            shows: "acknowledgement latency and CPU at 20,000 records/s of 1 KiB, linger 0, by our \
                    own client on a fixed schedule; ours flushed, Kafka's not",
            load: native,
            expected_rate: 20_000,
            our_topic: &[],
        },
        Scenario {
            name: "ack-latency",
            shows: "acknowledgement latency and CPU at 20,000 records/s of 1 KiB, linger 0; ours \
                    flushed, Kafka's not",
            load: steady.clone(),
            expected_rate: 20_000,
            our_topic: &[],
        },
        Scenario {
            name: "cpu-relaxed",
            shows: "CPU per record at 20,000 records/s of 1 KiB, linger 0; neither side flushed",
            load: steady,
            expected_rate: 20_000,
            our_topic: RELAXED,
        },
        Scenario {
            name: "max-rate-100",
            shows: "highest rate of 100 B records, 12 partitions; ours flushed, Kafka's not",
            load: fast(100),
            expected_rate: 500_000,
            our_topic: &[],
        },
        Scenario {
            name: "max-rate-1024",
            shows: "highest rate of 1 KiB records, 12 partitions; ours flushed, Kafka's not",
            load: fast(1024),
            expected_rate: 100_000,
            our_topic: &[],
        },
    ]
}

impl Scenario {
    /// The same, with as many records as take about so long, after a warm-up of the client that
    /// takes a quarter of that.
    #[must_use]
    pub fn for_seconds(&self, seconds: u64) -> Self {
        let mut sized = self.clone();
        let records = self.expected_rate * seconds.max(1);
        sized.load.warm_up_records = records / 4;
        sized.load.records = records + records / 4;
        sized
    }
}
