# All that a contributor runs. `make` alone lists it.

# rdma-sys makes its bindings with libclang 14 and no later one.
export LIBCLANG_PATH ?= /usr/lib/llvm-14/lib

# Where cargo builds to.
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release

.PHONY: help
help: ## Lists what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Installs the Debian packages that lack (as root or through sudo)
	@tests/setup

.PHONY: build
build: setup ## Builds the release binaries into target/release
	cargo build --release --locked --package rdma-health --package rdma-health-verbs

.PHONY: test
test: setup ## Runs the tests but those of test-kubernetes, in virtual machines where they need a kernel of their own
	cargo build --workspace --bins --locked
	cargo test --workspace --locked

.PHONY: lint
lint: setup ## Checks format, clippy and, where cargo-deny is installed, dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@if command -v cargo-deny >/dev/null; then $(MAKE) --no-print-directory deny; fi

.PHONY: deny
deny: ## Checks licences, bans and sources of dependencies (cargo install cargo-deny)
	cargo deny --locked check bans licenses sources

.PHONY: demo
demo: build ## Shows the agent at work in a virtual node; FIXED=1 for a node without the fault
	cargo build --release --locked --package rdma-health-tests --bin demo
	@$(RELEASE)/demo $(if $(FIXED),--fixed)

.PHONY: bench
bench: build ## Prints what the product costs beside node_exporter, and its probe beside perftest
	@tests/setup tests/packages-bench.txt
	cargo build --release --locked --package rdma-health-tests --bin bench
	@$(RELEASE)/bench

.PHONY: fixtures
fixtures: setup ## Captures the fixtures of virtual nodes anew
	cargo run --locked --package rdma-health-tests --bin capture -- --fixtures

.PHONY: fault-bench
fault-bench: build ## Injects every known fault and scores the doctor; writes docs/fault-bench.md (10 minutes)
	cargo build --release --locked --package rdma-health-verbs --example inject
	cargo build --release --locked --package rdma-health-tests --bin fault_bench
	@$(RELEASE)/fault_bench --write docs/fault-bench.md

# Needs a nightly compiler and `cargo install cargo-fuzz`. What a target finds lies in tests/fuzz/artifacts; run it again
# with `cargo +nightly fuzz run --fuzz-dir tests/fuzz TARGET FILE`.
FUZZ_SECONDS ?= 120
FUZZ_TARGETS ?= snapshot manifest readers foreign frame log

.PHONY: fuzz
fuzz: setup ## Feeds every parser with noise, FUZZ_SECONDS=120 each
	@for target in $(FUZZ_TARGETS); do \
		cargo +nightly fuzz run --fuzz-dir tests/fuzz $$target -- \
			-max_total_time=$(FUZZ_SECONDS) -len_control=0 -rss_limit_mb=1024 -timeout=20 -print_final_stats=1 || exit 1; \
	done

.PHONY: test-kubernetes
test-kubernetes: ## Tests against a real API server, which is built first (six minutes, once per machine)
	tests/kubernetes/prepare >/dev/null
	cargo build --locked --package rdma-health
	cargo test --locked --package rdma-health-tests --test kubernetes -- --include-ignored --nocapture

.PHONY: simulate-cluster
simulate-cluster: ## Simulates the agents of 5000 nodes (NODES=…) against a real API server, for ten minutes
	tests/kubernetes/prepare >/dev/null
	cargo test --release --locked --package rdma-health --bin rdma-health kubernetes::simulation -- --ignored --nocapture

.PHONY: check-deploy
check-deploy: ## Checks chart, manifests, alerts and dashboards
	@tests/deploy/check

.PHONY: check-admission
check-admission: ## Runs the admission policy in Kubernetes' own code (root, mmdebstrap; three minutes, then seconds)
	@tests/deploy/admission/check

.PHONY: deploy-update
deploy-update: ## Makes the kustomize base anew from the chart
	@tests/deploy/check --update

.PHONY: image
image: build ## Builds the container image from Debian packages and starts it (root, mmdebstrap, buildah)
	@PROGRAMS=$(RELEASE) deploy/image/build --check
