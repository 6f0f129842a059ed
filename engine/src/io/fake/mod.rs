//! A world for tests: a seeded executor with virtual time ([`Sim`]) and a disk that loses what it
//! was never told to keep ([`FakeDisk`], whose head states the faults).
//!
//! Everything that can happen in several orders happens in one drawn from the seed, so a failing
//! seed fails again. Knows no logs. Compiled for tests and the feature `fake-io` only.

mod disk;
mod executor;
mod file;
mod inode;
mod random;

pub use disk::{FakeDisk, FaultPoint};
pub use executor::{FakeEnv, Sim};
pub use file::FakeFile;
pub use random::Random;

#[cfg(test)]
mod tests;
