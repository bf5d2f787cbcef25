# The README's commands. Each installs what it needs and nothing else.
CARGO ?= cargo
SEEDS ?= 50

.PHONY: demo test check sim soak fuzz bench bench-full bench-build

# The Brotli encoder has its code once for each of four levels of x86 vector instructions; here, only for the lowest, which
# compiles in half the time. The flags of a variable RUSTFLAGS replace these.
DEMO_FLAGS = --config 'build.rustflags=["--cfg=disable_dispatch_avx512", "--cfg=disable_dispatch_avx2", "--cfg=disable_dispatch_sse4_2"]'
demo: tools-build
	LONGHAUL_COMMIT="$$(scripts/commit.sh)" $(CARGO) $(DEMO_FLAGS) build --profile demo --locked -p longhaul -p longhaul-agent -p longhaul-gateway --no-default-features
	target/demo/longhaul demo --link umts-384

# The checks compile while the tests wait for links and browsers.
test: tools
	$(CARGO) fmt --all -- --check
	LONGHAUL_SIM_SEEDS=$(SEEDS) scripts/run-tests.sh $(MAKE) check doc-tests

.PHONY: doc-tests
doc-tests: tools-build
	$(CARGO) test --locked --workspace --doc

# Every test program TIMES times, or only SUITES, to find tests that fail only sometimes.
.PHONY: repeat-tests
repeat-tests: TIMES = 50
repeat-tests: tools
	scripts/repeat-tests.sh $(TIMES) $(SUITES)

check: tools-build
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked -p longhaul-gateway --no-default-features --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps

# The simulation with many seeds a condition.
sim: tools-build
	LONGHAUL_REPLAYS=1000000 $(CARGO) test --locked --release -p longhaul-protocol --lib replays_are_never_accepted
	LONGHAUL_SIM_SEEDS=1000 $(CARGO) test --locked --release -p longhaul-tests --test sim -- --nocapture

# SEEDS odd origins in Chromium and in programs, directly and through Longhaul, from the seed FIRST, in LANES pairs of browsers.
.PHONY: differential
differential: FIRST = 0
differential: LANES = 4
differential: tools
	$(CARGO) build --locked --workspace --bins
	LONGHAUL_DIFFERENTIAL_FIRST=$(FIRST) LONGHAUL_DIFFERENTIAL_SEEDS=$(SEEDS) LONGHAUL_DIFFERENTIAL_LANES=$(LANES) $(CARGO) test --locked --workspace --test differential -- --nocapture

# Sessions under random faults for MINUTES minutes: every byte is checked, and memory and descriptors must not grow.
soak: MINUTES = 30
soak: SEED = 1
soak: tools-build
	$(CARGO) bench --locked -p longhaul-driver --bench soak -- --minutes $(MINUTES) --seed $(SEED)

# A day of pages and an hour of full load on each link, simulated.
.PHONY: sim-long
sim-long: tools-build
	LONGHAUL_SIM_HOURS=24 $(CARGO) test --locked --release -p longhaul-tests --test sim long_ -- --nocapture

# The hop is away for five minutes: real programs, real time.
.PHONY: away-long
away-long: tools-build
	LONGHAUL_AWAY_SECONDS=300 $(CARGO) test --locked --workspace --test e2e away:: -- --nocapture

# ssh, IMAP and git through SOCKS while the hop is away for 40 s.
.PHONY: socks-long
socks-long: tools
	$(CARGO) build --locked --workspace --bins
	LONGHAUL_SOCKS_OUTAGE_SECONDS=40 $(CARGO) test --locked --workspace --test e2e socks::outages:: -- --nocapture

# The agent is suspended for two minutes in the midst of a download: real programs, real time.
.PHONY: suspension-long
suspension-long: tools-build
	LONGHAUL_SUSPENSION_SECONDS=120 $(CARGO) test --locked --workspace --test e2e suspension -- --nocapture

# NETWORKS random networks between agent and gateway, with what middleboxes do to UDP, QUIC and TCP: a page, a download of
# 20 MB and a page in each.
.PHONY: random-networks
random-networks: NETWORKS = 200
random-networks: tools
	$(CARGO) build --locked --workspace --bins
	LONGHAUL_RANDOM_NETWORKS=$(NETWORKS) $(CARGO) test --locked --workspace --test e2e random_networks:: -- --nocapture

# The distance to the ideal: BENCH_OUT gets the results and a report. `bench` is short, `bench-full` takes about an hour and a half.
BENCH_OUT ?= target/bench
bench: bench-build
	scripts/bench.sh short $(BENCH_OUT)

bench-full: bench-build
	scripts/bench.sh full $(BENCH_OUT)

bench-build: tools
	LONGHAUL_COMMIT="$$(scripts/commit.sh)" \
	$(CARGO) build --release --locked -p longhaul-bench -p longhaul-agent -p longhaul-gateway

# Every fuzz target for MINUTES minutes, under cargo-fuzz on the nightly toolchain.
MINUTES ?= 1
fuzz: tools-build
	tests/fuzz/run.sh $(MINUTES)

# A C compiler (ring, zstd) and the toolchain that rust-toolchain.toml names.
.PHONY: tools-build
tools-build:
	@scripts/install-tools.sh build

# What the end-to-end tests drive: a real browser.
tools: tools-build
	@scripts/install-tools.sh test

# Licences, banned crates, sources and known vulnerabilities of the dependencies (deny.toml). Installs cargo-deny if it is
# missing, which compiles for some minutes; therefore not part of `make test`.
.PHONY: deny
deny: tools-build
	command -v cargo-deny >/dev/null 2>&1 || $(CARGO) install --locked cargo-deny
	$(CARGO) deny --locked check --hide-inclusion-graph licenses bans sources
	@if $(CARGO) deny --locked fetch db; then \
		$(CARGO) deny --locked --offline check advisories; \
	else \
		echo "SKIPPED: the advisory database could not be fetched; known vulnerabilities were NOT checked." >&2; \
	fi

# The file for Grafana against Grafana's schema, whose package npm downloads; therefore not part of `make test`.
.PHONY: grafana-check
grafana-check: tools-build
	@scripts/install-tools.sh grafana
	scripts/check-grafana.sh

# Suites of others and our own comparisons against the built programs: HTTP/2, WebSockets, HTTP caches. Go and npm download
# them; therefore not part of `make test`. SUITES="http2 cache" runs only these.
.PHONY: suites
suites: tools-build
	@scripts/install-tools.sh suites
	$(CARGO) build --locked --workspace --bins
	scripts/suites.sh target/debug $(SUITES)

# Packages for Debian, an OCI image of the gateway, notices and lists of parts, in target/packages/out.
# `PACKAGE_PROFILE=demo make packages` builds sooner, for trying the packages.
.PHONY: packages
packages: tools-build
	@scripts/install-tools.sh packages
	scripts/packages.sh

# Builds the packages in two folders and compares them byte by byte. Takes two release builds.
.PHONY: packages-equal
packages-equal: tools-build
	@scripts/install-tools.sh packages
	scripts/packages-equal.sh

# Installs the packages on a fresh Debian in a container, uses them with browsers, upgrades and removes them. Needs root.
.PHONY: product-test
product-test: target/packages/out
	@scripts/install-tools.sh product
	tests/product/run.sh

target/packages/out:
	$(MAKE) packages
