//! An engine without its thread: the test steps it and sets the time.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::engine::paged::Config;
use crate::engine::paged::fake::{FakeControl, FakeRunner, byte_tokenizer};
use crate::engine::paged::intake::Intake;
use crate::engine::paged::runner::{ModelRunner, RunnerLimits};
use crate::engine::paged::shared::{Clock, Shared};
use crate::engine::paged::step::Core;
use crate::engine::{
    Finish, FinishReason, GenerateRequest, PinTicket, SubmitError, TokenEvent, TokenLogprob,
    TokenStream,
};
use crate::telemetry::EngineStats;
use crate::tokenizer::{TokenId, Tokenizer};

/// ASCII: each token is one character, so a text tells the tokens exactly.
pub(super) const ASCII: usize = 128;

/// Steps that no test's work may need.
const TOO_MANY_STEPS: usize = 20_000;

pub(super) fn limits(blocks: usize, block_tokens: usize) -> RunnerLimits {
    RunnerLimits {
        vocab: ASCII,
        max_context: 4096,
        block_tokens,
        blocks,
    }
}

/// Small steps, no pins.
pub(super) fn config() -> Config {
    Config {
        step_tokens: 16,
        mixed_step_tokens: 8,
        target_step_ms: 0,
        speculate_rows: 0,
        max_running: 4,
        queue: 64,
        pin_share: 0.0,
        aging_ms: 5_000,
        patience_ms: 30_000,
    }
}

pub(super) fn prompt(text: &str) -> Vec<TokenId> {
    text.bytes().map(TokenId::from).collect()
}

pub(super) fn request(text: &str, max_tokens: usize) -> GenerateRequest {
    GenerateRequest {
        prompt: prompt(text),
        max_tokens: Some(max_tokens),
        ..GenerateRequest::default()
    }
}

/// An engine's parts and the handles on them.
pub(super) struct Rig {
    pub(super) core: Core,
    pub(super) intake: Intake,
    pub(super) shared: Arc<Shared>,
    pub(super) stats: Arc<EngineStats>,
    pub(super) control: FakeControl,
    pub(super) time: Arc<Mutex<Instant>>,
    /// What passes with each look at the clock.
    pub(super) tick: Arc<Mutex<Duration>>,
}

impl Rig {
    /// An engine over the hashing fake.
    pub(super) fn new(limits: RunnerLimits, config: &Config) -> Self {
        Self::over(FakeRunner::hashing(limits), config)
    }

    pub(super) fn over(runner: FakeRunner, config: &Config) -> Self {
        Self::speaking(byte_tokenizer(), runner, config)
    }

    /// As [`Rig::over`], with a vocabulary of its own.
    pub(super) fn speaking(tokenizer: Arc<Tokenizer>, runner: FakeRunner, config: &Config) -> Self {
        config.validate().unwrap();
        let time = Arc::new(Mutex::new(Instant::now()));
        let tick = Arc::new(Mutex::new(Duration::ZERO));
        let (read, each) = (Arc::clone(&time), Arc::clone(&tick));
        let clock: Clock = Arc::new(move || {
            let mut now = read.lock().unwrap();
            *now += *each.lock().unwrap();
            *now
        });
        let stats = Arc::new(EngineStats::default());
        let pin_blocks = config.pin_blocks(runner.limits().blocks);
        let shared = Shared::new(clock, Arc::clone(&stats), config.queue, pin_blocks);
        let shared = Arc::new(shared);
        let (intake, arrivals) = Intake::new(Arc::clone(&shared), runner.limits(), pin_blocks);
        let control = runner.control();
        let runner = Box::new(runner);
        let core = Core::new(runner, tokenizer, Arc::clone(&shared), arrivals, config);
        Self {
            core,
            intake,
            shared,
            stats,
            control,
            time,
            tick,
        }
    }

    pub(super) fn submit(&self, request: GenerateRequest) -> Reader {
        self.try_submit(request).unwrap()
    }

    pub(super) fn try_submit(&self, request: GenerateRequest) -> Result<Reader, SubmitError> {
        let mut readers = self.try_choices(request, 1)?;
        Ok(readers.remove(0))
    }

    pub(super) fn try_choices(
        &self,
        request: GenerateRequest,
        n: usize,
    ) -> Result<Vec<Reader>, SubmitError> {
        let streams = self.intake.generate(request, n)?;
        Ok(streams.into_iter().map(Reader::new).collect())
    }

    pub(super) fn pin(&self, text: &str) -> Result<PinTicket, SubmitError> {
        self.intake.pin(prompt(text))
    }

    pub(super) fn now(&self) -> Instant {
        *self.time.lock().unwrap()
    }

