# make demo   creates an environment with what that needs, deploys ResNet8, builds it, trains it here and verifies it
# make test   the tools of tests beside it, then lint, types and all tests
# make suites PyTorch's tables and networks of packages, in an environment of their own; goes on where it stopped, writes docs/coverage.md
# make fuzz   SEEDS=0:500 random networks, deployed and verified; what fails is made small and kept as a test
# make site   build/site: the documentation, to be read from a disk or put on a server; make pictures takes its pictures anew
# make wheel  dist/*.whl, tried: in an empty environment, away from here, it deploys and verifies an example

PYTHON ?= python3
SEEDS ?= 0:500
VENV := .venv
BIN := $(VENV)/bin
SUITES := .venv-suites
PACKAGES := transformers timm braindecode snntorch rotary-embedding-torch x-transformers vit-pytorch local-attention pytorch-tcn \
	torch-geometric monai
C_FILES := $(shell find c_lib tests -name '*.c' -o -name '*.h' | sort)

.PHONY: pictures site wheel bench bench-chip bench-cycles bench-least bench-linker bench-loops bench-rows bench-tiles code-sizes tune-table demo test lint unit kernels fuzz mixed-examples suites bench-memory format clean

$(VENV)/installed: constraints.txt setup.cfg pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q -c constraints.txt torch==2.13.0
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

$(VENV)/ready: $(VENV)/installed
	$(BIN)/pip install -q -c constraints.txt -e '.[test]'
	touch $@

demo: $(VENV)/installed
	$(BIN)/trainlib-deploy --model examples/resnet8.py --cores 8 --l1 64k --l2 2M --samples 1 --out out/resnet8 --run host

# The tests build hundreds of projects, with the same kernels in most of them: ccache, where it is installed, compiles each once. Some take
# a minute, and lie beside each other: a worker that has nothing left takes them from the other.
test: lint
	CCACHE_DIR=$(CURDIR)/build/ccache CCACHE_NOHASHDIR=1 PATH="/usr/lib/ccache:$$PATH" $(BIN)/pytest -q -n 2 --dist worksteal tests

# What needs neither a compiler nor seconds. Bytecode is kept, whatever the environment says: else every process compiles. At the end nothing is
# collected: PyTorch's objects take a second.
unit: $(VENV)/ready
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -p no:unraisableexception -x -q -n 2 --dist loadfile -m "not compiler and not slow" tests/unit

# Every kernel against its reference, and the rest of the C library.
kernels: $(VENV)/ready
	$(BIN)/pytest -x -q -n 2 -m compiler tests/unit

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(C_FILES)

fuzz: $(VENV)/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.run --seeds $(SEEDS)

mixed-examples: $(VENV)/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mixed_examples

# torchaudio's compiled parts want a GPU's libraries; without them it is imported all the same.
$(SUITES)/ready: constraints-suites.txt setup.cfg pyproject.toml
	test -x $(SUITES)/bin/python || $(PYTHON) -m venv $(SUITES)
	$(SUITES)/bin/pip install -q --upgrade pip
	$(SUITES)/bin/pip install -q -c constraints-suites.txt torch==2.13.0
	$(SUITES)/bin/pip install -q -c constraints-suites.txt -e . $(PACKAGES)
	find $(SUITES) -path '*/torchaudio/lib/*.so' -delete
	touch $@

# More words for the run: make suites ARGS='--only BERT', '--again' for what failed, '--fresh' for everything, '--fresh --part 1/8' for an eighth,
# '--dtype mixed --samples 1' for mixed precision, which is told behind the rest
suites: $(SUITES)/ready
	CCACHE_DIR=$(CURDIR)/build/ccache CCACHE_NOHASHDIR=1 PATH="/usr/lib/ccache:$$PATH" OMP_NUM_THREADS=1 \
		$(SUITES)/bin/python -m tests.suites.run --write docs/coverage.md $(ARGS)

# Kernels one by one, into docs/benchmarks.md: instructions on the emulated cluster; with PULP-SDK's configs/*.sh sourced, make bench GVSOC=1:
# cycles, beside what they are asked for, and whole steps of the examples (NETWORKS='gru vit' takes some)
bench: $(VENV)/ready
	$(BIN)/python -m benchmarks.bench $(if $(GVSOC),--gvsoc) --write docs/benchmarks.md
	$(if $(GVSOC),$(BIN)/python -m benchmarks.bench_cycles $(NETWORKS))

bench-tiles: $(VENV)/ready
	$(BIN)/python -m benchmarks.bench_tiles

# Kernels one by one, with PULP-SDK's configs/*.sh sourced: make bench-rows ROWS='depthwise fw'
bench-rows: $(VENV)/ready
	$(BIN)/python -m benchmarks.bench_rows $(ROWS)

# Bytes of every kernel's code, and of a word of generated code, by all compilers: with PULP-SDK's configs/*.sh sourced; or BUILDS='cortex-m4f rv32imc'.
# After a change of kernels ONLY=kernels, a minute. KEEP=folder keeps what is built; bench-linker KEEP=folder then links it, and builds nothing twice
code-sizes: BUILDS ?= pulp-sdk cortex-m4f cortex-m7 cortex-m33 rv32imc
code-sizes: $(VENV)/ready
	$(BIN)/python -m benchmarks.measure_code $(BUILDS)
	$(if $(filter kernels,$(ONLY)),,OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.measure_words $(if $(KEEP),--keep $(KEEP)) $(BUILDS))

bench-linker: $(VENV)/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.bench_linker --dtype $(or $(DTYPE),fp32) $(if $(KEEP),--keep $(KEEP)) \
		$(if $(TARGETS),--targets $(TARGETS)) $(EXAMPLES)

# Every example on pulp-open's 512 kB, with --l3 8M where that is too little; with the SDK sourced on GVSoC, too: make bench-chip ON=host
bench-chip: ON ?= host,qemu,gvsoc
bench-chip: $(VENV)/ready
	$(BIN)/python -m benchmarks.bench_chip --on $(ON) $(EXAMPLES)

# Tensors of a plan against what must be stored: make bench-least SEEDS=0:150 takes random networks in place of the examples
bench-least: $(VENV)/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.bench_least $(if $(filter file,$(origin SEEDS)),$(EXAMPLES),--seeds $(SEEDS))

# Loops one by one, and whole steps of the examples beside their forecast: make bench-cycles NETWORKS='gru vit'
bench-loops: $(VENV)/ready
	$(BIN)/python -m benchmarks.bench_loops

bench-cycles: $(VENV)/ready
	$(BIN)/python -m benchmarks.bench_cycles $(NETWORKS)

# What is faster in the examples on GVSoC than estimates have it, with the SDK sourced, for the package
tune-table: $(VENV)/ready
	$(BIN)/python -m benchmarks.tune_table --dtype $(or $(DTYPE),fp32) --l2 $(or $(L2),2M) $(if $(KEEP),--keep $(KEEP)) $(EXAMPLES)

site: $(VENV)/ready
	$(BIN)/mkdocs build --strict

# Needs Chromium and pngquant
pictures: $(VENV)/ready
	$(BIN)/python docs/pictures/make.py

wheel: $(VENV)/ready
	$(BIN)/python -m tests.wheel --out dist

bench-memory: $(VENV)/ready
	$(BIN)/python -m benchmarks.bench_memory --write docs/benchmarks.md

format: $(VENV)/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $(C_FILES)

clean:
	rm -rf $(VENV) $(SUITES) out build
