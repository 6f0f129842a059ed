//! The executor's wait for a shard's eventfd.
//!
//! The executor cannot wait for a foreign ring, but it can read a file: a ring read of a blocking
//! eventfd completes when somebody signals it. That read is the only I/O on the executor's ring.

use std::{
    cell::Cell,
    fs::File,
    os::fd::{FromRawFd, IntoRawFd},
    rc::Rc,
};

use glommio::io::BufferedFile;

use crate::io::local::Local;

/// A shard's eventfd as a file of the executor.
pub(super) struct Bell {
    file: BufferedFile,
}

impl Bell {
    /// Takes over `bell`, a duplicate of the port's eventfd; on an executor's thread.
    pub(super) fn new(bell: File) -> Self {
        // SAFETY: the descriptor is open, and nobody else owns this duplicate.
        let file = unsafe { BufferedFile::from_raw_fd(bell.into_raw_fd()) };
        Self { file }
    }

    /// Wakes the driver at every signal, until one comes after `stop` was set.
    pub(super) async fn listen(self, local: Rc<Local>, stop: Rc<Cell<bool>>) {
        while !stop.get() {
            self.file.read_at(0, size_of::<u64>()).await.expect("an eventfd can be read");
            local.ring.wake_driver();
        }
        self.file.close().await.expect("an eventfd can be closed");
    }
}
