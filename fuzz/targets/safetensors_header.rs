//! Headers of safetensors files: whatever the bytes, an answer or an error.
#![no_main]

use compere::model::safetensors::check_header;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = check_header(bytes);
});
