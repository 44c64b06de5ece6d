//! The one table of metrics: name, kind, labels, help. Exporters take their help from it, docs/metrics.md is made of it.

use std::fmt::Write as _;

/// What a metric is to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Label names; all values come from fixed sets, never from requests.
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

const fn row(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Entry {
    Entry {
        name,
        kind,
        labels,
        help,
    }
}

/// Every metric that is exported.
#[rustfmt::skip] // one metric a line: it is read as a table
pub(super) const TABLE: &[Entry] = &[
    row("avatar_turns_accepted_total", Kind::Counter, &[], "Turns accepted: those in flight plus those ended under any outcome."),
    row("avatar_turns_in_flight", Kind::Gauge, &[], "Accepted turns that have not ended."),
    row("avatar_turns_total", Kind::Counter, &["outcome"], "Accepted turns that ended, each under exactly one outcome."),
    row("avatar_turns_rejected_total", Kind::Counter, &["reason"], "Turns that were not accepted."),
    row("avatar_response_duration_seconds", Kind::Histogram, &["trigger", "outcome"], "Acceptance of a turn to its terminal event."),
    row("avatar_time_to_first_segment_seconds", Kind::Histogram, &["trigger", "outcome"], "Acceptance of a turn to its first segment; counted when the turn ends."),
    row("avatar_response_latency_seconds", Kind::Summary, &["window"], "Acceptance to the terminal event of completed and blocked turns, over the last minute and five minutes."),
    row("avatar_first_segment_latency_seconds", Kind::Summary, &["window"], "Acceptance to the first segment of completed and blocked turns, over the last minute and five minutes."),
    row("avatar_segments_total", Kind::Counter, &[], "Segments sent."),
    row("avatar_fallback_total", Kind::Counter, &["reason"], "Turns answered with the fallback line, rejected ones included."),
    row("avatar_deadline_missed_total", Kind::Counter, &["stage"], "Turns that their deadline cut, by how far they had come."),
    row("avatar_stage_seconds", Kind::Histogram, &["stage"], "What a turn does beside the model: writing a prompt (render), the hooks of a point (hook), the tools of a round (tool)."),
    row("avatar_rounds", Kind::Histogram, &[], "Generations of one turn; counted when it ends."),
    row("avatar_hook_runs_total", Kind::Counter, &["hook", "ended"], "Runs of hooks, by how each ended: allow, modify, replace, block, error, timeout, panic, wrong_type."),
    row("avatar_tool_calls_total", Kind::Counter, &["tool", "result"], "Calls of tools: ok, or why there is no result. A tool that the harness does not have is `unknown`."),
    row("avatar_segments_blocked_total", Kind::Counter, &["hook"], "Clauses that a hook blocked; the fallback line was said instead."),
    row("avatar_chat_accepted_total", Kind::Counter, &[], "Chat and text completions accepted; one with several choices or prompts is one."),
    row("avatar_chat_in_flight", Kind::Gauge, &[], "Accepted completions that have not ended."),
    row("avatar_chat_total", Kind::Counter, &["outcome"], "Accepted completions that ended, each under exactly one outcome: the worst of its choices'."),
    row("avatar_chat_rejected_total", Kind::Counter, &["reason"], "Completions that were not accepted."),
    row("avatar_chat_duration_seconds", Kind::Histogram, &["outcome"], "Acceptance of a completion to the end of its last choice."),
    row("avatar_harness_reload_total", Kind::Counter, &["result"], "Changes of a harness: activated, staged for promotion, or rejected."),
    row("avatar_harness_info", Kind::Gauge, &["harness", "version"], "Always 1; says which version of each harness is live."),
    row("avatar_harness_age_seconds", Kind::Gauge, &["harness"], "Time since the live version of the harness went live."),
    row("avatar_cache_miss_total", Kind::Counter, &["first_changed"], "Prompts by the first section that differs from the room's prompt before: what is after it is computed anew."),
    row("avatar_engine_requests_running", Kind::Gauge, &[], "Sequences with KV blocks."),
    row("avatar_engine_requests_waiting", Kind::Gauge, &[], "Sequences queued."),
    row("avatar_engine_kv_cache_usage_ratio", Kind::Gauge, &[], "Share of the KV blocks that sequences or pins refer to, 0 to 1."),
    row("avatar_engine_preemptions_total", Kind::Counter, &[], "Sequences whose KV was taken and is computed again."),
    row("avatar_engine_expired_total", Kind::Counter, &[], "Requests whose deadline passed before anything was computed for them."),
    row("avatar_engine_prefix_cache_query_tokens_total", Kind::Counter, &[], "Prompt tokens looked up in the prefix cache."),
    row("avatar_engine_prefix_cache_hit_tokens_total", Kind::Counter, &[], "Prompt tokens found in the prefix cache."),
    row("avatar_engine_prompt_tokens_total", Kind::Counter, &[], "Prompt tokens of admitted requests."),
    row("avatar_engine_generation_tokens_total", Kind::Counter, &[], "Tokens sampled."),
    row("avatar_engine_speculated_tokens_total", Kind::Counter, &[], "Tokens guessed from what stood before, and computed to see whether they are right."),
    row("avatar_engine_speculated_right_tokens_total", Kind::Counter, &[], "Guessed tokens that were right: each saved a step of its stream."),
    row("avatar_engine_time_to_first_token_seconds", Kind::Histogram, &[], "Submission of a request to its first token."),
    row("avatar_engine_inter_token_seconds", Kind::Histogram, &[], "Time between two tokens of one stream."),
    row("avatar_engine_step_seconds", Kind::Histogram, &[], "Time of one engine step."),
    row("avatar_engine_batch_size", Kind::Histogram, &[], "Sequences in one engine step."),
    row("avatar_zombie_tokens_total", Kind::Counter, &[], "Tokens sampled more than one step after their stream was dropped; stays 0."),
    row("avatar_build_info", Kind::Gauge, &["version"], "Always 1; says which version runs."),
    row("process_resident_memory_bytes", Kind::Gauge, &[], "Resident memory of the process."),
    row("process_open_fds", Kind::Gauge, &[], "Open file descriptors of the process."),
    row("process_start_time_seconds", Kind::Gauge, &[], "When the process started, seconds since 1970."),
];

/// The row of `name`.
pub(super) fn entry(name: &str) -> &'static Entry {
    TABLE
        .iter()
        .find(|entry| entry.name == name)
        .expect("every exporter names a row of the table; a test renders them all")
}

