//! The way down: running, draining, ending, stopped. Phases only go forward; whoever must act waits for the phase.

use tokio::sync::watch;

/// How far the way down the process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Requests are served.
    Running,
    /// New turns are refused and readiness is gone; what runs may finish.
    Draining,
    /// What still runs ends now, with a terminal event.
    Ending,
    /// Nothing runs any more; connections close.
    Stopped,
}

/// The process's phase, shared by everything that takes part in stopping.
#[derive(Clone, Debug)]
pub struct Shutdown {
    phase: watch::Sender<Phase>,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A running process.
    #[must_use]
    pub fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Running),
        }
    }

    /// The phase now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Goes forward to `phase`; does nothing when that is already behind.
    pub fn advance(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let forward = phase > *now;
            if forward {
                *now = phase;
            }
            forward
        });
    }

    /// What a request to stop does: the first starts the drain, the next one ends it.
    pub fn request(&self) {
        self.phase.send_if_modified(|now| {
            let next = match *now {
                Phase::Running => Phase::Draining,
                Phase::Draining => Phase::Ending,
                Phase::Ending | Phase::Stopped => return false,
            };
            *now = next;
            true
        });
    }

    /// Waits until `phase` or a later one is reached.
    pub async fn reached(&self, phase: Phase) {
        let mut watched = self.phase.subscribe();
        // It fails only when every sender is gone, and `self` holds one.
        let _ = watched.wait_for(|now| *now >= phase).await;
    }

    /// Turns SIGTERM and SIGINT into [`Shutdown::request`] until the process has stopped.
    ///
    /// # Errors
    /// The signal handlers could not be installed.
    pub async fn watch_signals(self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = self.reached(Phase::Stopped) => return Ok(()),
            }
            self.request();
            tracing::info!(phase = ?self.phase(), "asked to stop");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_only_go_forward() {
        let shutdown = Shutdown::new();
        shutdown.advance(Phase::Ending);
        shutdown.advance(Phase::Draining);
        assert_eq!(shutdown.phase(), Phase::Ending);
    }

    #[test]
    fn the_second_request_ends_what_the_first_let_finish() {
        let shutdown = Shutdown::new();
        shutdown.request();
        assert_eq!(shutdown.phase(), Phase::Draining);
        shutdown.request();
        assert_eq!(shutdown.phase(), Phase::Ending);
        shutdown.request();
        assert_eq!(shutdown.phase(), Phase::Ending);
    }

    #[tokio::test]
    async fn waiting_for_a_phase_that_was_skipped_ends() {
        let shutdown = Shutdown::new();
        let waiting = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { shutdown.reached(Phase::Draining).await }
        });
        shutdown.advance(Phase::Stopped);
        waiting.await.unwrap();
    }
}
