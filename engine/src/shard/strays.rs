//! Strays: partitions' directories that belong to no topic of the image. They are renamed to
//! `<topic>-<partition>.<topic id>-stray` and kept, as Kafka does, and taken back should their
//! topic come back (a metadata log restored from a copy).
//!
//! Nothing is deleted here: that metadata does not mention a directory proves no deletion.

use std::path::Path;

use super::{
    Shard,
    identity::{self, Found},
};
use crate::{
    error::{Error, Result},
    io::{Disk, Env},
    limits::STRAYS_NAMED_MAX,
    log::name_aside,
    meta::Image,
    types::{PartitionIndex, TopicId},
};

/// The name under which the directory `name` of `topic` is kept.
fn stray_name(name: &str, topic: TopicId) -> String {
    name_aside(name, &format!(".{topic}-stray"))
}

/// Whether `name` is a partition's directory that no partition of `image` would have. Those of
/// partitions that there are their owners look at.
fn is_unclaimed(image: &Image, name: &str) -> bool {
    let Some((topic, index)) = name.rsplit_once('-') else { return false };
    let plain = index.bytes().all(|byte| byte.is_ascii_digit());
    let Some(index) = index.parse().ok().filter(|_| plain) else { return false };
    let claimed = image.topic(topic).and_then(|topic| topic.partition(PartitionIndex(index)));
    !topic.is_empty() && claimed.is_none()
}

impl<E: Env> Shard<E> {
    /// Puts the directory `name` out of the way of the partition of that name: it is `topic`'s.
    pub(super) async fn set_aside(&self, at: usize, name: &str, topic: TopicId) -> Result<()> {
        let directory = &self.inner.directories[at];
        let path = directory.path.join(name);
        let aside = directory.path.join(stray_name(name, topic));
        eprintln!(
            "millrace: {} belongs to another topic of that name; kept as {}",
            path.display(),
            aside.display()
        );
        rename(&directory.disk, &path, &aside).await
    }

    /// Gives the partition `name` of `topic` the directory back that was set aside, if there is
    /// one. Returns the log directory that it is in.
    pub(super) async fn take_back(&self, name: &str, topic: TopicId) -> Result<Option<usize>> {
        let aside = stray_name(name, topic);
        for (at, directory) in self.inner.directories.iter().enumerate() {
            let (path, aside) = (directory.path.join(name), directory.path.join(&aside));
            let found = identity::find(&directory.disk, &aside).await?;
            if found == Found::Marked(topic) {
                rename(&directory.disk, &aside, &path).await?;
                eprintln!("millrace: {} is {} again", aside.display(), path.display());
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Sets aside what topics have left, among `names` in a log directory, that the image does not
    /// know: a deletion that ended between its record and the renaming of the directories. One
    /// line for all.
    pub(super) async fn set_strays_aside(&self, at: usize, names: Vec<String>) {
        let strays = self.move_strays(at, names).await;
        if strays.is_empty() {
            return;
        }
        let named = strays.iter().take(STRAYS_NAMED_MAX).map(String::as_str);
        let named = named.collect::<Vec<_>>().join(", ");
        let more = if strays.len() > STRAYS_NAMED_MAX { ", ..." } else { "" };
        eprintln!(
            "millrace: {}: {} directories belong to no topic and are kept under names that end in \
             -stray: {named}{more}",
            self.inner.directories[at].path.display(),
            strays.len()
        );
    }

    async fn move_strays(&self, at: usize, names: Vec<String>) -> Vec<String> {
        let (directory, image) = (&self.inner.directories[at], self.image());
        let mut strays = Vec::new();
        for name in names.into_iter().filter(|name| is_unclaimed(&image, name)) {
            let path = directory.path.join(&name);
            let moved = match identity::find(&directory.disk, &path).await {
                Ok(Found::Marked(topic)) if image.topic_by_id(topic).is_none() => {
                    let aside = directory.path.join(stray_name(&name, topic));
                    rename(&directory.disk, &path, &aside).await
                }
                Ok(_) => continue,
                Err(error) if error.os_code() == Some(libc::ENOTDIR) => continue,
                Err(error) => Err(error),
            };
            match moved {
                Ok(()) => strays.push(name),
                Err(error) => eprintln!("millrace: {} is left as it is: {error}", path.display()),
            }
        }
        strays
    }
}

/// Renames a directory within its log directory, durably.
async fn rename<D: Disk>(disk: &D, from: &Path, to: &Path) -> Result<()> {
    let failed = |error| Error::from_io(&from.display().to_string(), &error);
    disk.rename(from, to).await.map_err(failed)?;
    let parent = to.parent().expect("a partition's directory lies in a log directory");
    disk.sync_dir(parent).await.map_err(failed)
}
