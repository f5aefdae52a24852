# Everything a developer runs. `make` alone lists the targets.
#
# The first target that needs it makes a virtual environment in .venv from constraints.txt.
# PYTHON chooses the interpreter that makes it; nothing else needs to be set.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin
# More processes than processors: half of what a test takes is waiting, for a database, for Spark or
# for another process. One of them has the Spark session and its tests.
PROCESSES ?= 3
SHARED := --numprocesses=$(PROCESSES) --dist=loadgroup
ARGS ?=
# Databases and tables of the tests in memory, where there is space: flushing them to a disk thousands
# of times is most of what they would wait for. TMPDIR, when it is set, goes before. MariaDB and
# MySQL, whose data is large, stay on the disk: they are told not to wait for it.
ROOM := $(or $(TMPDIR),$(shell [ -w /dev/shm ] && \
	[ "$$(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -n 1)" -ge 4 ] && echo /dev/shm))
PYTEST_ON_DISK := $(BIN)/pytest
PYTEST := $(if $(ROOM),TMPDIR=$(ROOM) )$(PYTEST_ON_DISK)

# Compiled modules are kept: without them every process, of which the tests start hundreds, compiles
# Headwater again, and pytest rewrites the asserts of every test each time.
unexport PYTHONDONTWRITEBYTECODE

# The newest of the interpreters that are new enough: the name alone proves nothing, so each is run.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo "$$name"; exit; fi; done)

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Set-up

.PHONY: setup
setup: $(READY) ## Make the virtual environment (other targets do it by themselves)

$(READY): constraints.txt pyproject.toml
	@if [ -z "$(PYTHON)" ] || ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "Headwater needs Python 3.11 or newer: install it (Debian: apt-get install python3 python3-venv), or name it with 'make PYTHON=/path/to/python3.11'." >&2; exit 1; fi
	@if ! "$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "Headwater needs Python's venv module: install it (Debian: apt-get install python3-venv)." >&2; exit 1; fi
	@if ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		"$(PYTHON)" -m venv --clear $(VENV); fi
	@echo "Installing Headwater and its tools into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--build-constraint constraints.txt --editable . --group dev
	@touch $@

.PHONY: java
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || true; \
	if [ "$${version:-0}" -lt 17 ]; then \
		echo "Headwater's Spark engine needs Java 17 or newer: install it (Debian: apt-get install default-jre-headless) and try again." >&2; exit 1; fi

# What users run

.PHONY: demo
demo: java $(READY) ## Run the whole of Headwater on a year of real flights (ARGS=--keep leaves it running)
	@$(BIN)/headwater demo $(ARGS)

.PHONY: demo-cdc
demo-cdc: $(READY) ## Follow a year of real flights from a MariaDB server into a lake while they change
	@$(BIN)/headwater cdc demo $(ARGS)

# What developers run

.PHONY: test
test: java $(READY) ## Run the tests (ARGS goes to pytest); what `check` looks at, databases, other clients, modes of tables and slow suites have targets of their own
	@$(PYTEST) $(SHARED) --ignore=tests/repository --ignore=tests/docs \
		-m "not mariadb and not mysql and not interop and not interop_java and not interop_suite and not cdc_oracles and not cdc_postgresql and not cdc_kafka and not spark_corpus and not slow and not modes" $(ARGS)

.PHONY: test-modes
test-modes: $(READY) ## Run the storage engine through the modes of tables and their combinations
	@$(PYTEST) $(SHARED) -m "modes and not spark and not slow and not mariadb and not mysql and not interop and not interop_java" $(ARGS)

.PHONY: test-spark-modes
test-spark-modes: java $(READY) ## Run Spark's tests that `make test` has no time for
	@$(PYTEST) -m "modes and spark and not slow and not interop and not interop_java" $(ARGS)

.PHONY: test-postgresql
test-postgresql: $(READY) ## Run the tests on PostgreSQL; fails if its programs are missing
	@$(PYTEST) -m "postgresql and not cdc_chaos" --must-run=postgresql $(ARGS)

.PHONY: test-cdc-postgresql
test-cdc-postgresql: $(READY) ## Follow PostgreSQL servers; fails if its programs are missing
	@$(PYTEST) $(SHARED) -m "cdc_postgresql and not slow" --must-run=postgresql $(ARGS)

.PHONY: test-cdc-tasks
test-cdc-tasks: $(READY) ## Follow MariaDB and PostgreSQL servers with all ranges and changes as tasks of an executor
	@HEADWATER_TEST_CDC_TASKS=1 $(PYTEST) $(SHARED) tests/cdc/pipeline tests/cdc/postgres \
		-m "(mariadb or cdc_postgresql) and not slow" --must-run=mariadb --must-run=cdc_postgresql $(ARGS)

.PHONY: test-cdc-kafka
test-cdc-kafka: java $(READY) ## Follow topics of a real Kafka broker, whose jars it fetches with Maven
	@[ -n "$${HEADWATER_KAFKA_JARS:-}" ] || tests/kafka-server
	@$(PYTEST) $(SHARED) -m "cdc_kafka and not slow" --must-run=cdc_kafka $(ARGS)

.PHONY: test-spark-corpus
test-spark-corpus: java $(READY) ## Compare with Spark over the inputs of its own SQL tests, which it fetches with Maven
	@[ -n "$${HEADWATER_SPARK_SQL_INPUTS:-}" ] || tests/spark-sql-inputs
	@$(PYTEST) -m "spark_corpus and not slow" --must-run=spark_corpus $(ARGS)

