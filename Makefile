# What a person, and CI, does with a checkout. `make help` lists it.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
SHELL := /bin/bash
# Images of Python set it. Each of the many processes of a run would then compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# `python3` where it is new enough, else a newer one by its own name.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$python; exit; }; done)

BIN := .venv/bin
PACKAGES := .venv/.packages
RUNTIME := .venv/.runtime
BROWSER := .venv/.browser

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-16s %s\n", $$1, $$2 }'

.PHONY: setup
setup: $(RUNTIME) ## all that the project needs: .venv, the jars, Java where there is none
	@:

.PHONY: run
run: $(RUNTIME) ## the demo on brokers of its own; BOOTSTRAP=host:port uses a cluster that exists
	@trap : INT; $(BIN)/levelwind demo $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP)); \
	code=$$?; [ $$code -eq 130 ] || exit $$code

.PHONY: check
check: $(PACKAGES) ## format, lint, types, import contracts
	@PYTHONPATH=tests/support $(BIN)/python -m levelwind_testing.checks

# The order of sets and dictionaries of texts is part of a run.
quick test: export PYTHONHASHSEED := 0

.PHONY: quick
quick: check ## the checks, the unit and the property tests; no brokers, few examples and seeds
	@echo '== unit and property tests'; $(BIN)/pytest -m 'not integration and not slow and not soak' -n logical --hypothesis-profile=quick

# A time-out of a test cannot end it while it waits inside a C library, as a commit does for brokers that are gone.
END_HUNG := -o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true

.PHONY: test
test: check $(RUNTIME) $(BROWSER) ## the checks and all tests but rare ones, on real brokers and Spark too
	@echo '== unit and property tests'; $(BIN)/pytest -m 'not integration and not rare and not soak' -n logical
	@echo '== integration tests'; $(BIN)/pytest $(END_HUNG) -m 'integration and not rare' -n 4 --no-loadscope-reorder

.PHONY: rare
rare: $(RUNTIME) ## tests of minutes each whose subject seldom changes, with fresh seeds, which are printed; SEED=s repeats
	@DRAWN_SEED=$(or $(SEED),fresh) $(BIN)/pytest -s -m rare

.PHONY: soak
soak: $(PACKAGES) ## fresh seeds of the simulation, of what is fuzzed and of the property tests, printed; SEEDS=10000 SEED=s
	@seed=$(or $(SEED),$$RANDOM$$RANDOM); set -ex; \
	$(BIN)/python tests/simulation/soak.py --first $$seed --seeds $(or $(SEEDS),10000); \
	DRAWN_SEED=$$seed $(BIN)/pytest -s -m soak; \
	$(BIN)/pytest -m 'not integration and not rare and not soak' -n logical --hypothesis-profile=fresh --hypothesis-seed=$$seed

.PHONY: soak-daemon
soak-daemon: $(RUNTIME) ## a daemon and a standby under traffic and churn: nothing of their processes grows; BATCHES=7000, an hour
	@$(BIN)/python tests/end_to_end/soak_daemon.py --batches $(or $(BATCHES),7000)

.PHONY: bench bench-assignors bench-pipeline bench-rates bench-drain
bench: $(RUNTIME) ## print what the pipeline and the strategies do on this machine; all but bench-drain
	@for bench in $(filter-out %/bench_drain.py,$(wildcard tests/benchmarks/bench_*.py)); do echo "== $$bench"; $(BIN)/python $$bench || exit; done

bench-assignors: $(RUNTIME) ## the strategies beside Kafka's own classes, and at scale
	@for bench in assignors against_kafka scale load; do echo "== $$bench"; $(BIN)/python tests/benchmarks/bench_$$bench.py || exit; done

bench-pipeline: $(RUNTIME) ## the pipeline beside Spark's raw source and librdkafka, at rest, and from a reassignment to the plan
	@$(BIN)/python tests/benchmarks/bench_pipeline.py --sweep
	@$(BIN)/python tests/benchmarks/bench_pipeline.py --shapes --rounds 1
	@$(BIN)/python tests/benchmarks/bench_pipeline.py --scenario company,steady,burst,fleet
	@for bench in rest reassignment; do echo "== $$bench"; $(BIN)/python tests/benchmarks/bench_$$bench.py || exit; done

bench-rates: $(PACKAGES) ## how soon a change of arrivals is believed, and how often there is none
	@$(BIN)/python tests/benchmarks/bench_rates.py $(OPTIONS)

bench-drain: $(RUNTIME) ## how soon a group is level again, beside Kafka's own; OPTIONS='--scenario S1,S2 --seeds 3'
	@$(BIN)/python tests/benchmarks/bench_drain.py $(OPTIONS)

CHAOS := PYTHONPATH=tests/support $(BIN)/python -m levelwind_testing.chaos --minutes $(or $(MINUTES),3) $(if $(SEED),--seed $(SEED))

