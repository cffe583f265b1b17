# `make help` lists the targets. Each first creates the environment, and none asks a question.

SCALE ?= quick
ARGS ?=
# one more than cores, as many tests wait
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SITE ?=
# VENV=DIR on the command line: use an existing environment as it is (no network, another Python).
VENV = .venv
REPRO := $(if $(filter .venv,$(VENV)),.venv/bin/repro,$(VENV)/bin/python -m repro)
# The environment may bring its own mpirun.
export PATH := $(abspath $(VENV))/bin:$(PATH)

.PHONY: help setup setup-horovod setup-cluster lint test test-cluster test-all reproduce-pipesgd reproduce-pipedream reproduce-gtopk reproduce-eagersgd
.PHONY: reproduce-ibatch reproduce-all profile-pipedream slurm-pipedream slurm-ibatch
.PHONY: baselines validate slurm-pipesgd slurm-gtopk slurm-eagersgd report verify ui bench gpu-queue faults versions lock doctor clean

help:  ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 20

setup:  ## create .venv and install an MPI (LOCKED=1: the versions of requirements.lock)
	@[ "$(VENV)" != .venv ] || setup/environment.sh

setup-horovod: setup  ## build Horovod against the torch in .venv (needs a compiler; takes minutes)
	@setup/horovod.sh

setup-cluster: setup-horovod  ## install what the cluster tests need: Horovod, Slurm, munge, PMIx (by apt-get, if permitted)
	@setup/slurm.sh

lint: setup  ## check style, types and declared dependencies: ruff, mypy, deptry
	$(VENV)/bin/python -m ruff check . && $(VENV)/bin/python -m ruff format --check .
	$(VENV)/bin/python -m mypy
	$(VENV)/bin/python -m deptry .

# tests start some hundred processes: whoever wants no compiled modules in their folders has them here all the same
test test-cluster: export PYTHONDONTWRITEBYTECODE =

test: setup  ## run the tests, JOBS at a time (ARGS=...: arguments of pytest)
	$(VENV)/bin/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-cluster: setup  ## run the tests of Slurm, Horovod, network namespaces, MLflow servers, preemption and faults
	$(VENV)/bin/python -m pytest tests/cluster $(ARGS)

test-all: test test-cluster  ## run all tests

reproduce-pipesgd: setup  ## run the main experiments of Pipe-SGD, with SCALE=full all, and build its page
	$(REPRO) run pipesgd --scale $(SCALE) $(ARGS)

reproduce-pipedream: setup  ## run the main experiments of PipeDream, with SCALE=full all, and build its page
	$(REPRO) run pipedream --scale $(SCALE) $(ARGS)

profile-pipedream: setup  ## replace the committed profiles of PipeDream's measured experiments by this machine's
	$(REPRO) profile vgg16 model.width=0.25 --dataset cifar10 --minibatches 100 --out paper_configs/profile/measured-vgg.json
	$(REPRO) profile alexnet_cifar model.width=0.5 --dataset cifar10 --minibatches 100 --out paper_configs/profile/measured-alexnet.json

reproduce-gtopk: setup  ## run the main experiments of gTop-k S-SGD, with SCALE=full all, and build its page
	$(REPRO) run gtopk --scale $(SCALE) $(ARGS)

reproduce-eagersgd: setup  ## run the main experiments of eager-SGD, with SCALE=full all, and build its page
	$(REPRO) run eagersgd --scale $(SCALE) $(ARGS)

reproduce-ibatch: setup  ## run the main experiments of iBatch, with SCALE=full all, and build its page
	$(REPRO) run ibatch --scale $(SCALE) $(ARGS)

reproduce-all: reproduce-pipesgd reproduce-pipedream reproduce-gtopk reproduce-eagersgd reproduce-ibatch baselines validate  ## run the five papers, the libraries and the validation

baselines: setup  ## compare Horovod, PyTorch's DDP and our own strategies
	$(REPRO) run baselines --scale $(SCALE) $(ARGS)

validate: setup  ## validate the simulation against measured steps on limited links (needs network namespaces)
	$(REPRO) run validation --scale $(SCALE) $(ARGS)

slurm-pipesgd: setup  ## submit all experiments of Pipe-SGD to Slurm (SITE=file, ARGS=--dry-run)
	$(REPRO) submit pipesgd --scale $(SCALE) $(if $(SITE),--site $(SITE)) $(ARGS)

slurm-pipedream: setup  ## submit all experiments of PipeDream to Slurm (SITE=file, ARGS=--dry-run)
	$(REPRO) submit pipedream --scale $(SCALE) $(if $(SITE),--site $(SITE)) $(ARGS)

slurm-gtopk: setup  ## submit all experiments of gTop-k S-SGD to Slurm (SITE=file, ARGS=--dry-run)
	$(REPRO) submit gtopk --scale $(SCALE) $(if $(SITE),--site $(SITE)) $(ARGS)

slurm-eagersgd: setup  ## submit all experiments of eager-SGD to Slurm (SITE=file, ARGS=--dry-run)
	$(REPRO) submit eagersgd --scale $(SCALE) $(if $(SITE),--site $(SITE)) $(ARGS)

slurm-ibatch: setup  ## submit all experiments of iBatch to Slurm (SITE=file, ARGS=--dry-run)
	$(REPRO) submit ibatch --scale $(SCALE) $(if $(SITE),--site $(SITE)) $(ARGS)

report: setup  ## build all pages from results, and the site: results/pages/site
	$(REPRO) report

ui: setup  ## open the MLflow UI on 127.0.0.1
	$(REPRO) ui

verify: setup  ## check the committed results and their verdicts
	$(REPRO) verify

bench: setup  ## benchmark the harness; writes results/bench/
	$(VENV)/bin/python -m tests.bench $(ARGS)

gpu-queue: setup  ## run what a GPU should do next for MINUTES=9: resumes, stops in time, packs (OUT=DIR; VENV=DIR: use that environment)
	$(REPRO) queue --minutes $(or $(MINUTES),9) $(if $(OUT),--out $(OUT)) $(ARGS)

faults: setup  ## inject faults into real runs and verify recovery; resumes (over 250 trials, half an hour on two idle cores)
	$(VENV)/bin/python -m tests.faults $(ARGS)

versions: setup  ## write versions.lock and the golden rows, if no number changed without a raised version
	$(VENV)/bin/python -m pytest -q -n $(JOBS) tests/conformance tests/unit/probes tests/unit/training tests/unit/fabric
	$(REPRO) verify --rerun
	$(VENV)/bin/python -m tests.golden

lock: setup  ## write requirements.lock from the versions in .venv
	$(VENV)/bin/python setup/lock.py requirements.lock

doctor: setup  ## check what this machine has and lacks
	$(REPRO) doctor

clean:  ## remove caches, not results or .venv
	rm -rf .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis build *.egg-info
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
