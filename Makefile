# What a developer does, by name. `make` alone lists it, `make bench` the benchmarks.
#
# uv makes environments from requirements/: .venv (the best interpreter), .venvs/3.X, and with the
# check build .venvs/3.X-check, -dbg (CPython's debug build), -asan (AddressSanitizer).

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SECONDEXPANSION:
.SUFFIXES:
MAKEFLAGS += --no-print-directory
unexport PYTHONDONTWRITEBYTECODE PYTHONHOME PYTHONPATH PYTHONUNBUFFERED

# 3.12 where it is found: Debian has none to unpack.
MATRIX ?= 3.11 3.12 3.13 3.14 3.15
NATIVE_MATRIX ?= 3.13 3.14 3.15
CPYTHON_MATRIX ?= 3.13 3.14
CPYTHON_ALL_MATRIX ?= 3.12 3.13 3.14 3.15
COVERAGE_MATRIX ?= 3.14 3.12
FAILURES ?= 3.14-check
FUZZ_MATRIX ?= 3.12 3.13 3.14 3.15
BENCH_MATRIX ?= 3.14 3.13 3.15
BINDING_BUILDS ?= $(MATRIX) $(MATRIX:%=%-check)
ARM_PAGES ?= 4 16
CHILD_PYTHON ?= 3.14
GPU_PYTHON ?= python3
PYTHON = .venvs/3.14/bin/python

COMPANIONS := packages/lab packages/pytest-pasture
NATIVE := $(wildcard src/native/*.[ch] src/native/*/*.[ch] packages/image/src/stub/*.[ch])
BUILT_FROM := pyproject.toml CMakeLists.txt $(NATIVE) $(wildcard packages/*/pyproject.toml \
    packages/*/CMakeLists.txt packages/auto/src/*.pth requirements/*.txt)
CHECK_BUILD := --config-settings-package pasture:cmake.define.PASTURE_CHECK=ON \
    --config-settings-package pasture:install.strip=false
# uv keeps one build a version of the interpreter and settings, and CPython's debug build has the
# same version: without a setting of its own it would get the check build.
DEBUG_BUILD := $(CHECK_BUILD) --config-settings-package pasture:cmake.define.PASTURE_INTERPRETER=debug
ASAN_BUILD := $(CHECK_BUILD) --config-settings-package pasture:cmake.define.PASTURE_SANITIZE=ON

# An environment whose interpreter has gone is made again.
$(foreach stamp,$(wildcard .venv/.stamp .venvs/*/.stamp),\
    $(if $(shell test -x $(dir $(stamp))bin/python || echo gone),$(shell rm -f $(stamp))))

# Folders; no other target has the name of a file.
.PHONY: build demo docs matrix

help:
	@awk '/^##@ /{printf "\n%s\n", substr($$0, 5)} \
	    /^[a-z-]+:.*## /{split($$0, row, /:.*## /); printf "  %-24s %s\n", row[1], row[2]} \
	    END {print "\nThe rest: docs/internals/targets.md"}' $(MAKEFILE_LIST)

##@ First

setup: .venv/.stamp ## .venv/bin/pasture on the best interpreter, with all extras
	@.venv/bin/python -c 'import platform; print("pasture is ready on CPython", \
	    platform.python_version() + ": .venv/bin/pasture --help")'

demo: .venv/.stamp ## The bundled site under each policy: a table and var/demo.html
	@.venv/bin/python -m demo $(ARGS)

test-unit: .venv/.stamp ## No fork, no server (ARGS="-k smaps")
	@.venv/bin/pytest tests/unit tests/tools $(COMPANIONS:%=%/tests/unit) $(ARGS)

format: .venv/.stamp ## Put the C and Python code into shape
	@.venv/bin/ruff check --quiet --fix-only
	@.venv/bin/ruff format --quiet
	@.venv/bin/clang-format -i $(NATIVE)

# All at once: the first three need one processor, and the sessions of the matrix often wait.
test: .venv/.stamp ## Lint, types, the wheel, the suite on 3.14, on the others what depends on the interpreter
	@$(MAKE) -j4 --output-sync=target lint typecheck test-wheel matrix

