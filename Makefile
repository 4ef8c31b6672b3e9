# Two commands do everything, a virtual environment included. What each runs, as plain commands:
#   make demo    python3 -m venv .venv
#                .venv/bin/pip install --no-compile -e .
#                .venv/bin/quantdsl demo
#   make test    .venv/bin/pip install -e '.[test]'
#                .venv/bin/pytest -n auto --dist worksteal

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
WORKERS ?= auto

.PHONY: demo test clean

demo: $(VENV)/run-time
	$(BIN)/quantdsl demo

# ruff and mypy are two of the tests, so that one run tells of everything. A worker takes tests that
# stand together, which share what one of them compiles, and from the others when it has no more.
test: $(VENV)/test-time
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

clean:
	rm -rf $(VENV) build dist out

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# The demo imports a few of the modules that it installs: Python compiles those when it does.
# The two marks are files that say which packages are in place; pyproject.toml renews them.
$(VENV)/run-time: $(BIN)/python pyproject.toml
	@echo "installing quantdsl into $(VENV)"
	@$(PIP) install --no-compile -e .
	@touch $@

$(VENV)/test-time: $(BIN)/python pyproject.toml
	@echo "installing quantdsl and its test tools into $(VENV)"
	@$(PIP) install -e '.[test]'
	@touch $@ $(VENV)/run-time