    pub(super) fn pass(&self, time: Duration) {
        *self.time.lock().unwrap() += time;
    }

    /// One step and its invariants.
    pub(super) fn step(&mut self) -> bool {
        let busy = self.core.step();
        self.check();
        busy
    }

    /// Each block is in one state, the queue in order, and what is reported is what there is.
    fn check(&self) {
        self.core.check();
        let running = self.core.scheduler().running().len();
        assert_eq!(self.count(|stats| &stats.requests_running), running as u64);
        let waiting = self.core.scheduler().all().count() - running;
        let told = self.count(|stats| &stats.requests_waiting);
        assert_eq!(told, waiting as u64);
        assert_eq!(self.shared.heartbeat().busy, running + waiting > 0);
        assert_eq!(self.count(|stats| &stats.zombie_tokens), 0);
    }

    /// Some steps.
    pub(super) fn steps(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
        }
    }

    /// Steps until nothing is left to do.
    pub(super) fn settle(&mut self) {
        for _ in 0..TOO_MANY_STEPS {
            if !self.step() {
                return;
            }
        }
        panic!("still busy after {TOO_MANY_STEPS} steps");
    }

    pub(super) fn count(&self, of: impl Fn(&EngineStats) -> &AtomicU64) -> u64 {
        of(&self.stats).load(Ordering::Relaxed)
    }

    pub(super) fn blocks_used(&self) -> u64 {
        self.count(|stats| &stats.kv_blocks_used)
    }
}

/// A stream and what was read of it.
#[derive(Debug)]
pub(super) struct Reader {
    stream: TokenStream,
    pub(super) deltas: Vec<String>,
    /// Likelihoods of the prompt, and of the output.
    pub(super) prompt: Option<Vec<TokenLogprob>>,
    pub(super) scores: Vec<TokenLogprob>,
    pub(super) finish: Option<Finish>,
}

impl Reader {
    pub(super) fn new(stream: TokenStream) -> Self {
        Self {
            stream,
            deltas: Vec::new(),
            prompt: None,
            scores: Vec::new(),
            finish: None,
        }
    }

    /// Reads what is there without waiting; returns the number of text events.
    pub(super) fn read(&mut self) -> usize {
        let before = self.deltas.len();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(event)) = pin!(self.stream.next()).poll(&mut context) {
            assert!(self.finish.is_none(), "an event after the terminal one");
            match event {
                TokenEvent::Text(text) => {
                    assert!(!text.is_empty());
                    self.deltas.push(text);
                }
                TokenEvent::Scored { text, tokens } => {
                    assert!(!text.is_empty() || !tokens.is_empty());
                    self.scores.extend(tokens);
                    if !text.is_empty() {
                        self.deltas.push(text);
                    }
                }
                TokenEvent::Prompt(scores) => {
                    assert!(self.deltas.is_empty(), "text before the prompt's scores");
                    assert!(self.prompt.replace(scores).is_none(), "scored twice");
                }
                TokenEvent::Finished(finish) => self.finish = Some(finish),
            }
        }
        self.deltas.len() - before
    }

    pub(super) fn text(&mut self) -> String {
        self.read();
        self.deltas.concat()
    }

    pub(super) fn reason(&mut self) -> Option<FinishReason> {
        self.read();
        self.finish.as_ref().map(|finish| finish.reason.clone())
    }

    pub(super) fn end(&mut self) -> Finish {
        self.read();
        self.finish.clone().expect("the stream should have ended")
    }
}

/// What a request says when it has an engine with plenty of memory to itself and its prompt is computed at once.
pub(super) fn alone(request: GenerateRequest) -> (String, Finish) {
    let mut readers = choices_alone(request, 1);
    (readers[0].text(), readers[0].end())
}

/// As [`alone`], for all choices.
pub(super) fn choices_alone(request: GenerateRequest, n: usize) -> Vec<Reader> {
    choices_of(usize::MAX, request, n)
}

/// As [`choices_alone`], of a model that remembers so many tokens. Nothing is guessed.
pub(super) fn choices_of(memory: usize, request: GenerateRequest, n: usize) -> Vec<Reader> {
    let block_tokens = 4;
    let big = Config {
        step_tokens: 4096,
        mixed_step_tokens: 4096,
        ..config()
    };
    let runner = FakeRunner::forgetful(limits(1024, block_tokens), memory);
    let mut rig = Rig::over(runner, &big);
    let request = GenerateRequest {
        deadline: None,
        ..request
    };
    let mut readers = rig.try_choices(request, n).unwrap();
    rig.settle();
    for reader in &mut readers {
        reader.read();
    }
    readers
}
