# One-line fronts to nox, in a virtual environment of skymark's own.
PYTHON ?= $(notdir $(or $(shell command -v python3 || command -v python3.11),python3))
VENV := .venv
NOX := $(VENV)/bin/nox
# Where Python may not write bytecode, each command would compile what it imports anew.
COMPILE := $(if $(PYTHONDONTWRITEBYTECODE),--compile-bytecode)
UV := $(VENV)/bin/uv pip install --quiet $(COMPILE) --python $(VENV)/bin/python
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: help setup cloud demo bench test test-all lint types docs microbench faults pins resolve clean bench-cpu bench-gpu bench-gpu-h100 bench-tpu exec rsync results

help: ## Show the targets
	@grep -E '^[a-z0-9%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

setup: $(VENV)/.installed ## Make .venv with pinned packages

$(VENV)/.installed: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "skymark needs Python 3.11 or newer; set PYTHON=python3.11")'
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --require-hashes -r requirements/uv.txt 2>$(VENV)/pip.log \
		|| { grep -qE "NewConnection|NameResolution|ConnectTimeout" $(VENV)/pip.log && echo "no network reaches the package index; connect this machine, and run make again" || cat $(VENV)/pip.log; exit 1; } >&2
	$(UV) --require-hashes -r requirements/dev.txt
	$(UV) --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## Compare three loaders in some minutes: the first answer
	$(NOX) -s demo -- $(ARGS)

bench: setup ## Run the ci_cpu profile on this machine, ten minutes: make bench ARGS="--time 30m"
	$(NOX) -s bench -- $(ARGS)

test: setup ## Run the tests that need Python and git alone: minutes, 3 GB
	$(NOX) -s tests -- $(ARGS)

test-all: setup ## Run all other tests: root, libraries, containers, simulated clouds
	$(NOX) -s tests_all

lint: setup ## Check style and the direction of imports
	$(NOX) -s lint

types: setup ## Check types
	$(NOX) -s types

docs: setup ## Build the documentation as a site with search, into build/docs
	$(NOX) -s docs

microbench: setup ## Measure skymark's own cost per batch
	$(NOX) -s microbench

cloud: setup ## Make what the cloud commands need: skymark cost, launch, rehearse …
	$(NOX) -s cloud

bench-cpu: setup ## Rent a CPU machine for the cpu profile: make bench-cpu ARGS="--infra gcp"
	$(NOX) -s cloud_cpu -- $(ARGS)

bench-gpu: setup ## Rent an A100: the price first, the results home, the machine gone
	$(NOX) -s cloud_gpu -- $(ARGS)

bench-gpu-h100: setup ## Rent an H100
	$(NOX) -s cloud_gpu_h100 -- $(ARGS)

bench-tpu: setup ## Rent a TPU v5e
	$(NOX) -s cloud_tpu -- $(ARGS)

exec: setup ## Run more on a machine that is there: make exec CLUSTER=NAME ARGS="--scenarios CV-1"
	$(NOX) -s cloud_exec -- $(CLUSTER) $(ARGS)

rsync: setup ## Copy files from a machine or to one: make rsync ARGS="NAME:results copies"
	$(NOX) -s cloud_rsync -- $(ARGS)

results: setup ## Bring a run home from a machine: make results CLUSTER=NAME
	$(NOX) -s cloud_results -- $(CLUSTER) $(ARGS)

faults: setup ## Make the fault table: every fault at twenty moments
	$(NOX) -s faults

docker-%: setup ## Build the image of a platform: make docker-cpu, docker-gpu, docker-tpu
	$(NOX) -s docker -- $*

pins: setup ## Renew the pinned requirements
	$(NOX) -s pins -- $(ARGS)

resolve: setup ## Prove that all pins install, those for accelerators too; nothing is installed
	$(NOX) -s resolve -- $(ARGS)

clean: ## Remove the virtual environment and caches of tools
	rm -rf $(VENV) .nox .pytest_cache .mypy_cache .ruff_cache .coverage*
