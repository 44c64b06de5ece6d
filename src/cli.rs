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
    /// Check and look into harnesses, and move what is live.
    #[command(subcommand)]
    Harness(HarnessCommand),
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

/// What to do with harnesses.
#[derive(Debug, Subcommand)]
pub enum HarnessCommand {
    /// Say everything that is wrong, a line each, as `path:line: reason`; exit code 1 if there is anything.
    Lint {
        /// Folders of harnesses, or of one; the default is `harness`.
        #[arg(default_value = "harness")]
        paths: Vec<PathBuf>,
    },
    /// List what a harness holds.
    Show {
        /// Its folder.
        path: PathBuf,
    },
    /// Print the system prompt, section by section.
    Render {
        /// The harness's folder.
        path: PathBuf,
    },
    /// Count the tokens of each section with a model's tokenizer.
    Tokens {
        /// The harness's folder.
        path: PathBuf,
        /// Settings.
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Say in which files and sections two harnesses differ; each is a folder, a version or a label.
    Diff {
        /// One.
        from: String,
        /// The other.
        to: String,
        /// Where versions and labels are looked up.
        #[command(flatten)]
        place: StoreArgs,
    },
    /// List every change of what is live, oldest first.
    History {
        /// Which harness.
        #[command(flatten)]
        place: StoreArgs,
    },
    /// Make a kept version live. A running server follows within its poll time.
    Promote {
        /// A version, its first digits, or a label.
        #[arg(default_value = "latest")]
        version: String,
        /// Which harness.
        #[command(flatten)]
        place: StoreArgs,
        /// Who does it, for the audit log.
        #[arg(long, value_name = "NAME", default_value = "command line")]
        who: String,
    },
    /// Make an earlier version live; what the folder holds now then waits to be promoted.
    Rollback {
        /// A version, its first digits, or a label; the default is what was live before.
        version: Option<String>,
        /// Which harness.
        #[command(flatten)]
        place: StoreArgs,
        /// Who does it, for the audit log.
        #[arg(long, value_name = "NAME", default_value = "command line")]
        who: String,
    },
    /// Ask one comment of a kept version and of the live one, and print both answers, prompts' tokens and times.
    Try {
        /// What a viewer would write.
        comment: String,
        /// A version, its first digits, or a label.
        #[arg(long, value_name = "VERSION", default_value = "latest")]
        version: String,
        /// Which harness.
        #[command(flatten)]
        place: StoreArgs,
    },
}

/// Which harness's kept states are meant.
#[derive(Clone, Debug, Default, Args)]
pub struct StoreArgs {
    /// Settings.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The harness's name; the default is the configured one.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}
