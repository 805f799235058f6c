# Two commands: `make demo` and `make test`. Each installs what it needs and says so.

CARGO ?= cargo
# The programs as `cargo build` made them: `cargo run` would choose other features of the dependencies, and make them anew.
BUILT = $${CARGO_TARGET_DIR:-target}

# Programs that are run and not edited are built without incremental compilation: a first build is 12 s shorter.
demo pbx: export CARGO_INCREMENTAL ?= 0

.DEFAULT_GOAL := help
.PHONY: help demo test quick pbx bench soak fuzz deployment check proto screenshots setup fmt clippy docs licences tidy

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: ## one call by a synthetic caller, no Asterisk and no key needed; KEEP=1 keeps the engine up; NEURAL=1: Whisper and Piper
	@tests/lab/setup.sh $(if $(NEURAL),neural,demo)
	@$(CARGO) build --bin offhook --bin aviation_atis
	@$(if $(NEURAL),tests/lab/neural.sh )$(BUILT)/debug/offhook demo $(if $(KEEP),--keep)

test: setup ## lints and every test, with a real Asterisk and real phones; ONLY=NAME: those with it in their name; REAL=all: every scene
	@CARGO="$(CARGO)" REAL="$(REAL)" tests/lab/run_tests.py --locked $(if $(ONLY),-- $(ONLY))

quick: ## after each edit: lints, the core, the library and whole calls in virtual time
	@CARGO="$(CARGO)" tests/lab/run_tests.py --quick --locked $(if $(ONLY),-- $(ONLY))

pbx: ## a real Asterisk with offhook attached, for your softphone (PBX_BIND=ADDRESS for one on another machine)
	@tests/lab/setup.sh pbx
	@$(CARGO) build
	@tests/lab/pbx.sh

bench: setup ## calls on one core against a floor measured in the same run, and every figure with a bar
	@tests/lab/setup.sh bench
	@$(CARGO) build --release
	@tests/fixtures/turn_taking/generate.py target/turn_taking
	@missed=0; for part in '' '--calls 200 --only deepgram,scripted' '--calls 300 --only deepgram,scripted' turns barge-in greeting failover repair vam records recording 'page --browser tests/web/ready.mjs'; do $(BUILT)/release/offhook-bench $$part || missed=1; done; exit $$missed

soak: setup ## calls that end in every way and calls that stay for MINUTES=60, by a real Asterisk: is anything left of them?
	@tests/lab/setup.sh bench
	@$(CARGO) build --release
	@$(BUILT)/release/offhook-bench soak --only echo-a --calls 500
	@$(BUILT)/release/offhook-bench soak --calls 1000 --steady $(or $(STEADY),100) --minutes $(or $(MINUTES),60)

fuzz: ## parsers fed with changed input: TARGET=rtp MINUTES=10; without TARGET each of them, an hour by default
	@tests/lab/setup.sh fuzz
	@CARGO="$(CARGO)" tests/fuzz/fuzz.sh $(or $(TARGET),all) $(or $(MINUTES),$(if $(TARGET),10,60))

deployment: setup ## Dockerfiles, Compose, unit, alerts, nginx: linted, and run as far as this machine lets them (as root: more)
	@CARGO="$(CARGO)" tests/lab/deployment.sh

check: setup fmt licences clippy docs tidy ## formatting, licences, lints, documentation, rules of the house

proto: ## the code of VAM's messages, from proto/vani
	@CARGO_TARGET_DIR=target/generate $(CARGO) run --locked --manifest-path proto/generate/Cargo.toml
	@cd proto && sha256sum vani/v1/*.proto generated/vani.v1.* generate/Cargo.* generate/src/main.rs > generated/made_from

screenshots: setup ## the pictures of the page in docs/images, by a real browser
	@$(CARGO) build --locked
	OFFHOOK_SCREENSHOTS=docs/images $(CARGO) test --locked --test real the_page_has_its_picture_taken

setup: ## installs what the tests need; quick when nothing is missing
	@tests/lab/setup.sh all

fmt:
	$(CARGO) fmt --check

clippy:
	$(CARGO) clippy --locked --all-targets -- -D warnings

docs:
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --locked --no-deps

licences:
	@tests/lab/licences.py

tidy:
	$(CARGO) test --locked --test house tidy
