//! What a turn takes beside the model: hooks, rendering and tokenising the prompt, cutting and checking what is said.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use compere::engine::{
    Engine, EngineLimits, Finish, FinishReason, GenerateRequest, Heartbeat, PinId, PinTicket,
    SubmitError, Timings, TokenEvent, TokenId, TokenStream, Usage, stream_channel,
};
use compere::harness;
use compere::telemetry::Metrics;
use compere::tokenizer::Tokenizer;
use compere::tools::{self, Tools};
use compere::turn::{self, Comment, Context, ServedModel, TurnEvent, TurnRequest, Turns};
use serde_json::json;

use super::offline::{Folder, template};
use super::{content, p95};
use crate::Failure;

/// Turns that are measured, after as many that are not.
const TURNS: usize = 300;
/// What the model says, in pieces as tokens are.
const ANSWER: &str =
    "Yes, it keeps water out up to 10,000 mm. The price is $89, and you can pay later if you like.";
/// Skills in the prompt: with the rest of it about 1,500 tokens.
const SKILLS: usize = 28;

/// P95 of a turn's time in ms over an engine that answers at once.
pub(super) fn turn_p95_ms(model: &Path) -> Result<f64, Failure> {
    let folder = Folder::new("overhead");
    content::write(&folder.0, SKILLS, SKILLS)?;
    content::add_hooks(&folder.0)?;
    let source = harness::read(&folder.0.join("live-room"));
    let loaded = source.and_then(|source| harness::load("live-room", &source));
    let loaded = loaded.map_err(|problems| format!("{problems:?}"))?;
    let template = template(model)?;
    let served = ServedModel {
        id: "instant".to_owned(),
        created: 0,
        engine: Arc::new(AtOnce(Arc::clone(template.tokenizer()))),
        template,
    };
    let turns = Turns::new(
        served,
        loaded.harness,
        Tools::new(&tools::Config::default(), BTreeMap::new())?,
        turn::Config::default(),
        Arc::new(Metrics::new()),
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let took = runtime.block_on(async {
        let mut took = Vec::new();
        for n in 0..2 * TURNS {
            let start = Instant::now();
            whole(&turns, n).await?;
            took.push(start.elapsed().as_secs_f64() * 1e3);
        }
        Ok::<_, Failure>(took)
    })?;
    Ok(p95(&took[TURNS..]))
}

async fn whole(turns: &Turns, n: usize) -> Result<(), Failure> {
    let facts = json!({"waterproof": "yes, to 10,000 mm", "price": "$89"});
    let mut turn = turns.respond(TurnRequest {
        room_id: format!("room-{}", n % 8),
        deadline: Duration::from_secs(6),
        comments: vec![Comment {
            comment_id: "c1".to_owned(),
            nickname: "Ann".to_owned(),
            text: format!("is it waterproof, and what does it cost? ({n})"),
        }],
        context: Context {
            product_id: "trail-jacket".to_owned(),
            facts: facts.as_object().cloned().unwrap_or_default(),
            promotions: Vec::new(),
        },
        max_chars: 120,
        ..TurnRequest::default()
    })?;
    while let Some(event) = turn.next().await {
        match event {
            TurnEvent::Completed(end) if end.finish_reason != turn::TurnFinish::Stop => {
                return Err(format!("the turn ended as {:?}", end.finish_reason).into());
            }
            TurnEvent::Failed(failure) => return Err(failure.message.into()),
            _ => {}
        }
    }
    Ok(())
}

/// An engine that has said everything when it is asked.
struct AtOnce(Arc<Tokenizer>);

impl Engine for AtOnce {
    fn generate(&self, request: GenerateRequest) -> Result<TokenStream, SubmitError> {
        let pieces: Vec<&str> = ANSWER.split_inclusive(' ').collect();
        let (sender, stream) = stream_channel(pieces.len());
        let usage = Usage {
            prompt: request.prompt.len(),
            cached: 0,
            completion: pieces.len(),
        };
        let texts = pieces
            .into_iter()
            .map(|piece| TokenEvent::Text(piece.to_owned()));
        let end = TokenEvent::Finished(Finish {
            reason: FinishReason::Stop,
            usage,
            timings: Timings::default(),
        });
        // The reader is on its way: the channel holds all of it.
        let _ = texts.chain([end]).all(|event| sender.send(event));
        Ok(stream)
    }

    fn pin(&self, _: Vec<TokenId>) -> Result<PinTicket, SubmitError> {
        Err(SubmitError::Invalid {
            field: "pin",
            reason: "this engine keeps nothing".to_owned(),
        })
    }

    fn unpin(&self, _: PinId) {}

    fn limits(&self) -> EngineLimits {
        EngineLimits {
            max_sequence_tokens: 8192,
            block_tokens: 16,
            queue: 256,
        }
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            alive: true,
            busy: false,
            since_step: Duration::ZERO,
        }
    }

    fn tokenizer(&self) -> Arc<Tokenizer> {
        Arc::clone(&self.0)
    }
}
