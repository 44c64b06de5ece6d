//! A server over our own engine with a fake model behind it, whose passes a test can hold up and count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use compere::engine::paged::fake::{FakeControl, FakeRunner, Script};
use compere::engine::paged::runner::RunnerLimits;
use compere::engine::paged::{Config, PagedEngine};
use compere::telemetry::{EngineStats, Metrics};

use super::{TestServer, model, until};

/// The server and what shows its engine's doings.
pub(crate) struct PagedServer {
    pub(crate) server: TestServer<PagedEngine>,
    pub(crate) control: FakeControl,
    pub(crate) stats: Arc<EngineStats>,
}

impl PagedServer {
    /// A server whose model answers everything with `answer`.
    pub(crate) fn saying(answer: &str) -> Self {
        Self::with(answer, |_| {})
    }

    /// As [`PagedServer::saying`], with settings of the engine.
    pub(crate) fn with(answer: &str, adjust: impl FnOnce(&mut Config)) -> Self {
        let template = model::template();
        let tokenizer = Arc::clone(template.tokenizer());
        let opening = tokenizer.encode_markup("<|im_start|>assistant\n");
        let script = Script::new(Arc::clone(&tokenizer), opening, model::END).when("", answer);
        Self::over(|limits| FakeRunner::scripted(limits, script), adjust)
    }

    /// A server whose model says what a hash of the context yields: any bytes at all, and others for other contexts.
    pub(crate) fn hashing() -> Self {
        Self::over(FakeRunner::hashing, |_| {})
    }

    fn over(
        runner: impl FnOnce(RunnerLimits) -> FakeRunner,
        adjust: impl FnOnce(&mut Config),
    ) -> Self {
        let tokenizer = Arc::clone(model::template().tokenizer());
        let limits = RunnerLimits {
            vocab: tokenizer.vocab_size(),
            max_context: 8192,
            block_tokens: 16,
            blocks: 4096,
        };
        let runner = runner(limits);
        let control = runner.control();
        let stats = Arc::new(EngineStats::default());
        let mut config = Config::default();
        adjust(&mut config);
        let engine = PagedEngine::start(Box::new(runner), tokenizer, Arc::clone(&stats), &config);
        let metrics = Arc::new(Metrics::new());
        metrics.watch_engine(Arc::clone(&stats)).unwrap();
        let server = TestServer::over(Arc::new(engine.unwrap()), &metrics, |_| {});
        Self {
            server,
            control,
            stats,
        }
    }

    /// Lets passes through one by one until `condition` holds.
    #[track_caller]
    pub(crate) fn step_until(&self, what: &str, mut condition: impl FnMut(&EngineStats) -> bool) {
        until(what, || {
            self.control.allow(1);
            condition(&self.stats)
        });
    }

    /// Asserts that the engine holds nothing for anybody and did nothing for who had left.
    #[track_caller]
    pub(crate) fn assert_all_freed(&self) {
        for (what, count) in [
            ("requests running", &self.stats.requests_running),
            ("requests waiting", &self.stats.requests_waiting),
            ("blocks used", &self.stats.kv_blocks_used),
            ("zombie tokens", &self.stats.zombie_tokens),
        ] {
            assert_eq!(load(count), 0, "{what}");
        }
    }
}

impl Drop for PagedServer {
    fn drop(&mut self) {
        // The engine waits for its thread, and that may wait at the gate.
        self.control.open();
    }
}

pub(crate) fn load(count: &AtomicU64) -> u64 {
    count.load(SeqCst)
}
