# Every target works on a fresh machine with Go, make and git; what else is
# needed is installed or named.

GO      ?= go
PKGS    := ./...
CODE    := cmd gateway tiers breaker cache internal loadtest deploy docs .ci
FUZZFOR ?= 30s
LINT    := $(GO) tool -modfile=.ci/lint/go.mod
# What foregate version says; asked of git only where it is used.
STAMP    = -s -w -X main.stampedVersion=$(shell git describe --tags --always --dirty 2>/dev/null) -X main.stampedRevision=$(shell git rev-parse HEAD 2>/dev/null)

.PHONY: help build run test test-long unit race baselines proofs lint fuzz bench load chaos agree golden dashboards docs sim clean exactness

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## Build foregate, vllmsim and loadtest into bin/.
	$(GO) build -trimpath -ldflags '$(STAMP)' -o bin/ ./cmd/foregate ./cmd/vllmsim ./cmd/loadtest

# The shell becomes the program: Ctrl-C reaches it alone, and it ends with 0.
run: build ## Start everything on this machine: simulated pools, two replicas, traffic.
	@exec bin/foregate demo

sim: build ## Start one simulated vLLM on 127.0.0.1:8000.
	@exec bin/vllmsim --listen 127.0.0.1:8000

test: SHORT = -short
test: redis race baselines ## Everything a contributor needs to pass, about eight minutes on two cores with cold caches, four with warm ones: tests under the race detector against a real Redis, the lab's baselines.

test-long: redis race baselines proofs ## All tests: also those that take seconds each (fleets of processes, faults, long samples). Run it before a release.

.PHONY: redis cc
redis:
	@.ci/need-redis

cc: # the race detector is linked by a C compiler
	@.ci/need-cc

unit: ## The tests alone, without the race detector.
	$(GO) test $(PKGS)

# Packages that start no goroutine and hold no lock, which a test keeps true: the race detector
# has nothing to see in them, and would only make them slow.
ALONE := docs loadtest/quality loadtest/virtual tiers/draft tiers/plan tiers/prefix tiers/risk loadtest/applications
empty :=
one   := $(empty) $(empty)

# They take longest, so they start first; most of their time they wait, so three packages are tested at a time.
FIRST := gateway/app cmd/foregate cache tiers gateway loadtest/vllmsim

# With cold caches most of the time goes to the compiler: GOGC makes it collect less, and debug information, which no test reads, is left out.
# The tests run without this GOGC. -trimpath is what make build has, too, so that what it compiled is not compiled again.
COMPILE := GOGC=300
FASTER  := -trimpath -vet=off -ldflags=-s -exec 'env -u GOGC'

# loadtest/cost has benchmarks only. A race build sleeps for a second before it ends, unless it is told not to. make lint vets.
race: redis cc llamacpp ## The tests under the race detector, the long ones too.
	GORACE=atexit_sleep_ms=50 CGO_ENABLED=1 $(COMPILE) .ci/with-redis $(GO) test -race $(SHORT) $(FASTER) -gcflags=all=-dwarf=false -p 3 -timeout 15m $(FIRST:%=./%) $$($(GO) list $(PKGS) | grep -vE '/($(subst $(one),|,$(ALONE) loadtest/cost))$$')

baselines: ## What the race detector would only make slow: packages of one goroutine, with the lab's scenarios, which give the committed rows to the digit; the scheduler's million steps; a million walks through a transcript; what drafts are like.
	$(COMPILE) $(GO) test $(SHORT) $(FASTER) $(ALONE:%=./%)
	$(if $(SHORT),$(COMPILE) $(GO) test $(SHORT) $(FASTER) -run Exactness ./tiers)
	$(if $(SHORT),,$(GO) test -vet=off -run 'MillionRandomSteps|MostAnswersAgree|BlinderADraft' ./loadtest/vllmsim)

