# Narrows. `make` alone lists what there is.

.DEFAULT_GOAL := help
.PHONY: help setup demo test web web-test wheel deb dist bench kernel kernel-test mutants lint fmt

# The first cargo that is new enough, wherever it stands; asked after set-up.
RUST = PATH="$$(scripts/rust-path):$$PATH"
CARGO = $(RUST) cargo
# Nothing, or what leaves BPF out where its libraries are not there.
FEATURES = $$(scripts/features)
# Where `make demo` puts its results; must be empty or absent.
OUT ?=

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## Install what is missing: a C compiler, Rust 1.85, clang and libelf (apt, as root or by sudo)
	@scripts/setup

demo: ## Run 16 cells of the l4s-tests campaign; table and report, about a minute
	@[ -e target/release/narrows ] || echo "The first build takes four to five minutes on two processors; cargo shows how far it is." >&2
	@scripts/setup
	@$(CARGO) build --release --locked --package narrows-cli $(FEATURES)
	@target/release/narrows campaign l4s-tests/s1 --only '50Mbit/{20-20,160-10}/{dualpi2,fq_codel}/*' $(if $(OUT),--out $(OUT))

test: setup ## Run all tests; each that this machine cannot run says why
	@$(RUST) scripts/test $(FEATURES)

web: ## Build the page of `narrows web` with npm, and target/release/narrows with it
	@scripts/setup --web
	@scripts/web-build
	@$(CARGO) build --release --locked --package narrows-cli $(FEATURES)

web-test: web ## The page in Chromium: types, units, and runs by the real server
	@scripts/setup --web-test
	@scripts/web-test target/release/narrows

wheel: ## Build the wheel for Python 3.10 and newer into target/wheels, with the command in it
	@scripts/setup --python
	@$(RUST) scripts/wheel

deb: ## Build a package for Debian, into target/dist; it runs on this release and newer ones
	@scripts/setup
	@$(CARGO) build --profile shipped --locked --package narrows-cli $(FEATURES)
	@$(RUST) scripts/deb

dist: ## Build what a release consists of, into target/dist: package, static program, image, SBOM, checksums
	@scripts/setup
	@$(RUST) scripts/dist

bench: ## Narrows beside ns-3, tshark and tcptrace, how its cost grows, how exact the live path is, what queues, marking, boxes, DA-LBE and the proxy cost
	@scripts/setup --bench
	@$(CARGO) build --profile shipped --locked --package narrows-cli $(FEATURES)
	@$(CARGO) build --profile shipped --locked --package narrows-sim --example cost
	@$(CARGO) build --profile shipped --locked --package narrows-observe --example many_flows
	@$(CARGO) build --profile shipped --locked --package narrows-capture --example flood
	@bench/run
	@bench/flows
	@$(CARGO) build --profile shipped --locked --package narrows-live --example accuracy
	@bench/live
	@bench/inline target/shipped/narrows
	@bench/up
	@bench/kernel
	@bench/observe
	@$(CARGO) build --profile shipped --locked --package narrows-bpf --example mark_cost $(FEATURES)
	@bench/marking
	@$(CARGO) build --profile shipped --locked --package narrows-bpf --example box_cost $(FEATURES)
	@$(CARGO) build --profile shipped --locked --package narrows-mmb --example memory
	@bench/mmb
	@$(CARGO) bench --profile shipped --locked --package narrows-mmb
	@$(CARGO) bench --profile shipped --locked --package narrows-aqm
	@$(CARGO) build --profile shipped --locked --package narrows-cc --example ack_cost
	@$(CARGO) build --profile shipped --locked --package narrows-bpf --example control_cost $(FEATURES)
	@bench/controls
	@$(CARGO) build --profile shipped --locked --package narrows-services --example tunnels
	@bench/pep

kernel: ## Build a kernel that runs in virtual time, from Debian's sources; about ten minutes
	@scripts/setup --kernel
	@$(CARGO) build --release --locked --package narrows-cli $(FEATURES)
	@target/release/narrows kernel build

kernel-test: export RUSTC_WORKSPACE_WRAPPER = $(CURDIR)/scripts/test-rustc
kernel-test: ## Build a kernel unless an equal one is there, boot it with every control, and run all tests that need one
	@scripts/setup --kernel
	@$(CARGO) test --workspace --locked $(FEATURES) --test integration --no-run
	@target/debug/narrows kernel build
	@NARROWS_KERNEL_TEST=1 $(CARGO) test --workspace --locked $(FEATURES) --test integration kernel::

mutants: ## Plant wrong rules in a crate (CRATE=narrows-pep) or in what differs (DIFF=main); list those that no test notices
	@$(RUST) scripts/mutants

lint: ## rustfmt, clippy, licences
	@scripts/lint

fmt: ## Format all Rust code
	@$(CARGO) fmt --all
