//! Any sequence of submissions, steps, drops, pins and delays, on pools that are barely large enough.

use std::time::Duration;

use proptest::prelude::*;

use super::support::{Reader, Rig, choices_of, config, limits, prompt, request};
use crate::engine::paged::Config;
use crate::engine::paged::fake::FakeRunner;
use crate::engine::paged::sequence::Purpose;
use crate::engine::{
    FinishReason, GenerateRequest, PinId, PinTicket, Priority, Sampling, SubmitError,
};

#[derive(Clone, Debug)]
enum Act {
    Submit(Ask),
    Step,
    /// Drops a live stream.
    Drop(usize),
    Pin(usize),
    Warm(usize),
    DropWarm(usize),
    DropTicket(usize),
    Unpin(usize),
    Wait(u64),
    FailNext,
}

/// Small choices that make requests meet: few texts, shared prefixes.
#[derive(Clone, Debug)]
struct Ask {
    prefix: usize,
    tail: usize,
    max_tokens: usize,
    priority: Priority,
    deadline_ms: Option<u64>,
    seed: Option<u64>,
    stop: bool,
    extras: Extras,
}

/// What most requests do not ask for.
#[derive(Clone, Debug, Default)]
struct Extras {
    choices: usize,
    logprobs: Option<usize>,
    prompt_logprobs: Option<usize>,
    bias: Vec<(u32, f32)>,
    min_tokens: usize,
}

const PREFIXES: [&str; 3] = ["", "shared-pre", "shared-prefix-longer"];

impl Ask {
    fn request(&self, rig: &Rig) -> GenerateRequest {
        let text = format!("{}{}", PREFIXES[self.prefix], &"zyxwvu"[..=self.tail]);
        let stop = "abcdefghijklmnopqrstuvwxyz"
            .chars()
            .map(String::from)
            .take(16);
        GenerateRequest {
            priority: self.priority,
            deadline: self
                .deadline_ms
                .map(|ms| rig.now() + Duration::from_millis(ms)),
            sampling: Sampling {
                temperature: if self.seed.is_some() { 1.0 } else { 0.0 },
                seed: self.seed.unwrap_or(0),
                repetition_penalty: 1.1,
                logit_bias: self.extras.bias.clone(),
                ..Sampling::default()
            },
            logprobs: self.extras.logprobs,
            prompt_logprobs: self.extras.prompt_logprobs,
            min_tokens: self.extras.min_tokens.min(self.max_tokens),
            stop_token_ids: vec![0, 33],
            stop: if self.stop {
                stop.collect()
            } else {
                Vec::new()
            },
            ..request(&text, self.max_tokens)
        }
    }
}

fn extras() -> impl Strategy<Value = Extras> {
    let bias =
        (0..4_u32).prop_map(|few| (0..few).map(|n| (40 + n, 9.0 - 6.0 * n as f32)).collect());
    let some = proptest::option::weighted(0.6, 0..21_usize);
    let wanted = (1..5_usize, some.clone(), some, bias, 0..9_usize).prop_map(
        |(choices, logprobs, prompt_logprobs, bias, min_tokens)| Extras {
            choices,
            logprobs,
            prompt_logprobs,
            bias,
            min_tokens,
        },
    );
    let none = Just(Extras {
        choices: 1,
        ..Extras::default()
    });
    prop_oneof![none, wanted]
}

