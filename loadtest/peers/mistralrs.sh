#!/usr/bin/env bash
# Builds mistral.rs's server for this machine's CPU into the folder given, with its lock file (about 25 minutes on two
# idle cores). Does nothing when it is there. Then `mistralrs serve` it on a port, and
# `compere-loadtest run SCENARIO.toml --url http://127.0.0.1:PORT` with `target = "chat"` and lengths in words.
set -euo pipefail

dest=${1:?usage: mistralrs.sh FOLDER}
version=0.8.1

if [ -x "$dest/bin/mistralrs" ]; then exit 0; fi
command -v cargo >/dev/null || { echo "cargo is missing: install Rust with rustup" >&2; exit 1; }
mkdir -p "$dest"
RUSTFLAGS="-C target-cpu=native" CARGO_TARGET_DIR="$dest/target" \
    cargo install --locked --root "$dest" --version "$version" mistralrs-cli
rm -rf "$dest/target"
