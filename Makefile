# `make demo` shows it, `make test` proves it. Both install what is missing: Node packages always, Debian's packages as root.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup build demo control test test-rust test-browser lint

export TEST_DEADLINE_MS ?= 60000

help:
	@echo 'make demo   three unmodified scripts in one launched browser: what each sees, and what it cannot reach'
	@echo 'make test   everything: Rust tests, lints, and real clients against a real browser'
	@echo 'make setup  only installs what these need (Node packages; as root also chromium and xvfb)'

setup:
	tests/browser/setup.sh chromium xvfb

build:
	cargo build --bin tabwarden

demo:
	@tests/browser/setup.sh chromium
	@node tests/demo/demo.mjs

test: setup test-rust lint test-browser

test-rust:
	cargo test --workspace

lint:
	@if cargo clippy --version >/dev/null 2>&1; then cargo clippy --workspace --all-targets -- -D warnings; else echo 'lint: no clippy here, skipped'; fi

# Two files at a time: each has a browser or two of its own, and the smallest machine has two cores.
test-browser: build
	cd tests/browser && node --test --test-concurrency=2 --test-reporter=spec *.test.mjs

# Shows that the hostile-client test can fail: the same test against a build in which ids are not looked up.
control: setup
	cargo build --bin tabwarden --features control-without-checks --target-dir target/control
	cd tests/browser && if TABWARDEN_BIN=../../target/control/debug/tabwarden node --test --test-reporter=dot \
	  --test-name-pattern 'as mallory:' hostile.test.mjs > ../../target/control/hostile.log 2>&1; \
	then echo 'control: FAILED, the test passes without the checks' >&2; exit 1; \
	else echo 'control: the hostile-client test fails without the checks, as it must (target/control/hostile.log)'; fi
