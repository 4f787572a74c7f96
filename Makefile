# `make` lists the tasks. Everything is set up by itself: Python ≥ 3.11, make and git are enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# Tests with servers wait for half of their time: three processes keep two cores busy.
PROCESSES ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint unit integration bench stress soak clean

help: ## list the tasks
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## prepare .venv, with the command as .venv/bin/flusso

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("flusso needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(BIN)/python -m compileall -q src
	-@$(BIN)/python -m flusso.engine.archive
	@touch $(STAMP)

demo: $(STAMP) ## run the whole thing once: Postgres, Spark, a search index, live changes
	@$(BIN)/flusso demo

test: lint unit integration ## everything that CI runs

lint: $(STAMP) ## style and types
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy

unit: $(STAMP) ## tests that need neither a JVM nor a server
	$(BIN)/pytest -q -n 2 -m "not postgres and not spark and not opensearch"

integration: $(STAMP) ## tests with real Postgres, real Spark, real OpenSearch
	$(BIN)/pytest -q -n $(PROCESSES) --dist loadgroup --no-loadscope-reorder -m "postgres or spark or opensearch" --durations=10

bench: $(STAMP) ## measure, in one run; prints a table
	$(BIN)/python -m bench

stress: $(STAMP) ## the tests that have sizes, at full size
	FLUSSO_TEST_SCALE=full $(BIN)/pytest -q -m sized --durations=10

soak: $(STAMP) ## random schemas and histories, new ones for FLUSSO_SOAK_MINUTES (30)
	PYTHONPATH=tests $(BIN)/python -m oracle.soak

clean: ## remove what the other tasks made in this folder
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
