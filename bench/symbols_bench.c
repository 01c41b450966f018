/*
 * symbols_bench.c - how fast stacks are unwound and addresses named.
 *
 *     symbols_bench unwind SECONDS       a stack of this program's own, over and over: M stacks/s
 * with everything remembered, ns a frame, and us a stack when nothing is symbols_bench symbolise
 * FILE N     N addresses spread over the functions of FILE: processor seconds, peak MiB, names
 *
 * Prints numbers, one a line. Processor time, so that others on the machine matter less.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/mem.h"
#include "symbols/symbolise.h"
#include "symbols/unwind.h"

static double processor_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* ---- unwinding ---- */

static struct ws_stopped_thread stop;
static uint8_t copy[8192];

static void __attribute__((noinline)) take_stack(void)
{
	ucontext_t context;

	getcontext(&context);
#if defined(__x86_64__)
	static const int from[WS_REGS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
					  REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
					  REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

	for (int i = 0; i < WS_REGS; i++)
		stop.regs.values[i] = (uint64_t)context.uc_mcontext.gregs[from[i]];
	stop.regs.known = (UINT64_C(1) << WS_REGS) - 1;
#else
	memcpy(stop.regs.r, c.uc_mcontext.regs, 31 * 8);
	stop.regs.r[WS_REG_SP] = c.uc_mcontext.sp;
	stop.regs.r[WS_REG_IP] = c.uc_mcontext.pc;
	stop.regs.known = (UINT64_C(1) << WS_REGS) - 1;
#endif
	stop.stack_at = stop.regs.values[WS_REG_SP];
	/* The environment lies above all frames. */
	stop.stack_size = (uintptr_t)environ - stop.stack_at;
	if (stop.stack_size > sizeof(copy))
		stop.stack_size = sizeof(copy);
	memcpy(copy, (const void *)(uintptr_t)stop.stack_at, stop.stack_size);
	stop.stack = copy;
}

static int compare_numbers(const void *first, const void *second)
{
	if (!stop.stack)
		take_stack();
	return *(const int *)first - *(const int *)second;
}

static int __attribute__((noinline)) call_nested(int n)
{
	volatile int keep = n;
	int v[4] = {4, 2, 3, 1};

	if (n)
		return call_nested(n - 1) + keep;
	qsort(v, 4, sizeof(*v), compare_numbers);
	return v[0];
}

static int time_unwinding(double seconds)
{
	struct ws_modules *modules = ws_modules_new();
	struct ws_maps *maps = ws_maps_new(modules);
	struct ws_unwinder *unwinder = ws_unwinder_new();
	struct ws_unwound_frame places[64];
	uint64_t stacks = 0, cold = 0;
	double began, took;
	unsigned flags;
	size_t n = 0;

	call_nested(10);
	ws_maps_scan(maps, (int)getpid(), 0, 1);
	stop.maps = ws_maps_find_process(maps, (int)getpid());
	stop.time = 2;
	for (began = processor_seconds(); (took = processor_seconds() - began) < seconds;
	     stacks += 1000)
		for (int i = 0; i < 1000; i++)
			n = ws_unwind_stack(unwinder, &stop, WS_MODE_AUTO, places, WS_COUNT(places),
					    &flags);
	printf("%.3f\n%.2f\n%zu\n", (double)stacks / took / 1e6,
	       took * 1e9 / (double)stacks / (double)n, n);
	for (began = processor_seconds(); (took = processor_seconds() - began) < seconds; cold++) {
		ws_unwinder_forget_rules(unwinder);
		ws_unwind_stack(unwinder, &stop, WS_MODE_AUTO, places, WS_COUNT(places), &flags);
	}
	printf("%.2f\n", took * 1e6 / (double)cold);
	ws_unwinder_free(unwinder);
	ws_maps_free(maps);
	ws_modules_free(modules);
	return flags != 0;
}

/* ---- symbols ---- */

static uint64_t named, rows;

static void count_symbol(void *ctx, const struct ws_symbol *symbol)
{
	(void)ctx;
	rows++;
	named += !symbol->depth && symbol->name;
}

static int time_symbolising(const char *path, size_t n)
{
	struct ws_modules *modules = ws_modules_new();
	struct ws_module *module =
		ws_modules_add_recorded(modules, WS_MODULE_FILE, path, "", 0, false);
	struct ws_symbol_opts opts = {.lines = true};
	struct ws_symbol_result result = {0};
	struct ws_wanted *wanted = ws_calloc(n, sizeof(*wanted));
	struct rusage self;
	struct ws_err err;
	struct ws_elf elf;
	Elf64_Shdr text;
	double began;

	if (ws_elf_open(&elf, path, &err) || ws_elf_find_section(&elf, ".text", &text) < 0) {
		fprintf(stderr, "%s: %s\n", path, err.msg);
		return 1;
	}
	ws_elf_get_build_id(&elf, module->build_id);
	ws_elf_close(&elf);
	module = ws_modules_add_recorded(modules, WS_MODULE_FILE, path, module->build_id,
					 text.sh_size, false);
	for (size_t i = 0; i < n; i++)
		wanted[i] =
			(struct ws_wanted){module,
					   text.sh_addr + (uint64_t)((double)text.sh_size *
								     ((double)i + 0.5) / (double)n),
					   (uint32_t)i + 1, WS_FRAME_USER};
	began = processor_seconds();
	ws_symbolise(wanted, n, &opts, &(struct ws_symbol_receiver){.emit = count_symbol}, &result);
	getrusage(RUSAGE_SELF, &self);
	printf("%.3f\n%.1f\n%" PRIu64 "\n%" PRIu64 "\n", processor_seconds() - began,
	       (double)self.ru_maxrss / 1024, result.named, rows);
	ws_modules_free(modules);
	free(wanted);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "unwind"))
		return time_unwinding(atof(argv[2]));
	if (argc == 4 && !strcmp(argv[1], "symbolise") && atoi(argv[3]) > 0)
		return time_symbolising(argv[2], (size_t)atoi(argv[3]));
	fprintf(stderr, "usage: symbols_bench unwind SECONDS | symbolise FILE N\n");
	return 2;
}