.PHONY: test-spark-results
test-spark-results: java $(READY) ## Run the statements of Spark's own SQL tests over a lake and compare their rows with Spark's; takes hours
	@[ -n "$${HEADWATER_SPARK_SQL_INPUTS:-}" ] || tests/spark-sql-inputs
	@$(PYTEST) $(SHARED) -m "spark_corpus and slow" --must-run=spark_corpus $(ARGS)

.PHONY: test-mariadb
test-mariadb: $(READY) ## Run the tests on MariaDB; fails if its programs are missing
	@$(PYTEST_ON_DISK) $(SHARED) -m "mariadb and not slow" --must-run=mariadb $(ARGS)

.PHONY: test-mysql
test-mysql: $(READY) ## Run the tests on MySQL, fetched from Debian's packages unless HEADWATER_MYSQLD names a server
	@[ -n "$${HEADWATER_MYSQLD:-}" ] || tests/mysql-server
	@$(PYTEST_ON_DISK) $(SHARED) -m "mysql and not slow" --must-run=mysql $(ARGS)

.PHONY: test-cdc-oracles
test-cdc-oracles: java $(READY) ## Compare what other readers make of databases' logs, Debezium's also through Kafka; fails without them
	@tests/interop/environments $(BIN)/python
	@[ -n "$${HEADWATER_KAFKA_JARS:-}" ] || tests/kafka-server
	@[ -n "$${HEADWATER_MYSQLD:-}" ] || tests/mysql-server
	@$(PYTEST_ON_DISK) -m cdc_oracles --must-run=cdc_oracles $(ARGS)

# How often something is killed, and the seed of all choices.
CDC_KILLS ?= 200
CDC_SEED ?= 1

.PHONY: test-cdc-chaos
test-cdc-chaos: java $(READY) ## Kill the parts around a pipeline CDC_KILLS times, with executors of Spark a fifth as often, and compare the lake with the source
	@[ -n "$${HEADWATER_MYSQLD:-}" ] || tests/mysql-server
	@CDC_KILLS=$(CDC_KILLS) CDC_SEED=$(CDC_SEED) $(PYTEST) -m cdc_chaos --must-run=cdc_chaos $(ARGS)

# Kinds of sessions that Spark's tests run in.
SPARK ?= cluster connect

.PHONY: test-spark
test-spark: java $(READY) ## Run Spark's tests on a standalone cluster and through Spark Connect
	@for kind in $(SPARK); do echo "$$kind:"; \
		HEADWATER_TEST_SPARK=$$kind $(PYTEST) tests/spark tests/cdc/spark -m "spark and not slow and not modes" $(ARGS); done

.PHONY: test-slow
test-slow: java $(READY) ## Run the tests that take minutes
	@$(PYTEST) -m "slow and not cdc_chaos and not interop and not interop_java and not interop_suite" $(ARGS)

# Databases to run on, of sqlite, postgresql and mariadb; none is each of them.
CHAOS_DATABASES ?=
CHAOS_SECONDS ?= 60
CHAOS_SEED ?=

.PHONY: chaos
chaos: $(READY) ## Kill, freeze, cut off and starve a cluster for CHAOS_SECONDS on each database, then prove that no commit is lost
	@$(if $(ROOM),TMPDIR=$(ROOM) )$(BIN)/python -m tests.chaos $(CHAOS_DATABASES) --seconds $(CHAOS_SECONDS) \
		$(if $(CHAOS_SEED),--seed $(CHAOS_SEED)) $(ARGS)

.PHONY: test-interop
test-interop: java $(READY) ## Run the tests with pypaimon, pypaimon-rust and (where Maven is) Paimon's Java library
	@tests/interop/environments $(BIN)/python
	@$(PYTEST) --numprocesses=$(PROCESSES) -m "interop or interop_java" --must-run=interop $(ARGS)

.PHONY: test-pypaimon
test-pypaimon: $(READY) ## Run pypaimon's own REST tests against this server; PAIMON_REPOSITORY may name a clone
	@tests/interop/environments $(BIN)/python
	@$(PYTEST) -m interop_suite --must-run=interop_suite $(ARGS)

.PHONY: check
check: $(READY) ## Lint, types, import direction, namespace, OpenAPI drift, documentation
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/headwater openapi | diff openapi/headwater.json - || { \
		echo "openapi/headwater.json is not what the application says; run: make openapi" >&2; exit 1; }
	$(PYTEST) -q tests/repository tests/docs -m "not slow and not spark"

.PHONY: format
format: $(READY) ## Format the code and sort its imports
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

.PHONY: openapi
openapi: $(READY) ## Write the API's description from the running application
	$(BIN)/headwater openapi --output openapi/headwater.json

.PHONY: bench
bench: java $(READY) ## Measure against references in the same run (ARGS=engine, cdc, spark, tpch or rest for one part)
	@tests/interop/environments $(BIN)/python
	@$(BIN)/python -m benchmarks $(ARGS)

.PHONY: rehearse-image
rehearse-image: ## Run each step of the Dockerfile in a clean Debian, without a container engine (needs root)
	@deploy/rehearse $(ARGS)

.PHONY: constraints
constraints: $(READY) ## Write constraints.txt from what the environment holds
	@$(BIN)/python -m pip freeze --all --exclude-editable --exclude setuptools --exclude wheel --exclude headwater \
		| grep -E '^[A-Za-z0-9._-]+==[^ ]+$$' | LC_ALL=C sort -f > constraints.new
	@mv constraints.new constraints.txt
	@touch $(READY)

.PHONY: clean
clean: ## Remove the environments and everything generated
	rm -rf $(VENV) .interop .mysql .kafka .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