proofs: ## The long forms of what tests show with samples: the law of the limits in minutes of virtual time; a million pairs of requests and of changed entries.
	$(GO) test -run 'DifferInOnePart|AMiss$$|WhateverHappens' ./cache ./gateway
	$(GO) test ./gateway/ledger
	FOREGATE_PROOFS=long .ci/with-redis $(GO) test -run AFleetOfFifty ./tiers/fleet

# Nothing is shared in them but counters; the race detector goes over their samples in make race.
exactness: ## Greedy answers are the target's own, to the token, and seams are seen by nobody: 7,680 answers, each cut of 1,000 answers (PROOFS=short: 20 seconds).
	FOREGATE_PROOFS=$(or $(PROOFS),long) $(GO) test -run 'Exactness|Seams' -timeout 60m ./tiers

# One goroutine for each processor, and nothing shared.
.PHONY: risk
risk: ## The guarantee of mode risk on laws whose risk is known: whole replays of the controller, with faults, drift, refits, a chosen eps, and rivals that break it. Prints the tables of docs/measurements.md.
	FOREGATE_PROOFS=long $(GO) test -run 'Proof' -v -timeout 40m ./tiers/risk ./tiers/refit ./loadtest/applications

# golangci-lint holds all of go vet and of staticcheck (govet, staticcheck, unused).
lint: ## gofmt, go mod tidy, golangci-lint with vet and staticcheck in it.
	@test -z "$$(gofmt -l $(CODE))" || { gofmt -l $(CODE); echo 'run gofmt -w on these'; exit 1; }
	$(GO) mod tidy -diff
	$(LINT) golangci-lint run

fuzz: ## Every fuzz target for FUZZFOR (30s).
	.ci/fuzz $(FUZZFOR)

bench: cost ## What the gateway costs (make cost), and the micro-benchmarks.
	$(GO) test -run '^$$' -bench . -benchmem ./tiers/... ./breaker ./cache ./gateway/...

.PHONY: cost nginx
nginx:
	@.ci/need-nginx

cost: redis nginx ## CPU, latency and memory of the gateway beside a Go reverse proxy and nginx, in four minutes (COST=short: one; COST=check: it fails if a ratio is worse than the committed one).
	$(if $(PAGE),FOREGATE_COST_JSON=$(CURDIR)/$(FIGURES)/overhead.json )FOREGATE_COST=$(COST) $(GO) test -run '^$$' -bench Cost -benchtime 1x -timeout 30m ./loadtest/cost

load: build ## One small scenario live: simulators, Redis, a replica, a table.
	bin/loadtest run smoke

chaos: build redis ## The fault suite: three gateways, real Redis servers, a table of what was promised and seen (CHAOS=--short: three minutes).
	bin/loadtest chaos $(CHAOS)

.PHONY: soak
soak: build redis ## A fleet under load for SOAK (30m) with a fault a minute: every request accounted for, no resource grows. Other flags of bin/loadtest soak go into FLAGS.
	bin/loadtest soak --for $(or $(SOAK),30m) $(if $(PAGE),--json $(FIGURES)/soak.json) $(FLAGS)

agree: build redis ## Live runs and virtual time are the same experiment (five seeds, under a minute).
	bin/loadtest agree agree

# PAGE=yes puts the figures of make cost, soak and pair onto the page of proofs; go test ./loadtest/proof -update writes it.
FIGURES := loadtest/proof/results

.PHONY: proof
proof: build redis ## Every claim, measured: docs/proof.md and the README's table; at most 20 minutes on two cores (PROOF='--seeds 1 --check': four minutes, fails if a figure is not as committed).
	FOREGATE_COST=short FOREGATE_COST_JSON=$(CURDIR)/bin/cost.json $(GO) test -run '^$$' -bench Cost -benchtime 1x -timeout 10m ./loadtest/cost
	@bin/loadtest proof --cost bin/cost.json $(or $(PROOF),--write)

# PAIR has other flags of bin/loadtest pair, such as '--only near --requests 300'.
.PHONY: pair
pair: build ## Real pairs of models on vLLM and llama.cpp, on the CPU: scores, what mode risk may serve, the guarantee, right answers; tables in bin/pair (about 20 minutes on two quiet cores).
	@.ci/need-engines llamacpp gemma vllm >/dev/null
	@bin/loadtest pair $(if $(PAGE),--json $(FIGURES)/pairs.json) $(PAIR)

