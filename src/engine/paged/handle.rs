//! The engine thread and its callers' end.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Instant;

use super::config::{Config, StartError};
use super::intake::Intake;
use super::runner::{ModelRunner, RunnerLimits};
use super::shared::Shared;
use super::step::Core;
use crate::engine::{
    Engine, EngineLimits, GenerateRequest, Heartbeat, PinId, PinTicket, SubmitError, TokenStream,
};
use crate::telemetry::EngineStats;
use crate::tokenizer::{TokenId, Tokenizer};

/// An engine of one thread that owns the runner and all KV bookkeeping. Dropping it stops and joins the thread.
pub struct PagedEngine {
    intake: Intake,
    shared: Arc<Shared>,
    tokenizer: Arc<Tokenizer>,
    thread: Thread,
    join: Mutex<Option<JoinHandle<()>>>,
}

impl PagedEngine {
    /// Starts the thread over `runner`, whose vocabulary `tokenizer` spells.
    ///
    /// # Errors
    /// Names the setting or the runner's limit that is out of range.
    pub fn start(
        runner: Box<dyn ModelRunner>,
        tokenizer: Arc<Tokenizer>,
        stats: Arc<EngineStats>,
        config: &Config,
    ) -> Result<Self, StartError> {
        config.validate()?;
        let limits = runner.limits();
        check_limits(limits)?;
        let pin_blocks = config.pin_blocks(limits.blocks);
        let shared = Arc::new(Shared::new(
            Arc::new(Instant::now),
            stats,
            config.queue,
            pin_blocks,
        ));
        let (intake, arrivals) = Intake::new(Arc::clone(&shared), limits, pin_blocks);
        let core = Core::new(
            runner,
            Arc::clone(&tokenizer),
            Arc::clone(&shared),
            arrivals,
            config,
        );
        let on_thread = Arc::clone(&shared);
        let join = thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || run(core, &on_thread))
            .map_err(|error| StartError::Thread(error.to_string()))?;
        Ok(Self {
            intake,
            shared,
            tokenizer,
            thread: join.thread().clone(),
            join: Mutex::new(Some(join)),
        })
    }

    /// Ends every stream with an error, then the thread, and waits for it: at most for the step in progress.
    pub fn shutdown(&self) {
        self.shared.stop();
        self.shared.ring(&self.thread);
        let join = self
            .join
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if join.is_some_and(|join| join.join().is_err()) {
            tracing::error!("the engine thread panicked while it ended its streams");
        }
    }
}

impl Drop for PagedEngine {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl Engine for PagedEngine {
    fn generate(&self, request: GenerateRequest) -> Result<TokenStream, SubmitError> {
        let mut streams = self.choices(request, 1)?;
        Ok(streams.remove(0))
    }

    fn choices(&self, request: GenerateRequest, n: usize) -> Result<Vec<TokenStream>, SubmitError> {
        let streams = self.intake.generate(request, n)?;
        self.shared.ring(&self.thread);
        Ok(streams)
    }

    fn pin(&self, prompt: Vec<TokenId>) -> Result<PinTicket, SubmitError> {
        let ticket = self.intake.pin(prompt)?;
        self.shared.ring(&self.thread);
        Ok(ticket)
    }

    fn unpin(&self, pin: PinId) {
        self.intake.unpin(pin);
        self.shared.ring(&self.thread);
    }

    fn limits(&self) -> EngineLimits {
        self.intake.limits()
    }

    fn heartbeat(&self) -> Heartbeat {
        self.shared.heartbeat()
    }

    fn tokenizer(&self) -> Arc<Tokenizer> {
        Arc::clone(&self.tokenizer)
    }
}

/// The thread: steps while there is work, sleeps while there is none. A sleeping engine holds no request, so a dropped
/// stream never waits for it to wake.
fn run(mut core: Core, shared: &Shared) {
    let steps = catch_unwind(AssertUnwindSafe(|| {
        while !shared.stopping() {
            if !core.step() {
                shared.sleep();
            }
        }
    }));
    shared.die();
    match steps {
        Ok(()) => core.end_all("the engine is stopping"),
        Err(panic) => {
            let message = format!("the engine thread panicked: {}", panic_text(&*panic));
            tracing::error!("{message}");
            core.end_all(&message);
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

fn check_limits(limits: RunnerLimits) -> Result<(), StartError> {
    let most = u32::MAX as usize;
    let checks = [
        ("vocab", limits.vocab, most),
        ("max_context", limits.max_context, most),
        ("block_tokens", limits.block_tokens, most),
        ("blocks", limits.blocks, most - 1),
    ];
    for (field, value, most) in checks {
        if value == 0 || value > most {
            return Err(StartError::Runner {
                field,
                value,
                expected: "at least 1 and below 2^32",
            });
        }
    }
    Ok(())
}