fn asks() -> impl Strategy<Value = Ask> {
    let priorities = prop_oneof![
        Just(Priority::Low),
        Just(Priority::Normal),
        Just(Priority::High)
    ];
    let deadlines = proptest::option::weighted(0.2, 0..400_u64);
    let seeds = proptest::option::weighted(0.3, 0..3_u64);
    (
        0..3_usize,
        0..6_usize,
        1..16_usize,
        priorities,
        deadlines,
        seeds,
        any::<bool>(),
        extras(),
    )
        .prop_map(
            |(prefix, tail, max_tokens, priority, deadline_ms, seed, stop, extras)| Ask {
                prefix,
                tail,
                max_tokens,
                priority,
                deadline_ms,
                seed,
                stop,
                extras,
            },
        )
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => asks().prop_map(Act::Submit),
        8 => Just(Act::Step),
        1 => any::<usize>().prop_map(Act::Drop),
        1 => (0..3_usize).prop_map(Act::Pin),
        1 => (0..3_usize).prop_map(Act::Warm),
        1 => any::<usize>().prop_map(Act::DropWarm),
        1 => any::<usize>().prop_map(Act::DropTicket),
        1 => any::<usize>().prop_map(Act::Unpin),
        1 => (0..200_u64).prop_map(Act::Wait),
        1 => proptest::bool::weighted(0.3).prop_map(|fail| if fail { Act::FailNext } else { Act::Step }),
    ]
}

#[derive(Clone, Debug)]
struct Shape {
    blocks: usize,
    block_tokens: usize,
    max_running: usize,
    step_tokens: usize,
    pin_share: f64,
    target_step_ms: u64,
    tick_us: u64,
    speculate_rows: usize,
    /// Tokens that the model's next one depends on: with few it repeats itself, so that guesses are right.
    memory: usize,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let pins = prop_oneof![Just(0.0), Just(0.3), Just(0.6)];
    let pace = (0..3_u64, 0..3000_u64);
    let memory = prop_oneof![Just(1_usize), Just(2), Just(usize::MAX)];
    let pool = (3..14_usize, 1..9_usize);
    (
        pool,
        1..5_usize,
        1..40_usize,
        pins,
        pace,
        0..12_usize,
        memory,
    )
        .prop_map(
            |(
                (blocks, block_tokens),
                max_running,
                extra,
                pin_share,
                pace,
                speculate_rows,
                memory,
            )| {
                let (target_step_ms, tick_us) = pace;
                Shape {
                    blocks,
                    block_tokens,
                    max_running,
                    step_tokens: max_running + extra,
                    pin_share,
                    target_step_ms,
                    tick_us,
                    speculate_rows,
                    memory,
                }
            },
        )
}

/// The engine under test and what is known about each request.
struct World {
    rig: Rig,
    memory: usize,
    /// Each with its place among the request's choices.
    live: Vec<((GenerateRequest, usize), Reader)>,
    warming: Vec<Reader>,
    tickets: Vec<PinTicket>,
    pins: Vec<PinId>,
}

impl World {
    fn new(shape: &Shape) -> Self {
        let config = Config {
            step_tokens: shape.step_tokens,
            mixed_step_tokens: shape.max_running + 1,
            max_running: shape.max_running,
            queue: 6,
            pin_share: shape.pin_share,
            aging_ms: 100,
            target_step_ms: shape.target_step_ms,
            speculate_rows: shape.speculate_rows,
            ..config()
        };
        let limits = limits(shape.blocks, shape.block_tokens);
        let rig = Rig::over(FakeRunner::forgetful(limits, shape.memory), &config);
        *rig.tick.lock().unwrap() = Duration::from_micros(shape.tick_us);
        Self {
            rig,
            memory: shape.memory,
            live: Vec::new(),
            warming: Vec::new(),
            tickets: Vec::new(),
            pins: Vec::new(),
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Submit(ask) => self.submit(&ask),
            Act::Step => self.step(),
            Act::Drop(at) => drop(take(&mut self.live, at)),
            Act::Pin(prefix) => {
                if let Ok(ticket) = self.rig.pin(&format!("{}-", PREFIXES[prefix])) {
                    self.pins.push(ticket.id);
                    self.tickets.push(ticket);
                }
            }
            Act::Warm(prefix) => {
                let tokens = prompt(&format!("{}zyx", PREFIXES[prefix]));
                let stream = self.rig.intake.warm(tokens);
                self.warming.extend(stream.ok().map(Reader::new));
            }
            Act::DropWarm(at) => drop(take(&mut self.warming, at)),
            Act::DropTicket(at) => drop(take(&mut self.tickets, at)),
            Act::Unpin(at) => {
                if let Some(pin) = take(&mut self.pins, at) {
                    self.rig.intake.unpin(pin);
                }
            }
            Act::Wait(ms) => self.rig.pass(Duration::from_millis(ms)),
            Act::FailNext => self.rig.control.fail_next("as asked"),
        }
    }

