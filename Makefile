# Everything a developer does, by name. `make` alone lists it.
#
# Environments are made by uv from requirements/ and are made again only when what they are built
# from has changed: .venv (the best interpreter at hand), .venvs/3.X (one an interpreter of
# the matrix), and with the check build of the extension .venvs/3.X-check, .venvs/3.X-dbg (on
# CPython's debug build) and .venvs/3.X-asan (under AddressSanitizer).

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-print-directory
unexport PYTHONDONTWRITEBYTECODE PYTHONHOME PYTHONPATH PYTHONUNBUFFERED

# 3.12 where it is found: Debian has none to unpack.
MATRIX ?= 3.11 3.12 3.13 3.14 3.15
NATIVE_MATRIX ?= 3.13 3.14 3.15
DEBUG_MATRIX ?= 3.13 3.14 3.15
CPYTHON_MATRIX ?= 3.13 3.14
FUZZ_MATRIX ?= 3.12 3.13 3.14 3.15
BINDING_PACKAGES := cffi coverage cython jiter nanobind pybind11 pydantic-core rpds-py
FUZZ_PACKAGES := cryptography greenlet lxml msgpack numpy orjson pydantic-core
CPYTHON_ALL_MATRIX ?= 3.12 3.13 3.14 3.15
BINDING_BUILDS ?= $(MATRIX) $(MATRIX:%=%-check)
ARM_PAGES ?= 4 16
ARM_IMAGES := $(patsubst %,tests/image/test_image_%.py,programs process start)
# The unpacked root has no shell, terminals, compiler, servers or start file of pasture[auto].
ARM_WITHOUT := streams_that_are_closed or terminal or control_ or celery or gunicorn or says_what_it_holds or is_sealed_if
BENCH_MATRIX ?= 3.14 3.13 3.15
CHILD_PYTHON ?= 3.14
GPU_PYTHON ?= python3
MATRIX_WORDS ?=
ARGS ?=

NATIVE := $(wildcard src/native/*.[ch] src/native/*/*.[ch] packages/image/src/stub/*.[ch])
BUILT_FROM := pyproject.toml packages/lab/pyproject.toml packages/auto/pyproject.toml packages/image/pyproject.toml packages/pytest-pasture/pyproject.toml $(wildcard packages/auto/src/*.pth) $(wildcard requirements/*.txt) CMakeLists.txt packages/image/CMakeLists.txt $(NATIVE)
EVERYTHING := test extras demo
CHECK_BUILD := --config-settings-package pasture:cmake.define.PASTURE_CHECK=ON \
    --config-settings-package pasture:install.strip=false
# uv keeps one build for the same interpreter version and the same settings, and CPython's debug
# build has the same version: without a setting of its own it would get the check build.
DEBUG_BUILD := $(CHECK_BUILD) --config-settings-package pasture:cmake.define.PASTURE_INTERPRETER=debug
ASAN_BUILD := $(CHECK_BUILD) --config-settings-package pasture:cmake.define.PASTURE_SANITIZE=ON

# An environment whose interpreter has gone is made anew.
$(foreach stamp,$(wildcard .venv/.stamp .venvs/*/.stamp),\
    $(if $(shell test -x $(dir $(stamp))bin/python || echo gone),$(shell rm -f $(stamp))))

.PHONY: help
help: ## List what can be made
	@awk -F ':.*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} \
	    /^[a-z-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Environments

.PHONY: setup
setup: .venv/.stamp ## .venv/bin/pasture on the best interpreter, with all extras
	@.venv/bin/python -c 'import platform; print("pasture is ready on CPython", \
	    platform.python_version() + ": .venv/bin/pasture --help")'

.venv/.stamp: $(BUILT_FROM)
	@python=$$(tools/interpreters best) && \
	    tools/environment $(@D) "$$python" "lint $(EVERYTHING)"
	@touch $@

