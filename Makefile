# A thin front of meson and ninja; every target works from a fresh checkout of a bare Debian 12.
#
#   make          build into build/ (build/warpsight), with all tests and benchmarks
#   make demo     build what it needs, profile the bundled example, print its statistics
#   make check    the tests, in less than eight minutes; the last line counts them
#   make check-long  the tests that take longer: every page of the viewer, faults, kills
#   make check-gpu   what needs a GPU
#   make bench    what recording costs, beside the bare runs
#   make asan     the tests with sanitizers of addresses, leaks and undefined behaviour
#   make tsan     those of what runs in several threads, with the sanitizer of threads
#   make fuzz     the fuzzers side by side, for FUZZ_SECONDS each
#   make torture  what takes a day and looks for harm: thousands of kills, storms of events,
#                    10,000 collections, every fault, programs of all kinds, TORTURE_HOURS of
#                    fuzzing; TORTURE="kills faults" chooses steps
#   make nightly  all tests, a few hours of torture, the page with sanitizers, two builds compared
#   make install  into PREFIX (/usr/local), under DESTDIR
#   make uninstall   remove it again
#   make dist     dist/warpsight-VERSION-linux-ARCH.tar.gz, which runs unpacked anywhere
#   make format   format C, Python and TypeScript; make format-check says what is not
#   make style    count names and functions of src/ and hold them against limits

BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 20
MESONFLAGS ?=
export BUILD FUZZ_SECONDS

all: deps-build $(BUILD)/build.ninja
	@ninja -C $(BUILD)

# `meson setup` leaves the folder half made when it fails; build.ninja appears only when it worked.
$(BUILD)/build.ninja: | deps-build
	@meson setup $(BUILD) $(MESONFLAGS)

deps-%:
	@scripts/deps.sh $*

# The program, the hooks and the example: nothing else.
demo: deps-build $(BUILD)/build.ninja
	@ninja -C $(BUILD) for-demo
	@scripts/demo.sh

check: deps-check all
	@scripts/check.sh $(BUILD) --no-suite long

check-long: deps-check all
	@scripts/check.sh $(BUILD) --suite long

check-gpu: all
	@scripts/check-gpu.sh $(BUILD)

bench: deps-check all
	@scripts/bench.sh $(BUILD)

asan tsan: deps-check
	@scripts/sanitize.sh $@

fuzz: deps-fuzz
	@scripts/fuzz.py

torture: deps-fuzz all
	@scripts/torture.py $(BUILD) $(TORTURE)

nightly: all
	@$(MAKE) check
	@$(MAKE) check-long
	@TORTURE_HOURS=2 TORTURE_KILLS=1000 TORTURE_STARTS=1000 TORTURE_CYCLES=2000 \
		TORTURE_SESSIONS=100 $(MAKE) torture
	@scripts/sanitize.sh asan --suite browser
	@scripts/reproducible-test.sh

install: all
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX)) && ninja -C $(BUILD) --quiet
	@meson install -C $(BUILD) --no-rebuild --quiet \
		$(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))

# What an earlier `make install` with the same PREFIX and DESTDIR installed.
uninstall: $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	@ninja -C $(BUILD) --quiet build.ninja
	@DESTDIR="$(if $(DESTDIR),$(abspath $(DESTDIR)))" scripts/uninstall.sh $(BUILD)

dist: deps-dist all
	@scripts/dist.sh $(BUILD)

format: deps-format
	@git ls-files '*.c' '*.h' | xargs clang-format -i
	@for f in $$(git ls-files '*.def'); do \
		clang-format --assume-filename=table.h <$$f >$$f.new && cat $$f.new >$$f; \
		rm -f $$f.new; \
	done
	@git ls-files '*.py' | xargs black --quiet
	@scripts/npm.sh viewer && git ls-files '*.ts' '*.mjs' | \
		xargs viewer/node_modules/.bin/prettier --log-level warn --write

format-check: deps-format
	@scripts/npm.sh viewer || true
	@form=0; scripts/format-check.py || form=1; scripts/style.py && exit $$form

style:
	@scripts/style.py -v

clean:
	@rm -rf $(BUILD) build-asan build-tsan build-fuzz build-aarch64 build-aarch64-root dist

.PHONY: all demo check check-gpu bench asan tsan fuzz torture nightly install uninstall dist \
	format format-check style clean