    fn submit(&mut self, ask: &Ask) {
        let request = ask.request(&self.rig);
        let limit = self.rig.intake.limits().max_sequence_tokens;
        let fits = request.prompt.len() + ask.max_tokens <= limit;
        match self.rig.try_choices(request.clone(), ask.extras.choices) {
            Ok(readers) => {
                let choices = readers.into_iter().enumerate();
                self.live
                    .extend(choices.map(|(choice, reader)| ((request.clone(), choice), reader)));
            }
            Err(SubmitError::ContextLength { .. }) => assert!(!fits),
            Err(SubmitError::QueueFull { .. }) => assert!(fits),
            Err(other) => panic!("{other}"),
        }
    }

    /// A step in which every stream that is decoding gets at least a token, is preempted, or ends.
    fn step(&mut self) {
        let state = |rig: &Rig| -> Vec<(u64, usize, u32)> {
            let running = rig.core.scheduler().running().iter();
            let decoding = running.filter(|s| s.decodes() && s.purpose == Purpose::Generate);
            decoding
                .map(|s| (s.serial, s.completion(), s.preemptions))
                .collect()
        };
        let before = state(&self.rig);
        self.rig.step();
        for (serial, completion, preemptions) in before {
            let all = self.rig.core.scheduler().all();
            let Some(sequence) = all.into_iter().find(|sequence| sequence.serial == serial) else {
                continue;
            };
            let advanced = sequence.completion() > completion;
            let preempted = sequence.preemptions == preemptions + 1;
            assert!(advanced || preempted, "sequence {serial} got nothing");
        }
        for (_, reader) in &mut self.live {
            assert!(reader.read() <= 1, "one text event a step");
        }
    }

    /// Lets all end and compares every answer with what the request gets alone.
    fn finish(mut self) {
        let mut steps = 0;
        while !self.rig.core.scheduler().is_empty() || steps == 0 {
            self.step();
            steps += 1;
            assert!(steps < 5000, "the work does not end");
        }
        for ((request, choice), mut reader) in self.live {
            let text = reader.text();
            let finish = reader.end();
            let mut alone = choices_of(self.memory, request, choice + 1).remove(choice);
            let (expected, expected_finish) = (alone.text(), alone.end());
            assert!(alone.scores.starts_with(&reader.scores));
            match finish.reason {
                FinishReason::Stop | FinishReason::Length => {
                    assert_eq!(text, expected);
                    assert_eq!(finish.reason, expected_finish.reason);
                    assert_eq!(finish.usage.completion, expected_finish.usage.completion);
                    assert_eq!(reader.scores, alone.scores);
                    assert_eq!(reader.prompt, alone.prompt);
                }
                FinishReason::Deadline | FinishReason::Error(_) => {
                    assert!(expected.starts_with(&text), "{text:?} of {expected:?}");
                }
            }
        }
        for mut ready in self.warming {
            ready.end();
            assert!(ready.deltas.is_empty());
        }
        for ticket in self.tickets {
            Reader::new(ticket.ready).end();
        }
        for pin in self.pins {
            self.rig.intake.unpin(pin);
        }
        self.rig.step();
        assert_eq!(self.rig.blocks_used(), 0);
        assert_eq!(self.rig.count(|stats| &stats.requests_running), 0);
        assert_eq!(self.rig.count(|stats| &stats.requests_waiting), 0);
        assert_eq!(self.rig.count(|stats| &stats.zombie_tokens), 0);
        assert!(!self.rig.shared.heartbeat().busy);
    }
}

fn take<T>(from: &mut Vec<T>, at: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(at % from.len()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_is_lost_mixed_up_or_starved(shape in shapes(), acts in prop::collection::vec(acts(), 1..80)) {
        let mut world = World::new(&shape);
        for act in acts {
            world.act(act);
        }
        world.finish();
    }
}
