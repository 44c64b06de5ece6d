//! Attention agrees with a plain one in f64, for every size of head, window and preparation.

use super::*;

fn rotated(x: &[f64], position: usize) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    for pair in 0..x.len() / 2 {
        let angle = position as f64 * 10_000f64.powf(-2.0 * pair as f64 / x.len() as f64);
        let (a, b) = (x[2 * pair], x[2 * pair + 1]);
        out[2 * pair] = a * angle.cos() - b * angle.sin();
        out[2 * pair + 1] = a * angle.sin() + b * angle.cos();
    }
    out
}

fn plain_attention(kind: Kind, tokens: &[u64], position: usize, head: usize) -> Vec<f64> {
    let dim = kind.dim;
    let part = |which: u64, at: usize, head: usize| -> Vec<f64> {
        let heads = if which == 0 { HEADS * GROUP } else { HEADS };
        let of = |token| row(which, token, heads * dim)[head * dim..][..dim].to_vec();
        let mut x: Vec<f64> = of(tokens[at]).into_iter().map(f64::from).collect();
        if kind.prepared {
            x.iter_mut()
                .zip(of(1 << 20))
                .for_each(|(x, bias)| *x += f64::from(bias));
        }
        if kind.prepared && which < 2 {
            let mean = x.iter().map(|x| x * x).sum::<f64>() / dim as f64;
            let rms = (mean + f64::from(EPSILON)).sqrt();
            x.iter_mut()
                .zip(row(which, 1 << 21, dim))
                .for_each(|(x, weight)| *x = *x / rms * f64::from(weight));
        }
        x
    };
    let query = rotated(&part(0, position, head), position);
    let first = kind
        .window
        .map_or(0, |window| (position + 1).saturating_sub(window));
    let scores: Vec<f64> = (first..=position)
        .map(|at| {
            let key = rotated(&part(1, at, head / GROUP), at);
            query.iter().zip(&key).map(|(a, b)| a * b).sum::<f64>() / (dim as f64).sqrt()
        })
        .collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut out = vec![0.0; dim];
    for (index, weight) in weights.iter().enumerate() {
        for (out, value) in out.iter_mut().zip(part(2, first + index, head / GROUP)) {
            *out += weight / sum * value;
        }
    }
    out
}

fn agrees(kind: Kind) {
    let tokens: Vec<u64> = (0..77).collect();
    let got = alone(kind, &tokens);
    for position in [0, 1, 5, 31, 32, 40, 63, 64, 76] {
        for head in 0..HEADS * GROUP {
            let want = plain_attention(kind, &tokens, position, head);
            for (got, want) in got[position][head * kind.dim..].iter().zip(want) {
                assert!(
                    (f64::from(*got) - want).abs() < 6e-3,
                    "{kind:?} position {position} head {head}: {got} {want}"
                );
            }
        }
    }
}

#[test]
fn agrees_with_plain_attention() {
    agrees(PLAIN);
}

#[test]
fn heads_of_every_size_windows_biases_and_norms_agree_with_plain_attention() {
    for dim in [16, 64, 80, 96, 128, 256] {
        agrees(Kind { dim, ..PLAIN });
    }
    for window in [1, 2, 7, 32, 33, 64, 77, 1000] {
        agrees(Kind {
            window: Some(window),
            ..PLAIN
        });
    }
    agrees(Kind {
        dim: 80,
        window: Some(20),
        prepared: true,
    });
}
