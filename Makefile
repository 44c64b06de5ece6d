# Two commands do everything: `make run` and `make test`. Only `make deps`, `make model` and `make peers` use the network.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/compere
# Outside the clone, so that a fresh clone builds only what changed.
export CARGO_TARGET_DIR ?= $(CACHE)/target
CARGO := cargo
LOCKED := --locked --offline
PROFILE ?= --release
VENV := $(CACHE)/venv-$(shell sha256sum tests/sdk/requirements.txt 2>/dev/null | cut -c1-12)
PEERS := $(CACHE)/peers/llama-cpp-11434
export COMPERE_TEST_PYTHON := $(VENV)/bin/python
export COMPERE_TEST_MODEL := $(CACHE)/models/SmolLM2-135M-Instruct.Q4_1.gguf
SAMPLE ?= Is it waterproof?
SCENARIO ?= loadtest/scenarios/avatar.toml

.PHONY: help deps crates venv model run chat test fmt lint docs unit loom miri bench bench-types bench-scheduler bench-answers bench-harness bench-peers load peers

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

deps: crates venv model ## fetch crates, Python packages and the default model (needs the network when something is missing)

crates:
	@command -v $(CARGO) >/dev/null || { echo "cargo is missing: install Rust 1.95 or newer with rustup" >&2; exit 1; }
	@$(CARGO) fetch --locked --quiet

venv: $(VENV)/.complete

$(VENV)/.complete: tests/sdk/requirements.txt
	@command -v python3 >/dev/null || { echo "python3 is missing: apt-get install python3 python3-venv" >&2; exit 1; }
	@rm -rf "$(VENV)" && python3 -m venv "$(VENV)" || { echo "python3 cannot make a venv: apt-get install python3-venv" >&2; exit 1; }
	@"$(VENV)/bin/python" -m pip install --quiet --require-hashes --only-binary :all: -r tests/sdk/requirements.txt
	@touch $@

model: crates ## put the default model into the cache, checked
	@$(CARGO) run $(LOCKED) --quiet $(PROFILE) -- model fetch >/dev/null

run: crates model ## serve the default model, show one answer, go on serving
	@$(CARGO) run $(LOCKED) --quiet --release -- serve --sample "$(SAMPLE)"

chat: crates model ## talk to the default model in this terminal
	@$(CARGO) run $(LOCKED) --quiet --release -- chat

test: ## everything CI checks
	@$(MAKE) deps PROFILE=
	@$(MAKE) fmt lint docs unit

fmt:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(LOCKED) --workspace --no-deps --quiet

unit:
	$(CARGO) test $(LOCKED) --workspace

loom: ## run what threads share in every order that the memory model allows (part of `make test`)
	$(CARGO) run $(LOCKED) --quiet -p compere-loom

miri: ## (minutes) look for undefined behaviour in the kernels' portable paths and the pool (needs a nightly toolchain with miri)
	MIRIFLAGS="-Zmiri-disable-isolation" PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 PROPTEST_CASES=1 \
	    $(CARGO) +nightly miri test $(LOCKED) -p compere-cpu --lib -- --skip agrees_with_plain_attention \
	    --skip every_instruction_set_and_thread_count --skip batched_chunked_and_shared --skip quants_at_their_limits --skip content_left_in_a_reused_block

bench-scheduler: ## measure what the engine takes between forward passes
	@$(CARGO) run $(LOCKED) --quiet --release -p compere-loadtest -- scheduler

bench-harness: model ## (minutes) measure what changing a harness costs while viewers are answered
	@$(CARGO) build $(LOCKED) --quiet --release --workspace
	@"$(CARGO_TARGET_DIR)/release/compere-loadtest" harness --server "$(CARGO_TARGET_DIR)/release/compere" \
	    --model "$$($(CARGO_TARGET_DIR)/release/compere model fetch)"

bench: model peers ## measure beside llama.cpp and print the figures
	@$(CARGO) build $(LOCKED) --quiet --release --workspace
	@"$(CARGO_TARGET_DIR)/release/compere-loadtest" figures --peer "$(PEERS)" --server "$(CARGO_TARGET_DIR)/release/compere" \
	    --model "$$($(CARGO_TARGET_DIR)/release/compere model fetch)"

bench-peers: model peers ## measure every goal and the avatar scenario beside llama.cpp's server (15 minutes; ARGS=--quick for 3)
	@$(CARGO) build $(LOCKED) --quiet --release --workspace
	@"$(CARGO_TARGET_DIR)/release/compere-loadtest" peers --peer "$(PEERS)" --server "$(CARGO_TARGET_DIR)/release/compere" \
	    --model "$$($(CARGO_TARGET_DIR)/release/compere model fetch)" --out "$(CACHE)/reports/peers" $(ARGS)

load: model ## run one load scenario (SCENARIO=loadtest/scenarios/avatar.toml)
	@$(CARGO) build $(LOCKED) --quiet --release --workspace
	@"$(CARGO_TARGET_DIR)/release/compere-loadtest" run "$(SCENARIO)" --model "$$($(CARGO_TARGET_DIR)/release/compere model fetch)" \
	    --out "$(CACHE)/reports/$$(basename "$(SCENARIO)" .toml)" $(ARGS)

bench-types: model ## measure every weight type beside Q4_1
	@$(CARGO) build $(LOCKED) --quiet --release --workspace
	@"$(CARGO_TARGET_DIR)/release/compere-loadtest" types --model "$$($(CARGO_TARGET_DIR)/release/compere model fetch)"

bench-answers: model ## count the right answers to sixty viewers' questions with the shipped harness, and without it
	@$(CARGO) build $(LOCKED) --quiet --release --workspace
	@for how in "--plain" "--least 50"; do "$(CARGO_TARGET_DIR)/release/compere-loadtest" answers $$how \
	    --server "$(CARGO_TARGET_DIR)/release/compere" --model "$$($(CARGO_TARGET_DIR)/release/compere model fetch)"; done

peers: ## build llama.cpp's tools for `make bench` (about 10 minutes, once)
	@loadtest/peers/llama-cpp.sh "$(PEERS)"
