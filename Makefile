# The short menu; CMake does the cooking (CMakeLists.txt, src/cmake/).
#
#   make train RANKS=4 ARGS="--max_iters=200"     more ranks, other options
#   make CXX=clang++                              another compiler
#   make NANOFSDP_ARCH=x86-64-v3                  a binary for other machines than this one
#   make parity PYTHON="python3 venv/bin/python"  beside the PyTorch of these interpreters
#   make CMAKE_FLAGS=-DNANOFSDP_WERROR=ON         anything else that CMake understands
#
# A git-ignored local.mk may set any of these for good.
-include local.mk

RANKS         ?= 2
ARGS          ?=
PREFIX        ?= /usr/local
JOBS          ?= $(shell getconf _NPROCESSORS_ONLN)
NANOFSDP_ARCH ?= native
CMAKE_FLAGS   ?=

# Through the environment it may have any letters, spaces and quotes.
export PREFIX
ifneq ($(filter install uninstall,$(MAKECMDGOALS)),)
$(if $(strip $(PREFIX)),,$(error PREFIX is empty: expected a folder, as in PREFIX=/usr/local))
endif

# What `make handout` packs has no tests.
tests = test test-all test-arm64 tales lessons asan tsan mutants faults soak models parity exchange llama \
  bench-torch trace bench-tcp gpu-check gpu-deps
ifeq ($(wildcard tests/CMakeLists.txt),)
$(foreach target,$(filter $(tests),$(MAKECMDGOALS)),$(error \
  make $(target) needs the tests, and a handout has none))
endif

# The tests that need tiny Shakespeare find it through the environment.
SHAKESPEARE := $(CURDIR)/data/shakespeare_char/input.txt
ifneq ($(wildcard $(SHAKESPEARE)),)
export NANOFSDP_SHAKESPEARE ?= $(SHAKESPEARE)
endif

