//! Each parameter alone, their limits, and that draws depend on the sequence only.

use proptest::prelude::*;

use super::*;

fn pick(logits: &[f32], sampling: &Sampling, position: u64) -> Result<TokenId, NoUsableLogit> {
    pick_after(logits, sampling, &Penalties::default(), position)
}

fn pick_after(
    logits: &[f32],
    sampling: &Sampling,
    penalties: &Penalties,
    position: u64,
) -> Result<TokenId, NoUsableLogit> {
    let counter = DrawCounter {
        seed: sampling.seed,
        choice: 0,
        position,
    };
    Sampler::default().sample(&mut logits.to_vec(), sampling, penalties, counter)
}

fn warm() -> Sampling {
    Sampling {
        temperature: 1.0,
        ..Sampling::default()
    }
}

/// Share of each token in many draws.
fn shares(logits: &[f32], sampling: &Sampling) -> Vec<f64> {
    const DRAWS: u32 = 40_000;
    let mut counts = vec![0_u32; logits.len()];
    for position in 0..DRAWS {
        counts[pick(logits, sampling, position.into()).unwrap() as usize] += 1;
    }
    counts
        .into_iter()
        .map(|count| f64::from(count) / f64::from(DRAWS))
        .collect()
}

/// Logits of these probabilities.
fn logits_of(probabilities: &[f32]) -> Vec<f32> {
    probabilities
        .iter()
        .map(|probability| probability.ln())
        .collect()
}

fn assert_close(shares: &[f64], expected: &[f64]) {
    for (share, expected) in shares.iter().zip(expected) {
        assert!((share - expected).abs() < 0.015, "{shares:?}");
    }
}

#[test]
fn greedy_takes_the_highest_and_the_lower_id_on_a_tie() {
    assert_eq!(pick(&[0.0, 3.0, 1.0, 3.0], &Sampling::default(), 0), Ok(1));
    assert_eq!(
        pick(&[-5.0, f32::NEG_INFINITY, -4.0], &Sampling::default(), 0),
        Ok(2)
    );
}

#[test]
fn draws_follow_the_probabilities() {
    let logits = logits_of(&[0.5, 0.3, 0.2]);
    assert_close(&shares(&logits, &warm()), &[0.5, 0.3, 0.2]);
}

#[test]
fn temperature_sharpens_and_flattens() {
    let logits = logits_of(&[0.8, 0.2]);
    let at = |temperature| Sampling {
        temperature,
        ..warm()
    };
    assert_close(&shares(&logits, &at(0.5)), &[0.64 / 0.68, 0.04 / 0.68]);
    assert_close(&shares(&logits, &at(2.0)), &[2.0 / 3.0, 1.0 / 3.0]);
}

#[test]
fn top_k_keeps_the_k_most_likely() {
    let logits = logits_of(&[0.1, 0.4, 0.2, 0.3]);
    let sampling = Sampling { top_k: 2, ..warm() };
    assert_close(
        &shares(&logits, &sampling),
        &[0.0, 0.4 / 0.7, 0.0, 0.3 / 0.7],
    );
    let all = Sampling {
        top_k: 100,
        ..warm()
    };
    assert_close(&shares(&logits, &all), &[0.1, 0.4, 0.2, 0.3]);
}

#[test]
fn top_p_keeps_the_smallest_set_that_reaches_it() {
    let logits = logits_of(&[0.1, 0.4, 0.2, 0.3]);
    let at = |top_p| Sampling { top_p, ..warm() };
    assert_close(
        &shares(&logits, &at(0.6)),
        &[0.0, 0.4 / 0.7, 0.0, 0.3 / 0.7],
    );
    assert_close(&shares(&logits, &at(0.39)), &[0.0, 1.0, 0.0, 0.0]);
    assert_close(&shares(&logits, &at(1.0)), &[0.1, 0.4, 0.2, 0.3]);
}

#[test]
fn min_p_is_relative_to_the_most_likely() {
    let logits = logits_of(&[0.1, 0.4, 0.2, 0.3]);
    let sampling = Sampling {
        min_p: 0.6,
        ..warm()
    };
    assert_close(
        &shares(&logits, &sampling),
        &[0.0, 0.4 / 0.7, 0.0, 0.3 / 0.7],
    );
}