# The engines run already, anywhere. Other flags of bin/loadtest proof-live go into FLAGS.
.PHONY: proof-live
proof-live: build ## The same at a pair of engines that run already (TARGET=URL DRAFT=URL, TARGET_MODEL= DRAFT_MODEL= where an engine has several, FLAGS='--target-key-file FILE --draft-key-file FILE' for API keys), with dollars: tables in bin/proof-live.
	@test -n '$(TARGET)' -a -n '$(DRAFT)' || { echo "make proof-live TARGET=http://127.0.0.1:8082 DRAFT=http://127.0.0.1:8081 (engines with API keys: FLAGS='--target-key-file FILE --draft-key-file FILE')"; exit 2; }
	@bin/loadtest proof-live --out bin/proof-live --target '$(TARGET)' --draft '$(DRAFT)' $(if $(TARGET_MODEL),--target-model '$(TARGET_MODEL)') $(if $(DRAFT_MODEL),--draft-model '$(DRAFT_MODEL)') $(FLAGS)

golden: ## Rewrite the golden files.
	$(GO) test ./cache ./gateway ./gateway/config ./gateway/display ./gateway/receipts ./gateway/tracing ./tiers/openai ./tiers/upstream ./loadtest ./loadtest/vllmsim ./loadtest/virtual ./cmd/foregate -update

dashboards: ## Rewrite Grafana's dashboards (deploy/grafana).
	$(GO) run ./deploy/grafana/make

.PHONY: dashboards-live
dashboards-live: ## Every expression of dashboards and rules is asked of a Prometheus that has read foregate demo for LIVE (6m).
	FOREGATE_LIVE=$(or $(LIVE),6m) .ci/with-promtool $(GO) test -vet=off -trimpath -count=1 -v -timeout 40m -run LiveFleet ./deploy

docs: ## Rewrite what is generated in docs/: the reference, and the import graph in architecture.md.
	$(GO) test ./cmd/foregate -run Reference -update
	$(GO) test ./docs -run Packages -update

clean: ## Remove what build made.
	rm -rf bin dist

# --- deployment and releases ---

.PHONY: release deploycheck lb

# The flags are those of build and of the Dockerfile, and nothing of the builder's own; .ci/release says how.
release: ## Archives for Linux and macOS, their SBOMs and SHA256SUMS into dist/ (VERSION=v1.2.3, else what git describe says).
	$(GO) -C .ci/release run . $(if $(VERSION),-version $(VERSION))

lb:
	@.ci/need-lb

# Never from the cache: the files that are checked are outside of these modules, so that it does not know of them.
deploycheck: redis lb ## What is in deploy/ and the root is as it says: the compose file read, and run as processes; the chart rendered (RELEASE=yes: a release built twice).
	.ci/with-promtool $(GO) -C .ci/deploy test -count=1 -timeout 9m ./...
	$(if $(RELEASE),$(GO) -C .ci/release test -count=1 -timeout 9m ./...)

.PHONY: compose
compose: redis lb ## docker-compose.yml and the demo in real containers (root installs Docker where there is none; without a registry, images are made of this machine's programs): a stopped replica, a killed Redis, Prometheus' targets and rules.
	.ci/with-promtool .ci/with-docker $(GO) -C .ci/deploy test -count=1 -timeout 30m -v -run InContainers ./compose

.PHONY: kubernetes
kubernetes: ## The chart is installed and upgraded on a real Kubernetes API server, and takes the examples of deploy/kubernetes (it is built once: minutes).
	.ci/kubernetes

# --- the clients that people use: OpenAI's library, a browser ---

# They are a module of their own (.ci/clients), and run what build has made.
.PHONY: clients browser
clients: build redis ## OpenAI's own Go library works with the gateway and with the simulator.
	$(COMPILE) .ci/with-redis $(GO) -C .ci/clients test -ldflags=-s -exec 'env -u GOGC' -count=1 -timeout 5m ./openai

