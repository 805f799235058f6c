//! One thread owns the database; the server's tasks send it what to do.

use crate::store::Store;
use anyhow::{Result, anyhow};
use std::thread;
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait for the thread. Each takes milliseconds at most, and all calls of an engine may ask at once; a
/// longer queue means that the file is locked.
const WAITING_MAX: usize = 256;

type Work = Box<dyn FnOnce(&mut Store) + Send>;

#[derive(Clone)]
pub struct Book {
    work: mpsc::Sender<Work>,
}

impl Book {
    /// # Errors
    /// Fails when the system has no thread to give.
    pub fn start(mut store: Store) -> Result<Self> {
        let (work, mut waiting) = mpsc::channel::<Work>(WAITING_MAX);
        let run = move || {
            while let Some(work) = waiting.blocking_recv() {
                work(&mut store);
            }
        };
        thread::Builder::new().name("database".into()).spawn(run)?;
        Ok(Self { work })
    }

    /// Runs `work` on the thread and gives its result.
    ///
    /// # Errors
    /// Those of `work`; and at once when too many wait already.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let work = Box::new(move |store: &mut Store| {
            // Whoever asked may have given up.
            let _ = answer.send(work(store));
        });
        self.work.try_send(work).map_err(|_| anyhow!("too many requests wait for the phone book; try again"))?;
        answered.await.map_err(|_| anyhow!("the phone book has stopped; start it again"))?
    }
}