# make has a CXX of its own: only the user's counts. And CMake's makes are none of ours.
configure = CXX='$(if $(filter default,$(origin CXX)),,$(CXX))' sh src/cmake/configure.sh
rooms     = $(sort $(patsubst tests/%/,%,$(dir $(wildcard tests/*/*_test.cpp))))
around    = play mine mysteries  # tests of programs around the library: test-all has them
options   = -DNANOFSDP_ARCH=$(NANOFSDP_ARCH) $(CMAKE_FLAGS)
# Once is enough for a lesson; `make build` follows a change of compiler or options.
configure_lessons = [ build/release/lessons/list.txt -nt lessons/CMakeLists.txt ] || \
  $(configure) build/release $(options) -DNANOFSDP_LESSONS=ON
compile   = env -u MAKEFLAGS -u MAKELEVEL cmake --build
ask       = ctest --parallel $$(($(JOBS) + 2)) --output-on-failure  # many tests wait for a rank
long      = [.]Long|: Long/|^faults:|^machines:|^grade:
need_python = command -v python3 >/dev/null || \
  { echo "nanofsdp: python3 is missing. On Debian/Ubuntu: sudo apt-get install python3" >&2; exit 1; }

# What a + begins is for `make help-all`.
menu = sed -n 's/^\([a-z0-9-]*\):.*\#\# $(1)\([A-Z].*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
  while IFS='|' read -r target text; do printf '%-20s %s\n' "$$target" "$$text"; done

help: ## + What most people want
	@$(call menu,)

build: ## Build the product: build/release/nanofsdp
	@$(configure) build/release $(options)
	@$(compile) build/release --parallel $(JOBS) --target nanofsdp

gpu: ## + The same for GPUs, or an error that says what is missing: CUDA Toolkit, NCCL
	@$(MAKE) --no-print-directory build CMAKE_FLAGS="$(CMAKE_FLAGS) -DNANOFSDP_CUDA=ON"

install: build ## + Put the library for other programs, and nanofsdp, into PREFIX=/usr/local
	@$(compile) build/release --parallel $(JOBS) --target nanofsdp_library
	@umask 022; cmake --install build/release --prefix "$$PREFIX"

uninstall: ## + Remove from PREFIX=/usr/local what `make install` has put there
	cd "$$DESTDIR$$PREFIX" && rm -rf bin/nanofsdp include/nanofsdp lib*/libnanofsdp.a lib*/cmake/nanofsdp \
	  lib*/pkgconfig/nanofsdp.pc

one: ## The whole idea in one file: without FSDP, then on 1, 2 and 4 ranks (10 seconds)
	@CXX='$(CXX)' sh lessons/one_file/one.sh

train: build ## Train a GPT with FSDP on 2 processes, then print a sample (2 minutes, after the build)
	build/release/nanofsdp train --ranks=$(RANKS) $(ARGS)

test: ## Build and run the tests (3 to 10 minutes); those of one room: make test ROOM=fsdp
	$(if $(wildcard tests/$(ROOM)/*_test.cpp)$(if $(ROOM),,all),,$(error \
	  ROOM is to name a room, as in ROOM=fsdp, got '$(ROOM)'; there are $(rooms)))
	@$(configure) build/release $(options) -DNANOFSDP_TESTS=$(if $(filter $(around),$(ROOM)),ALL,ON)
	@$(compile) build/release --parallel $(JOBS) $(if $(ROOM),--target room_$(ROOM))
	@$(ask) --test-dir build/release -LE long \
	  $(if $(ROOM),-L '^$(ROOM)$$') $(ARGS)

test-all: ## + The same and the rest: an emulated GPU, long curves, faults, pictures, machines, browser, docs
	@sh tests/play/tools.sh
	@$(configure) build/release $(options) -DNANOFSDP_TESTS=ALL
	@$(compile) build/release --parallel $(JOBS)
	@$(ask) --test-dir build/release $(ARGS)
	@$(MAKE) --no-print-directory docs
	@sh tests/docs/browser.sh build/docs/html

test-arm64: build ## + The tests for Linux on arm64, cross-built and emulated, and the same losses as here
	@JOBS=$(JOBS) sh tests/arm64/arm64.sh build/release/nanofsdp $(CMAKE_FLAGS)

lesson: ## Build and run one lesson: make lesson N=08, with guesses GUESS="13 1 12"
	@$(configure_lessons)
	@JOBS=$(JOBS) sh lessons/lessons.sh lesson "$(N)" $(GUESS)

exercise: ## Check your own code of a lesson: make exercise N=08
	@$(configure_lessons)
	@JOBS=$(JOBS) sh lessons/lessons.sh exercise "$(N)"

next: ## The first exercise that does not pass yet, with its hint
	@$(configure_lessons)
	@JOBS=$(JOBS) sh lessons/lessons.sh next

mine: ## Train with the functions that you wrote: your own FSDP, beside the library's (RANKS=3)
	@$(configure_lessons)
	@JOBS=$(JOBS) RANKS=$(RANKS) sh lessons/lessons.sh mine

mystery: ## A run that has gone wrong: make mystery N=1, then with ANSWER="CAUSE RANK UNIT"
	@$(configure_lessons)
	@JOBS=$(JOBS) sh lessons/lessons.sh mystery "$(N)" "$(ANSWER)"

torch: ## + The lines of PyTorch at the end of a lesson, run and counted: make torch N=11 (PYTHON=...)
	@MAKE="$(MAKE)" PYTHON="$(PYTHON)" sh lessons/in_pytorch/torch.sh "$(N)"

tales:
	@$(configure) build/release $(options) -DNANOFSDP_TESTS=ON
	@$(compile) build/release --parallel $(JOBS) --target print_tales > build/tales.log || \
	  { cat build/tales.log; exit 1; }
	@build/release/tests/print_tales > build/tales.txt

sheet: ## + A calculation in two dimensions with numbers for a student: FOR=alice, or CHECK=FILE
	@$(need_python)
	@python3 -B lessons/grade/sheet.py $(if $(CHECK),--check "$(CHECK)",--for "$(FOR)" build)

leaderboard: ## + Lesson 13's schedules of all students, the least exposed first: FROM=folder of folders
	@$(need_python)
	@$(configure_lessons)
	@python3 lessons/grade/leaderboard.py build/release build/leaderboard "$(FROM)" $(ARGS)

grade: ## + Points for all exercises, in a process each: build/grade/results.json (FROM=folder)
	@$(need_python)
	@$(configure_lessons)
	@python3 lessons/grade/grade.py build/release build/grade $(if $(FROM),--from="$(FROM)") $(ARGS)

handout: ## + For a course: build/nanofsdp-handout.tar.gz, everything but the solutions
	@sh lessons/grade/handout.sh build/nanofsdp-handout.tar.gz

lessons: ## + Run all lessons and compare every output, quote, number and picture
	@$(configure) build/release $(options) -DNANOFSDP_TESTS=ALL
	@$(compile) build/release --parallel $(JOBS) --target room_lessons
	@$(ask) --test-dir build/release -R '^lessons:' $(ARGS)
	@JOBS=$(JOBS) sh lessons/lessons.sh check

asan: ## + The tests under the address and undefined-behaviour sanitizers
	@$(configure) build/asan $(options) -DNANOFSDP_TESTS=ALL -DNANOFSDP_SANITIZE=address,undefined
	@$(compile) build/asan --parallel $(JOBS)
	@$(ask) --test-dir build/asan -E '$(long)'

tsan: ## + The tests under the thread sanitizer (without Gloo, which is not built for it)
	@$(configure) build/tsan $(options) -DNANOFSDP_TESTS=ALL -DNANOFSDP_SANITIZE=thread
	@$(compile) build/tsan --parallel $(JOBS)
	@$(ask) --test-dir build/tsan -E '[Gg]loo|$(long)'

# One build with every bug in it, each behind a switch. Only some: make mutants MUTANTS="no_clip"
# The emulated GPU runs what is compiled for CUDA, so that nvcc need not know of the switches.
mutants: ## + Break the code on purpose, in more than a thousand ways: which test notices?
	@$(need_python)
	@python3 tests/mutants/mutate.py build/mutants/source
	@$(subst src/cmake,build/mutants/source/src/cmake,$(configure)) build/mutants/binary $(options) \
	  -DNANOFSDP_TESTS=ALL -DNANOFSDP_CUDA=OFF -DCMAKE_BUILD_TYPE=Mutants \
	  -DCMAKE_CXX_FLAGS='-O1 -DNDEBUG -w -include $(CURDIR)/tests/mutants/mutant.h'
	@$(compile) build/mutants/binary --parallel $(JOBS)
	@python3 tests/mutants/run.py build/mutants/binary $(MUTANTS)

# The same ones again: make faults ARGS="--seed=7"; it prints the seed. Fewer: ARGS="--faults=50".
# ARGS="--nth" instead lets the n-th allocation, write, connection or start of a thread fail.
faults: build ## + Kill, stop, cut off, fill up: 500 short runs with a fault each (about 10 minutes)
	@$(need_python)
	@python3 tests/faults/campaign.py build/release/nanofsdp --out=build/faults $(ARGS)

soak: build ## + Train for two hours, a rank killed every five minutes, beside the same run left alone
	@$(need_python)
	@python3 tests/faults/soak.py build/release/nanofsdp $(ARGS)

# The models 1001 to 101000: make models ARGS="--seed=1001 --models=100000". It shrinks the first that
# fails.
models: ## + Random models under FSDP: does each train as it does without? (1,000, half a minute)
	@$(configure) build/release $(options) -DNANOFSDP_TESTS=ON
	@$(compile) build/release --parallel $(JOBS) --target models
	@build/release/tests/models $(ARGS)

shakespeare: ## + Fetch tiny Shakespeare into data/shakespeare_char/ and verify it
	@cmake -DOUTPUT=$(SHAKESPEARE) -P src/cmake/shakespeare.cmake

parity: ## + Train beside PyTorch, same seed: a table and a plot (TORCH=install fetches a PyTorch)
	@$(need_python)
	@$(configure) build/release $(options) -DNANOFSDP_TESTS=ON
	@$(compile) build/release --parallel $(JOBS) --target nanofsdp print_tales
	@build/release/tests/print_tales > build/tales.txt
	@python3 tests/parity/parity.py --binary=build/release/nanofsdp --out=build/parity \
	  --text=$(firstword $(wildcard $(NANOFSDP_SHAKESPEARE)) build/tales.txt) \
	  --python="$(PYTHON)" $(if $(filter install,$(TORCH)),--install) $(ARGS)

exchange: ## + Weights to PyTorch and back (PYTHON=... has PyTorch)
	@$(need_python)
	@$(configure) build/release $(options) -DNANOFSDP_TESTS=ON
	@$(compile) build/release --parallel $(JOBS) --target nanofsdp print_logits
	@$(firstword $(PYTHON) python3) tests/parity/exchange.py --binary=build/release/nanofsdp \
	  --print_logits=build/release/tests/print_logits --out=build/exchange
	@$(firstword $(PYTHON) python3) tests/parity/exchange_shards.py --binary=build/release/nanofsdp \
	  --out=build/exchange/shards
	@$(firstword $(PYTHON) python3) tests/parity/golden_shards.py --check

llama: ## + Lesson 22's Llama beside PyTorch's: gradients, 100 steps, files, LoRA (PYTHON=... has PyTorch)
	@$(need_python)
	@$(configure) build/release $(options) -DNANOFSDP_TESTS=ON
	@$(compile) build/release --parallel $(JOBS) --target print_llama
	@$(firstword $(PYTHON) python3) tests/parity/llama.py \
	  --print_llama=build/release/tests/print_llama --out=build/llama

bench-torch: ## + One training step beside PyTorch's, in turns: time and memory (ARGS="--rounds=1")
	@$(need_python)
	@$(configure) build/release $(options) -DNANOFSDP_TESTS=ON
	@$(compile) build/release --parallel $(JOBS) --target nanofsdp print_tales
	@build/release/tests/print_tales > build/tales.txt
	@python3 tests/parity/bench_torch.py --binary=build/release/nanofsdp --out=build/bench_torch \
	  --tales=build/tales.txt --python="$(PYTHON)" $(ARGS)

trace: build tales ## + One step of FSDP in PyTorch's trace and in ours, drawn (PYTHON=... has PyTorch)
	@$(need_python)
	@$(firstword $(PYTHON) python3) lessons/trace/record.py build/trace --text=build/tales.txt \
	  --binary=build/release/nanofsdp
	@python3 lessons/trace/draw.py build/trace build/trace

bench-tcp: ## + The collectives beside raw TCP of the same bytes, in turns (RANKS=4 for more ranks)
	@$(need_python)
	@$(configure) build/release $(options)
	@$(compile) build/release --parallel $(JOBS) --target nanofsdp
	@python3 tests/parity/bench_tcp.py --binary=build/release/nanofsdp --out=build/bench_tcp.md \
	  --ranks=$(RANKS) $(ARGS)

# Where a GPU is: everything that needs one, in nine minutes at most. Results: build/gpu-out, or $$OUT.
gpu-check: ## + On a machine with a GPU: operators, sanitizers, NCCL, parity, speed (9 minutes)
	@$(need_python)
	@bash tests/gpu/check.sh

gpu-deps: ## + What a GPU machine without packages needs, to take along: .gpu-deps, 12 MB
	@sh tests/gpu/deps.sh .gpu-deps

play: ## The page in which sharded training runs, event by event: build/play/index.html
	@$(need_python)
	@JOBS=$(JOBS) sh lessons/play/play.sh

docs: ## The site of lessons and API: build/docs/html/index.html
	@sh lessons/docs/docs.sh

help-all: ## All that there is
	@$(call menu,[+ ]*)

clean: ## + Remove everything that was built or unpacked
	rm -rf build

.PHONY: help build install uninstall train test test-all test-arm64 lesson exercise next mine mystery torch tales sheet leaderboard grade handout lessons asan tsan shakespeare parity exchange llama bench-torch trace bench-tcp mutants faults soak models gpu gpu-check gpu-deps play docs clean
