//! A fake engine for tests: it computes nothing and writes what it was told to, beat by beat.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::ServedModel;
use crate::engine::{
    Engine, EngineLimits, Finish, FinishReason, GenerateRequest, Heartbeat, PinId, PinTicket,
    StreamSender, SubmitError, Timings, TokenEvent, TokenStream, Usage, stream_channel,
};
use crate::template::ChatTemplate;
use crate::tokenizer::{TokenId, Tokenizer, TokenizerParts};

/// One thing that a scripted generation does.
#[derive(Clone, Debug)]
pub(super) enum Beat {
    Text(String),
    Wait(Duration),
    End(FinishReason),
    /// The engine dies: the stream ends without a word.
    Die,
    /// Nothing more comes, and deadlines are not kept.
    Hang,
}

/// One generation's script, or its refusal.
pub(super) type Script = Result<Vec<Beat>, SubmitError>;

/// Texts of a chunk each, then an ordinary end.
pub(super) fn says(chunks: &[&str]) -> Script {
    let mut beats: Vec<_> = chunks
        .iter()
        .map(|chunk| Beat::Text((*chunk).to_owned()))
        .collect();
    beats.push(Beat::End(FinishReason::Stop));
    Ok(beats)
}

pub(super) struct ScriptedEngine {
    scripts: Mutex<VecDeque<Script>>,
    tokenizer: Arc<Tokenizer>,
    /// What was asked, in order.
    pub(super) requests: Mutex<Vec<GenerateRequest>>,
    running: Arc<AtomicUsize>,
    max_sequence_tokens: usize,
}

impl ScriptedEngine {
    /// Plays one script per generation, in order.
    pub(super) fn new(scripts: Vec<Script>) -> Arc<Self> {
        Arc::new(Self {
            scripts: Mutex::new(scripts.into()),
            tokenizer: Arc::new(
                Tokenizer::new(byte_tokenizer()).expect("a byte vocabulary is valid"),
            ),
            requests: Mutex::default(),
            running: Arc::default(),
            max_sequence_tokens: 100_000,
        })
    }

    /// Generations that were neither ended nor cancelled.
    pub(super) fn running(&self) -> usize {
        self.running.load(Relaxed)
    }

    /// A model served by this engine, with a plain chat template.
    pub(super) fn served(self: &Arc<Self>) -> ServedModel {
        self.served_with(
            "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}",
        )
    }

    /// A model served by this engine, with this chat template.
    pub(super) fn served_with(self: &Arc<Self>, source: &str) -> ServedModel {
        ServedModel {
            id: "scripted".to_owned(),
            created: 0,
            engine: Arc::clone(self) as Arc<dyn Engine>,
            template: Arc::new(
                ChatTemplate::new(source, Arc::clone(&self.tokenizer))
                    .expect("the template is valid"),
            ),
        }
    }
}

impl Engine for ScriptedEngine {
    fn generate(&self, request: GenerateRequest) -> Result<TokenStream, SubmitError> {
        let script = self
            .scripts
            .lock()
            .unwrap()
            .pop_front()
            .expect("the test wrote a script for each generation")?;
        let usage = Usage {
            prompt: request.prompt.len(),
            cached: 0,
            completion: script.len(),
        };
        let deadline = request.deadline.map(tokio::time::Instant::from_std);
        self.requests.lock().unwrap().push(request);
        let (sender, stream) = stream_channel(script.len() + 1);
        let running = Arc::clone(&self.running);
        running.fetch_add(1, Relaxed);
        tokio::spawn(async move {
            let finish = |reason| {
                TokenEvent::Finished(Finish {
                    reason,
                    usage,
                    timings: Timings {
                        queue: Duration::from_millis(7),
                        ..Timings::default()
                    },
                })
            };
            if let Some(reason) = play(script, &sender, deadline).await {
                let _ = sender.send(finish(reason));
            }
            running.fetch_sub(1, Relaxed);
        });
        Ok(stream)
    }

    fn pin(&self, _prompt: Vec<TokenId>) -> Result<PinTicket, SubmitError> {
        Err(SubmitError::Stopped)
    }

    fn unpin(&self, _pin: PinId) {}

    fn limits(&self) -> EngineLimits {
        EngineLimits {
            max_sequence_tokens: self.max_sequence_tokens,
            block_tokens: 16,
            queue: 256,
        }
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            alive: true,
            busy: self.running() > 0,
            since_step: Duration::ZERO,
        }
    }

    fn tokenizer(&self) -> Arc<Tokenizer> {
        Arc::clone(&self.tokenizer)
    }
}

/// Plays beats; the reason to end for, or `None` when the stream just breaks off.
async fn play(
    beats: Vec<Beat>,
    sender: &StreamSender,
    deadline: Option<tokio::time::Instant>,
) -> Option<FinishReason> {
    for beat in beats {
        match beat {
            Beat::Text(text) => {
                let _ = sender.send(TokenEvent::Text(text));
                tokio::task::yield_now().await;
            }
            Beat::Wait(time) => {
                let until = tokio::time::Instant::now() + time;
                while tokio::time::Instant::now() < until {
                    if sender.is_closed() {
                        return None;
                    }
                    if deadline.is_some_and(|deadline| deadline <= tokio::time::Instant::now()) {
                        return Some(FinishReason::Deadline);
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            Beat::End(reason) => return Some(reason),
            Beat::Die => return None,
            Beat::Hang => {
                while !sender.is_closed() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }
    None
}

/// A byte-level vocabulary of single bytes and one token that ends a turn.
fn byte_tokenizer() -> TokenizerParts {
    let mut spare = 256..;
    let mut tokens: Vec<String> = (0..=255_u8)
        .map(|byte| {
            let shown = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
            let code = if shown {
                u32::from(byte)
            } else {
                spare.next().expect("the range has no end")
            };
            char::from_u32(code)
                .expect("codes below 512 are characters")
                .to_string()
        })
        .collect();
    tokens.push("<|im_end|>".to_owned());
    let mut kinds = vec![1; 256];
    kinds.push(3);
    TokenizerParts {
        model: "gpt2".to_owned(),
        pre: "smollm".to_owned(),
        tokens,
        kinds,
        eos: Some(256),
        ..TokenizerParts::default()
    }
}
