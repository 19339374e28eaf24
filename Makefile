# Every target sets up what it needs. Nothing has to be installed first but make and Python 3.11 or newer; what runs on
# Spark also needs Java 17 or newer, which is installed where that can be done.

.DEFAULT_GOAL := help
.PHONY: help demo test check imports bench soak contract clean java .venv

# The first of these that is new enough and can make an environment; `make PYTHON=... test` names another. The one of the
# system comes first: it was built with optimisation, which those of version managers often were not.
PYTHON ?= $(shell for needed in ensurepip sys; do \
	for p in /usr/bin/python3 python3 python3.13 python3.12 python3.11 python3.14; do \
	$$p -c "import sys, $$needed; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && { echo $$p; exit; }; done; done)
BIN := .venv/bin

# Where a shell forbids Python to keep bytecode, as those of images do, every process of a test or of Spark would
# compile all sources again.
unexport PYTHONDONTWRITEBYTECODE

# Tests: processes, hypothesis profile (tests/conftest.py), seed. A number makes a run repeatable; `SEED=random` draws one.
WORKERS ?= 2
PROFILE ?= ci
SEED ?= 20030609
ifeq ($(SEED),random)
  override SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif

help:
	@echo "make demo    every policy at several budgets: a table, and recall against memory as a picture; one more run on Spark"
	@echo "make test    import rules and all tests       (SEED=random PROFILE=thorough for a longer search)"
	@echo "make check   ruff, mypy, import rules"
	@echo "make bench   speed, as ratios to named baselines"
	@echo "make soak    100 million arrivals through a fixed budget; kills and restarts on Spark; forged snapshots; long tests; make contract"
	@echo "make contract  20,000 generated histories of engines, each restored after every step       (SEED=random)"
	@echo "make clean   remove what these made, but for their results in out/ and benchmarks/results/"

# The demo runs without Java too, and says so.
demo: .venv/.installed
	@$(MAKE) -s --no-print-directory java 2>/dev/null || true
	@$(BIN)/windrow demo

test: .venv/.installed java imports
	@echo "compiling all joins (minutes the first time, a moment afterwards) ..."
	@$(BIN)/windrow compile --jobs $(WORKERS)
	@echo "hypothesis profile $(PROFILE), seed $(SEED): repeat with make test PROFILE=$(PROFILE) SEED=$(SEED)"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --hypothesis-profile=$(PROFILE) --hypothesis-seed=$(SEED)

check: .venv/.installed imports
	@$(BIN)/ruff check .
	@$(BIN)/mypy

imports: .venv/.installed
	@$(BIN)/lint-imports --no-cache --no-logo

bench: .venv/.installed
	@set -e; for f in benchmarks/bench_*.py; do echo "== $$f"; $(BIN)/python $$f; done

soak: .venv/.installed
	@$(BIN)/python benchmarks/soak.py
	@$(BIN)/python benchmarks/crash.py
	@$(BIN)/python tests/forged.py --cases 5000 --seed $(SEED)
	@$(BIN)/python -m pytest -m slow tests || [ $$? -eq 5 ]  # 5: there are none
	@$(MAKE) -s --no-print-directory contract

contract: .venv/.installed
	@echo "20,000 generated histories of engines, seed $(SEED): repeat with make contract SEED=$(SEED)"
	@$(BIN)/python -m pytest tests/contract/test_generated.py -s --hypothesis-profile=thorough --hypothesis-seed=$(SEED)

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
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile --editable '.[test,dev,lab,spark]'
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests/' .venv/lib || true  # on all cores; pip uses one. Some files are templates
	@touch $@

# Spark runs on Java: JAVA_HOME's, or the one on the path. The session itself looks in the same places.
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1); \
	if [ "$${version:-0}" -ge 17 ]; then exit 0; fi; \
	if [ -z "$$JAVA_HOME" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Java for Spark (once; a minute) ..."; \
	  apt-get update -qq >/dev/null 2>&1; \
	  for package in openjdk-17-jre-headless default-jre-headless; do \
	    apt-get install -qq -y $$package >/dev/null 2>&1 && exit 0; done; \
	fi; \
	echo "Spark needs Java 17 or newer: install it (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME" >&2; \
	exit 1
