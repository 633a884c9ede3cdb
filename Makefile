# From a fresh clone: `make run` answers a question, `make test` proves everything.

GO      ?= go
CARGO   := $(shell [ -x .deps/rust/cargo/bin/cargo ] && echo "$(CURDIR)/.deps/rust/cargo/bin/cargo" || echo cargo)
RS      := runtime/textkit/rs
TEXTKIT := $(RS)/target/release/libingot_textkit.a
# Rust from .deps keeps its own home; nothing global is touched.
ifneq ($(CARGO),cargo)
export CARGO_HOME  := $(CURDIR)/.deps/rust/cargo
export RUSTUP_HOME := $(CURDIR)/.deps/rust/rustup
endif

# Programs, and where their mains are.
BINS := ingotd:daemon/ingotd ingot:daemon/ingot ingot-runner:runtime/runner/ingot-runner

# Packages without cgo, checked by the race detector and for macOS.
PURE := ./daemon/... ./ipc/... ./runtime/turn/... ./runtime/wire/... ./runtime/governor/... ./runtime/sched/... \
        ./runtime/text/... ./models/index/... ./models/store/... ./launchd/... ./installer/... ./tray/menu/...
# Only those that are there (a package pattern that matches nothing is an error to some tools).
PURE_HERE = $(foreach p,$(PURE),$(if $(wildcard $(patsubst ./%/...,%,$(p))),$(p)))

.PHONY: deps ref textkit build run test lint darwin bench soak fixtures clean

deps: ; @scripts/deps.sh
ref: deps ; @scripts/ref.sh
fixtures: ref ; @scripts/fixtures.sh

textkit: deps
	@scripts/textkit.sh "$(CARGO)"

build: textkit
	@mkdir -p bin
	@for b in $(BINS); do if [ -d $${b#*:} ]; then echo "go build bin/$${b%%:*}" && $(GO) build -o bin/$${b%%:*} ./$${b#*:} || exit 1; fi; done

run: build
	@scripts/run.sh

test: lint build fixtures darwin
	$(GO) test -count=1 -timeout 30m ./...
	$(GO) test -race -count=1 -timeout 15m $(PURE_HERE)
	@if [ -f $(RS)/Cargo.toml ]; then cd $(RS) && $(CARGO) test --release --locked --lib; fi

lint: textkit
	@scripts/lint.sh "$(GO)" "$(CARGO)" $(PURE_HERE)

# Every program for macOS, compiled, linked and each import checked.
darwin: deps ; @scripts/darwin/build.sh

bench: build fixtures ; @$(GO) run ./runtime/bench
soak: build fixtures
	INGOT_SOAK=1 $(GO) test -v -count=1 -timeout 120m -run Soak ./daemon/e2e ./runtime/engine

clean:
	rm -rf bin dist $(RS)/target
