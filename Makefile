# Everything runs in its own virtual environment, made on first use. PYTHON picks the interpreter.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CONF := build/conformance
# The day the bundle's sources were last changed; its snapshot is a copy and tells no time.
CONF_EPOCH := 1796057000

.PHONY: help demo test lint types unit conformance bench fuzz schemas lowest clean
help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(STAMP): pyproject.toml Makefile
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

demo: $(STAMP)  ## the main job on the published wheel: recover, stage, build, repair, verify, compare
	$(BIN)/python -m tests.demo

test: lint types unit  ## lint, format, strict types and all tests this machine can run

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist worksteal $(PYTEST_ARGS)

conformance: $(STAMP)  ## compile the conformance bundle (nvcc 13) and make its wheel in build/conformance
	$(BIN)/situ-release build-runner --out $(CONF)/inputs
	SOURCE_DATE_EPOCH=$(CONF_EPOCH) $(BIN)/situ-release stage-assets --recipe situ-conformance-sm90 \
	  --snapshot-root $(CONF)/inputs/snapshot --pool-root $(CONF)/inputs/pool \
	  --module $(CONF)/inputs/*.so --out $(CONF)/payload
	$(BIN)/situ-release build --payload $(CONF)/payload --outdir $(CONF)/raw
	$(BIN)/situ-release repair $(CONF)/raw/*.whl --wheel-dir $(CONF)/dist
	$(BIN)/situ-release verify $(CONF)/dist/*.whl
	$(BIN)/situ-release coverage $(CONF)/dist/*.whl

bench: $(STAMP)  ## times and memory, as ratios against plain tools in the same run
	$(BIN)/python -m tests.bench

fuzz: $(STAMP)  ## mutated inputs for every reader, for a minute; FUZZ="300 7" sets seconds and seed
	$(BIN)/python -m tests.fuzz $(FUZZ)

schemas: $(STAMP)  ## regenerate the JSON Schemas that ship with the package
	$(BIN)/python -m tests.regenerate

lowest:  ## the unit tests with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --editable '.[test]'
	.venv-lowest/bin/python -m pytest -n auto -m 'not network' $(PYTEST_ARGS)

clean:  ## remove the environments and everything built here
	rm -rf .venv .venv-lowest build dist wheelhouse
