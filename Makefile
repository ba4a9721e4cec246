# Two commands do all the set-up on a machine with Python 3.11-3.13, make and pip:
#   make demo   the main job on a small made-up cluster
#   make test   the tests

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test fuzz reliability lint types ui clean lock

demo: $(VENV)/.run
	$(BIN)/foreshock demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

# Of every format 10,000 mutated files and 100,000 mutated lines through its reader, and 100 ingests killed at random
# moments: about an hour
fuzz: $(VENV)/.dev
	FORESHOCK_FUZZ=10000 FORESHOCK_FUZZ_LINES=100000 FORESHOCK_KILLS=100 $(BIN)/python -m pytest --timeout 7200 -k "fuzz or killed_by_the_system or mutated" tests/pipelines

# Kills, full disks, a week of runs, damaged bundles: minutes, with the figures printed
reliability: $(VENV)/.dev
	$(BIN)/python -m pytest -m reliability -s

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

ui: $(VENV)/.run
	$(BIN)/foreshock ui

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] <= (3, 13) else "foreshock runs on Python 3.11 to 3.13; say which with PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# --no-deps: the locks are complete, and drain3's own pins would refuse them (see pyproject.toml)
$(VENV)/.run: requirements.lock pyproject.toml | $(VENV)/bin/python
	$(PIP) install --no-deps -r requirements.lock
	$(PIP) install --no-deps -e .
	touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(VENV)/bin/python
	$(PIP) install --no-deps -r requirements-dev.lock
	$(PIP) install --no-deps -e .
	touch $@ $(VENV)/.run

# Needs uv; without index lines, so that the locks name no registry
lock:
	uv pip compile pyproject.toml --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url -o requirements.lock
	uv pip compile pyproject.toml --group dev --extra dask -c requirements.lock --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url -o requirements-dev.lock

clean:
	rm -rf $(VENV) demo