browser: build redis ## The console in Chromium, as its operators use it: charts, settings, drains, keyboard, accessibility, phones; screenshots in bin/shots.
	@.ci/need-browser
	cd .ci/axe && npm ci --no-audit --no-fund --ignore-scripts
	FOREGATE_BROWSER=require FOREGATE_SHOTS=$(or $(FOREGATE_SHOTS),$(CURDIR)/bin/shots) .ci/with-redis $(GO) -C .ci/clients test -run Console -count=1 -timeout 5m ./console

# --- coding agents: Claude Code and Codex ---

# It is compiled before, because it runs without a network but loopback, where the kernel allows that.
.PHONY: agents
agents: build redis ## Claude Code and Codex, unmodified and without a network, through the gateway: five turns with tool calls on the simulator, a turn on real llama.cpp; then the SDKs for Python and Node.
	@.ci/need-agents >/dev/null
	@.ci/need-engines llamacpp tools >/dev/null
	$(COMPILE) $(GO) -C .ci/clients test -c -o $(CURDIR)/bin/agents.test ./agents
	cd .ci/clients/agents && FOREGATE_AGENTS=$$(../../need-agents) FOREGATE_SDK_PYTHON=$$(../../need-engines tools)/tools/bin/python ../../alone ../../with-redis $(CURDIR)/bin/agents.test -test.v -test.timeout 40m $(if $(RUN),-test.run '$(RUN)')

# --- real engines: vLLM and llama.cpp on the CPU ---

# SHORT=-short is the form of .ci/run, RUN a pattern of tests. FOREGATE_ENGINES_RUNNING uses engines that run already (loadtest/engines).
.PHONY: engines tools engines-up wire llamacpp
ENGINES ?= llamacpp vllm
engines: redis ## Real vLLM and llama.cpp on the CPU (ENGINES=llamacpp: one of them), set up from packages: answers through the gateway beside the engines' own; ends with a table.
	@.ci/need-engines $(ENGINES) >/dev/null
	@mkdir -p bin && rm -f bin/engines.txt
	FOREGATE_ENGINES='$(ENGINES)' FOREGATE_ENGINES_TABLE=$(CURDIR)/bin/engines.txt .ci/with-redis $(GO) test -vet=off -trimpath -count=1 -timeout 120m $(SHORT) $(if $(RUN),-run '$(RUN)') ./loadtest/engines; status=$$?; cat bin/engines.txt 2>/dev/null; exit $$status
	$(if $(RUN),,FOREGATE_ENGINES='$(ENGINES)' $(GO) test -vet=off -trimpath -count=1 -timeout 10m -run RealPair ./cmd/foregate $(if $(SHORT),,./loadtest/pair))

tools: redis ## Unmodified tools before real engines and before the gateway tell the same: the libraries of OpenAI, Anthropic, LangChain and LiteLLM, vllm bench serve, guidellm, aiperf, lm-eval.
	FOREGATE_TOOLS=$$(.ci/need-engines $(ENGINES) tools) FOREGATE_ENGINES='$(ENGINES)' .ci/with-redis $(GO) test -vet=off -trimpath -v -short -count=1 -timeout 120m -run Tools ./loadtest/engines

wire: ## Record what the real engines answer, to which the simulator and the readers are held, into testdata/wire.
	@.ci/need-engines llamacpp vllm >/dev/null
	FOREGATE_ENGINES='llamacpp vllm' $(GO) test -vet=off -trimpath -count=1 -timeout 60m ./loadtest/engines -run EnginesAnswersAreRecorded -wire

engines-up: build ## Start pairs of real engines (ENGINES=llamacpp: one kind), and say how to run foregate demo in front of them.
	@exec .ci/engines/up $(ENGINES)

llamacpp: # tests with a real engine run where it can be set up
	@.ci/need-engines llamacpp >/dev/null 2>&1 || echo 'left out: tests with a real engine (.ci/need-engines llamacpp says why)'