##@ Environments and artefacts

setup-matrix: $(MATRIX:%=.venvs/%/.stamp) ## .venvs/3.X for each interpreter of MATRIX

lock: ## Pin what pyproject.toml names, in requirements/ (ARGS=--upgrade)
	@tools/lock $(ARGS)

build:
	@export SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct); for package in . packages/*; do \
	    tools/uv build --quiet --python "$$(tools/interpreters best)" --out-dir dist $$package || exit; \
	done
	@ls -l dist

wheels:
	@tools/wheels $(ARGS)

clean: ## Remove environments, builds and caches (unpacked interpreters stay)
	rm -rf .venv .venvs .tools build dist var .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

environment = python=$$(tools/interpreters $(1)) && tools/environment $(@D) "$$python" $(2) && touch $@
.venv/.stamp: $(BUILT_FROM)
	@$(call environment,best,"lint test extras demo")
.venvs/%-check/.stamp: $(BUILT_FROM)
	@$(call environment,path $*,test $(CHECK_BUILD))
.venvs/%-asan/.stamp: $(BUILT_FROM)
	@$(call environment,path $*,test $(ASAN_BUILD))
.venvs/%-dbg/.stamp: $(BUILT_FROM)
	@$(call environment,path $* --with dbg,test $(DEBUG_BUILD))
.venvs/%/.stamp: $(BUILT_FROM)
	@$(call environment,path $*,"test extras demo")

# Packages for some tests and benchmarks: .venvs/3.14/image-packages has the newest of
# requirements/packages/image.txt, as far as there are wheels for the interpreter.
.venvs/%-packages.stamp: requirements/packages/$$(*F).txt .venvs/$$(*D)/.stamp
	@install="tools/uv pip install --quiet --only-binary :all: --python .venvs/$(*D)/bin/python \
	    --target $(basename $@)"; $$install -r $< 2>/dev/null || for package in $$(cat $<); do \
	    $$install $$package || echo "$$package has no wheel for $(*D)"; done; touch $@

##@ Code and pages

lint: .venv/.stamp ## Ruff, the format of the C and Python code, words, and whether the pins are up to date
	@tools/lock --check
	@tools/words
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --quiet --check
	@.venv/bin/clang-format --dry-run --Werror $(NATIVE)
	@echo "lint: ok"

typecheck: .venv/.stamp ## Strict mypy
	@.venv/bin/mypy
	@.venv/bin/mypy -p pypy.bench -p pypy.check

pages: .venvs/3.14/.stamp
	@$(PYTHON) tools/pages

docs:
	@NO_MKDOCS_2_WARNING=1 tools/docs-site $(ARGS)
docs-check: docs .venvs/3.14/.stamp
	@$(PYTHON) -m pytest -q tests/site

manual: .venvs/3.14/.stamp
	@$(PYTHON) tools/manual build/manual && ls build/manual build/manual/man1

lint-packaging:
	@tools/uv run --quiet --no-project --with py-rattler-build tools/check-recipe

lint-workflows:
	@tools/uv tool run --quiet zizmor --quiet --offline .github examples/ci
	@if command -v actionlint >/dev/null; then actionlint .github/workflows/*.yml examples/ci/*.yml; \
	    else echo "actionlint is not installed: left out"; fi

##@ Tests

matrix:
	+@$(if $(findstring n,$(filter-out -%,$(firstword $(MAKEFLAGS)))),echo,MAKEFLAGS=) \
	    tools/test-matrix $(MATRIX_WORDS) $(MATRIX)  # `+`: shows its output at once

test-all: ## The whole suite, and the check build, on every interpreter of MATRIX
	@$(MAKE) test MATRIX_WORDS="--whole $(MATRIX_WORDS)"

test-wheel test-install test-try test-start test-debian:
	@tools/test-artefact $(@:test-%=%) $(ARGS)
test-start: docs

test-integration: .venv/.stamp ## Real servers
	@.venv/bin/pytest tests/integration $(COMPANIONS:%=%/tests/integration) $(ARGS)

test-commands: .venvs/3.14/.stamp
	@PASTURE_LONG=1 $(PYTHON) -m pytest -q tests/integration/test_command_tree.py tests/integration/test_interrupts.py $(ARGS)

drill: .venvs/3.14/.stamp
	@mkdir -p var && rm -f var/drill.txt; DRILL=var/drill.txt $(PYTHON) -m pytest -q \
	    tests/integration/test_drill.py $(ARGS); status=$$?; cat var/drill.txt; exit $$status

test-hostile: $(MATRIX:%=.venvs/%/.stamp)
	@for minor in $(MATRIX); do .venvs/$$minor/bin/python -m pytest -q tests/hostile $(ARGS) || exit; done

test-bindings: $(BINDING_BUILDS:%=.venvs/%/generator-packages.stamp)
	@for build in $(BINDING_BUILDS); do \
	    .venvs/$$build/bin/python -m pytest -q tests/hostile -k "bindings or coverage" $(ARGS) || exit; \
	done

test-model: .venvs/3.14/.stamp
	@PASTURE_MODEL_GRAPHS=10000 $(PYTHON) -m pytest tests/model $(ARGS)

test-native:
	@tools/test-matrix --check-build-only $(MATRIX)
test-native-asan: $(NATIVE_MATRIX:%=.venvs/%-asan/.stamp)
	@tools/test-native asan "$(NATIVE_MATRIX)" $(ARGS)
test-native-debug: $(NATIVE_MATRIX:%=.venvs/%-dbg/.stamp)
	@tools/test-native debug "$(NATIVE_MATRIX)" $(ARGS)

test-arm:
	@tools/test-native arm "$(ARM_PAGES)" $(ARGS)
test-machines: .venvs/3.14/.stamp
	@$(PYTHON) -m pytest -q tests/machines/images_elsewhere.py $(ARGS)

test-mutants: .venvs/3.13/.stamp .venvs/3.14/.stamp
	@$(MAKE) .venvs/3.12/.stamp || echo "no CPython 3.12: what needs it is not tried"
	@$(PYTHON) tests/mutants $(ARGS)

test-failures: .venvs/$(FAILURES)/.stamp
	@.venvs/$(FAILURES)/bin/python tests/failures $(ARGS)

coverage: .venv/.stamp
	@.venv/bin/python tools/coverage $(COVERAGE_MATRIX) $(ARGS)

fuzz: .venv/.stamp $(FUZZ_MATRIX:%=.venvs/%-check/fuzz-packages.stamp)
	@for minor in $(FUZZ_MATRIX); do \
	    .venv/bin/python tests/fuzz --python $$minor $(ARGS) || failed=1; \
	done; test -z "$$failed"

fuzz-channels fuzz-identity fuzz-servers: fuzz-%: .venvs/3.14/.stamp
	@$(PYTHON) tests/fuzz/$* $(ARGS)

# Other people's programs and tests: hours; most resume (ARGS="NAME...")

test-cpython: .venv/.stamp
	@.venv/bin/python matrix/cpython $(CPYTHON_MATRIX) $(ARGS)
test-cpython-collector: .venv/.stamp
	@.venv/bin/python matrix/cpython/collector.py 3.13 3.14 3.15 $(ARGS)
test-cpython-all: .venv/.stamp
	@.venv/bin/python matrix/cpython/everything.py $(CPYTHON_ALL_MATRIX) $(ARGS)

test-packages test-builds: .venv/.stamp
	@.venv/bin/python $(@:test-%=matrix/%) $(ARGS)

test-sites: .venvs/3.14/.stamp
	@$(PYTHON) -m matrix.sites $(ARGS)
test-versions: .venvs/3.14/.stamp
	@$(PYTHON) -m matrix.sites --versions $(ARGS)
test-holding: .venvs/3.14/.stamp
	@$(PYTHON) -m matrix.holding --resume $(ARGS)
test-identity: .venvs/3.14/.stamp
	@$(PYTHON) -m matrix.identity --resume $(ARGS)
test-scripts: .venvs/3.14/.stamp
	@$(PYTHON) -m matrix.scripts $(ARGS)
test-engines: .venvs/3.14/.stamp
	@$(PYTHON) -m pytest -q matrix/engines/checks $(ARGS)
test-gpu:
	@$(GPU_PYTHON) -m pytest -q -rs -c /dev/null --rootdir . -p no:cacheprovider benchmarks/gpu $(ARGS)
test-libraries: .venvs/3.14/library-packages.stamp
	@$(PYTHON) -m pytest -q -rs tests/libraries/each_library.py tests/libraries/each_end.py $(ARGS)

test-image-recipes: $(patsubst %,.venvs/3.14/%-packages.stamp,image ray helper)
	@$(PYTHON) -m pytest -q tests/image/test_image_examples.py $(ARGS)

##@ Measures

demo-pool: EXAMPLE = data_loader
demo-uwsgi: EXAMPLE = uwsgi_server
demo-celery: EXAMPLE = celery_worker
demo-%: EXAMPLE = $*
demo-%: .venvs/3.14/.stamp
	@$(PYTHON) -m examples.side_by_side examples/$(EXAMPLE).py $(ARGS)

lab: .venvs/3.14/.stamp
	@tools/services nginx >/dev/null; tools/services httperf >/dev/null; \
	    .venvs/3.14/bin/pasture lab --all --results var/lab $(ARGS)
lab-quick:
	@$(MAKE) lab ARGS="--quick $(ARGS)"

bench: ## List the benchmarks
	@grep -l __main__ benchmarks/*.py benchmarks/*/__main__.py | xargs awk 'FNR == 1 && /^"""/ { \
	    name = FILENAME; gsub(/^benchmarks\/|(\/__main__)?\.py$$/, "", name); gsub(/_/, "-", name); \
	    if (name !~ /^soak/) name = "bench-" name; sub(/^"""(`make [a-z-]*`: )?/, ""); \
	    printf "  %-24s %s\n", name, $$0}'

