//! Load and measurement for Millrace; sees a broker only through the protocol.
//!
//! Owns when each record is due, how long it took and what the broker's process used. Knows nothing
//! of the inside of a broker: whatever speaks Kafka's protocol can be measured.

pub mod load;
