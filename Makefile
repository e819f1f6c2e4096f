# The doors of the project. Each sets up what it needs; nothing asks a question, nothing needs root.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check

.PHONY: run demo test slow check fmt lint types imports bench corpus requirements clean
.DEFAULT_GOAL := run

$(PY):
	@$(PYTHON) -c 'import sys; assert (3, 11) <= sys.version_info < (3, 13), "Switchyard needs Python 3.11 or 3.12"'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(PY) requirements/web.txt requirements/worker.txt requirements/runtime.txt
	$(PIP) -r requirements/web.txt -r requirements/worker.txt -r requirements/runtime.txt
	@touch $@

$(VENV)/.demo: $(VENV)/.run requirements/demo.txt
	$(PIP) -r requirements/demo.txt
	@touch $@

$(VENV)/.dev: $(PY) requirements/dev.txt
	$(PIP) -r requirements/dev.txt
	@touch $@ $(VENV)/.run $(VENV)/.demo

run: $(VENV)/.run            ## set up and run everything on this machine
	@exec $(PY) -m stack run

demo: $(VENV)/.demo          ## against a running stack: upload three real models, send traffic
	@exec $(PY) -m stack demo

corpus: $(VENV)/.demo        ## fetch the real models that tests and benchmarks use
	$(PY) -m stack.corpus

test: $(VENV)/.dev           ## the quick tests
	$(PY) -m pytest -q -n 2 -m "not slow and not e2e and not browser"

slow: $(VENV)/.dev corpus     ## the slower suites: real models, whole stacks, Chromium
	$(PY) -m pytest -q -m "slow or e2e or browser"

check: $(VENV)/.dev          ## what CI checks: format, lint, types, imports, quick tests
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) -m pytest -q -n 2 -m "not slow and not e2e and not browser"

fmt: $(VENV)/.dev
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: $(VENV)/.dev corpus   ## ratios in one run; writes bench/RESULTS.md
	$(PY) -m bench
	$(PY) -m bench.shared_memory
	$(PY) -m bench.frontends

requirements:                ## compile requirements/*.in again, without index addresses
	cd requirements && for name in dev web worker runtime s3 demo gpu; do \
	  uv pip compile --quiet --python-version 3.11 --no-emit-index-url --no-header \
	    $$([ $$name = dev ] || [ $$name = gpu ] || echo "--constraint dev.txt") $$name.in -o $$name.txt; done

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
