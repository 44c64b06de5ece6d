//! The model that tests run with.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use compere::model::gguf::GgufFile;
use compere::tokenizer::{Tokenizer, TokenizerParts};

/// Where the file is: `COMPERE_TEST_MODEL`, else the cache that the test suite fills.
pub(crate) fn path() -> PathBuf {
    if let Some(path) = std::env::var_os("COMPERE_TEST_MODEL") {
        return path.into();
    }
    let home = std::env::var_os("HOME").expect("HOME is set");
    PathBuf::from(home).join(".cache/compere/models/SmolLM2-135M-Instruct.Q4_1.gguf")
}

/// Opens the file.
pub(crate) fn open() -> GgufFile {
    GgufFile::open(&path()).expect("the test model is there")
}

/// The file's vocabulary, as if it named another rule for words.
pub(crate) fn parts(pre: &str) -> TokenizerParts {
    let mut parts = open()
        .tokenizer_parts()
        .expect("the test model has a vocabulary");
    pre.clone_into(&mut parts.pre);
    parts
}

/// The file's tokenizer, built once.
pub(crate) fn tokenizer() -> Arc<Tokenizer> {
    static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    let build = || Arc::new(Tokenizer::new(parts("smollm")).expect("the vocabulary is complete"));
    Arc::clone(TOKENIZER.get_or_init(build))
}
