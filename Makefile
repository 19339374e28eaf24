# Every target sets up what it needs. Nothing has to be installed first but make and Python 3.11 or newer.

.DEFAULT_GOAL := help
.PHONY: help demo test check imports bench soak clean .venv

# The first of these that is new enough; `make PYTHON=... test` names another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin

# Tests: processes, hypothesis profile (tests/conftest.py), seed. A number makes a run repeatable; `SEED=random` draws one.
WORKERS ?= 2
PROFILE ?= ci
SEED ?= 20030609
ifeq ($(SEED),random)
  override SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif

help:
	@echo "make demo    five policies at several budgets: a table, and recall against memory as a picture"
	@echo "make test    import rules and all tests       (SEED=random PROFILE=thorough for a longer search)"
	@echo "make check   ruff, mypy, import rules"
	@echo "make bench   speed, as ratios to named baselines"
	@echo "make soak    100 million arrivals through a fixed budget"
	@echo "make clean   remove everything that these made"

demo: .venv/.installed
	@$(BIN)/windrow demo

test: .venv/.installed imports
	@echo "hypothesis profile $(PROFILE), seed $(SEED): repeat with make test PROFILE=$(PROFILE) SEED=$(SEED)"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --hypothesis-profile=$(PROFILE) --hypothesis-seed=$(SEED)

check: .venv/.installed imports
	@$(BIN)/ruff check .
	@$(BIN)/mypy

imports: .venv/.installed
	@$(BIN)/lint-imports --no-cache --no-logo

bench: .venv/.installed
	@set -e; for f in benchmarks/bench_*.py; do echo "== $$f"; $(BIN)/python $$f; done

soak: .venv/.installed
	@$(BIN)/python benchmarks/soak.py

clean:
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------------------------------- set-up

.venv: .venv/.installed

# A virtual environment holds its own address: one that was moved or copied with the folder is made anew.
ifeq ($(shell grep -sF " $(CURDIR)/.venv" .venv/pyvenv.cfg),)
.PHONY: .venv/.installed
STALE := yes
endif

.venv/.installed: pyproject.toml
	@test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "windrow needs Python 3.11 or newer and found none: install one, or name it with make PYTHON=/path/to/python" >&2; \
	  exit 1; }
	@echo "Setting up .venv with $$("$(PYTHON)" --version) (once; a minute or two) ..."
	@$(if $(STALE),"$(PYTHON)" -m venv --clear .venv || { rm -rf .venv; \
	  echo "$(PYTHON) cannot make a virtual environment; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; },:)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[test,dev,lab,spark]'
	@touch $@
