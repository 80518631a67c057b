# Every command that a contributor needs. `make` lists them.

# rdma-sys generates its bindings with libclang.
export LIBCLANG_PATH ?= /usr/lib/llvm-14/lib

# Only with a named target does cargo leave the sanitizer out of build scripts and macros.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

# The directory of the release binaries.
RELEASE := $(or $(CARGO_TARGET_DIR),target)/release

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install missing Debian packages (as root or with sudo)
	@tests/setup

.PHONY: build
build: setup ## Build the release binaries into target/release
	cargo build --release --locked --package rdma-health --package rdma-health-verbs

.PHONY: test
test: setup ## Run all tests except test-kubernetes and test-job; boots virtual machines where a test needs its own kernel
	cargo build --workspace --bins --locked
	cargo test --workspace --locked

.PHONY: lint
lint: setup ## Check formatting, clippy and, if cargo-deny is installed, dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo clippy --package rdma-health --no-default-features --locked -- -D warnings
	@if cargo tree --package rdma-health --no-default-features --edges normal --locked | grep -E 'kube|k8s|rustls|hyper|ring v'; \
		then echo 'the command line without the agent must not need these'; exit 1; fi
	@if command -v cargo-deny >/dev/null; then $(MAKE) --no-print-directory deny; fi

.PHONY: deny
deny: ## Check licenses, bans, sources and advisories of dependencies (cargo install cargo-deny)
	cargo deny --locked check bans licenses sources
	@if timeout 60 cargo deny --locked fetch db; then cargo deny --locked --offline check advisories; \
		else echo 'NOT RUN: advisories: the RustSec database cannot be downloaded from GitHub' >&2; fi

.PHONY: demo
demo: build ## Run agents, Prometheus and Alertmanager on a faulty and a healthy virtual node; FIXED=1: then fix the fault
	cargo build --release --locked --package rdma-health-tests --bin demo
	@$(RELEASE)/demo $(if $(FIXED),--fixed)

.PHONY: pictures
pictures: build ## Take the pictures of the documentation from the demo and the dashboards (needs npm)
	@tests/setup tests/pictures/packages.txt
	cargo build --release --locked --package rdma-health-tests --bin demo
	@$(RELEASE)/demo -- tests/pictures/take docs/pictures
	cargo build --locked --package rdma-health --bins
	@tests/pictures/dashboard docs/pictures
	@tests/pictures/sizes docs/pictures

.PHONY: bench
bench: build ## Compare resource usage with node_exporter, and the probe with perftest
	@tests/setup tests/packages-bench.txt
	cargo build --release --locked --package rdma-health-tests --bin bench
	@$(RELEASE)/bench

.PHONY: bench-alerts
bench-alerts: setup ## Measure how long Prometheus evaluates the rules over 5000 nodes (NODES=…), PERCENT=20 of them faulty; five minutes
	@tests/alerts-bench $(or $(NODES),5000) $(or $(PERCENT),20)

.PHONY: soak
soak: build ## Attack an agent and a helper for an hour (MINUTES=60) on a node that changes all the time
	cargo build --release --locked --package rdma-health-tests --bin soak
	@$(RELEASE)/soak $(or $(MINUTES),60)

.PHONY: sanitize
sanitize: export RUSTFLAGS = -Zsanitizer=address
sanitize: export CARGO_TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)/sanitize
sanitize: setup ## Run the helper's tests, and agent and helper in a virtual node, with the address sanitizer (needs a nightly compiler)
	cargo +nightly test --locked --target $(HOST) --package rdma-health-verbs --package rdma-health-protocol
	cargo +nightly build --locked --target $(HOST) --workspace --bins
	cargo +nightly test --locked --target $(HOST) --package rdma-health-tests --test agent --test two_nodes

.PHONY: bench-panels
bench-panels: setup ## Measure how long Prometheus answers each panel over 5000 nodes (NODES=…; 8 GB of memory, five minutes)
	@tests/panels-bench $(NODES)

# A second build directory, because the programs there have symbols.
.PHONY: layout
layout: export CARGO_TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)/layout
layout: setup ## Record which functions an agent calls, to place them together; after large changes (x86-64)
	CARGO_PROFILE_RELEASE_STRIP=none cargo build --release --locked --package rdma-health --package rdma-health-verbs
	cargo build --release --locked --package rdma-health-tests --bin bench
	$(CARGO_TARGET_DIR)/release/bench trees $(CARGO_TARGET_DIR)/trees
	agent/rdma-health/layout/record $(CARGO_TARGET_DIR)/release/rdma-health $(CARGO_TARGET_DIR)/release/rdma-health-verbs $(CARGO_TARGET_DIR)/trees