.PHONY: setup-matrix
setup-matrix: $(MATRIX:%=.venvs/%/.stamp) ## .venvs/3.X for each interpreter of MATRIX

.venvs/%-check/.stamp: $(BUILT_FROM)
	@python=$$(tools/interpreters path $*) && \
	    tools/environment $(@D) "$$python" test $(CHECK_BUILD)
	@touch $@

# Third parties for the random programs, as far as there are wheels for the interpreter.
.venvs/%-check/fuzz-packages.stamp: .venvs/%-check/.stamp
	@for package in $(FUZZ_PACKAGES); do \
	    tools/uv pip install --quiet --only-binary :all: --python .venvs/$*-check/bin/python \
	        --target $(basename $@) $$package || echo "$$package has no wheel for $*"; \
	done; touch $@

# Generators of bindings, and wheels that were made with one.
.venvs/%/generators.stamp: .venvs/%/.stamp
	@for package in $(BINDING_PACKAGES); do \
	    tools/uv pip install --quiet --only-binary :all: --python .venvs/$*/bin/python \
	        --target $(basename $@) $$package || echo "$$package has no wheel for $*"; \
	done; touch $@

# What the benchmarks of images load.
.venvs/%/image-packages.stamp: .venvs/%/.stamp
	@tools/uv pip install --quiet --only-binary :all: --python .venvs/$*/bin/python \
	    --target $(basename $@) numpy pandas scikit-learn ipykernel jupyter_client
	@touch $@

# Helper processes of editors and agents, out of images.
.venvs/%/helper-packages.stamp: .venvs/%/.stamp
	@tools/uv pip install --quiet --only-binary :all: --python .venvs/$*/bin/python \
	    --target $(basename $@) mcp jedi-language-server ipykernel jupyter_client black
	@touch $@

# A worker of Ray out of an image: large, so it is no requirement of the suite.
.venvs/%/ray-packages.stamp: .venvs/%/.stamp
	@tools/uv pip install --quiet --only-binary :all: --python .venvs/$*/bin/python \
	    --target $(basename $@) ray
	@touch $@

.venvs/%-asan/.stamp: $(BUILT_FROM)
	@python=$$(tools/interpreters path $*) && \
	    tools/environment $(@D) "$$python" test $(ASAN_BUILD)
	@touch $@

.venvs/%-dbg/.stamp: $(BUILT_FROM)
	@python=$$(tools/interpreters path $* --with dbg) && \
	    tools/environment $(@D) "$$python" test $(DEBUG_BUILD)
	@touch $@

.venvs/%/.stamp: $(BUILT_FROM)
	@python=$$(tools/interpreters path $*) && \
	    tools/environment $(@D) "$$python" "$(EVERYTHING)"
	@touch $@

.PHONY: lock
lock: ## Pin what pyproject.toml names, in requirements/ (ARGS=--upgrade, ARGS="--upgrade-package NAME")
	@tools/lock $(ARGS)

