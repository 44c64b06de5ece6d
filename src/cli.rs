//! The command line as it is typed; what it means is decided in `config` and `commands`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A low-latency inference server for live-stream digital avatars.
#[derive(Debug, Parser)]
#[command(name = "compere", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer viewers over HTTP until stopped.
    Serve(ServeArgs),
    /// Talk to the model in this terminal.
    Chat(ChatArgs),
    /// Fetch a model, or look into a model file.
    #[command(subcommand)]
    Model(ModelCommand),
    /// Print the table of metrics as Markdown.
    #[command(hide = true)]
    MetricsDoc,
}

/// Where settings come from. A flag beats the environment, which beats the file.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    /// Settings as TOML (see deploy/config.example.toml); `COMPERE_<SECTION>__<KEY>` in the environment overrides it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Model to use: the id of a manifest in models/, or the path of a GGUF file or of a folder with safetensors.
    #[arg(long, value_name = "ID|PATH")]
    pub model: Option<String>,
    /// What weights stored as floats become when they are loaded: q8_0, q4_0 or q4_1; the default is no change.
    #[arg(long, value_name = "KIND")]
    pub quantise: Option<String>,
    /// Compute threads; the default is every core.
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Settings.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Address to listen on, such as 127.0.0.1:8080.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Once ready, send this comment to the server itself, print the answer as it streams, and go on serving.
    #[arg(long, value_name = "COMMENT")]
    pub sample: Option<String>,
}

/// Arguments of `chat`.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// Settings.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// System message; the default is none.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Most tokens of one answer.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub max_tokens: usize,
    /// 0 is greedy, up to 2.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub temperature: f32,
}

/// What to do with a model.
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// Put a model into the cache, checked, and print its path.
    Fetch {
        /// Settings; `--model` names the manifest, the default is the configured one.
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Describe a model: architecture, sizes, tokenizer, tensor types.
    Inspect {
        /// A GGUF file, a folder with safetensors, or one file of those.
        path: PathBuf,
    },
}
