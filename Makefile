# `make track` does the main job, `make test` passes the tests; both set up what they need.

# Triton 3.1 has no wheel for Python 3.13 and newer, so 3.12 or 3.11 is taken if there is one.
PYTHON ?= $(shell for p in python3.12 python3.11 python3 python3.13 python3.14; do \
  $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
RELEASES ?=
TARGETS ?= cuda:90
# Environment of the kernel tests: the Triton that the interpreter tests run, as in an asv environment.
TEST_TRITON ?= 3.8.0
# On a GPU machine: "all" or UUIDs; and torch for the canaries, like GPU_TORCH=torch==2.11.0.
GPUS ?=
GPU_TORCH ?=
# Followed commits instead of releases; holds options, like COMMITS="--limit 10", or COMMITS=all.
COMMITS ?=

# Through the environment, so that the shell does not read them as code.
export RELEASES TARGETS GPUS

.PHONY: track follow status time gpu-here test test-fast lint report clean

track: .venv/ready
	.venv/bin/python -m scripts.track --releases "$$RELEASES" --targets "$$TARGETS" $(if $(RETRY),--retry-failed)

# Main commit by commit; FOLLOW holds options, like FOLLOW="--limit 10 --since 0d9fb13e".
follow: .venv/ready
	.venv/bin/python -m scripts.follow --target "$(firstword $(TARGETS))" $(FOLLOW)

status: .venv/ready
	.venv/bin/python -m scripts.status --target "$(firstword $(TARGETS))" $(STATUS)

time: gpu-here .venv/ready .venv-gpu/ready
	.venv/bin/python -m scripts.time_commits --gpus "$$GPUS" \
	  $(if $(COMMITS),--commits $(filter-out all,$(COMMITS)),--releases "$$RELEASES")

test: .venv/ready .venv-kernels/ready lint
	.venv/bin/python -m pytest tests/unit tests/contract tests/workflows tests/end_to_end
	.venv-kernels/bin/python -m pytest tests/kernels

# Without a wheel of Triton: some five minutes.
test-fast: .venv/ready
	.venv/bin/python -m pytest tests/unit tests/contract

lint: .venv/ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/shellcheck .github/scripts/results.sh scripts/make_venv.sh .ci/run
	.venv/bin/actionlint -shellcheck .venv/bin/shellcheck -config-file .github/actionlint.yaml .github/workflows/*.yml
	.venv/bin/zizmor --offline --no-progress --quiet .github
	.venv/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml

.venv/ready: pyproject.toml scripts/make_venv.sh
	scripts/make_venv.sh .venv "$(PYTHON)" -e ".[dev]"

.venv-kernels/ready: asv.conf.json scripts/make_venv.sh
	scripts/make_venv.sh .venv-kernels "$(PYTHON)" triton==$(TEST_TRITON) numpy==2.4.6 zstandard==0.25.0 \
	  nvidia-cuda-nvdisasm==13.5.37 setuptools==80.9.0 pytest==9.2.0 nvidia-ml-py==13.595.45

.venv-gpu/ready: asv.conf.json scripts/make_venv.sh
	scripts/make_venv.sh .venv-gpu "$(PYTHON)" numpy==2.4.6 zstandard==0.25.0 cuda-core==1.2.0 \
	  cuda-bindings==13.2.0 nvidia-ml-py==13.595.45 $(GPU_TORCH)

# Before minutes are spent on an environment.
gpu-here:
	@test -e /dev/nvidiactl || { echo "error: no NVIDIA driver on this machine; for another one:" \
	  ".venv/bin/python -m scripts.time_commits --plan-only FILE" >&2; exit 1; }

report: .venv/ready
	.venv/bin/python -m scripts.report

clean:
	rm -rf .venv .venv-kernels .venv-gpu .asv .cache