.PHONY: build
build: ## Wheels and sdists of pasture and its companions in dist/
	@for package in . packages/*; do \
	    tools/uv build --quiet --python "$$(tools/interpreters best)" --out-dir dist $$package || exit; \
	done
	@ls -l dist

.PHONY: wheels
wheels: ## One wheel a minor version, and one of pasture-image, for manylinux_2_28 and musllinux, x86-64 and aarch64 (ARGS="3.13 image --target ...")
	@tools/wheels $(ARGS)

.PHONY: clean
clean: ## Remove environments, builds and caches (unpacked interpreters stay)
	rm -rf .venv .venvs .tools build dist var .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

##@ Tests

# All at once: the first three need one processor, and the sessions of the matrix often wait.
.PHONY: test
test: .venv/.stamp ## Lint, types, the wheel, the suite on CPython 3.14, and on the others what depends on the interpreter
	@$(MAKE) -j4 --output-sync=target lint typecheck test-wheel matrix

.PHONY: matrix
matrix:
	+@MAKEFLAGS= tools/test-matrix $(MATRIX_WORDS) $(MATRIX)  # `+`: shows its output at once, as a make of its own

.PHONY: test-all
test-all: ## The same with the whole suite, and the check build, on every interpreter of MATRIX
	@$(MAKE) test MATRIX_WORDS="--whole $(MATRIX_WORDS)"

.PHONY: test-wheel
test-wheel: ## The built packages in an empty environment
	@tools/test-wheel

.PHONY: test-install
test-install: ## pip install of each artefact, out of sdist and wheel, on every interpreter; what it says without a compiler, headers, a GIL; needs an index and root (ARGS=3.14)
	@tools/test-install $(ARGS)

.PHONY: test-debian
test-debian: ## The Debian package, built in a fresh root of trixie, with lintian; needs root and debootstrap (ARGS=sid)
	@tools/test-debian $(ARGS)

.PHONY: test-start
test-start: docs ## The commands of docs/start.md, as the site shows them, in a fresh root of Debian, timed; needs root and debootstrap
	@tools/test-start

.PHONY: test-try
test-try: ## `pasture try` where pasture alone is installed: what it brings, by uv and by pip; needs an index
	@tools/test-try

.PHONY: test-unit
test-unit: .venv/.stamp ## No fork, no server: seconds
	@.venv/bin/pytest tests/unit tests/tools packages/lab/tests/unit packages/pytest-pasture/tests/unit $(ARGS)

.PHONY: test-native
test-native: ## The extension under its verifier, on every interpreter of MATRIX
	@tools/test-matrix --check-build-only $(MATRIX)

.PHONY: test-hostile
test-hostile: $(MATRIX:%=.venvs/%/.stamp) ## Heaps that break assumptions, with the extension as users get it
	@for minor in $(MATRIX); do \
	    .venvs/$$minor/bin/python -m pytest -q tests/hostile $(ARGS) || exit; \
	done

.PHONY: test-bindings
test-bindings: $(BINDING_BUILDS:%=.venvs/%/generators.stamp) ## Objects of Cython, pybind11, nanobind, PyO3 and cffi; coverage (BINDING_BUILDS=3.14)
	@for build in $(BINDING_BUILDS); do \
	    .venvs/$$build/bin/python -m pytest -q tests/hostile -k "bindings or coverage" $(ARGS) \
	        || exit; \
	done

# Twice: with objects from malloc, so that each has its own red zone, and from pymalloc. What
# needs glibc's malloc or another one, or limits or counts memory, cannot run here: the sanitizer has
# pages of its own. Nor can what reads fields at wrong places on purpose (test_layout). The
# interpreter itself is not instrumented and keeps what it likes until it ends: no leak check.
.PHONY: test-native-asan
test-native-asan: $(NATIVE_MATRIX:%=.venvs/%-asan/.stamp) ## The same under AddressSanitizer
	@export LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0; \
	for minor in $(NATIVE_MATRIX); do \
	    pytest=".venvs/$$minor-asan/bin/python -m pytest -q tests/native $(ARGS)"; \
	    PYTHONMALLOC=malloc $$pytest \
	        -k "not (test_plug or test_page_faults or leaves_its_page_shared or \
	        without_memory or working_memory or test_layout)" && \
	    $$pytest -k "not (no_chunk or second_call or without_memory or working_memory or \
	        left_alone or at_its_peak or test_layout or test_page_faults or test_plug_allocators or \
	        hide_no_hole or parents_free)" || exit; \
	done

.PHONY: test-native-debug
test-native-debug: $(DEBUG_MATRIX:%=.venvs/%-dbg/.stamp) ## The same on CPython's debug builds
	@for minor in $(DEBUG_MATRIX); do \
	    .venvs/$$minor-dbg/bin/python -m pytest -q tests/native $(ARGS) || exit; \
	done

.PHONY: test-arm
test-arm: ## The native tests on arm64: emulated, then under kernels with pages of 4 and 16 KiB, with some of the images' (ARM_PAGES=4, ARGS="-k trim")
	@pytest="-m pytest -q -p no:cacheprovider -o timeout=1800"; \
	tools/arm64 -- $$pytest tests/native $(ARGS) && \
	for pages in $(ARM_PAGES); do \
	    tools/arm64 --pages $$pages --limit 5400 -- $$pytest tests/native $(ARGS) && \
	    tools/arm64 --python 3.14 --pages $$pages --limit 5400 -- \
	        $$pytest $(ARM_IMAGES) -k "not ($(ARM_WITHOUT))" $(ARGS) || exit; \
	done

.PHONY: test-machines
test-machines: .venvs/3.14/.stamp ## Images after a reboot and on other processors, on emulated x86-64 machines (ARGS=--stepwise goes on)
	@.venvs/3.14/bin/python -m pytest -q tests/machines/images_elsewhere.py $(ARGS)

.PHONY: test-integration
test-integration: .venv/.stamp ## Real servers
	@.venv/bin/pytest tests/integration packages/lab/tests/integration packages/pytest-pasture/tests/integration $(ARGS)

.PHONY: test-commands
test-commands: .venvs/3.14/.stamp ## Each command and option, mistyped and refused, and ended at ten moments within 2 s: on an idle machine
	@PASTURE_LONG=1 .venvs/3.14/bin/python -m pytest -q tests/integration/test_command_tree.py \
	    tests/integration/test_interrupts.py $(ARGS)

.PHONY: test-model
test-model: .venvs/3.14/.stamp ## 10,000 random graphs under both collectors
	@PASTURE_MODEL_GRAPHS=10000 .venvs/3.14/bin/pytest tests/model $(ARGS)

.PHONY: fuzz
fuzz: .venv/.stamp $(FUZZ_MATRIX:%=.venvs/%-check/fuzz-packages.stamp) ## Random programs on the check builds (ARGS="--minutes 60"; FUZZ_MATRIX=3.12)
	@for minor in $(FUZZ_MATRIX); do \
	    .venv/bin/python tests/fuzz --python $$minor $(ARGS) || failed=1; \
	done; test -z "$$failed"

.PHONY: fuzz-channels
fuzz-channels: .venvs/3.14/.stamp ## Messages of less trusted processes, random and mutated (ARGS="--messages 1000000 --seed 7 --target mold")
	@.venvs/3.14/bin/python tests/fuzz/channels $(ARGS)

.PHONY: test-mutants
test-mutants: .venvs/3.13/.stamp .venvs/3.14/.stamp ## One line of C changed at a time: the test that docs/internals/claims.md names must fail (ARGS="NAME...", ARGS=--again)
	@$(MAKE) .venvs/3.12/.stamp || echo "no CPython 3.12: what needs it is not tried"
	@.venvs/3.14/bin/python tests/mutants $(ARGS)

.PHONY: test-cpython-collector
test-cpython-collector: .venv/.stamp ## CPython's own tests with every full collection out of line
	@.venv/bin/python tests/cpython/collector.py 3.13 3.14 3.15 $(ARGS)

.PHONY: test-cpython
test-cpython: .venv/.stamp ## CPython's own tests in a sealed process (ARGS=--debug-build: assertions on)
	@.venv/bin/python tests/cpython $(CPYTHON_MATRIX) $(ARGS)

.PHONY: docs docs-check
docs: ## The documentation as a site in build/site; a broken link fails (ARGS=--verbose)
	@NO_MKDOCS_2_WARNING=1 tools/docs-site $(ARGS)

docs-check: docs .venvs/3.14/.stamp ## The same, looked at in a browser, narrow and wide
	@.venvs/3.14/bin/python -m pytest -q tests/site

.PHONY: lint-packaging
lint-packaging: ## The conda recipe, rendered as rattler-build does, and compared with pyproject.toml
	@tools/uv run --quiet --no-project --with py-rattler-build tools/check-recipe

.PHONY: lint-workflows
lint-workflows: ## .github/ and examples/ci with zizmor, and actionlint where there is one
	@tools/uv tool run --quiet zizmor --quiet --offline .github examples/ci
	@if command -v actionlint >/dev/null; then actionlint .github/workflows/*.yml examples/ci/*.yml; else echo "actionlint is not installed"; fi

.PHONY: test-engines
test-engines: .venvs/3.14/.stamp ## Real clusters and servers that are no requirement: Spark, Dask, hypercorn, granian, queues, PASTURE=seal alone (ARGS="-k dask")
	@.venvs/3.14/bin/python -m pytest -q benchmarks/engines/checks $(ARGS)

.PHONY: test-gpu
test-gpu: ## Training loops, servers and images on one GPU; skipped where there is none (GPU_PYTHON=an environment with torch, pasture[image], gunicorn, pytest)
	@$(GPU_PYTHON) -m pytest -q -rs -c /dev/null --rootdir . -p no:cacheprovider benchmarks/gpu $(ARGS)

.PHONY: test-image-recipes
test-image-recipes: .venvs/3.14/image-packages.stamp .venvs/3.14/ray-packages.stamp .venvs/3.14/helper-packages.stamp ## Jupyter, Ray, pytest-xdist, a pool and helper processes out of images; needs an index
	@.venvs/3.14/bin/python -m pytest -q tests/image/test_image_examples.py tests/image/test_example_helpers.py $(ARGS)

.PHONY: test-packages
test-packages: .venv/.stamp ## Other people's tests in a sealed child: numpy, Django, ... (ARGS="NAME... --resume")
	@.venv/bin/python tests/packages $(ARGS)

.PHONY: test-sites
test-sites: .venvs/3.14/.stamp ## Other people's applications, plain and under pasture: every answer, row and error (ARGS="NAME... --resume")
	@.venvs/3.14/bin/python -m tests.sites $(ARGS)

.PHONY: test-identity
test-identity: .venvs/3.14/.stamp ## Who workers are and what they draw, plain and under pasture, of 16 engines; writes docs/results/identities.md (ARGS="NAME...")
	@.venvs/3.14/bin/python -m tests.identity --resume $(ARGS)

.PHONY: test-versions
test-versions: .venvs/3.14/.stamp ## A small application on old and new versions of libraries; writes docs/results/versions.md (ARGS="NAME... --resume")
	@.venvs/3.14/bin/python -m tests.sites --versions $(ARGS)

.PHONY: test-cpython-all
test-cpython-all: .venv/.stamp ## All of them in three ways, on every interpreter: hours, taken up again where it was left
	@.venv/bin/python tests/cpython/everything.py $(CPYTHON_ALL_MATRIX) $(ARGS)

.PHONY: test-builds
test-builds: .venv/.stamp ## Builds of CPython of many shapes, obtained and tried; writes docs/results/interpreters.md (hours; goes on where it stopped)
	@.venv/bin/python tests/builds $(ARGS)

##@ Code

.PHONY: lint
lint: .venv/.stamp ## Ruff, the format of the C and Python code, and whether the pins are up to date
	@tools/lock --check
	@tools/words
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --quiet --check
	@.venv/bin/clang-format --dry-run --Werror $(NATIVE)
	@echo "lint: ok"

.PHONY: format
format: .venv/.stamp ## Put the C and Python code into shape
	@.venv/bin/ruff check --quiet --fix-only
	@.venv/bin/ruff format --quiet
	@.venv/bin/clang-format -i $(NATIVE)

.PHONY: typecheck
typecheck: .venv/.stamp ## Strict mypy
	@.venv/bin/mypy
	@.venv/bin/mypy -p pypy.bench -p pypy.check

##@ Shows

.PHONY: demo
demo: .venv/.stamp ## The bundled site under each policy: a table and var/demo.html
	@.venv/bin/python -m demo $(ARGS)

.PHONY: demo-pool
demo-pool: .venvs/3.14/.stamp ## Two million objects, read by 8 workers of a pool, without and with
	@.venvs/3.14/bin/python -m examples.side_by_side examples/data_loader.py $(ARGS)

.PHONY: demo-forkserver
demo-forkserver: .venvs/3.14/.stamp ## 16 children of the forkserver, without and with
	@.venvs/3.14/bin/python -m examples.side_by_side examples/forkserver.py $(ARGS)

.PHONY: demo-uwsgi
demo-uwsgi: .venvs/3.14/.stamp ## uWSGI with 4 workers, without and with
	@.venvs/3.14/bin/python -m examples.side_by_side examples/uwsgi_server.py $(ARGS)

.PHONY: demo-celery
demo-celery: .venvs/3.14/.stamp ## Celery with 4 pool processes and a real Redis, without and with
	@.venvs/3.14/bin/python -m examples.side_by_side examples/celery_worker.py $(ARGS)

.PHONY: lab
lab: .venvs/3.14/.stamp ## The published experiments, re-run: a table and var/lab/report.html (ARGS=--wagtail: that too)
	@tools/services nginx >/dev/null; tools/services httperf >/dev/null; \
	    .venvs/3.14/bin/pasture lab run --all --results var/lab $(ARGS)

.PHONY: lab-quick
lab-quick: ## The same with less of everything, in minutes
	@$(MAKE) lab ARGS="--quick $(ARGS)"

.PHONY: bench-heap
bench-heap: $(BENCH_MATRIX:%=.venvs/%/.stamp) ## A child reads 236 MB of its parent: what becomes private
	@.venvs/3.14/bin/python -m benchmarks.heap \
	    $(BENCH_MATRIX:%=--python .venvs/%/bin/python) $(ARGS)

.PHONY: bench-arm
bench-arm: ## Private memory of a child on arm64, by the page size of the kernel (ARM_PAGES=16, ARGS=OBJECTS)
	@for pages in $(ARM_PAGES); do \
	    tools/arm64 --pages $$pages -- -m benchmarks.page_sizes $(ARGS) || exit; \
	done

.PHONY: bench-collect
bench-collect: .venvs/3.14/.stamp ## Full collections, built in and out of line, on five heaps; var/bench-collect.html
	@.venvs/3.14/bin/python -m benchmarks.collect --html var/bench-collect.html $(ARGS)

.PHONY: soak
soak: .venvs/3.14-check/.stamp ## Ten minutes of cycles, threads and forks under the check build
	@.venvs/3.14-check/bin/python -W ignore -m benchmarks.soak $(ARGS)

.PHONY: soak-threads
soak-threads: .venvs/3.14-check/.stamp ## Ten minutes of seals beside threads that allocate, compute, wait and fork, under the check build
	@.venvs/3.14-check/bin/python -m benchmarks.soak_threads $(ARGS)

.PHONY: soak-threads-asan
soak-threads-asan: .venvs/3.14-asan/.stamp ## The same under the address and undefined behaviour sanitizers
	@LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
	    .venvs/3.14-asan/bin/python -m benchmarks.soak_threads $(ARGS)

.PHONY: agents
agents: .venvs/3.14/.stamp ## Agents of production servers before the fork; writes docs/results/agents.md (what is missing; ARGS=--again: all, two hours)
	@.venvs/3.14/bin/python -m benchmarks.agents $(ARGS)

.PHONY: bench-site
bench-site: .venvs/3.14/.stamp ## The bundled site on 3.14, 4 workers, 2,000 requests, each policy
	@.venvs/3.14/bin/python -m benchmarks.site $(ARGS)

.PHONY: bench-gpu
bench-gpu: ## The same, measured, in five minutes; writes var/gpu (ARGS="--part loaders")
	@$(GPU_PYTHON) -m benchmarks.gpu $(ARGS)

.PHONY: bench-learn
bench-learn: .venvs/3.14/.stamp ## A pool, Celery, PySpark (needs a Java) and the bundled site with a recorded profile; what recording costs (ARGS="--part cost --rounds 5")
	@.venvs/3.14/bin/python -m benchmarks.learn $(ARGS)

.PHONY: test-limit
test-limit: .venvs/3.14/.stamp ## The workers that `pasture try --limit` counts, under that limit for 30 minutes; needs root (ARGS="--minutes 10 --policy seal --limit 512MiB")
	@.venvs/3.14/bin/python -m benchmarks.limit $(ARGS)

.PHONY: bench-rivals
bench-rivals: .venvs/3.14/.stamp ## Other ways to save memory on the bundled site, beside the seal: gc.freeze, cinderx, threads, KSM, a fork server, an image (ARGS="freeze ksm --rounds 5")
	@.venvs/3.14/bin/python -m benchmarks.rivals $(ARGS)

.PHONY: bench-sites
bench-sites: .venvs/3.12/.stamp .venvs/3.13/.stamp .venvs/3.14/.stamp ## Applications that others have written, stock against seal; writes docs/results/sites.md (hours; goes on where it stopped)
	@.venvs/3.14/bin/python -m benchmarks.sites $(ARGS)

.PHONY: bench-site-child
bench-site-child: .venvs/$(CHILD_PYTHON)/.stamp ## One sealed child of the bundled site, request by request (ARGS=--explain: what is private; CHILD_PYTHON=3.12)
	@.venvs/$(CHILD_PYTHON)/bin/python -m benchmarks.site_child $(ARGS)

.PHONY: bench-pytest
bench-pytest: .venvs/3.14/.stamp ## Workers of pytest-xdist, plain and forked by pytest-pasture, on other packages' tests (ARGS="networkx --workers 8 --rounds 1")
	@.venvs/3.14/bin/python -m benchmarks.pytest_workers $(ARGS)

.PHONY: bench-allocators
bench-allocators: .venvs/3.14/.stamp ## A sealed child under glibc, jemalloc, tcmalloc and mimalloc, holes open and plugged
	@.venvs/3.14/bin/python -m benchmarks.allocators $(ARGS)

.PHONY: bench-uvicorn
bench-uvicorn: .venvs/3.14/.stamp ## 8 workers of a FastAPI application: spawned, forked, sealed (ARGS="--rounds 5 --workers 8")
	@.venvs/3.14/bin/python -m benchmarks.uvicorn_workers $(ARGS)

.PHONY: engines
engines: .venvs/3.14/.stamp ## Servers and engines as they are and sealed, a row each; writes docs/results/engines.md (goes on where it stopped; ARGS="uvicorn --again", ARGS=--list)
	@.venvs/3.14/bin/python -m benchmarks.engines $(ARGS)

.PHONY: bench-refork
bench-refork: .venvs/3.14/.stamp ## Reforks on the bundled site: memory, and 20,000 requests through generations
	@.venvs/3.14/bin/python -m benchmarks.refork $(ARGS)

.PHONY: bench-deploy
bench-deploy: .venvs/3.14/.stamp ## Total PSS of a reforking server of the bundled site after HUP
	@.venvs/3.14/bin/python -m benchmarks.deploy

.PHONY: soak-refork
soak-refork: .venvs/3.14/.stamp ## kill -9 of workers, molds and arbiters of reforking servers, 50 times
	@.venvs/3.14/bin/python -m benchmarks.refork_kills $(ARGS)

.PHONY: soak-rq
soak-rq: .venvs/3.14/.stamp ## 2,000 jobs of RQ, stock and sealed: its parent works itself, and does not grow
	@.venvs/3.14/bin/python -m benchmarks.rq_soak $(ARGS)

.PHONY: bench-airflow-scheduler
bench-airflow-scheduler: .venvs/3.14/.stamp ## A real scheduler of Airflow on SQLite, eight tasks at work, in three ways
	@.venvs/3.14/bin/python -m benchmarks.airflow_scheduler $(ARGS)

.PHONY: bench-airflow-programs
bench-airflow-programs: .venvs/3.14/.stamp ## PSS of Airflow's four programs: plain, and out of one image
	@.venvs/3.14/bin/python -m benchmarks.airflow_programs $(ARGS)

.PHONY: bench-airflow
bench-airflow: .venvs/3.14/.stamp ## Workers of Airflow's LocalExecutor, started in four ways
	@.venvs/3.14/bin/python -m benchmarks.airflow_executor $(ARGS)

.PHONY: soak-faults
soak-faults: .venvs/3.14/.stamp ## An hour under load with a fault every ten seconds (ARGS=--server gunicorn|gunicorn-refork|uwsgi|celery)
	@.venvs/3.14/bin/python -m benchmarks.faults $(ARGS)

.PHONY: soak-engines
soak-engines: .venvs/3.14/.stamp ## Faults under each engine, without pasture and sealed (goes on where it stopped; ARGS="--minutes 10 --every 10 ENGINE...")
	@.venvs/3.14/bin/python -m benchmarks.engines.soak $(ARGS)

.PHONY: soak-generations
soak-generations: .venvs/3.14/.stamp ## 300 reforks of a trivial application: nothing of its processes grows
	@.venvs/3.14/bin/python -m benchmarks.generations $(ARGS)

.PHONY: bench-explain
bench-explain: .venvs/3.14/.stamp ## Pages dirtied for known causes, and what pasture explain says of them
	@.venvs/3.14/bin/python -m benchmarks.explain $(ARGS)

.PHONY: bench-explain-site
bench-explain-site: .venvs/3.14/.stamp ## Causes of private pages on the bundled site, a column a policy
	@.venvs/3.14/bin/python -m benchmarks.explain_site $(ARGS)

.PHONY: bench-explain-size
bench-explain-size: .venvs/3.14/.stamp ## A worker of 1 GB is explained: time, memory, and the server's answers meanwhile
	@.venvs/3.14/bin/python -m benchmarks.explain_size $(ARGS)

.PHONY: bench-programs
bench-programs: .venvs/3.14/.stamp ## PSS of the bundled site's web server, Celery worker, beat, consumer and command: plain, sealed one by one, out of one image
	@.venvs/3.14/bin/python -m benchmarks.programs $(ARGS)

.PHONY: bench-helpers
bench-helpers: .venvs/3.14/helper-packages.stamp ## Servers of tools, language servers, kernels and hooks out of one image each, beside python: first answers, PSS of 50 (ARGS="mcp --count 10")
	@.venvs/3.14/bin/python -m benchmarks.helpers $(ARGS)

.PHONY: bench-image
bench-image: .venvs/3.14/image-packages.stamp ## Starts, sessions, kernels and containers out of an image beside python; containers need root (ARGS="--part site")
	@.venvs/3.14/bin/python -m benchmarks.image $(ARGS)

##@ PyPy

.PHONY: pypy-setup
pypy-setup: ## A Debian bullseye root with PyPy 2.7 and RPython in the cache; needs root
	@pypy/root setup

.PHONY: pypy-check
pypy-check: .venvs/3.14/.stamp pypy-setup ## RPython's tests on our collector, failure paths, 20 seeds of stress (ARGS=--short)
	@.venvs/3.14/bin/python -m pypy.check $(ARGS)

.PHONY: pypy-bench
pypy-bench: .venvs/3.14/.stamp pypy-setup ## Three collectors for RPython side by side; var/pypy-bench.json
	@.venvs/3.14/bin/python -m pypy.bench --json var/pypy-bench.json $(ARGS)