/// The text of docs/metrics.md.
#[must_use]
pub fn metrics_doc() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         Generated from the table in src/telemetry/table.rs; do not edit.\n\n\
         `GET /metrics` answers in the Prometheus text format. Label values come from fixed sets and from names of\n\
         hooks and tools: no viewer, room or request text ever becomes one. A summary also has the label `quantile` (0.5, 0.95, 0.99).\n\n\
         `avatar_turns_accepted_total = avatar_turns_in_flight + sum(avatar_turns_total)` in every scrape, and the same\n\
         for chat.\n\n\
         | name | kind | labels | meaning |\n| --- | --- | --- | --- |\n",
    );
    for entry in TABLE {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            entry.name,
            entry.kind.word(),
            entry.labels.join(", "),
            entry.help
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            stored == metrics_doc(),
            "docs/metrics.md is stale: run `compere metrics-doc > docs/metrics.md`"
        );
    }

    #[test]
    fn names_are_unique_and_follow_the_conventions() {
        for (index, entry) in TABLE.iter().enumerate() {
            assert!(
                TABLE[..index].iter().all(|other| other.name != entry.name),
                "{}",
                entry.name
            );
            assert_eq!(
                entry.kind == Kind::Counter,
                entry.name.ends_with("_total"),
                "{}",
                entry.name
            );
        }
    }
}
