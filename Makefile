# A thin front of meson and ninja; every target works from a fresh checkout of a bare Debian 12.
#
#   make          build into build/ (build/warpsight)
#   make demo     build, profile the bundled example, print its statistics
#   make check    all tests; the last line counts them
#   make check-gpu   what needs a GPU
#   make bench    what recording costs, beside the bare runs
#   make asan, tsan, ubsan    the tests with a sanitizer
#   make fuzz     the fuzzers, for FUZZ_SECONDS each
#   make install  into PREFIX (/usr/local), under DESTDIR
#   make dist     dist/warpsight-VERSION-linux-ARCH.tar.gz, which runs unpacked anywhere
#   make format   clang-format

BUILD ?= build
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 20
MESONFLAGS ?=
export BUILD FUZZ_SECONDS

all: deps-build $(BUILD)/build.ninja
	@ninja -C $(BUILD)

# `meson setup` leaves the folder half made when it fails; build.ninja appears only when it succeeded.
$(BUILD)/build.ninja:
	@meson setup $(BUILD) $(MESONFLAGS)

deps-%:
	@scripts/deps.sh $*

demo: all
	@scripts/demo.sh

check: deps-check all
	@scripts/check.sh $(BUILD)

check-gpu: all
	@scripts/check-gpu.sh $(BUILD)

bench: deps-check all
	@scripts/bench.sh $(BUILD)

asan tsan ubsan: deps-check
	@scripts/sanitize.sh $@

fuzz: deps-fuzz
	@scripts/fuzz.sh

install: all
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX)) && ninja -C $(BUILD) --quiet
	@meson install -C $(BUILD) --no-rebuild --quiet $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))

dist: deps-dist all
	@scripts/dist.sh $(BUILD)

format: deps-format
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf $(BUILD) build-asan build-tsan build-ubsan build-fuzz build-aarch64 build-aarch64-root dist

.PHONY: all demo check check-gpu bench asan tsan ubsan fuzz install dist format clean
