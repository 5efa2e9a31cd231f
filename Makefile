# make demo   creates the environment, deploys ResNet8, builds it, trains it here and verifies it
# make test   the same environment, then lint, types and all tests
# make fuzz   SEEDS=0:500 random networks, deployed and verified; what fails is made small and kept as a test

PYTHON ?= python3
SEEDS ?= 0:500
VENV := .venv
BIN := $(VENV)/bin
C_FILES := $(shell find c_lib tests -name '*.c' -o -name '*.h' | sort)

.PHONY: bench-tiles demo test lint unit fuzz bench-memory format clean

$(VENV)/ready: constraints.txt setup.cfg pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q -c constraints.txt torch==2.13.0
	$(BIN)/pip install -q -c constraints.txt -e '.[test]'
	touch $@

demo: $(VENV)/ready
	$(BIN)/trainlib-deploy --model examples/resnet8.py --cores 8 --l1 64k --l2 2M --out out/resnet8 --run host

# The tests build hundreds of projects, with the same kernels in most of them: ccache, where it is installed, compiles each once.
test: lint
	CCACHE_DIR=$(CURDIR)/build/ccache CCACHE_NOHASHDIR=1 PATH="/usr/lib/ccache:$$PATH" $(BIN)/pytest -q -n 2 tests

unit: $(VENV)/ready
	$(BIN)/pytest -x -q tests/unit

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(C_FILES)

fuzz: $(VENV)/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.run --seeds $(SEEDS)

bench-tiles: $(VENV)/ready
	$(BIN)/python -m benchmarks.bench_tiles

bench-memory: $(VENV)/ready
	$(BIN)/python -m benchmarks.bench_memory --write docs/benchmarks.md

format: $(VENV)/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $(C_FILES)

clean:
	rm -rf $(VENV) out build