/// Fault: fields were parsed and then ignored.
#[test]
fn one_candidate_left_is_greedy_whatever_the_seed() {
    for seed in 0..50 {
        let logits: Vec<f32> = (0..100)
            .map(|token| (uniform_at(seed, token) * 3.0) as f32)
            .collect();
        let greedy = pick(&logits, &Sampling::default(), 0).unwrap();
        let only = [
            Sampling {
                top_k: 1,
                seed,
                ..warm()
            },
            Sampling {
                top_p: 1e-6,
                seed,
                ..warm()
            },
            Sampling {
                temperature: 1e-40,
                seed,
                ..warm()
            },
        ];
        for sampling in only {
            assert_eq!(pick(&logits, &sampling, seed), Ok(greedy), "{sampling:?}");
        }
    }
}

fn uniform_at(seed: u64, position: u64) -> f64 {
    uniform(DrawCounter {
        seed,
        choice: 0,
        position,
    })
}

#[test]
fn equal_counters_draw_equally_and_others_do_not() {
    let logits = vec![0.0; 1000];
    let run = |seed| -> Vec<_> {
        let sampling = Sampling { seed, ..warm() };
        (0..50)
            .map(|position| pick(&logits, &sampling, position).unwrap())
            .collect()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_eq!(run(u64::MAX), run(u64::MAX));
    let choice = |choice| {
        uniform(DrawCounter {
            seed: 1,
            choice,
            position: 1,
        })
    };
    assert_ne!(choice(0), choice(1));
}

#[test]
fn draws_are_even_over_seeds_positions_and_choices() {
    let counters: [fn(u64) -> DrawCounter; 3] = [
        |n| DrawCounter {
            seed: n,
            choice: 0,
            position: 0,
        },
        |n| DrawCounter {
            seed: 0,
            choice: n,
            position: 0,
        },
        |n| DrawCounter {
            seed: 0,
            choice: 0,
            position: n,
        },
    ];
    for counter in counters {
        let mut counts = [0; 10];
        for n in 0..20_000 {
            let point = uniform(counter(n));
            assert!((0.0..1.0).contains(&point));
            counts[(point * 10.0) as usize] += 1;
        }
        assert!(
            counts.iter().all(|count| (1_800..2_200).contains(count)),
            "{counts:?}"
        );
    }
}

#[test]
fn a_logit_that_is_not_a_number_is_never_chosen() {
    let logits = [f32::NAN, 1.0, f32::NAN, 1.0];
    assert_eq!(pick(&logits, &Sampling::default(), 0), Ok(1));
    for position in 0..200 {
        let sampling = Sampling {
            top_k: 3,
            top_p: 0.99,
            ..warm()
        };
        assert!([1, 3].contains(&pick(&logits, &sampling, position).unwrap()));
    }
}

#[test]
fn logits_without_any_choice_are_an_error() {
    for value in [f32::NAN, f32::NEG_INFINITY] {
        for sampling in [Sampling::default(), warm()] {
            assert_eq!(pick(&[value; 3], &sampling, 0), Err(NoUsableLogit(3)));
        }
    }
}

#[test]
fn an_infinite_logit_is_certain() {
    assert_eq!(
        pick(&[1.0, f32::INFINITY, f32::INFINITY], &warm(), 7),
        Ok(1)
    );
}

fn penalised(
    prompt: &[TokenId],
    said: &[TokenId],
    sampling: &Sampling,
    logits: &[f32],
) -> Vec<f32> {
    let mut penalties = Penalties::new(sampling, prompt);
    said.iter().for_each(|token| penalties.add(*token));
    let mut logits = logits.to_vec();
    penalties.apply(&mut logits, sampling);
    logits
}

#[test]
fn repetition_penalty_divides_or_multiplies_what_was_seen() {
    let sampling = Sampling {
        repetition_penalty: 2.0,
        ..Sampling::default()
    };
    let logits = penalised(&[0, 1], &[2, 2], &sampling, &[4.0, -4.0, 1.0, 3.0]);
    assert_eq!(logits, [2.0, -8.0, 0.5, 3.0]);
}

#[test]
fn presence_and_frequency_penalties_count_the_output_only() {
    let sampling = Sampling {
        presence_penalty: 0.5,
        frequency_penalty: 0.25,
        ..Sampling::default()
    };
    let logits = penalised(&[0, 1], &[1, 2, 2], &sampling, &[4.0, 4.0, 4.0, 4.0]);
    assert_eq!(logits, [4.0, 3.25, 3.0, 4.0]);
}

#[test]
fn penalties_change_the_greedy_choice() {
    let sampling = Sampling {
        frequency_penalty: 1.0,
        ..Sampling::default()
    };
    let mut penalties = Penalties::new(&sampling, &[0]);
    assert_eq!(pick_after(&[3.0, 2.5], &sampling, &penalties, 0), Ok(0));
    penalties.add(0);
    assert_eq!(pick_after(&[3.0, 2.5], &sampling, &penalties, 0), Ok(1));
}

#[test]
fn bias_is_added_after_penalties_so_that_it_forbids_and_forces() {
    let mut sampling = Sampling {
        repetition_penalty: 10.0,
        ..Sampling::default()
    };
    let penalties = Penalties::new(&sampling, &[1]);
    let logits = [9.0, 8.0, 7.0];
    assert_eq!(pick_after(&logits, &sampling, &penalties, 0), Ok(0));
    sampling.logit_bias = vec![(1, 100.0)];
    assert_eq!(pick_after(&logits, &sampling, &penalties, 0), Ok(1));
    sampling.logit_bias = vec![(0, -100.0), (1, -100.0)];
    let warm = Sampling {
        temperature: 1.0,
        ..sampling.clone()
    };
    for position in 0..100 {
        assert_eq!(pick_after(&logits, &warm, &penalties, position), Ok(2));
    }
    sampling.logit_bias = vec![(2, 1.5), (4_000_000_000, 3.0)];
    assert_eq!(
        pick(&logits, &sampling, 0),
        Ok(0),
        "a bias is a number like others"
    );
}

#[test]
fn the_exponential_is_exact_enough() {
    for x in (0..870_000).map(|step| -(step as f32) * 1e-4) {
        let exact = f64::from(x).exp();
        let error = (f64::from(exp(x)) - exact).abs() / exact;
        assert!(error < 3e-7, "{error:e} at {x}");
    }
    assert_eq!(exp(0.0), 1.0);
    for nothing in [-87.5, -1e30, f32::NEG_INFINITY, f32::NAN] {
        assert_eq!(exp(nothing), 0.0);
    }
}

#[test]
fn the_highest_is_found_wherever_it_is() {
    for length in 1..70 {
        for at in 0..length {
            let mut logits = vec![-1.0; length];
            logits[at] = 2.0;
            assert_eq!(argmax(&logits), Some(at as TokenId));
        }
    }
}

/// The plain definition, by sorting everything.
fn plain(logits: &[f32], sampling: &Sampling) -> Vec<TokenId> {
    let mut all: Vec<(f32, TokenId)> = logits.iter().copied().zip(0..).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    if sampling.top_k > 0 {
        all.truncate(sampling.top_k);
    }
    let highest = all[0].0;
    let weight = |logit: f32| f64::from(exp((logit - highest) / sampling.temperature));
    let total: f64 = all.iter().map(|(logit, _)| weight(*logit)).sum();
    let mut sum = 0.0;
    let mut kept = Vec::new();
    for (logit, token) in all {
        kept.push((logit, token));
        sum += weight(logit);
        if sampling.top_p < 1.0 && sum >= total * f64::from(sampling.top_p) {
            break;
        }
    }
    kept.retain(|(logit, _)| weight(*logit) >= f64::from(sampling.min_p));
    kept.into_iter().map(|(_, token)| token).collect()
}

proptest! {
    #[test]
    fn what_can_be_drawn_is_what_the_plain_definition_keeps(
        logits in prop::collection::vec((-16..1_i8).prop_map(|halves| f32::from(halves) / 2.0), 2..40),
        top_k in 0..10_usize,
        top_p in prop_oneof![Just(1.0_f32), 0.05..0.95_f32],
        min_p in prop_oneof![Just(0.0_f32), 0.0..0.9_f32],
    ) {
        let sampling = Sampling { top_k, top_p, min_p, ..warm() };
        let expected = plain(&logits, &sampling);
        let mut drawn: Vec<_> =
            (0..600).map(|position| pick(&logits, &sampling, position).unwrap()).collect();
        drawn.sort_unstable();
        drawn.dedup();
        prop_assert!(drawn.iter().all(|token| expected.contains(token)), "{drawn:?} {expected:?}");
        let weight = |token: &TokenId| f64::from(exp(logits[*token as usize]));
        let total: f64 = expected.iter().map(weight).sum();
        let likely = expected.iter().filter(|token| weight(token) > 0.05 * total);
        prop_assert!(likely.into_iter().all(|token| drawn.contains(token)), "{drawn:?} {expected:?}");
    }
}
