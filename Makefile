# On a fresh machine with Python 3.11 or newer and make, `make demo` and `make test` do everything.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
JOBS ?= 2
PYTHONS ?= 3.11 3.12 3.13
# tests start many programs: without bytecode each of them would compile every module of ours anew
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help demo federation test test-thorough test-slow test-pythons lint format bench speed docs experiments measured wheel-check clean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(VENV)/pip: constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("fedbandits needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade --constraint constraints.txt pip
	@touch $@

$(VENV)/installed: $(VENV)/pip pyproject.toml
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/developing: $(VENV)/installed
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev,deploy]'
	@touch $@

$(VENV)/documenting: $(VENV)/developing
	$(PIP) install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

demo: $(VENV)/installed ## compare five algorithms on 50 clients and write a report
	$(BIN)/fedbandits demo

$(VENV)/deploying: $(VENV)/installed
	$(PIP) install --quiet --constraint constraints.txt --editable '.[deploy]'
	@touch $@

federation: $(VENV)/deploying ## five deployed agents federated by Flower on this machine, with TLS and keys
	$(BIN)/fedbandits federation demo

test: $(VENV)/developing ## the test suite, about six minutes
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-thorough: $(VENV)/developing ## what `make test` leaves out because it takes longer; CI runs both
	$(BIN)/python -m pytest -m 'thorough and not slow' -n $(JOBS) --dist worksteal

test-slow: $(VENV)/developing ## evidence that takes longer
	$(BIN)/python -m pytest -m slow

test-pythons: ## `make test` on every supported Python that is found, each in an environment of its own
	@for version in $(PYTHONS); do found=; \
		for python in python$$version "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$version.*/bin/python3; do \
			if [ -z "$$found" ] && "$$python" -c '' 2> /dev/null; then found=$$python; fi; done; \
		echo "Python $$version: $${found:-not found}"; \
		if [ -n "$$found" ]; then $(MAKE) --no-print-directory test VENV=build/python-$$version PYTHON=$$found || exit 1; fi; done

lint: $(VENV)/developing ## formatting, lint, types, and which room imports which
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/mypy

format: $(VENV)/developing ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/comparing: $(VENV)/experimenting $(VENV)/developing
	$(PIP) install --quiet --constraint constraints.txt --editable '.[peers]' || echo "some peers do not install here; their rows say so"
	@touch $@

bench: $(VENV)/comparing ## speed and memory, as ratios within one run
	$(BIN)/python -m benchmarks

speed: $(VENV)/comparing ## measure everything that docs say of speed again, and put it there; a quarter of an hour
	$(BIN)/python -m benchmarks --record docs/speed.json
	$(BIN)/python -m benchmarks.page docs/speed.md docs/which-model.md

$(VENV)/experimenting: $(VENV)/installed
	$(PIP) install --quiet --constraint constraints.txt --editable '.[data,torch]'
	@touch $@

docs: $(VENV)/documenting ## the documentation, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

experiments: $(VENV)/experimenting ## every experiment with its claims
	@for name in $$($(BIN)/fedbandits list experiments --json | $(BIN)/python -c 'import json, sys; print(*(e["name"] for e in json.load(sys.stdin)))'); do \
		$(BIN)/fedbandits run $$name --jobs $(JOBS) || exit 1; done

measured: $(VENV)/installed ## put finished experiments on record, and fill in what pages quote of them
	$(BIN)/python docs/_extensions/measured.py docs/*.md
	$(BIN)/python docs/_extensions/gallery.py docs/gallery.md

wheel-check: $(VENV)/developing ## build the wheel and use it from a clean environment and an empty directory
	rm -rf build/wheel && mkdir -p build/wheel/empty
	$(BIN)/python -m build --wheel --outdir build/wheel . > build/wheel/log
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt build/wheel/*.whl
	cd build/wheel/empty && ../venv/bin/fedbandits compare -a dislinucb:threshold=2 -a independent-linucb \
		-e linear:clients=20,dim=10 --horizon 200 --seeds 2

clean: ## remove everything that was built
	rm -rf $(VENV) build dist site results .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