MODULE = $(subst -,_,$*)
bench-airflow: MODULE = airflow_executor
bench-pytest: MODULE = pytest_workers
bench-uvicorn: MODULE = uvicorn_workers
bench-heap: $(BENCH_MATRIX:%=.venvs/%/.stamp)
bench-heap: WORDS = $(BENCH_MATRIX:%=--python .venvs/%/bin/python)
bench-sites: .venvs/3.12/.stamp .venvs/3.13/.stamp
bench-site-child: .venvs/$(CHILD_PYTHON)/.stamp
bench-site-child: PYTHON = .venvs/$(CHILD_PYTHON)/bin/python
bench-image: .venvs/3.14/image-packages.stamp
bench-helpers: .venvs/3.14/helper-packages.stamp
bench-%: .venvs/3.14/.stamp
	@$(PYTHON) -m benchmarks.$(MODULE) $(WORDS) $(ARGS)

soak soak-threads: .venvs/3.14-check/.stamp
soak-threads: PYTHON = .venvs/3.14-check/bin/python
soak:
	@.venvs/3.14-check/bin/python -W ignore -m benchmarks.soak $(ARGS)
soak-threads-asan: .venvs/3.14-asan/.stamp
	@LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
	    .venvs/3.14-asan/bin/python -m benchmarks.soak_threads $(ARGS)
soak-%: .venvs/3.14/.stamp
	@$(PYTHON) -m benchmarks.soak_$(MODULE) $(ARGS)
test-limit: bench-limit

bench-gpu:
	@$(GPU_PYTHON) -m benchmarks.gpu $(ARGS)
bench-arm:
	@for pages in $(ARM_PAGES); do tools/arm64 --pages $$pages -- -m benchmarks.page_sizes $(ARGS) || exit; done

engines agents: .venvs/3.14/.stamp
	@$(PYTHON) -m matrix.$@ $(ARGS)

pypy-setup:
	@pypy/root setup
pypy-check: .venvs/3.14/.stamp pypy-setup
	@$(PYTHON) -m pypy.check $(ARGS)
pypy-bench: .venvs/3.14/.stamp pypy-setup
	@$(PYTHON) -m pypy.bench --json var/pypy-bench.json $(ARGS)
