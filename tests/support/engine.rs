//! An engine that says what a test tells it to, when the test lets it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use compere::engine::{
    Engine, EngineLimits, Finish, FinishReason, GenerateRequest, Heartbeat, PinId, PinTicket,
    StreamSender, SubmitError, Timings, TokenEvent, TokenStream, Usage, stream_channel,
};
use compere::tokenizer::{TokenId, Tokenizer};

/// One thing that a generation does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Emits text.
    Say(String),
    /// Waits until the test releases it.
    Hold,
    /// Ends early.
    End(FinishReason),
}

/// Says `text`.
pub(crate) fn say(text: &str) -> Act {
    Act::Say(text.to_owned())
}

/// The engine; each generation plays the script of the moment.
pub(crate) struct ScriptedEngine {
    tokenizer: Arc<Tokenizer>,
    script: Mutex<Vec<Act>>,
    released: Arc<(Mutex<usize>, Condvar)>,
    requests: Mutex<Vec<GenerateRequest>>,
    refuse: Mutex<Option<SubmitError>>,
    /// Makes the next request panic.
    pub(crate) panics: AtomicBool,
    heartbeat: Mutex<Heartbeat>,
    counts: Arc<Counts>,
}

/// What became of the generations.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) running: AtomicUsize,
    pub(crate) cancelled: AtomicUsize,
    pub(crate) finished: AtomicUsize,
}

impl ScriptedEngine {
    pub(crate) fn new(tokenizer: Arc<Tokenizer>) -> Self {
        Self {
            tokenizer,
            script: Mutex::new(vec![say("Yes, it is waterproof.")]),
            released: Arc::default(),
            requests: Mutex::default(),
            refuse: Mutex::default(),
            panics: AtomicBool::new(false),
            heartbeat: Mutex::new(Heartbeat {
                alive: true,
                busy: false,
                since_step: Duration::ZERO,
            }),
            counts: Arc::default(),
        }
    }

    /// Every generation from now on does `acts`.
    pub(crate) fn script(&self, acts: impl Into<Vec<Act>>) {
        *self.script.lock().unwrap() = acts.into();
    }

    /// Lets every `Hold` go on, those to come too.
    pub(crate) fn release(&self) {
        *self.released.0.lock().unwrap() += 1;
        self.released.1.notify_all();
    }

    /// Refuses all requests from now on.
    pub(crate) fn refuse(&self, error: SubmitError) {
        *self.refuse.lock().unwrap() = Some(error);
    }

    /// What liveness shows from now on.
    pub(crate) fn beat(&self, heartbeat: Heartbeat) {
        *self.heartbeat.lock().unwrap() = heartbeat;
    }

    /// What was asked last.
    pub(crate) fn last_request(&self) -> GenerateRequest {
        let requests = self.requests.lock().unwrap();
        requests.last().expect("something was asked").clone()
    }

    /// How many requests came.
    pub(crate) fn asked(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Engine for ScriptedEngine {
    fn generate(&self, request: GenerateRequest) -> Result<TokenStream, SubmitError> {
        assert!(!self.panics.swap(false, SeqCst), "told to panic\r\nid: 7");
        if let Some(error) = self.refuse.lock().unwrap().clone() {
            return Err(error);
        }
        let prompt = request.prompt.len();
        self.requests.lock().unwrap().push(request);
        let script = self.script.lock().unwrap().clone();
        let (sender, stream) = stream_channel(script.len());
        let player = Player {
            sender,
            released: Arc::clone(&self.released),
            counts: Arc::clone(&self.counts),
            usage: Usage {
                prompt,
                cached: 0,
                completion: 0,
            },
        };
        self.counts.running.fetch_add(1, SeqCst);
        std::thread::spawn(move || player.play(script));
        Ok(stream)
    }

    fn pin(&self, _prompt: Vec<TokenId>) -> Result<PinTicket, SubmitError> {
        let (sender, ready) = stream_channel(0);
        let finish = finish(FinishReason::Stop, Usage::default());
        let _ = sender.send(TokenEvent::Finished(finish));
        Ok(PinTicket {
            id: PinId(0),
            ready,
        })
    }

    fn unpin(&self, _pin: PinId) {}

    fn limits(&self) -> EngineLimits {
        EngineLimits {
            max_sequence_tokens: 4096,
            block_tokens: 16,
            queue: 256,
        }
    }

    fn heartbeat(&self) -> Heartbeat {
        *self.heartbeat.lock().unwrap()
    }

    fn tokenizer(&self) -> Arc<Tokenizer> {
        Arc::clone(&self.tokenizer)
    }
}

/// One generation, on a thread of its own.
struct Player {
    sender: StreamSender,
    released: Arc<(Mutex<usize>, Condvar)>,
    counts: Arc<Counts>,
    usage: Usage,
}

impl Player {
    fn play(mut self, script: Vec<Act>) {
        let whole = self.acts(script);
        let ended = if whole {
            &self.counts.finished
        } else {
            &self.counts.cancelled
        };
        ended.fetch_add(1, SeqCst);
        self.counts.running.fetch_sub(1, SeqCst);
    }

    /// `false` when the reader went away.
    fn acts(&mut self, script: Vec<Act>) -> bool {
        let mut reason = FinishReason::Stop;
        for act in script {
            match act {
                Act::Say(text) => {
                    self.usage.completion += 1;
                    if !self.sender.send(TokenEvent::Text(text)) {
                        return false;
                    }
                }
                Act::Hold => {
                    if !self.hold() {
                        return false;
                    }
                }
                Act::End(early) => {
                    reason = early;
                    break;
                }
            }
        }
        self.sender
            .send(TokenEvent::Finished(finish(reason, self.usage)))
    }

    /// Waits for the release; `false` when the reader went away meanwhile.
    fn hold(&self) -> bool {
        let (released, changed) = &*self.released;
        let mut count = released.lock().unwrap();
        while *count == 0 {
            if self.sender.is_closed() {
                return false;
            }
            count = changed
                .wait_timeout(count, Duration::from_millis(1))
                .unwrap()
                .0;
        }
        true
    }
}

fn finish(reason: FinishReason, usage: Usage) -> Finish {
    Finish {
        reason,
        usage,
        timings: Timings::default(),
    }
}
