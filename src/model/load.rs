//! From a file to a runner that is ready to compute.

use std::path::Path;

use compere_cpu::{Isa, KvCache, KvShape, OutOfMemory, Pool};

use super::checkpoint::Checkpoint;
use super::decoder::{Decoder, DecoderSpec};
use super::gguf::{self, Fault, GgufFile, ModelFileError};
use super::quantise::{Quantise, Quantised};
use super::runner::CpuRunner;
use super::safetensors::{self, SafetensorsModel};
use super::weights::Weights;
use crate::tokenizer::TokenizerParts;

/// Most compute threads: more than any machine has use for, and few enough that all can be started.
const MAX_THREADS: usize = 1024;
/// A token of prompt and one of answer.
const MIN_CONTEXT: usize = 2;

/// How to run a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Compute threads, the engine's own included; `None` is what the machine has.
    pub threads: Option<usize>,
    /// Most bytes of keys and values; rounded down to whole blocks.
    pub kv_bytes: usize,
    /// Most positions of one sequence; `None` is what the model was made for.
    pub max_context: Option<usize>,
    /// What matrices of floats become; `None` leaves them as they are stored.
    pub quantise: Option<Quantise>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            threads: None,
            kv_bytes: 256 << 20,
            max_context: None,
            quantise: None,
        }
    }
}

/// A model that is ready to run, and what its file says beside the weights.
#[derive(Debug)]
pub struct LoadedModel {
    /// Computes it.
    pub runner: CpuRunner,
    /// Its vocabulary.
    pub tokenizer: TokenizerParts,
    /// Its chat template in Jinja, where it has one.
    pub chat_template: Option<String>,
    /// Its name, for people; the file's where the model does not say.
    pub name: String,
    /// Its shape.
    pub spec: DecoderSpec,
}

/// A model that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file.
    #[error(transparent)]
    File(#[from] ModelFileError),
    /// The KV memory cannot be had.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// A compute thread cannot be started.
    #[error("threads: cannot start as many compute threads: {0}")]
    Threads(std::io::Error),
    /// An option does not fit the model.
    #[error("{option}: {reason}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

/// Reads the model at `path` and makes it ready to run.
///
/// # Errors
/// Names the file and the key or tensor at fault, or the option that does not fit the model.
pub fn load(path: &Path, options: &LoadOptions) -> Result<LoadedModel, ModelError> {
    load_on(Isa::best(), path, options)
}

/// Describes the model at `path` for people, one fact a line.
///
/// # Errors
/// Names the file and the field that is missing, malformed or not supported.
pub fn describe(path: &Path) -> Result<String, ModelFileError> {
    Ok(match Opened::open(path)? {
        Opened::Gguf(file) => gguf::describe(&file),
        Opened::Safetensors(model) => safetensors::describe(&model),
    })
}

/// [`load`] for given instructions, to compare them.
pub(crate) fn load_on(
    isa: Isa,
    path: &Path,
    options: &LoadOptions,
) -> Result<LoadedModel, ModelError> {
    let opened = Opened::open(path)?;
    let quantised;
    let file = match options.quantise {
        None => opened.checkpoint(),
        Some(quantise) => {
            quantised = Quantised::new(opened.checkpoint(), quantise)?;
            &quantised
        }
    };
    let spec = DecoderSpec::read(file)?;
    let (tokenizer, chat_template) = opened.vocabulary()?;
    if tokenizer.tokens.len() > spec.vocab {
        let reason = format!(
            "{} rows for a vocabulary of {}",
            spec.vocab,
            tokenizer.tokens.len()
        );
        return Err(file
            .error("token_embd.weight", Fault::Invalid(reason))
            .into());
    }
    let name = file.metadata().info("general.name");
    Ok(LoadedModel {
        runner: runner(isa, file, &spec, options)?,
        tokenizer,
        chat_template,
        name: name.map_or_else(|| file_name(path), str::to_owned),
        spec,
    })
}

/// A model's files in either format.
enum Opened {
    Gguf(GgufFile),
    Safetensors(Box<SafetensorsModel>),
}

impl Opened {
    /// A folder and a file that ends so are safetensors, anything else is GGUF.
    fn open(path: &Path) -> Result<Self, ModelFileError> {
        let ending = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("safetensors"));
        if ending || path.is_dir() {
            return Ok(Self::Safetensors(Box::new(SafetensorsModel::open(path)?)));
        }
        Ok(Self::Gguf(GgufFile::open(path)?))
    }

    fn checkpoint(&self) -> &dyn Checkpoint {
        match self {
            Self::Gguf(file) => file,
            Self::Safetensors(model) => model.as_ref(),
        }
    }

    /// The vocabulary and the chat template.
    fn vocabulary(&self) -> Result<(TokenizerParts, Option<String>), ModelFileError> {
        match self {
            Self::Gguf(file) => Ok((
                file.tokenizer_parts()?,
                file.chat_template().map(str::to_owned),
            )),
            Self::Safetensors(model) => model.vocabulary(),
        }
    }
}

/// Reads the weights and puts the runner together.
pub(crate) fn runner(
    isa: Isa,
    file: &dyn Checkpoint,
    spec: &DecoderSpec,
    options: &LoadOptions,
) -> Result<CpuRunner, ModelError> {
    let max_context = context(spec, options)?;
    let cache = KvCache::new(shape(spec), blocks(spec, options)?)?;
    let threads = threads(options)?;
    let mut pool = Pool::new(threads).map_err(ModelError::Threads)?;
    let weights = Weights::read(file, spec, &mut pool)?;
    let decoder = Decoder::new(spec.clone(), weights, isa);
    Ok(CpuRunner::new(decoder, cache, pool, max_context))
}

fn shape(spec: &DecoderSpec) -> KvShape {
    KvShape {
        layers: spec.layers,
        heads: spec.kv_heads,
        head_dim: spec.head_dim,
    }
}

fn threads(options: &LoadOptions) -> Result<usize, ModelError> {
    let Some(threads) = options.threads else {
        let machine = std::thread::available_parallelism().map_or(1, usize::from);
        return Ok(machine.min(MAX_THREADS));
    };
    if (1..=MAX_THREADS).contains(&threads) {
        return Ok(threads);
    }
    Err(ModelError::Option {
        option: "threads",
        reason: format!("{threads} is not from 1 to {MAX_THREADS}"),
    })
}

fn context(spec: &DecoderSpec, options: &LoadOptions) -> Result<usize, ModelError> {
    let wanted = options.max_context.unwrap_or(spec.context);
    if (MIN_CONTEXT..=spec.context).contains(&wanted) {
        return Ok(wanted);
    }
    Err(ModelError::Option {
        option: "max_context",
        reason: format!(
            "{wanted} is not from {MIN_CONTEXT} to {}, the model's context",
            spec.context
        ),
    })
}

fn blocks(spec: &DecoderSpec, options: &LoadOptions) -> Result<usize, ModelError> {
    let block = shape(spec).block_bytes();
    match options.kv_bytes / block {
        0 => Err(ModelError::Option {
            option: "kv_cache_mb",
            reason: format!("{} bytes hold no block of {block} bytes", options.kv_bytes),
        }),
        blocks => Ok(blocks),
    }
}

fn file_name(path: &Path) -> String {
    path.file_stem()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}
