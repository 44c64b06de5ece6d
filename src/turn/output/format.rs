//! How model families write tool calls, as data.

use super::{THINK, THINK_END};

/// A way to write tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// `<tool_call>{"name", "arguments"}</tool_call>`: Hermes and Qwen.
    Hermes,
    /// `<|python_tag|>{"name", "parameters"}`, or the bare object: Llama 3.
    Llama3,
    /// `[TOOL_CALLS] [{"name", "arguments"}, ...]`: Mistral.
    Mistral,
    /// The model writes none; reasoning is still kept apart.
    None,
}

/// The marks of a format.
#[derive(Debug)]
pub(super) struct Marks {
    /// What may stand in text: reasoning, calls, and what means nothing.
    pub(super) in_text: &'static [&'static str],
    /// Of these, the ones that mean nothing.
    pub(super) silent: &'static [&'static str],
    /// What ends a block of calls.
    pub(super) ends: &'static [&'static str],
    /// What may stand between calls besides space.
    pub(super) separators: &'static str,
    /// Calls stand in a list.
    pub(super) list: bool,
    /// An answer that is one bare object may be a call.
    pub(super) bare: bool,
}

impl Format {
    /// The format that a chat template shows by the marks in it.
    #[must_use]
    pub fn of_template(template: &str) -> Self {
        let marks = [
            ("<tool_call>", Self::Hermes),
            ("[TOOL_CALLS]", Self::Mistral),
            ("<|python_tag|>", Self::Llama3),
        ];
        let found = marks.iter().find(|(mark, _)| template.contains(mark));
        found.map_or(Self::None, |(_, format)| *format)
    }

    pub(super) fn marks(self) -> &'static Marks {
        match self {
            Self::Hermes => &Marks {
                in_text: &[THINK, THINK_END, "<tool_call>"],
                silent: &[],
                ends: &["</tool_call>"],
                separators: ",",
                list: false,
                bare: false,
            },
            Self::Llama3 => &Marks {
                in_text: &[
                    THINK,
                    THINK_END,
                    "<|python_tag|>",
                    "<|eom_id|>",
                    "<|eot_id|>",
                ],
                silent: &["<|eom_id|>", "<|eot_id|>"],
                ends: &["<|eom_id|>", "<|eot_id|>"],
                separators: ";,",
                list: false,
                bare: true,
            },
            Self::Mistral => &Marks {
                in_text: &[THINK, THINK_END, "[TOOL_CALLS]", "</s>"],
                silent: &["</s>"],
                ends: &["</s>"],
                separators: ",",
                list: true,
                bare: false,
            },
            Self::None => &Marks {
                in_text: &[THINK, THINK_END],
                silent: &[],
                ends: &[],
                separators: "",
                list: false,
                bare: false,
            },
        }
    }
}
