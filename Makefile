# Every target installs what it needs into .venv and into the cache ($XDG_CACHE_HOME/headroom or
# ~/.cache/headroom), shows progress, and can be interrupted and repeated.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
SOURCE := agent crds headroom manager scheduler_plugins tests tools setup.py
PYTEST_ARGS ?=
BENCH_ARGS ?=
SOAK_ARGS ?=
# Tests that share nothing run on all cores, those of the extender also without its compiled module. Then come four rows
# beside each other (tests/rows.py), in each of them one test after the other: a real node; the manager and the CLI; the
# scheduler; and the others. Last come those that need a quiet machine.
# What takes minutes (mark `long`) is left to `make test-all`. Exit code 5 is "none was selected": fine where PYTEST_ARGS names a few.
WORKERS     := --numprocesses logical --maxprocesses 8
IN_PARALLEL := not cluster and not node and not alone and not long
IN_ROWS     := (cluster or node or alone) and not quiet and not long
ROWS        := --numprocesses 4 --dist loadscope

.PHONY: help
help: ## Print this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(STAMP): requirements/dev.txt pyproject.toml setup.py $(wildcard scheduler_plugins/*/*.pyx)
	@bash .ci/python-venv $(VENV)
	@echo "Installing the locked Python packages into $(VENV) ..."
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@rm -f scheduler_plugins/*/*.so  # a running program keeps its own; a failed build leaves no old one
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --config-settings editable_mode=compat -e . 2>/dev/null \
	  || $(PY) -m pip install --disable-pip-version-check --no-deps --config-settings editable_mode=compat -e .
	@touch $@

.PHONY: venv
venv: $(STAMP) ## Install Headroom and the locked packages into .venv

.PHONY: packages
packages: $(STAMP)
	@$(PY) -m tools.devcluster packages

.PHONY: prepare
prepare: packages ## Build the dev cluster's binaries and images (once; then from the cache)
	@$(PY) -m tools.devcluster prepare --node

.PHONY: try
try: $(STAMP) ## Measure this machine, explain the amounts that it would publish, and evaluate recorded load (two minutes; no cluster, no root)
	@echo "1. This machine: measured for ten seconds, and each term of the amounts that a cluster would publish for it"
	@$(VENV)/bin/headroom-agent --standalone --once -o yaml --log-level warning | $(VENV)/bin/kubectl-headroom explain node -f -
	@echo; echo "2. A recorded month of 489 machines: how much of the limits could be published, at which risk"
	@$(VENV)/bin/kubectl-headroom backtest --trace tools/bench/data/bitbrains-rnd-2013-08 --seed 0 --policies target:0.5,1.5,3 --horizon 24h
	@if [ -t 1 ]; then echo; echo "3. This machine, until Ctrl-C"; $(VENV)/bin/headroom-agent --standalone; fi

.PHONY: demo
demo: prepare ## Show the whole loop on a real Kubernetes node (DEMO=once: check each step, then end)
	@$(PY) -m tools.demo $(if $(filter once,$(DEMO)),--once)

.PHONY: test
test: lint prepare ## Run lint and the tests of every change, on a real dev cluster (ten minutes)
	@$(PY) -m pytest -m "$(IN_PARALLEL)" $(WORKERS) --dist worksteal $(PYTEST_ARGS) || [ $$? = 5 ]
	$(if $(PYTEST_ARGS),,@HEADROOM_PURE_PYTHON=1 $(PY) -m pytest tests/scheduler_plugins -m "$(IN_PARALLEL)" $(WORKERS) --dist worksteal)
	@$(PY) -m pytest -m "$(IN_ROWS)" $(ROWS) $(PYTEST_ARGS) || [ $$? = 5 ]
	@$(PY) -m pytest -m "quiet and not long" $(PYTEST_ARGS) || [ $$? = 5 ]

.PHONY: test-all
test-all: test test-cgroup-v2 ## Also run slow tests: kill loops, slow faults, every page of the docs, a kernel with cgroup v2 alone
	@$(PY) -m pytest -m "long and not quiet" $(ROWS) $(PYTEST_ARGS) || [ $$? = 5 ]
	@$(PY) -m pytest -m "long and quiet" $(PYTEST_ARGS) || [ $$? = 5 ]

.PHONY: test-kubernetes
test-kubernetes: packages ## Run the extender's tests on another Kubernetes (VERSION=1.30)
	@$(PY) -m tools.devcluster prepare --kubernetes $(VERSION)
	@HEADROOM_KUBERNETES=$(VERSION) $(PY) -m pytest -m "cluster and not long and not quiet" tests/scheduler_plugins $(PYTEST_ARGS)

.PHONY: test-fast
test-fast: $(STAMP) ## Run the tests that need no program beside Python (two minutes)
	@$(PY) -m pytest -m "$(IN_PARALLEL) and not helm" $(WORKERS) --dist worksteal $(PYTEST_ARGS)

.PHONY: test-cgroup-v2
test-cgroup-v2: $(STAMP) ## Run the agent under a kernel with cgroup v2 alone, in an emulator (minutes)
	@$(PY) -m pytest -m cgroup_v2 tests/cgroup_v2 $(PYTEST_ARGS)

.PHONY: soak
soak: test-all bench-programs ## Run invariants for an hour: kills, fuzzing, an agent's month, restarts, 5,000 nodes (SOAK_ARGS: --only, --minutes)
	@$(PY) -m tools.soak $(SOAK_ARGS)

.PHONY: lint
lint: $(STAMP) ## Run ruff (every rule), mypy --strict and codespell
	@$(VENV)/bin/ruff check $(SOURCE)
	@$(VENV)/bin/ruff format --check $(SOURCE)
	@$(VENV)/bin/mypy
	@$(VENV)/bin/codespell $(SOURCE) charts docs *.md Makefile Dockerfile.*

.PHONY: format
format: $(STAMP) ## Format the code and apply fixes with ruff
	@$(VENV)/bin/ruff check --fix $(SOURCE)
	@$(VENV)/bin/ruff format $(SOURCE)

.PHONY: golden
golden: $(STAMP) ## Drive the reference vectors through our own functions
	@$(PY) -m tests.golden

.PHONY: cluster
cluster: prepare ## Run a dev cluster with a real node in the foreground, until Ctrl-C
	@$(PY) -m tools.devcluster up --real-node

# Names of parts or groups, --quick, --list: see `python -m tools.bench --help`.
.PHONY: bench
bench: packages bench-programs ## Measure everything beside the budgets and print it as Markdown (two hours; BENCH_ARGS: --list, --only, --quick)
	@$(PY) -m tools.bench $(BENCH_ARGS)

.PHONY: bench-programs
bench-programs: packages
	@$(PY) -m tools.devcluster prepare

.PHONY: bench-agent
bench-agent: $(STAMP) ## Measure the agent alone against its budgets, a simulated week included (six minutes; BENCH_ARGS)
	@$(PY) -m tools.bench agent $(BENCH_ARGS)

.PHONY: bench-manager
bench-manager: bench-programs ## Measure the manager with 500 to 5,000 nodes on a real API server (three quarters of an hour; BENCH_ARGS)
	@$(PY) -m tools.bench manager $(BENCH_ARGS)

.PHONY: bench-scheduler
bench-scheduler: bench-programs ## Measure scheduling on the real kube-scheduler with 1,000 and 5,000 nodes, with and without Headroom (forty minutes; BENCH_ARGS)
	@$(PY) -m tools.bench scheduler $(BENCH_ARGS)

.PHONY: bench-quota
bench-quota: bench-programs ## Measure admission by quotas, the choice of victims, and waiting times for borrowed resources (five minutes; BENCH_ARGS)
	@$(PY) -m tools.bench quota $(BENCH_ARGS)

.PHONY: bench-backtest
bench-backtest: $(STAMP) ## Evaluate the default policy and every model on recorded usage, and replay it from sample to Mid (ten minutes; BENCH_ARGS)
	@$(PY) -m tools.bench backtest $(BENCH_ARGS)

.PHONY: bench-policies
bench-policies: $(STAMP) ## Measure violation and savings by target beside other models, and draw their fronts (ten minutes; BENCH_ARGS)
	@$(PY) -m tools.bench risk $(BENCH_ARGS)
	@$(PY) -m tools.bench.risk_plot docs/images/which-risk.svg

.PHONY: images
images: packages ## Build the container images of the dev cluster into the cache (for a registry of yours: docs/install.md)
	@$(PY) -m tools.devcluster images

.PHONY: chart-readme
chart-readme: $(STAMP) ## Write the table of values in the chart's README from values.yaml
	@$(PY) -m tests.charts.readme

.PHONY: chart-schema
chart-schema: $(STAMP) ## Write the generated parts of values.schema.json: fields of the config, arguments of plugins
	@$(PY) -m tests.charts.schema

.PHONY: docs
docs: $(STAMP) ## Write the tables of docs/configuration.md from the types of the configuration
	@$(PY) -m tests.docs.configuration

.PHONY: docs-site
docs-site: $(STAMP) ## Build the documentation site into dist/site (mkdocs.yml)
	@$(PY) -c 'import material' 2>/dev/null || $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

KREW_ARGS ?=
RELEASE_ARGS ?=
PICTURES_ARGS ?=
.PHONY: pictures
pictures: $(STAMP) ## Draw the pictures of the docs from a running demo (PICTURES_ARGS: its kubeconfig and the node)
	@$(PY) -m tests.docs.pictures $(PICTURES_ARGS)

.PHONY: krew
krew: $(STAMP) ## Build the kubectl plugin's archive for krew into dist/krew (KREW_ARGS: --platform, --python)
	@$(PY) -m tools.release.krew $(KREW_ARGS)

.PHONY: release
release: packages ## Build a release into dist/release: images, chart, kubectl headroom, SBOM, checksums (RELEASE_ARGS: --arch, --platform, --python)
	@$(PY) -m tools.release $(RELEASE_ARGS)

.PHONY: lock
lock: $(STAMP) ## Lock the exact versions again from the ranges in pyproject.toml
	@for set in dev agent manager; do \
	  $(VENV)/bin/uv pip compile --quiet --upgrade --python-version 3.11 --universal --generate-hashes \
	    --custom-compile-command 'make lock' --extra $$set pyproject.toml -o requirements/$$set.txt; \
	done
	@$(VENV)/bin/uv pip compile --quiet --upgrade --python-version 3.11 --universal --generate-hashes \
	  --custom-compile-command 'make lock' -c requirements/manager.txt pyproject.toml -o requirements/cli.txt
	@$(VENV)/bin/uv pip compile --quiet --upgrade --python-version 3.11 --universal --generate-hashes \
	  --custom-compile-command 'make lock' --extra docs -c requirements/dev.txt pyproject.toml -o requirements/docs.txt
	@$(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
	  | $(VENV)/bin/uv pip compile --quiet --upgrade --python-version 3.11 --universal --generate-hashes \
	  --custom-compile-command 'make lock' - -o requirements/build.txt

.PHONY: clean
clean: ## Stop this project's dev clusters, remove .venv and the caches of the tools (the built binaries stay)
	@if [ -x $(PY) ]; then $(PY) -m tools.devcluster down --all || true; fi
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	rm -f scheduler_plugins/*/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
