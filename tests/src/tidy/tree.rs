//! The files under the rules: all that git tracks or would track.

use std::{fs, io, path::Path, process::Command};

/// Files by path from the root of the repository, with their text.
pub type Tree = Vec<(String, String)>;

/// Reads every text file of the repository at `root`. Fails where git does not answer, so that a
/// tree that cannot be listed is never taken for a clean one.
pub fn read_tree(root: &Path) -> io::Result<Tree> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("git ls-files: {reason}")));
    }
    let paths = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut tree = Tree::new();
    for path in paths.lines() {
        // A deleted file is still listed; a binary one is no business of the rules.
        let Ok(bytes) = fs::read(root.join(path)) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            tree.push((path.to_owned(), text));
        }
    }
    assert!(tree.iter().any(|(path, _)| path == "Cargo.toml"), "{root:?} is not the root");
    Ok(tree)
}
