//! The executor's wait for a shard's eventfd.
//!
//! The executor cannot wait for a foreign ring, but it can read a file: a ring read of a blocking
//! eventfd completes when somebody signals it. That read is the only I/O on the executor's ring.

use std::{
    fs::File,
    os::fd::{FromRawFd, IntoRawFd},
    rc::Rc,
};

use glommio::io::BufferedFile;

use crate::io::uring::driver::WaitForBell;

/// A shard's eventfd as a file of the executor.
pub(super) struct Bell {
    file: Rc<BufferedFile>,
}

impl Bell {
    /// Takes over `bell`, a duplicate of the port's eventfd; on an executor's thread.
    pub(super) fn new(bell: File) -> Self {
        // SAFETY: the descriptor is open, and nobody else owns this duplicate.
        let file = unsafe { BufferedFile::from_raw_fd(bell.into_raw_fd()) };
        Self { file: Rc::new(file) }
    }

    /// A function that waits for the next signal.
    pub(super) fn waits(&self) -> WaitForBell {
        let file = self.file.clone();
        Box::new(move || {
            let file = file.clone();
            Box::pin(async move {
                file.read_at(0, size_of::<u64>()).await.expect("an eventfd can be read");
            })
        })
    }

    /// Closes the descriptor; no wait may be pending.
    pub(super) async fn close(self) {
        let file = Rc::try_unwrap(self.file).expect("the driver, which waits, has ended");
        file.close().await.expect("an eventfd can be closed");
    }
}