.PHONY: chaos slow-handlers
chaos: $(RUNTIME) ## real brokers, members and daemon under random faults, and a check; MINUTES=3 SEED=s
	@$(CHAOS)

slow-handlers: $(RUNTIME) ## members with handlers as long as they may be, and a plan every 20 s; MINUTES=30
	@$(CHAOS) --slow-handlers

.PHONY: cluster-faults
cluster-faults: $(RUNTIME) ## the pipeline on a Spark cluster, workers and driver killed at random moments; KILLS=5 SEED=s
	@FAULTS_KILLS=$(or $(KILLS),5) DRAWN_SEED=$(or $(SEED),fresh) $(BIN)/pytest -s tests/end_to_end/spark_cluster

.PHONY: dist
dist: $(PACKAGES) ## build what a Spark cluster is sent: packages, libraries and the application's file, in dist
	@$(BIN)/python -m levelwind.deploy dist

.PHONY: release release-check corpus
release: $(RUNTIME) site ## build what is published: the wheel, the sdist, the jar for brokers and the site, in dist
	@$(BIN)/python -m levelwind.deploy release

release-check: $(RUNTIME) ## install the wheel and the sdist into environments of their own, and run the demo from there
	@$(BIN)/pytest -s tests/deploy/release/check_release.py

corpus: $(PACKAGES) ## write what the release at HEAD promises to the next, once, into tests/data/releases
	@PYTHONPATH=tests/support $(BIN)/python -m levelwind_testing.releases

.PHONY: deploy-check
deploy-check: $(PACKAGES) ## lint and render what deploy has for Docker, Kubernetes and systemd by those tools; needs Go
	@$(BIN)/pytest tests/deploy/tools/check_*.py

.PHONY: site
site: $(PACKAGES) ## build the site of the documents in dist/site; a link that leads nowhere is an error
	@$(BIN)/python -m sphinx -q -W --keep-going docs dist/site

.PHONY: docs
docs: $(PACKAGES) ## write the pages of docs/ that are generated from the code
	@$(BIN)/python -m levelwind.daemon.config.reference > docs/configuration.md
	@PYTHONPATH=tests/support $(BIN)/python -m levelwind_testing.generated_pages

.PHONY: pictures
pictures: $(PACKAGES) $(BROWSER) ## take the pictures of docs/page.md anew
	@PYTHONPATH=tests/support $(BIN)/python -m levelwind_testing.page.pictures docs/pictures

.PHONY: lock
lock: $(PACKAGES) ## resolve pyproject.toml and deploy/pom.xml into the locks anew; UPGRADE=1 takes newer packages
	@uv=$$($(BIN)/python -c 'from levelwind.deploy.bootstrap import installer; print(installer())'); \
	compile="$$uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-emit-index-url"; \
	export UV_CUSTOM_COMPILE_COMMAND='make lock'; set -ex; \
	$$compile $(if $(UPGRADE),--upgrade) --all-extras --group dev --no-annotate pyproject.toml -o requirements.lock; \
	echo uv | $$compile $(if $(UPGRADE),--upgrade) - -o requirements-bootstrap.lock; \
	part="$$compile --no-annotate --constraints requirements.lock pyproject.toml"; \
	$$part --extra daemon --extra cluster -o requirements-daemon.lock; \
	$$part -o requirements-consumer.lock; \
	for tools in tests/deploy/tools tests/end_to_end/tools; do \
		$$compile --no-annotate $$tools/requirements.in -o $$tools/requirements.lock; done; \
	$(BIN)/python -m levelwind.deploy lock

.PHONY: audit
audit: $(PACKAGES) ## ask PyPI's vulnerability service about every locked package; a package that it does not answer for fails
	@uv=$$($(BIN)/python -c 'from levelwind.deploy.bootstrap import installer; print(installer())'); \
	for lock in requirements.lock requirements-bootstrap.lock; do \
		echo "== $$lock"; $$uv tool run pip-audit --strict --disable-pip --require-hashes -r $$lock || exit; done

.PHONY: clean
clean: ## remove what was made in this checkout, the demo's state too; the cache of downloads stays
	rm -rf .venv .levelwind build dist ./*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		spark-warehouse metastore_db derby.log

$(PACKAGES): requirements.lock requirements-bootstrap.lock pyproject.toml deploy/bootstrap.py
	@[ -n "$(PYTHON)" ] || { echo 'setup: no Python of version 3.11 or newer on PATH; install one, or say make PYTHON=...' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "setup: $(PYTHON) is older than 3.11")'
	@$(PYTHON) -I deploy/bootstrap.py
	@touch $@

$(BROWSER): $(PACKAGES) tests/support/levelwind_testing/page/page_browser.py
	@PYTHONPATH=tests/support $(BIN)/python -m levelwind_testing.page.page_browser && touch $@ || true

$(RUNTIME): $(PACKAGES) deploy/jars.lock
	@$(BIN)/python -m levelwind.deploy setup
	@$(BIN)/python -m levelwind.daemon.pipeline.rehearsal
	@touch $@
