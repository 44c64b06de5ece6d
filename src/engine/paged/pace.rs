//! How much of a prompt is computed beside running streams: what keeps a step near its target, as measured so far.

use std::time::Duration;

use super::config::Config;

/// Prompt tokens that a step beside running streams computes at least, so that prompts advance on any machine.
const LEAST: usize = 16;

/// Steps with fewer prompt tokens than this say little about what one costs.
const TELLING: usize = 16;

/// Weight of the newest measurement: one slow step does not throw the estimate, a few do.
const NEWEST: f64 = 0.25;

/// What steps took, in seconds, and what may be put into the next one. It changes when tokens are computed, never which.
#[derive(Debug)]
pub(super) struct Pace {
    /// Tokens of one step beside streams as long as nothing is known.
    unmeasured: usize,
    /// Most tokens of one step.
    most: usize,
    /// `None` keeps to `unmeasured`.
    target: Option<f64>,
    /// A step that only continues streams.
    decode: Option<f64>,
    /// One prompt token more in a step.
    token: Option<f64>,
}

impl Pace {
    pub(super) fn new(config: &Config) -> Self {
        let target = Duration::from_millis(config.target_step_ms).as_secs_f64();
        Self {
            unmeasured: config.mixed_step_tokens,
            most: config.step_tokens,
            target: (config.target_step_ms > 0).then_some(target),
            decode: None,
            token: None,
        }
    }

    /// Prompt tokens that fit a step beside `decodes` streams, at least 1.
    pub(super) fn prompt_tokens(&self, decodes: usize) -> usize {
        let (Some(target), Some(token)) = (self.target, self.token) else {
            return self.unmeasured.saturating_sub(decodes).max(1);
        };
        let most = self.most.saturating_sub(decodes).max(1);
        let left = target - self.decode.unwrap_or(0.0);
        // A float that is negative or too large becomes the nearest integer
        let fitting = (left / token.max(f64::MIN_POSITIVE)) as usize;
        fitting.clamp(LEAST.min(most), most)
    }

    /// Learns from a step that continued `decodes` streams and computed `prompt` tokens of prompts.
    pub(super) fn learn(&mut self, decodes: usize, prompt: usize, took: Duration) {
        let took = took.as_secs_f64();
        if prompt == 0 {
            if decodes > 0 {
                blend(&mut self.decode, took);
            }
            return;
        }
        if prompt < TELLING {
            return;
        }
        let streams = match decodes {
            0 => 0.0,
            _ => self.decode.unwrap_or(0.0),
        };
        blend(&mut self.token, (took - streams).max(0.0) / prompt as f64);
    }
}

fn blend(known: &mut Option<f64>, newest: f64) {
    *known = Some(known.map_or(newest, |known| known + NEWEST * (newest - known)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> Pace {
        Pace::new(&Config {
            step_tokens: 512,
            mixed_step_tokens: 128,
            target_step_ms: 100,
            ..Config::default()
        })
    }

    /// Steps of a machine whose decode step takes `decode_ms` and whose prompt tokens take `token_us` each.
    fn run(pace: &mut Pace, steps: usize, decode_ms: f64, token_us: f64) -> Vec<f64> {
        let mut took = Vec::new();
        for step in 0..steps {
            let prompt = match step % 8 {
                0 => 0,
                _ => pace.prompt_tokens(4),
            };
            let seconds = decode_ms / 1e3 + prompt as f64 * token_us / 1e6;
            pace.learn(4, prompt, Duration::from_secs_f64(seconds));
            took.push(seconds * 1e3);
        }
        took
    }

    #[test]
    fn nothing_measured_is_the_setting() {
        assert_eq!(pace().prompt_tokens(8), 120);
        assert_eq!(pace().prompt_tokens(1000), 1, "prompts always advance");
    }

    #[test]
    fn steps_come_to_their_target_on_fast_and_slow_machines() {
        for (decode_ms, token_us, tokens) in
            [(10.0, 600.0, 150), (20.0, 2000.0, 40), (1.0, 250.0, 396)]
        {
            let mut pace = pace();
            let took = run(&mut pace, 64, decode_ms, token_us);
            assert!(
                took[40..].iter().all(|took| *took < 105.0),
                "{decode_ms} ms, {token_us} us: {took:?}"
            );
            assert!(pace.prompt_tokens(4).abs_diff(tokens) <= tokens / 10 + 1);
        }
    }

    #[test]
    fn a_machine_too_slow_for_the_target_still_advances() {
        let mut pace = pace();
        run(&mut pace, 32, 150.0, 5000.0);
        assert_eq!(pace.prompt_tokens(4), LEAST);
    }

    #[test]
    fn a_machine_that_takes_no_time_gets_whole_steps() {
        let mut pace = pace();
        run(&mut pace, 8, 0.0, 0.0);
        assert_eq!(pace.prompt_tokens(4), 508);
    }

    #[test]
    fn a_change_of_speed_is_followed_and_one_slow_step_forgiven() {
        let mut pace = pace();
        run(&mut pace, 64, 10.0, 600.0);
        let before = pace.prompt_tokens(4);
        pace.learn(4, before, Duration::from_secs(1));
        assert!(pace.prompt_tokens(4) >= LEAST);
        run(&mut pace, 32, 10.0, 600.0);
        assert!(pace.prompt_tokens(4).abs_diff(before) < before / 10);
        run(&mut pace, 64, 10.0, 1800.0);
        assert!(pace.prompt_tokens(4).abs_diff(50) <= 5);
    }

    #[test]
    fn the_ends_of_prompts_do_not_count() {
        let mut pace = pace();
        run(&mut pace, 64, 10.0, 600.0);
        let before = pace.prompt_tokens(4);
        pace.learn(4, 3, Duration::from_millis(90));
        assert_eq!(pace.prompt_tokens(4), before);
    }

    #[test]
    fn without_a_target_the_setting_holds() {
        let mut pace = Pace::new(&Config {
            target_step_ms: 0,
            ..Config::default()
        });
        run(&mut pace, 64, 10.0, 60.0);
        assert_eq!(pace.prompt_tokens(8), 120);
    }
}
