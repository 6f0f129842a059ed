//! The clients by name: how each is installed, started, and what its records can hold.
//!
//! Does not know brokers, corpora or comparisons.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::corpus::Profile;
use crate::install::Places;
use crate::job::Job;
use crate::{kcat, rdkafka};

/// A real client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Client {
    /// kcat of Debian: librdkafka 2.0.
    Kcat,
    /// The crate `rdkafka`.
    Rdkafka,
    /// confluent-kafka for Python: librdkafka of its wheel.
    ConfluentKafka,
    /// kafka-python.
    KafkaPython,
    /// aiokafka.
    Aiokafka,
    /// kafkajs; produces only, `rdkafka` reads.
    Kafkajs,
    /// franz-go.
    FranzGo,
    /// kafka-clients 3.9.
    Java39,
    /// kafka-clients 4.4.
    Java44,
}

/// Half of a client's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Half {
    /// Send the corpus.
    Produce,
    /// Read it back.
    Consume,
}

impl Half {
    /// The word on a client's command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Consume => "consume",
        }
    }
}

impl Client {
    /// All clients in the order in which they run; `rdkafka` first, which also reads for another.
    pub const ALL: [Self; 9] = [
        Self::Rdkafka,
        Self::Kcat,
        Self::ConfluentKafka,
        Self::KafkaPython,
        Self::Aiokafka,
        Self::Kafkajs,
        Self::FranzGo,
        Self::Java39,
        Self::Java44,
    ];

    /// Name on the command line, in topic names and in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kcat => "kcat",
            Self::Rdkafka => "rdkafka",
            Self::ConfluentKafka => "confluent-kafka",
            Self::KafkaPython => "kafka-python",
            Self::Aiokafka => "aiokafka",
            Self::Kafkajs => "kafkajs",
            Self::FranzGo => "franz-go",
            Self::Java39 => "java39",
            Self::Java44 => "java44",
        }
    }

    /// What its records can hold.
    #[must_use]
    pub fn profile(self) -> Profile {
        let full = Profile::FULL;
        match self {
            Self::Kcat => Profile { kcat: true, ..full },
            Self::Kafkajs => Profile { null_headers: false, ..full },
            Self::KafkaPython => Profile { null_headers: false, null_records: false, ..full },
            Self::Aiokafka => Profile { null_records: false, ..full },
            _ => full,
        }
    }

    /// The client that does this half: kafkajs cannot read without a group.
    #[must_use]
    pub fn stand_in(self, half: Half) -> Self {
        if self == Self::Kafkajs && half == Half::Consume { Self::Rdkafka } else { self }
    }

    /// Installs what is missing and returns the command, to which [`run`] adds its arguments.
    ///
    /// # Errors
    /// The installers'.
    pub fn prepare(self, places: &Places) -> Outcome<Command> {
        let python = |script: &str| -> Outcome<Command> {
            let mut command = Command::new(places.python()?);
            command.arg(places.sources.join("python").join(script));
            // No compiled files between the sources.
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            Ok(command)
        };
        Ok(match self {
            Self::Kcat => {
                places.kcat()?;
                this_program(self)?
            }
            Self::Rdkafka => this_program(self)?,
            Self::ConfluentKafka => python("confluent_kafka_client.py")?,
            Self::KafkaPython => python("kafka_python_client.py")?,
            Self::Aiokafka => python("aiokafka_client.py")?,
            Self::Kafkajs => {
                let home = places.kafkajs()?;
                let mut command = Command::new("node");
                command.arg(places.sources.join("kafkajs/client.js"));
                command.env("NODE_PATH", home.join("node_modules"));
                command
            }
            Self::FranzGo => Command::new(places.franz_go()?),
            Self::Java39 => java(places, "3.9.2")?,
            Self::Java44 => java(places, "4.4.0")?,
        })
    }
}

/// Runs one half of a client: `COMMAND JOB produce|consume DUMP`.
///
/// # Errors
/// It cannot be started or does not exit with 0.
pub fn run(command: &mut Command, job: &Path, half: Half, dump: &Path) -> Outcome<()> {
    command.arg(job).arg(half.word()).arg(dump);
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status()?;
    if status.success() { Ok(()) } else { Err(format!("the client ended with {status}").into()) }
}

/// Does one half of a client that is part of this program.
///
/// # Errors
/// The client's.
pub fn run_own(client: Client, job: &Path, half: Half, dump: &Path) -> Outcome<()> {
    let job = Job::parse(&fs::read_to_string(job)?)?;
    match (client, half) {
        (Client::Kcat, Half::Produce) => kcat::produce(&job, dump),
        (Client::Kcat, Half::Consume) => kcat::consume(&job, dump),
        (Client::Rdkafka, Half::Produce) => rdkafka::produce(&job, dump),
        (Client::Rdkafka, Half::Consume) => rdkafka::consume(&job, dump),
        _ => Err(format!("{} is a program of its own", client.name()).into()),
    }
}

fn this_program(client: Client) -> Outcome<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["client", client.name()]);
    Ok(command)
}

fn java(places: &Places, version: &str) -> Outcome<Command> {
    let jars = places.java(version)?;
    let mut command = Command::new("java");
    // One source file, compiled by the launcher: no build step and no class files to keep.
    command.args(["-Xmx512m", "-cp"]).arg(jars.join("*"));
    command.arg(places.sources.join("java/Client.java"));
    Ok(command)
}
