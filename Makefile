# `make test` on a fresh machine needs Python 3.11 or newer and make, nothing else.

PYTHON ?= python3
SEED ?= 1
MINUTES ?= 5
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help install test check unit format cli demo bench soak chaos docs clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo     deploy a small service three times, here, in two minutes'
	@echo 'make test     install and run every check and test'
	@echo 'make check    ruff, mypy, import contracts'
	@echo 'make unit     the unit tests alone, under ten seconds'
	@echo 'make format   let ruff format and fix'
	@echo 'make cli      dist/manent.pyz: the client as one file'
	@echo 'make docs     write the generated reference pages anew'
	@echo 'make bench    measure against the bare engine'
	@echo 'make soak     the long-running tests, and many more examples of every property'
	@echo 'make chaos    faults for as long as you like: make chaos SEED="1 2" MINUTES=10'
	@echo 'make clean    remove what the above have made'

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("manent needs Python 3.11 or newer; name one: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[dev]'
	@# On all processors: pip compiles on one. What no Python of today can read is nobody's loss.
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null 2>&1 || true
	@touch $@

install: $(INSTALLED)

test: $(INSTALLED)
	@$(BIN)/python -m tests.gate

check: $(INSTALLED)
	@$(BIN)/python -m tests.gate check

unit: $(INSTALLED)
	@$(BIN)/python -m tests.gate unit

format: $(INSTALLED)
	$(BIN)/ruff check --fix --show-fixes
	$(BIN)/ruff format

cli: $(INSTALLED)
	$(BIN)/python scripts/build_cli.py

demo: $(INSTALLED)
	@$(BIN)/python examples/demo.py

bench: $(INSTALLED)
	@$(BIN)/python -m bench

soak: $(INSTALLED)
	@$(BIN)/python -m tests.gate soak

chaos: $(INSTALLED)
	@$(BIN)/python -m tests.chaos --seed $(SEED) --minutes $(MINUTES)

docs: $(INSTALLED)
	$(BIN)/python -m tests.docs.pages

clean:
	rm -rf $(VENV) .venv-* build dist .demo .coverage
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
