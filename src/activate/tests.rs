//! What is warm before a harness goes live, what is pinned, and when that ends: over the paged engine and a fake model.

use std::sync::atomic::Ordering;

use super::*;
use crate::engine::paged::fake::{FakeRunner, byte_tokenizer};
use crate::engine::paged::runner::RunnerLimits;
use crate::engine::paged::{Config, PagedEngine};
use crate::engine::{Finish, GenerateRequest};
use crate::harness::{Source, load};
use crate::telemetry::EngineStats;

const BLOCK: usize = 4;
const TEMPLATE: &str =
    "{% for message in messages %}[{{ message.role }}]{{ message.content }}\n{% endfor %}[answer]";

struct World {
    engine: Arc<PagedEngine>,
    stats: Arc<EngineStats>,
    template: Arc<ChatTemplate>,
    activator: Activator,
}

/// An engine of `blocks` blocks, half of them for pins.
fn world(blocks: usize, demands: Demands) -> World {
    let tokenizer = byte_tokenizer();
    let runner = FakeRunner::hashing(RunnerLimits {
        vocab: tokenizer.vocab_size(),
        max_context: 4096,
        block_tokens: BLOCK,
        blocks,
    });
    let stats = Arc::new(EngineStats::default());
    let config = Config {
        pin_share: 0.5,
        ..Config::default()
    };
    let engine = PagedEngine::start(
        Box::new(runner),
        Arc::clone(&tokenizer),
        Arc::clone(&stats),
        &config,
    );
    let engine = Arc::new(engine.expect("valid settings"));
    let template = Arc::new(ChatTemplate::new(TEMPLATE, tokenizer).expect("a valid template"));
    let activator = Activator::new(
        Arc::clone(&engine) as _,
        Arc::clone(&template),
        Calls::Taught,
        demands,
    );
    World {
        engine,
        stats,
        template,
        activator,
    }
}

fn nothing_missing() -> Demands {
    Box::new(|_| Vec::new())
}

/// A harness whose persona is 200 characters that begin with `text`.
fn harness(text: &str) -> Arc<Harness> {
    let mut source = Source::default();
    source.insert("harness.toml", b"language = \"en\"\n".as_slice());
    source.insert("prompts/persona.txt", format!("{text:.<200}").into_bytes());
    let loaded = load("live-room", &source).expect("a valid harness");
    Arc::new(loaded.harness)
}

impl World {
    fn blocks_used(&self) -> u64 {
        self.stats.kv_blocks_used.load(Ordering::SeqCst)
    }

    /// Tokens of a question to the harness, and those that were cached.
    async fn ask(&self, harness: &Harness) -> (usize, usize) {
        let system = harness.opening(Calls::Taught).system;
        let messages = [
            Message::new("system", system),
            Message::new("user", "is it waterproof?"),
        ];
        let prompt = self.template.render(&messages).expect("rendered").tokens;
        let request = GenerateRequest {
            prompt,
            max_tokens: Some(1),
            ..GenerateRequest::default()
        };
        let finish = end(self.engine.generate(request).expect("accepted")).await;
        (finish.usage.prompt, finish.usage.cached)
    }

    async fn until_blocks(&self, wanted: u64) {
        while self.blocks_used() != wanted {
            // The engine has a thread of its own; what sleeps here wakes at once.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn end(mut stream: TokenStream) -> Finish {
    loop {
        if let TokenEvent::Finished(finish) = stream.next().await.expect("an end comes") {
            return finish;
        }
    }
}

/// What prompts of this harness share, in blocks.
fn blocks(world: &World, harness: &Harness) -> u64 {
    let prefix = prefix(&world.template, harness, Calls::Taught).expect("rendered");
    (prefix.len() / BLOCK) as u64
}

#[tokio::test(start_paused = true)]
async fn the_first_question_after_activation_finds_the_whole_prefix() {
    let world = world(600, nothing_missing());
    let harness = harness("You are Mia");
    let warm = world
        .activator
        .activate(Arc::clone(&harness))
        .await
        .expect("ready");
    let (_, cached) = world.ask(&harness).await;
    let shared = blocks(&world, &harness);
    assert!(
        cached as u64 >= shared * BLOCK as u64,
        "{cached} of {shared} blocks"
    );
    assert!(shared * BLOCK as u64 > 200);
    world.until_blocks(shared).await;
    drop(warm);
    world.until_blocks(0).await;
}

/// Fault: a reload that found no room for a second pinned prefix failed, or pushed out the one that was live.
#[tokio::test(start_paused = true)]
async fn without_room_for_two_the_live_prefix_stays_and_the_next_takes_its_place_later() {
    let world = world(200, nothing_missing());
    let (old, new) = (harness("You are Mia"), harness("Be Bo now"));
    let (old_blocks, new_blocks) = (blocks(&world, &old), blocks(&world, &new));
    assert!(old_blocks + new_blocks > 100, "two do not fit");
    let live = world
        .activator
        .activate(Arc::clone(&old))
        .await
        .expect("ready");
    let next = world
        .activator
        .activate(Arc::clone(&new))
        .await
        .expect("ready all the same");
    world.until_blocks(old_blocks).await;
    let (_, cached) = world.ask(&new).await;
    assert!(
        cached as u64 >= new_blocks * BLOCK as u64,
        "warm though not pinned"
    );
    drop(live);
    world.until_blocks(new_blocks).await;
    drop(next);
    world.until_blocks(0).await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_work_is_refused_with_every_reason_and_leaves_nothing() {
    let demands = || vec!["tool a: no host".to_owned(), "tool b: no secret".to_owned()];
    let world = world(200, Box::new(move |_| demands()));
    let refused = world.activator.activate(harness("You are Mia")).await;
    let reason = refused.map(|_| ()).expect_err("refused");
    assert_eq!(reason, "tool a: no host; tool b: no secret");
    assert_eq!(world.blocks_used(), 0);

    let small = self::world(100, nothing_missing());
    let refused = small.activator.activate(harness("You are Mia")).await;
    let reason = refused.map(|_| ()).expect_err("refused");
    assert!(reason.contains("a sequence may have 200"), "{reason}");
    assert_eq!(small.blocks_used(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_dies_keeps_the_harness_from_going_live() {
    let world = world(600, nothing_missing());
    world.engine.shutdown();
    let refused = world.activator.activate(harness("You are Mia")).await;
    let reason = refused.map(|_| ()).expect_err("refused");
    assert!(reason.contains("not running"), "{reason}");
}

#[test]
fn the_prefix_begins_every_prompt_of_its_harness_and_no_more() {
    let world = world(600, nothing_missing());
    let harness = harness("You are Mia");
    let prefix = prefix(&world.template, &harness, Calls::Taught).expect("rendered");
    let system = harness.opening(Calls::Taught).system;
    for (more, user) in [
        ("", "Q"),
        ("\n\nAnswer in Chinese.", "防水吗"),
        ("", "\n"),
        ("", "[user]"),
    ] {
        let messages = [
            Message::new("system", format!("{system}{more}")),
            Message::new("user", user),
        ];
        let prompt = world.template.render(&messages).expect("rendered");
        assert!(prompt.tokens.starts_with(&prefix), "{more:?} {user:?}");
    }
}
