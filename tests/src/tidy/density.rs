//! How dense the assertions are, per module.

use super::Source;

/// Macros that check an invariant in production. An `expect` counts too: its text is one.
const ASSERTIONS: [&str; 4] = ["assert!", "assert_eq!", "assert_ne!", "unreachable!"];

/// Least assertions per thousand production lines of a module, where one is set.
const FLOORS: [(&str, usize); 4] =
    [("engine/log", 20), ("engine/meta", 10), ("engine/replica", 20), ("engine/shard", 10)];

/// Modules below this many production lines are too young to be judged.
const JUDGED_FROM_LINES: usize = 300;

/// The assertions of one module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Density {
    /// Crate and module, as `engine/log`.
    pub module: String,
    /// Lines of code, without blanks, comments and tests.
    pub lines: usize,
    /// Assertions that stay on in production.
    pub assertions: usize,
}

impl Density {
    /// Assertions per thousand lines.
    #[must_use]
    pub fn per_thousand(&self) -> usize {
        (self.assertions * 1000).checked_div(self.lines).unwrap_or(0)
    }

    /// The least that this module must have, if a floor is set.
    #[must_use]
    pub fn floor(&self) -> Option<usize> {
        FLOORS.iter().find(|(module, _)| *module == self.module).map(|(_, floor)| *floor)
    }

    /// Whether it is below its floor.
    #[must_use]
    pub fn too_thin(&self) -> bool {
        let floor = self.floor().unwrap_or(0);
        self.lines >= JUDGED_FROM_LINES && self.per_thousand() < floor
    }
}

/// The densities of all modules of these files, sorted by name.
#[must_use]
pub fn densities(sources: &[Source]) -> Vec<Density> {
    let mut modules = std::collections::BTreeMap::<String, (usize, usize)>::new();
    for source in sources {
        let Some(module) = module(&source.path) else { continue };
        let (lines, assertions) = modules.entry(module).or_default();
        for (_, code) in source.production_code().filter(|(_, code)| !code.trim().is_empty()) {
            *lines += 1;
            *assertions += ASSERTIONS.iter().filter(|name| has_macro(code, name)).count();
            *assertions += code.matches(".expect(").count();
        }
    }
    let density = |(module, (lines, assertions))| Density { module, lines, assertions };
    modules.into_iter().map(density).collect()
}

/// `debug_assert!` ends in `assert!` too, and is not on in production.
fn has_macro(code: &str, name: &str) -> bool {
    super::source::words(code, &name[..name.len() - 1]).any(|at| code[at..].starts_with(name))
}

/// `engine/src/log/read.rs` and `engine/src/log.rs` are both `engine/log`.
fn module(path: &str) -> Option<String> {
    let (krate, inside) = path.split_once("/src/")?;
    let first = inside.split('/').next()?.trim_end_matches(".rs");
    Some(format!("{krate}/{first}"))
}
