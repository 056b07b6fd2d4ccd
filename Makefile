# The Model Call: every target sets up what it needs. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
BOOK   := $(VENV)/.book-installed
DEV    := $(VENV)/.dev-installed
PORT   ?= 8000

.PHONY: help book epub serve lab edit sync tangle check test test-long bench lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(PY):
	@case "$$($(PYTHON) --version 2>&1 || true)" in "Python "*) ;; \
	  *) echo "make: PYTHON=$(PYTHON) is no Python; try: make PYTHON=python3.12" >&2; exit 1;; esac
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: needs Python 3.11 or newer, found $$($(PYTHON) --version 2>&1 | sed 's/.*: //;q'); try: make PYTHON=python3.12" >&2; exit 1; }
	@echo "==> making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

# $(1) lock file, $(2) stamp
define install
	@echo "==> installing the packages locked in $(1) (the first time takes a minute or two)"
	@$(PY) -m pip install --disable-pip-version-check --progress-bar off -r $(1) 2>&1 \
	  | sed -unE 's/^Collecting ([^ ]+).*/    \1/p; s/^(Installing) .*/    installing .../p; /^ERROR/p'
	@$(PY) -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@touch $(2)
endef

$(BOOK): requirements/book.txt pyproject.toml | $(PY)
	$(call install,requirements/book.txt,$(BOOK))

$(DEV): requirements/dev.txt pyproject.toml | $(PY)
	$(call install,requirements/dev.txt,$(DEV))
	@touch $(BOOK)

book: $(BOOK)  ## build the site into _book/ and print its address
	@$(PY) scripts/build.py

epub: $(BOOK)  ## build the site with the book as an EPUB in it
	@$(PY) scripts/build.py --epub

serve: $(BOOK)  ## serve the site on PORT (8000) and rebuild it when a source changes
	@$(PY) scripts/build.py --serve --port $(PORT)

lab: $(BOOK)  ## open the readers' notebooks in JupyterLab, from notebooks/, where your edits stay
	@$(PY) scripts/readers.py --lab notebooks
	@$(VENV)/bin/jupyter lab --notebook-dir=notebooks

edit: $(BOOK)  ## open the chapters' own notebooks in JupyterLab, for authors (then: make sync)
	@MODELCALL_PROGRESS=off $(VENV)/bin/jupyter lab --notebook-dir=chapters

sync: $(BOOK)  ## bring text and notebooks together; runs only the stale notebooks
	@$(PY) scripts/sync.py

tangle: $(BOOK)  ## write code/modelcall/chNN from the chapters' "# @save" cells
	@$(PY) scripts/tangle.py

check: $(DEV)  ## the fast gates: style, types, and that nothing derived is out of date
	@$(PY) scripts/check.py --fast

test: $(DEV)  ## everything that gates a change
	@$(PY) scripts/check.py

test-long: $(DEV)  ## the big budgets: long fuzzing and mutation runs
	@$(PY) scripts/check.py --long

bench: $(PY)  ## install the benchmark peers into .venv-bench and run scripts/bench/$(NAME).py
	@test -n "$(NAME)" || { echo "make: name a benchmark: make bench NAME=x; there are: $$(cd scripts/bench && ls *.py 2>/dev/null | sed 's/\.py$$//' | tr '\n' ' ')" >&2; exit 2; }
	@test -f "scripts/bench/$(NAME).py" || { echo "make: no benchmark scripts/bench/$(NAME).py" >&2; exit 2; }
	@test -d .venv-bench || $(PY) -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --disable-pip-version-check --quiet --progress-bar off -c requirements/dev.txt -e '.[bench]'
	@.venv-bench/bin/python scripts/bench/$(NAME).py $(ARGS)

lock:  ## resolve the lock files anew (needs uv)
	@command -v uv >/dev/null || { echo "make: needs uv (pip install uv)" >&2; exit 1; }
	@for extra in book dev; do \
	  uv pip compile --quiet --universal --python-version 3.11 --no-header --upgrade --extra $$extra pyproject.toml \
	    $$([ $$extra = dev ] && echo -c requirements/book.txt) -o requirements/$$extra.txt; done

clean:  ## remove what the other targets made (keeps .venv)
	@rm -rf _book .quarto .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	@find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