.PHONY: fixtures
fixtures: setup ## Capture the fixtures of the virtual nodes again
	cargo run --locked --package rdma-health-tests --bin capture -- --fixtures

.PHONY: fault-bench
fault-bench: build ## Inject every known fault, score the diagnoses, write docs/fault-bench.md (10 minutes)
	cargo build --release --locked --package rdma-health-verbs --example inject
	cargo build --release --locked --package rdma-health-tests --bin fault_bench
	@$(RELEASE)/fault_bench --write docs/fault-bench.md

# Needs a nightly compiler and `cargo install cargo-fuzz`. Crashing inputs are saved in tests/fuzz/artifacts; reproduce one
# with `cargo +nightly fuzz run --fuzz-dir tests/fuzz TARGET FILE`.
FUZZ_SECONDS ?= 120
FUZZ_TARGETS ?= snapshot manifest readers foreign frame log peer

.PHONY: fuzz
fuzz: setup ## Fuzz every parser, FUZZ_SECONDS=120 each
	@for target in $(FUZZ_TARGETS); do \
		cargo +nightly fuzz run --fuzz-dir tests/fuzz $$target -- \
			-max_total_time=$(FUZZ_SECONDS) -len_control=0 -rss_limit_mb=1024 -timeout=20 -print_final_stats=1 || exit 1; \
	done

.PHONY: test-job
test-job: setup ## Test the job's settings with the real NCCL and libfabric, and the benchmark with PyTorch over Gloo; downloads 500 MB once
	cargo build --locked --package rdma-health
	cargo test --locked --package rdma-health-tests --test libraries -- --include-ignored --nocapture

.PHONY: test-kubernetes
test-kubernetes: ## Test against a real API server; builds it first (four minutes, once per machine)
	tests/kubernetes/prepare >/dev/null
	cargo build --locked --package rdma-health
	cargo test --locked --package rdma-health-tests --test kubernetes -- --include-ignored --nocapture

.PHONY: test-pod
test-pod: build static ## Test the DaemonSet under a real kubelet in a virtual node (root; 15 minutes, and at first five to build Kubernetes)
	@tests/pod/run $(RELEASE)

.PHONY: simulate-cluster
simulate-cluster: ## Simulate the agents of 5000 nodes (NODES=…) against a real API server (ten minutes)
	tests/kubernetes/prepare >/dev/null
	cargo test --release --locked --package rdma-health-kubernetes --lib simulation -- --ignored --nocapture

.PHONY: check-deploy
check-deploy: ## Check chart, manifests, alerts and dashboards
	@tests/deploy/check

.PHONY: check-page
check-page: ## Check the status page with axe-core in Chromium (npm, Debian's chromium-headless-shell)
	@tests/page/check

.PHONY: check-dashboards
check-dashboards: setup ## Render the dashboards with Grafana's components in Chromium (npm, Debian's chromium-headless-shell)
	cargo build --locked --package rdma-health --bins
	@tests/dashboards/render

.PHONY: check-admission
check-admission: ## Run the admission policy in Kubernetes' own code (root, mmdebstrap; three minutes at first, then seconds)
	@tests/deploy/admission/check

.PHONY: deploy-update
deploy-update: ## Regenerate the kustomize base from the chart
	@tests/deploy/check --update

.PHONY: static
static: ## Build rdma-health for job containers: one static file without the agent
	@deploy/static/build $(RELEASE)/rdma-health-static

.PHONY: image
image: build static ## Build the container image from Debian packages and start it (root)
	@tests/setup tests/packages-image.txt
	@PROGRAMS=$(RELEASE) deploy/image/build --check

.PHONY: packages
packages: build ## Build the Debian and the RPM package and install them in a chroot (root, mmdebstrap, cargo-deb, cargo-generate-rpm)
	@deploy/packages/build target/packages
	@tests/deploy/packages target/packages

.PHONY: release
release: build static ## Build everything of a release into target/dist: packages, image, charts, bill of materials, checksums
	@PROGRAMS=$(RELEASE) deploy/release/build target/dist
