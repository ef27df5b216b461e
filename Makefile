# Every target works from any folder (make -C, make -f) and prepares .venv by itself.
#   ARGS   passed on to the command that runs:   make demo ARGS="--help"
#   TESTS  which tests to run:                   make test TESTS=tests/project
#   STORE  store tests on these stores only:     make test STORE=sqlite
#   JOBS   how many tests at once:               make test JOBS=4   (two a processor, at most 8)
#   PYTHON which Python makes .venv:             make test PYTHON=python3.12

# One make file, so the list is one path, which may hold spaces.
ROOT := $(shell cd "$$(dirname "$(strip $(MAKEFILE_LIST))")" && pwd -P)
BIN := $(ROOT)/.venv/bin

ARGS ?=
TESTS ?= tests
STORE ?=
JOBS ?= logical
PYTHON ?=
export PYTHON
unexport PYTHONHOME PYTHONPATH
# What is compiled is kept: setup installs without compiling, and the tests start many processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test lint format types layers docs bench setup clean

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' "$(ROOT)/Makefile"

demo: ## Watch tasks go through their lives; starts and stops everything by itself.
	@"$(ROOT)/scripts/setup.sh" demo
	@cd "$(ROOT)" && "$(BIN)/andon" demo $(ARGS)

test: ## Run the tests (STORE=sqlite for one store, TESTS=tests/... for some).
	@"$(ROOT)/scripts/setup.sh" test
	@cd "$(ROOT)" && "$(BIN)/python" -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal \
		$(STORE:%=--store %) $(ARGS) $(TESTS)

lint: ## Check style and formatting.
	@"$(ROOT)/scripts/setup.sh" dev
	@cd "$(ROOT)" && "$(BIN)/ruff" check $(ARGS) . && "$(BIN)/ruff" format --check .

format: ## Format the code and make the fixes that are safe.
	@"$(ROOT)/scripts/setup.sh" dev
	@cd "$(ROOT)" && "$(BIN)/ruff" check --fix-only . && "$(BIN)/ruff" format .

types: ## Check the types.
	@"$(ROOT)/scripts/setup.sh" dev
	@cd "$(ROOT)" && PATH="$(BIN):$$PATH" "$(BIN)/pyright" $(ARGS)

layers: ## Check that imports go downwards, and that the lifecycle is pure.
	@"$(ROOT)/scripts/setup.sh" dev
	@cd "$(ROOT)" && "$(BIN)/lint-imports" $(ARGS)

docs: ## Check that generated pages are fresh and that the commands in the docs run.
	@"$(ROOT)/scripts/setup.sh" test
	@cd "$(ROOT)" && for page in cli files lifecycle reference; do \
		"$(BIN)/python" scripts/$${page}_docs.py --check || exit 1; done
	@cd "$(ROOT)" && if [ -e scripts/check_docs.py ]; then \
		"$(BIN)/python" scripts/check_docs.py $(ARGS); else echo "no docs to check yet"; fi

bench: ## Measure Andon beside its peers (ARGS="--store redis" for those on Redis).
	@"$(ROOT)/scripts/setup.sh" bench
	@cd "$(ROOT)" && if [ -e benchmarks/run.py ]; then \
		"$(BIN)/python" benchmarks/run.py $(ARGS); else echo "no benchmarks yet"; fi

setup: ## Make .venv with everything, for an editor.
	@"$(ROOT)/scripts/setup.sh" dev

clean: ## Remove .venv and everything that tools left behind.
	@cd "$(ROOT)" && rm -rf .venv .bench build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@cd "$(ROOT)" && find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
