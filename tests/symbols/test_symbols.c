/*
 * test_symbols.c - the parts of src/symbols by themselves: call frame information, expressions,
 * address maps over time, unwinding from made-up states, symbol tables, perf maps, jitdump files,
 * /proc/kallsyms; and adding rows to a report.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "store/store.h"
#include "symbols/bytes.h"
#include "symbols/cfi.h"
#include "symbols/demangle.h"
#include "symbols/dwarf_apart.h"
#include "symbols/jit.h"
#include "symbols/kallsyms.h"
#include "symbols/python_methods.h"
#include "symbols/symbolise.h"
#include "symbols/symtab.h"
#include "symbols/unwind.h"
#include "../random.h"

static struct ws_modules *modules;
static struct ws_maps *maps;
static struct ws_maps_process *self;

static int set_up(void **state)
{
	(void)state;
	modules = ws_modules_new();
	maps = ws_maps_new(modules);
	if (ws_maps_scan(maps, (int)getpid(), 0, 10))
		return -1;
	self = ws_maps_find_process(maps, (int)getpid());
	return self ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	ws_maps_free(maps);
	ws_modules_free(modules);
	return 0;
}

static struct ws_mapping *mapping_of(const void *memory)
{
	struct ws_mapping *mapping = ws_maps_find_mapping(self, 20, (uint64_t)(uintptr_t)memory);

	assert_non_null(mapping);
	return mapping;
}

/* ---- reading ---- */

static void cursors_stop_at_the_end(void **state)
{
	static const uint8_t bytes[] = {0xe5, 0x8e, 0x26, 0x7f, 0x80, 0x7f, 0xff, 0xff};
	struct ws_byte_reader cursor = {bytes, bytes + sizeof(bytes), false};

	(void)state;
	assert_int_equal(ws_read_uleb(&cursor), 624485);
	assert_int_equal(ws_read_sleb(&cursor), -1);
	assert_int_equal(ws_read_sleb(&cursor), -128);
	assert_false(cursor.bad);
	ws_read_uleb(&cursor);
	assert_true(cursor.bad);
	assert_int_equal(ws_read_uint(&cursor, 8), 0);
	assert_null(ws_skip_bytes(&cursor, 1));
	assert_string_equal(ws_read_nul_text(&cursor), "");
}

static bool read_word(void *ctx, uint64_t address, unsigned bytes, uint64_t *value)
{
	(void)ctx;
	if (address != 0x1000)
		return false;
	*value = bytes == 8 ? 0x1122334455667788 : 0x88;
	return true;
}

static void expressions(void **state)
{
	static const struct {
		uint8_t code[16], n;
		bool ok;
		uint64_t value;
	} cases[] = {
		{{0x33, 0x34, 0x22}, 3, true, 7},		/* 3 + 4 */
		{{0x33, 0x34, 0x1c}, 3, true, (uint64_t)-1},	/* 3 - 4 */
		{{0x08, 0xff, 0x09, 0xff, 0x22}, 5, true, 254}, /* 255 + -1 */
		{{0x77, 0x08}, 2, true, 0x2008},		/* r7 + 8 */
		{{0x92, 0x07, 0x78}, 3, true, 0x1ff8},		/* the same by bregx, - 8 */
		{{0x0a, 0x00, 0x10, 0x06}, 4, true, 0x1122334455667788}, /* what lies at 0x1000 */
		{{0x0a, 0x00, 0x10, 0x94, 0x01}, 5, true, 0x88},
		{{0x0a, 0x01, 0x10, 0x06}, 4, false, 0},		 /* not at hand */
		{{0x31, 0x32, 0x33, 0x17, 0x1c}, 5, true, (uint64_t)-1}, /* rot: 3 1 2; 1 - 2 */
		{{0x31, 0x32, 0x16, 0x1c}, 4, true, 1},			 /* swap: 2 - 1 */
		{{0x31, 0x32, 0x14, 0x22}, 4, true, 3},			 /* over: 1 2 1; 2 + 1 */
		{{0x35, 0x30, 0x1b}, 3, false, 0},			 /* a division by 0 */
		{{0x35, 0x23, 0x80, 0x01}, 4, true, 133},		 /* 5 + 128 */
		{{0x31, 0x28, 0x01, 0x00, 0x30, 0x39}, 6, true, 9}, /* a branch over a literal */
		{{0x2f, 0xfd, 0xff}, 3, false, 0},		    /* a loop without end */
		{{0x2f, 0x00, 0x10}, 3, false, 0},		    /* a jump beyond the end */
		{{0x22}, 1, false, 0},				    /* an empty stack */
		{{0x12}, 1, false, 0},
		{{0xe0}, 1, false, 0},		  /* unknown */
		{{0x35, 0x1f, 0x19}, 3, true, 5}, /* |-5| */
		{{0x35, 0x20}, 2, true, ~UINT64_C(5)},
		{{0x31, 0x08, 0x40, 0x24}, 4, true, 0}, /* a shift by 64 */
	};
	struct ws_regs regs = {.known = 1u << 7};
	const struct ws_cfi_thread thread = {&regs, read_word, NULL};

	(void)state;
	regs.values[7] = 0x2000;
	for (size_t i = 0; i < WS_COUNT(cases); i++) {
		uint64_t v = 0;
		bool ok = ws_cfi_evaluate(cases[i].code, cases[i].n, &thread, NULL, &v);

		if (ok != cases[i].ok || (ok && v != cases[i].value))
			fail_msg("expression %zu: %d, %#llx", i, ok, (unsigned long long)v);
	}
	regs.known = 0;
	assert_false(ws_cfi_evaluate(cases[3].code, cases[3].n, &thread, NULL, &(uint64_t){0}));
}

/* ---- call frame information ---- */

static struct ws_symbol_hit name_of(const struct ws_module *module, uint64_t address)
{
	struct ws_symbol_hit hit = {0};

	ws_symtab_find(&module->elf, &address, 1, &hit);
	return hit;
}

#if defined(__x86_64__)
__asm__(".text\n"
	".type cfi_sample, @function\n"
	"cfi_sample:\n"
	".cfi_startproc\n"
	"nop\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset %rbp, -16\n"
	"cfi_1: nop\n"
	".cfi_def_cfa_register %rbp\n"
	".cfi_offset %rbx, -24\n"
	"cfi_2: nop\n"
	".cfi_remember_state\n"
	".cfi_restore %rbx\n"
	".cfi_register %r12, %r13\n"
	".cfi_undefined %r14\n"
	".cfi_escape 0x16, 15, 2, 0x77, 8\n" /* r15 is rsp + 8 */
	"cfi_3: nop\n"
	".cfi_restore_state\n"
	".cfi_adjust_cfa_offset 32\n"
	"cfi_4: nop\n"
	".cfi_escape 0x0f, 3, 0x77, 8, 0x06\n" /* the CFA is what lies at rsp + 8 */
	"cfi_5: nop\n"
	".cfi_endproc\n"
	".size cfi_sample, . - cfi_sample\n"
	".type cfi_trampoline, @function\n"
	".cfi_startproc\n"
	".cfi_signal_frame\n"
	".cfi_undefined %rip\n"
	"nop\n"
	"cfi_trampoline: nop\n"
	".cfi_endproc\n"
	".size cfi_trampoline, . - cfi_trampoline\n");
extern const char cfi_sample[], cfi_1[], cfi_2[], cfi_3[], cfi_4[], cfi_5[], cfi_trampoline[];

static struct ws_cfi_row row_at(const char *label)
{
	struct ws_mapping *mapping = mapping_of(label);
	struct ws_cfi_row row;

	assert_true(ws_cfi_find(ws_module_get_cfi(mapping->module),
				(uint64_t)(uintptr_t)label - mapping->shift, &row));
	return row;
}

static void frame_rules(void **state)
{
	struct ws_cfi_row row = row_at(cfi_sample);

	(void)state;
	assert_int_equal(row.cfa_kind, WS_CFI_VALUE);
	assert_int_equal(row.cfa_register, 7);
	assert_int_equal(row.cfa.offset, 8);
	assert_int_equal(row.reg[16].kind, WS_CFI_OFFSET);
	assert_int_equal(row.reg[16].offset, -8);
	row = row_at(cfi_1);
	assert_int_equal(row.cfa.offset, 16);
	assert_int_equal(row.reg[6].offset, -16);
	row = row_at(cfi_2);
	assert_int_equal(row.cfa_register, 6);
	assert_int_equal(row.reg[3].kind, WS_CFI_OFFSET);
	assert_int_equal(row.reg[3].offset, -24);
	row = row_at(cfi_3);
	assert_int_equal(row.reg[3].kind, WS_CFI_SAME);
	assert_int_equal(row.reg[12].kind, WS_CFI_REGISTER);
	assert_int_equal(row.reg[12].offset, 13);
	assert_int_equal(row.reg[14].kind, WS_CFI_UNDEFINED);
	assert_int_equal(row.reg[15].kind, WS_CFI_VALUE_EXPRESSION);
	assert_int_equal(row.reg[15].size, 2);
	row = row_at(cfi_4);
	assert_int_equal(row.cfa.offset, 48);
	assert_int_equal(row.reg[3].kind, WS_CFI_OFFSET);
	assert_int_equal(row.reg[12].kind, WS_CFI_SAME);
	row = row_at(cfi_5);
	assert_int_equal(row.cfa_kind, WS_CFI_VALUE_EXPRESSION);
	assert_false(row.signal);
	assert_true(row.begin == (uint64_t)(uintptr_t)cfi_sample - mapping_of(cfi_sample)->shift);
	row = row_at(cfi_trampoline);
	assert_true(row.signal);
	assert_int_equal(row.reg[16].kind, WS_CFI_UNDEFINED);
}

/* ---- unwinding from made-up states ---- */

static size_t unwind_at(const void *ip, const uint64_t *stack, size_t words, uint64_t fp,
			struct ws_unwound_frame *caller, size_t most, unsigned *flags)
{
	struct ws_unwinder *unwinder = ws_unwinder_new();
	struct ws_stopped_thread stop = {.maps = self,
					 .time = 20,
					 .stack = (const uint8_t *)stack,
					 .stack_at = 0x700000001000,
					 .stack_size = words * 8};
	size_t n;

	stop.regs.values[WS_REG_IP] = (uint64_t)(uintptr_t)ip;
	stop.regs.values[WS_REG_SP] = stop.stack_at;
	stop.regs.values[WS_REG_FP] = fp;
	stop.regs.known = (UINT64_C(1) << WS_REGS) - 1;
	n = ws_unwind_stack(unwinder, &stop, WS_MODE_AUTO, caller, most, flags);
	ws_unwinder_free(unwinder);
	return n;
}

static void unwinds_plain_and_expression_rules(void **state)
{
	uint64_t stack[64] = {0}, base = 0x700000001000;
	struct ws_unwound_frame callers[8];
	unsigned flags;

	(void)state;
	/* cfi_1: CFA = sp + 16, rbp at CFA - 16; the caller is again there, with CFA = rbp + 16 at
	 * cfi_2, whose caller is 0. */
	stack[0] = base + 80;
	stack[1] = (uint64_t)(uintptr_t)cfi_2 + 1;
	stack[10] = 7;
	stack[11] = 0;
	assert_int_equal(unwind_at(cfi_1, stack, 64, 0, callers, 8, &flags), 2);
	assert_int_equal(flags, 0);
	assert_true(callers[1].ip == (uint64_t)(uintptr_t)cfi_2 + 1);
	assert_true(callers[1].address + mapping_of(cfi_2)->shift == (uint64_t)(uintptr_t)cfi_2);
	assert_int_equal(callers[0].method, WS_UNWIND_UNKNOWN);
	assert_int_equal(callers[1].method, WS_UNWIND_EH);
	/* cfi_5: the CFA is what lies at sp + 8, and the return address lies below it. */
	memset(stack, 0, sizeof(stack));
	stack[1] = base + 160;
	stack[19] = (uint64_t)(uintptr_t)cfi_1 + 1;
	stack[20] = 1;
	assert_int_equal(unwind_at(cfi_5, stack, 64, 0, callers, 8, &flags), 2);
	assert_true(callers[1].ip == (uint64_t)(uintptr_t)cfi_1 + 1);
	/* What returns to a trampoline begins there: its name is that of the address itself. */
	memset(stack, 0, sizeof(stack));
	stack[1] = (uint64_t)(uintptr_t)cfi_trampoline;
	assert_int_equal(unwind_at(cfi_1, stack, 64, 0, callers, 8, &flags), 2);
	assert_true(callers[1].address + mapping_of(cfi_trampoline)->shift ==
		    (uint64_t)(uintptr_t)cfi_trampoline);
	assert_int_equal(flags, 0);
}

static void says_why_it_stopped(void **state)
{
	uint64_t stack[64] = {0}, base = 0x700000001000;
	struct ws_unwound_frame callers[8];
	unsigned flags;

	(void)state;
	/* The return address lies beyond what was copied. */
	assert_int_equal(unwind_at(cfi_1, stack, 1, 0, callers, 8, &flags), 1);
	assert_int_equal(flags, WS_SAMPLE_TRUNCATED);
	/* It is no address of code. */
	stack[1] = 12345;
	assert_int_equal(unwind_at(cfi_1, stack, 64, 0, callers, 8, &flags), 1);
	assert_int_equal(flags, WS_SAMPLE_BROKEN);
	/* Frames that do not move upwards: cfi_2 is called by cfi_2, whose frame pointer is the
	 * same. */
	stack[2] = base + 16;
	stack[3] = (uint64_t)(uintptr_t)cfi_2 + 1;
	assert_int_equal(unwind_at(cfi_2, stack, 64, base + 16, callers, 8, &flags), 2);
	assert_int_equal(flags, WS_SAMPLE_BROKEN);
	/* More frames than wanted. */
	for (int i = 1; i < 32; i++) {
		stack[2 * i] = base + 16 * (uint64_t)(i + 1);
		stack[2 * i + 1] = (uint64_t)(uintptr_t)cfi_2 + 1;
	}
	assert_int_equal(unwind_at(cfi_2, stack, 64, base + 16, callers, 8, &flags), 8);
	assert_int_equal(flags, WS_SAMPLE_TRUNCATED);
}

static void goes_on_with_the_kernels_chain(void **state)
{
	uint64_t stack[4] = {0x700000001080, (uint64_t)(uintptr_t)cfi_2 + 1};
	uint64_t chain[4] = {(uint64_t)(uintptr_t)cfi_1, (uint64_t)(uintptr_t)cfi_2 + 1,
			     (uint64_t)(uintptr_t)cfi_3 + 1, (uint64_t)(uintptr_t)cfi_4 + 1};
	struct ws_unwinder *unwinder = ws_unwinder_new();
	struct ws_stopped_thread stop = {.maps = self,
					 .time = 20,
					 .stack = (const uint8_t *)stack,
					 .stack_at = 0x700000001000,
					 .stack_size = 32,
					 .chain = chain,
					 .chain_count = 4};
	struct ws_module *module = mapping_of(cfi_1)->module;
	bool known = module->fp_known, has = module->has_fp;
	struct ws_unwound_frame callers[8];
	unsigned flags;

	(void)state;
	stop.regs.values[WS_REG_IP] = chain[0];
	stop.regs.values[WS_REG_SP] = stop.stack_at;
	stop.regs.known = (UINT64_C(1) << WS_REGS) - 1;
	module->fp_known = true;
	module->has_fp = true;
	assert_int_equal(ws_unwind_stack(unwinder, &stop, WS_MODE_AUTO, callers, 8, &flags), 4);
	assert_int_equal(flags, 0);
	assert_int_equal(callers[3].method, WS_UNWIND_FP);
	assert_true(callers[3].ip == chain[3]);
	module->has_fp = false; /* then the chain is not to be trusted */
	assert_int_equal(ws_unwind_stack(unwinder, &stop, WS_MODE_AUTO, callers, 8, &flags), 2);
	assert_int_equal(flags, WS_SAMPLE_TRUNCATED);
	module->fp_known = known;
	module->has_fp = has;
	ws_unwinder_free(unwinder);
}

static void from_a_plt_entry(void **state)
{
	struct ws_mapping *mapping = mapping_of(cfi_1);
	uint64_t stack[64] = {(uint64_t)(uintptr_t)cfi_1 + 1};
	struct ws_unwound_frame callers[8];
	Elf64_Shdr plt;
	unsigned flags, found = 0;

	(void)state;
	if (ws_elf_find_section(&mapping->module->elf, ".plt.sec", &plt) < 0 &&
	    ws_elf_find_section(&mapping->module->elf, ".plt", &plt) < 0)
		skip();
	for (uint64_t at = plt.sh_addr; at + 16 <= plt.sh_addr + plt.sh_size; at += 16) {
		struct ws_symbol_hit hit = name_of(mapping->module, at + 4);

		if (!hit.name || !hit.plt)
			continue;
		found++;
		assert_true(hit.value == at);
		assert_int_equal(unwind_at((const void *)(uintptr_t)(at + mapping->shift), stack,
					   64, 0, callers, 8, &flags) >= 2,
				 1);
		assert_true(callers[1].ip == stack[0]);
	}
	assert_true(found > 10);
}

static void from_the_vdso(void **state)
{
	struct ws_mapping *mapping = NULL;
	uint64_t stack[64] = {(uint64_t)(uintptr_t)cfi_1 + 1}, begin = getauxval(AT_SYSINFO_EHDR);
	struct ws_unwound_frame callers[8];
	unsigned flags;

	(void)state;
	if (!begin || !(mapping = ws_maps_find_mapping(self, 20, begin)))
		skip();
	assert_int_equal(mapping->module->kind, WS_MODULE_VDSO);
	assert_true(mapping->module->opened);
	for (uint64_t at = begin; at < begin + mapping->size; at++) {
		struct ws_symbol_hit hit = name_of(mapping->module, at - mapping->shift);

		if (!hit.name || !strstr(hit.name, "clock_gettime"))
			continue;
		assert_true(unwind_at((const void *)(uintptr_t)at, stack, 64, 0, callers, 8,
				      &flags) >= 2);
		assert_true(callers[1].ip == stack[0]);
		return;
	}
	fail_msg("the vDSO has no clock_gettime");
}
#endif

static uint64_t random_state = RANDOM_SEED;

static uint64_t draw_random(void)
{
	return random_star(&random_state);
}

/* Registers and stacks that are garbage, with addresses of real code among them. */
static void garbage_is_survived(void **state)
{
	struct ws_mapping *text = mapping_of((const void *)garbage_is_survived),
			  *libc = mapping_of((const void *)qsort);
	struct ws_unwinder *unwinder = ws_unwinder_new();
	uint64_t stack[256];
	size_t deepest = 0;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct ws_stopped_thread stop = {.maps = self,
						 .time = 20,
						 .stack = (const uint8_t *)stack,
						 .stack_at = 0x700000001000,
						 .stack_size = draw_random() % sizeof(stack)};
		struct ws_unwound_frame callers[64];
		unsigned flags;
		size_t n;

		for (size_t i = 0; i < WS_COUNT(stack); i++) {
			struct ws_mapping *mapping = draw_random() & 1 ? text : libc;

			stack[i] = draw_random() % 3 ? mapping->base + draw_random() % mapping->size
				   : draw_random() & 1 ? stop.stack_at + draw_random() % 4096
						       : draw_random();
		}
		for (unsigned i = 0; i < WS_REGS; i++)
			stop.regs.values[i] = draw_random() & 1
						      ? stop.stack_at + draw_random() % 2048
						      : draw_random();
		stop.regs.values[WS_REG_IP] = libc->base + draw_random() % libc->size;
		stop.regs.known = draw_random() % 8 ? (UINT64_C(1) << WS_REGS) - 1 : draw_random();
		n = ws_unwind_stack(unwinder, &stop, (enum ws_unwind_mode)(draw_random() % 3),
				    callers, WS_COUNT(callers), &flags);
		assert_true(n <= WS_COUNT(callers));
		deepest = ws_max(n, deepest);
	}
	assert_true(deepest > 3); /* it did go somewhere */
	ws_unwinder_free(unwinder);
}

/* ---- maps ---- */

static struct ws_mapped_file file_at(uint64_t base, uint64_t size, const char *path, uint64_t inode)
{
	return (struct ws_mapped_file){.base = base, .size = size, .path = path, .inode = inode};
}

static const char *path_at(struct ws_maps_process *process, uint64_t time, uint64_t address)
{
	struct ws_mapping *mapping = ws_maps_find_mapping(process, time, address);

	return mapping ? mapping->module->path : "";
}

static int ended_n;
static uint64_t ended_at[16];

static void on_end(void *ctx, const struct ws_mapping *mapping)
{
	assert_ptr_equal(ctx, &ended_n);
	if (ended_n < 16)
		ended_at[ended_n] = mapping->end;
	ended_n++;
}

static void maps_over_time(void **state)
{
	struct ws_modules *mods = ws_modules_new();
	struct ws_maps *maps = ws_maps_new(mods);
	struct ws_mapped_file left = file_at(0x1000, 0x4000, "/no/a", 11),
			      right = file_at(0x2000, 0x1000, "/no/b", 12),
			      mapped = file_at(0x1000, 0x4000, "/no/c", 13);
	struct ws_maps_process *process;
	uint64_t version;

	(void)state;
	ended_n = 0;
	ws_maps_add_mapping(maps, 7, 100, &left);
	process = ws_maps_find_process(maps, 7);
	version = ws_maps_get_version(process, 100);
	assert_true(version != 0);
	assert_int_equal(ws_maps_get_version(process, 99),
			 0); /* before the latest change nothing may be cached */
	assert_string_equal(path_at(process, 100, 0x1000), "/no/a");
	assert_string_equal(path_at(process, 100, 0x4fff), "/no/a");
	assert_string_equal(path_at(process, 100, 0x5000), "");
	/* b takes the middle of a; the rest of a stays, and counts its offsets from where it did.
	 */
	ws_maps_bind(process, on_end, &ended_n);
	ws_maps_find_mapping(process, 150, 0x1000);
	ws_maps_add_mapping(maps, 7, 200, &right);
	assert_int_equal(ended_n, 0); /* it is told when it is forgotten */
	assert_true(ws_maps_get_version(process, 200) != version);
	assert_string_equal(path_at(process, 250, 0x1fff), "/no/a");
	assert_string_equal(path_at(process, 250, 0x2000), "/no/b");
	assert_string_equal(path_at(process, 250, 0x3000), "/no/a");
	assert_string_equal(path_at(process, 150, 0x2000), "/no/a");
	assert_int_equal(ws_maps_find_mapping(process, 250, 0x3000)->offset, 0x2000);
	assert_true(0x3000 - ws_maps_find_mapping(process, 250, 0x3000)->shift == 0x2000);
	/* A moment early is forgiven where nothing was before. */
	assert_string_equal(path_at(process, 99, 0x1000), "/no/a");
	/* A fork has it all, and goes its own way. */
	ws_maps_record_fork(maps, 7, 8, 300);
	ws_maps_remove_range(maps, 7, 310, 0x2000, 0x1000);
	assert_string_equal(path_at(ws_maps_find_process(maps, 8), 320, 0x2000), "/no/b");
	assert_string_equal(path_at(process, 320, 0x2000), "");
	assert_string_equal(path_at(process, 305, 0x2000), "/no/b");
	assert_true(ws_maps_get_version(process, 320) !=
		    ws_maps_get_version(ws_maps_find_process(maps, 8), 320));
	/* Another image: what was is told and stays known for its time. */
	ws_maps_record_exec(maps, 7, 400);
	assert_true(ended_n >= 1);
	ws_maps_add_mapping(maps, 7, 410, &mapped);
	assert_string_equal(path_at(process, 350, 0x1000), "/no/a");
	assert_string_equal(path_at(process, 420, 0x1000), "/no/c");
	/* An end, and the pid again. */
	ws_maps_record_exit(maps, 7, 500);
	assert_string_equal(path_at(process, 450, 0x1000), "/no/c");
	ws_maps_add_mapping(maps, 7, 600, &right);
	process = ws_maps_find_process(maps, 7);
	assert_string_equal(path_at(process, 650, 0x1000), "");
	assert_string_equal(path_at(process, 650, 0x2000), "/no/b");
	/* What cannot be is left out. */
	ws_maps_add_mapping(maps, 7, 700,
			    &(struct ws_mapped_file){.base = 0x9000, .size = 0, .path = "/no/d"});
	ws_maps_add_mapping(
		maps, 7, 700,
		&(struct ws_mapped_file){.base = UINT64_MAX - 10, .size = 100, .path = "/no/d"});
	assert_string_equal(path_at(process, 750, 0x9000), "");
	ws_maps_free(maps);
	ws_modules_free(mods);
}

static void maps_from_text(void **state)
{
	static const char first[] =
		"1000-3000 r-xp 00000000 08:01 11 /no/a\n3000-4000 rw-p 00000000 00:00 0 [heap]\n"
		"6000-7000 r-xp 00001000 08:01 12    /no/with blank (deleted)\nnonsense\n8000-9000 "
		"rwxp 00000000 00:00 0\n";
	static const char second[] =
		"1000-3000 r-xp 00000000 08:01 13 /no/b\n8000-9000 rwxp 00000000 00:00 0\n";
	struct ws_modules *mods = ws_modules_new();
	struct ws_maps *maps = ws_maps_new(mods);
	struct ws_maps_process *process;

	(void)state;
	ws_maps_scan_text(maps, 5, 0, 100, first, strlen(first));
	process = ws_maps_find_process(maps, 5);
	assert_string_equal(path_at(process, 100, 0x2000), "/no/a");
	assert_string_equal(path_at(process, 100, 0x3000), "");
	assert_string_equal(path_at(process, 100, 0x6000), "/no/with blank");
	assert_int_equal(ws_maps_find_mapping(process, 100, 0x6000)->module->flags &
				 WS_MODULE_DELETED,
			 WS_MODULE_DELETED);
	assert_int_equal(ws_maps_find_mapping(process, 100, 0x8000)->module->kind, WS_MODULE_JIT);
	ws_maps_scan_text(maps, 5, 150, 150, second, strlen(second));
	assert_string_equal(path_at(process, 120, 0x2000), "/no/a");
	assert_string_equal(path_at(process, 160, 0x2000), "/no/b");
	assert_string_equal(path_at(process, 160, 0x6000), "");
	assert_int_equal(ws_maps_find_mapping(process, 160, 0x8000)->end, WS_NO_TIME);
	/* News from before what was seen are stale: of an exec, of a mapping. */
	ws_maps_record_exec(maps, 5, 140);
	ws_maps_add_mapping(
		maps, 5, 145,
		&(struct ws_mapped_file){
			.base = 0x1000, .size = 0x1000, .path = "/no/old", .inode = 20});
	assert_string_equal(path_at(process, 160, 0x2000), "/no/b");
	assert_string_equal(path_at(process, 160, 0x1000), "/no/b");
	ws_maps_record_exec(maps, 5, 200);
	assert_string_equal(path_at(process, 210, 0x2000), "");
	assert_string_equal(path_at(process, 160, 0x2000), "/no/b");
	ws_maps_scan_text(maps, 6, 0, 1, "", 0);
	ws_maps_free(maps);
	ws_modules_free(mods);
}

/* ---- names ---- */

static void own_functions_have_names(void **state)
{
	struct ws_mapping *mapping = mapping_of((const void *)own_functions_have_names);
	uint64_t at = (uint64_t)(uintptr_t)own_functions_have_names - mapping->shift;
	struct ws_symbol_hit hit = name_of(mapping->module, at + 3);

	(void)state;
	assert_string_equal(hit.name, "own_functions_have_names");
	assert_true(hit.value == at);
	assert_null(name_of(mapping->module, 1).name);
	assert_null(name_of(mapping->module, UINT64_MAX).name);
	assert_true(mapping->module->build_id[0] == 0 || strlen(mapping->module->build_id) >= 16);
}

/* Laid out as lld does: the first page of the code's mapping is also the last of the one before. */
static void segments_that_share_a_page(void **state)
{
	struct {
		Elf64_Ehdr header;
		Elf64_Phdr segments[3];
	} file = {
		.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			   .e_type = ET_DYN,
			   .e_phoff = sizeof(Elf64_Ehdr),
			   .e_phentsize = sizeof(Elf64_Phdr),
			   .e_phnum = 3},
		.segments = {
			{.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x5540, .p_memsz = 0x5540},
			{.p_type = PT_LOAD,
			 .p_flags = PF_R | PF_X,
			 .p_offset = 0x5540,
			 .p_vaddr = 0x6540,
			 .p_filesz = 0x3000,
			 .p_memsz = 0x3000},
			{.p_type = PT_LOAD,
			 .p_flags = PF_R | PF_W,
			 .p_offset = 0x8540,
			 .p_vaddr = 0xa540,
			 .p_filesz = 0x100,
			 .p_memsz = 0x200}}};
	struct ws_elf elf;
	uint64_t at = 0;

	(void)state;
	assert_int_equal(ws_elf_open_memory(&elf, &file, sizeof(file), NULL), 0);
	assert_true(ws_elf_find_address(&elf, 0x5000, &at));
	assert_int_equal(at, 0x6000);
	assert_true(ws_elf_find_address(&elf, 0x8000, &at));
	assert_int_equal(at, 0x9000);
	assert_true(ws_elf_find_address(&elf, 0x4000, &at));
	assert_int_equal(at, 0x4000);
	assert_true(ws_elf_find_address(&elf, 0x8600, &at));
	assert_int_equal(at, 0xa600);
	assert_false(ws_elf_find_address(&elf, 0x9000, &at));
}

static void names_of_languages(void **state)
{
	static const char *const names[][2] = {
		{"_ZN6shapes3BoxIdLi3EE4areaEd", "shapes::Box<double, 3>::area(double)"},
		{"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
		{"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
		{"_ZN4core3fmt5write17h0123456789abcdefE.llvm.123456789", "core::fmt::write"},
		{"_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>"},
		{"_RNvMC7mycrateNtB2_3Foo3new", "<mycrate::Foo>::new"},
		{"_RNvXC7mycrateNtB2_3FooNtB2_3Bar2go", "<mycrate::Foo as mycrate::Bar>::go"},
		{"_RNCNvC7mycrate4main0", "mycrate::main::{closure#0}"},
		{"_D3std5stdio7writelnFZv", "std.stdio.writeln()"},
		{"_Dmain", "D main"},
		{"_D4core6thread8osthread6Thread5startMFZv", "core.thread.osthread.Thread.start()"},
		{"_D4test3fooFNaNbNiNfiZi", "test.foo(int)"},
		{"_D3app__T3addTiZQhFiiZi", "app.add!(int).add(int, int)"},
		{"_ZN6shapes3BoxIdLi3EE4areaEd.cold",
		 "shapes::Box<double, 3>::area(double) [clone .cold]"},
		{"_Z3foov.kd", "foo()"},
		{"_Z3fooi@plt", "foo(int)@plt"},
		{"_ZNSo3putEc@@GLIBCXX_3.4", "std::ostream::put(char)@@GLIBCXX_3.4"},
		{"main", "main"},
		{"main@plt", "main@plt"},
		{"f", "f"}, /* C's, and no type */
		{"PKc", "PKc"},
		{"_Zno", "_Zno"},
		{"_D", "_D"},
		{"", ""},
	};

	(void)state;
	for (size_t i = 0; i < WS_COUNT(names); i++) {
		char *text = ws_demangle(names[i][0]);

		assert_string_equal(text, names[i][1]);
		free(text);
	}
}

static const char *jit_name(struct ws_jit *jit, uint64_t address)
{
	uint64_t begin;
	const char *file;
	uint32_t line;
	const char *name = ws_jit_find(jit, address, &begin, &file, &line);

	return ws_text_or(name, "");
}

static void perf_maps(void **state)
{
	static const char text[] =
		"1000 10 first\n0x2000 0x20 second with blanks\r\n3000 10\nxyz 10 no\n4000 zz "
		"no\n5000 0 no\n6000 10 \n"
		"ffffffffffffffff 10 no\n123456789012345678901 10 no\n7000 10 last";
	struct ws_jit jit = {0};

	(void)state;
	ws_jit_read_memory(&jit, text, strlen(text));
	ws_jit_sort(&jit);
	assert_string_equal(jit_name(&jit, 0x1000), "first");
	assert_string_equal(jit_name(&jit, 0x100f), "first");
	assert_string_equal(jit_name(&jit, 0x1010), "");
	assert_string_equal(jit_name(&jit, 0x201f), "second with blanks");
	assert_string_equal(jit_name(&jit, 0x7001), "last");
	assert_int_equal(jit.count, 3);
	ws_jit_free(&jit);
	/* An address that two functions have had: a name only when both agree. */
	ws_jit_read_memory(&jit, "1000 100 one\n1080 10 other\n2000 10 same\n2000 20 same\n", 54);
	ws_jit_sort(&jit);
	assert_string_equal(jit_name(&jit, 0x1000), "one");
	assert_string_equal(jit_name(&jit, 0x1085), "");
	assert_string_equal(jit_name(&jit, 0x2001), "same");
	ws_jit_free(&jit);
	assert_string_equal(jit_name(&jit, 0x1000), "");
}

static void put_u32(struct ws_text *text, uint32_t v)
{
	ws_text_add(text, &v, 4);
}

static void put_u64(struct ws_text *text, uint64_t v)
{
	ws_text_add(text, &v, 8);
}

static void jitdump_records(void **state)
{
	struct ws_text text = {0};
	struct ws_jit jit = {0};
	const char *file;
	uint64_t begin;
	uint32_t line;

	(void)state;
	put_u32(&text, 0x4A695444), put_u32(&text, 1), put_u32(&text, 40), put_u32(&text, 62),
		put_u64(&text, 0), put_u64(&text, 0), put_u64(&text, 0);
	put_u32(&text, 2), put_u32(&text, 32 + 16 + 4 + 16 + 2), put_u64(&text, 0),
		put_u64(&text, 0x1000), put_u64(&text, 2); /* lines */
	put_u64(&text, 0x1000), put_u32(&text, 5), put_u32(&text, 0), ws_text_add(&text, "a.x", 4);
	put_u64(&text, 0x1008), put_u32(&text, 6), put_u32(&text, 0), ws_text_add(&text, "\xff", 2);
	put_u32(&text, 0), put_u32(&text, 56 + 5 + 3), put_u64(&text, 0), put_u64(&text, 0),
		put_u64(&text, 0), put_u64(&text, 0x1000), put_u64(&text, 16), put_u64(&text, 1);
	ws_text_add(&text, "code", 5), ws_text_add(&text, "abc", 3);
	put_u32(&text, 1), put_u32(&text, 64), put_u64(&text, 0), put_u64(&text, 0),
		put_u64(&text, 0), put_u64(&text, 0x1000), put_u64(&text, 0x3000),
		put_u64(&text, 16), put_u64(&text, 1);
	put_u32(&text, 0), put_u32(&text, 5000), put_u64(&text, 0); /* torn */
	ws_jit_read_memory(&jit, text.text, text.len);
	ws_jit_sort(&jit);
	assert_string_equal(ws_jit_find(&jit, 0x100a, &begin, &file, &line), "code");
	assert_int_equal(begin, 0x1000);
	assert_string_equal(file, "a.x");
	assert_int_equal(line, 6);
	assert_string_equal(jit_name(&jit, 0x300f), "code");
	for (size_t n = 0; n < text.len; n++) { /* cut off anywhere */
		struct ws_jit cut = {0};

		ws_jit_read_memory(&cut, text.text, n);
		ws_jit_free(&cut);
	}
	ws_jit_free(&jit);
	ws_text_free(&text);
}

static char kernel_names[4][64];

static void found_kernel(void *ctx, size_t i, const char *name, uint64_t begin)
{
	(void)ctx;
	snprintf(kernel_names[i], sizeof(kernel_names[i]), "%s %llx", name,
		 (unsigned long long)begin);
}

static void kernel_symbols(void **state)
{
	static const char text[] = "ffffffff81000000 T _text\nffffffff81000000 T "
				   "startup\nffffffff81001000 t do_it\nffffffff81002000 d data\n"
				   "ffffffffc0000000 t launch\t[nvidia]\nnonsense\n";
	static const char hidden[] = "0000000000000000 T _text\n0000000000000000 t do_it\n";
	static const uint64_t at[] = {0xffffffff80000000, 0xffffffff81001fff, 0xffffffff81002004,
				      0xffffffffc0000010};

	(void)state;
	memset(kernel_names, 0, sizeof(kernel_names));
	assert_true(ws_kallsyms_find_text(text, strlen(text), at, 4, found_kernel, NULL));
	assert_string_equal(kernel_names[0], "");
	assert_string_equal(kernel_names[1], "do_it ffffffff81001000");
	assert_string_equal(kernel_names[2], "");
	assert_string_equal(kernel_names[3], "launch [nvidia] ffffffffc0000000");
	assert_false(ws_kallsyms_find_text(hidden, strlen(hidden), at, 4, found_kernel, NULL));
}

/* The address of _stext as this process may see it; 0 when it is hidden. */
static uint64_t find_kernel_start(void)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	unsigned long long address = 0;
	char line[512];

	while (file && !address && fgets(line, sizeof(line), file))
		if (!strstr(line, " T _stext\n") || sscanf(line, "%llx", &address) != 1)
			address = 0;
	if (file)
		fclose(file);
	return address;
}

/* A thread reads them while something else is done; they serve more than one report. */
static void kernel_symbols_are_read_ahead(void **state)
{
	struct ws_kallsyms *symbols = ws_kallsyms_start_reading();
	uint64_t start = find_kernel_start();

	(void)state;
	memset(kernel_names, 0, sizeof(kernel_names));
	for (int i = 0; i < 2 && start; i++) {
		kernel_names[0][0] = 0;
		assert_true(ws_kallsyms_find(symbols, &start, 1, found_kernel, NULL));
		assert_true(kernel_names[0][0]);
	}
	if (!start)
		assert_false(ws_kallsyms_find(symbols, &start, 1, found_kernel, NULL));
	ws_kallsyms_free(symbols);
	ws_kallsyms_free(ws_kallsyms_start_reading()); /* nobody asked */
	ws_kallsyms_free(NULL);
}

#if defined(__x86_64__)
static void registers_of_perf(void **state)
{
	uint64_t values[17];
	struct ws_regs regs;

	(void)state;
	for (int i = 0; i < 17; i++)
		values[i] = 100 + (uint64_t)i;
	ws_regs_from_perf(&regs, WS_PERF_REGS, values, 17);
	assert_int_equal(regs.known, (1u << 17) - 1);
	assert_int_equal(regs.values[0], 100); /* ax */
	assert_int_equal(regs.values[3], 101); /* bx */
	assert_int_equal(regs.values[WS_REG_FP], 106);
	assert_int_equal(regs.values[WS_REG_SP], 107);
	assert_int_equal(regs.values[WS_REG_IP], 108);
	assert_int_equal(regs.values[8], 109);
	assert_int_equal(regs.values[15], 116);
	ws_regs_from_perf(&regs, 1u << 8 | 1u << 7, values, 2);
	assert_int_equal(regs.values[WS_REG_SP], 100);
	assert_int_equal(regs.values[WS_REG_IP], 101);
	assert_int_equal(regs.known, 1u << WS_REG_SP | 1u << WS_REG_IP);
}
#endif

/* A file that shrinks under the mapping gives zeros, not a signal. Tried before cmocka has signal
 * handlers of its own. */
static bool shrunk_reads_zero;

static void test_shrinking(void)
{
	char path[] = "/tmp/ws-elf-XXXXXX";
	int fd = mkstemp(path);
	static char bytes[65536];
	FILE *file = fopen("/proc/self/exe", "rb");
	struct ws_elf elf;

	if (file && fread(bytes, 1, sizeof(bytes), file) > 20000 &&
	    write(fd, bytes, sizeof(bytes)) == sizeof(bytes) && !ws_elf_open_fd(&elf, fd, NULL) &&
	    !ftruncate(fd, 4096)) {
		shrunk_reads_zero = !elf.data[40000] && elf.data[0] == 0x7f;
		ws_elf_close(&elf);
	}
	if (file)
		fclose(file);
	close(fd);
	unlink(path);
}

static void files_may_shrink(void **state)
{
	(void)state;
	assert_true(shrunk_reads_zero);
}

/* ---- adding to a report ---- */

static void rows_are_added_to_a_report(void **state)
{
	char path[64];
	struct ws_err err = {""};
	struct ws_row_symbol row = {.frame = 1, .set = 1};
	struct ws_writer_opts opts = {.overwrite = true};
	struct ws_writer *writer;
	struct ws_report *report;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/ws-append-%d.wsrep", (int)getpid());
	writer = ws_writer_create(path, &opts, &err);
	assert_non_null(writer);
	row.name = ws_writer_string(writer, "first", 5);
	ws_writer_add(writer, WS_TABLE_symbol, &row);
	assert_null(ws_writer_append(path, &err)); /* while it is written */
	assert_int_equal(ws_writer_close(writer, &err), 0);
	for (int i = 0; i < 3; i++) {
		char name[16];

		writer = ws_writer_append(path, &err);
		assert_non_null(writer);
		if (i == 1) {
			ws_writer_discard(writer);
			continue;
		}
		row.set++;
		row.name = ws_writer_string(writer, name,
					    (size_t)snprintf(name, sizeof(name), "more %d", i));
		ws_writer_add(writer, WS_TABLE_symbol, &row);
		assert_int_equal(ws_writer_close(writer, &err), 0);
	}
	report = ws_report_open(path, &err);
	assert_non_null(report);
	assert_true(ws_report_is_complete(report));
	assert_int_equal(ws_report_verify(report, NULL, NULL), 0);
	assert_int_equal(ws_report_count_rows(report, WS_TABLE_symbol), 3);
	assert_string_equal(ws_report_string(report, 1, NULL), "first");
	assert_string_equal(ws_report_string(report, 2, NULL), "more 0");
	assert_string_equal(ws_report_string(report, 3, NULL), "more 2");
	ws_report_close(report);
	unlink(path);
	assert_null(ws_writer_append(path, &err));
	assert_non_null(strstr(err.msg, path));
}

/* ---- readers of debugging information ---- */

static void ignore_signal(int sig)
{
	(void)sig;
}

/* Whether the process sleeps, as one that waits for a pipe does. */
static bool is_asleep(pid_t pid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (file)
		fclose(file);
	return state == 'S';
}

/* A reader that has found nothing: it interrupts `receiver`, which waits for it, and reports. */
_Noreturn static void interrupt_and_send(pid_t receiver, int fd)
{
	const struct {
		uint64_t index, units;
		uint32_t count, file;
		uint64_t unoptimised, optimised;
	} end = {.index = UINT64_MAX, .count = 1, .unoptimised = 7};

	for (int i = 0; i < 60000 && !is_asleep(receiver); i++)
		usleep(1000);
	kill(receiver, SIGUSR1);
	for (int i = 0; i < 10; i++)
		sched_yield();
	_exit(write(fd, &end, sizeof(end)) != sizeof(end));
}

static void signals_do_not_end_the_receiving(void **state)
{
	struct sigaction interrupt = {.sa_handler = ignore_signal}, before;
	const struct ws_dwarf_query query = {.count = 1};
	struct ws_dwarf_missing missing = {0};
	struct ws_dwarf_reader reader = {0};
	pid_t parent = getpid(), pid;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	sigaction(SIGUSR1, &interrupt, &before);
	pid = fork();
	if (!pid)
		interrupt_and_send(parent, ends[1]);
	close(ends[1]);
	assert_int_equal(ws_dwarf_receive(ends[0], &query, &missing, &reader), 0);
	assert_false(reader.cut);
	assert_int_equal(missing.unoptimised, 7);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	sigaction(SIGUSR1, &before, NULL);
}

/* ---- functions of Python without a symbol table ---- */

static const char *python_like; /* the path of a library; NULL: there is none */

/* What two methods jump to, and what an exported function does. */
#ifdef __x86_64__
#define PICK "high_low"
#define MERGE "PyModule_Update"
#else
#define PICK NULL
#define MERGE NULL
#endif

static void python_methods(void **state)
{
	static const char *const names[] = {"tidy.collect",
					    "tidy.freeze",
					    "tidy.Stack.pop",
					    "tidy.Stack.__contains__",
					    "tidy.Pattern.match",
					    "lone",
					    NULL,
					    PICK,
					    MERGE};
	enum { COUNT = WS_COUNT(names) };
	void *library = python_like ? dlopen(python_like, RTLD_NOW) : NULL;
	uintptr_t const *places = library ? dlsym(library, "PyModule_Places") : NULL;
	struct ws_python_methods *methods;
	struct ws_symbol_hit hits[COUNT];
	uint64_t addresses[COUNT];
	struct ws_elf elf;
	struct ws_err err;
	struct ws_cfi *cfi;
	Dl_info info;

	(void)state;
	if (!places)
		skip();
	assert_true(dladdr(places, &info) != 0);
	assert_int_equal(ws_elf_open(&elf, python_like, &err), 0);
	cfi = ws_cfi_new(&elf);
	assert_non_null(cfi);
	for (size_t i = 0; i < COUNT; i++) {
		memset(&hits[i], 0, sizeof(hits[i]));
		addresses[i] = places[i] - (uintptr_t)info.dli_fbase + 1;
	}
	methods = ws_python_methods_find(&elf, cfi, addresses, COUNT, hits);
	for (size_t i = 0; i < COUNT; i++) {
		if (names[i])
			assert_string_equal(hits[i].name, names[i]);
		else
			assert_null(hits[i].name);
		if (hits[i].name)
			assert_int_equal(hits[i].value, addresses[i] - 1);
	}
	ws_python_methods_free(methods);
	ws_cfi_free(cfi);
	ws_elf_close(&elf);
	dlclose(library);
}

int main(int count, char **arguments)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(python_methods),
		cmocka_unit_test(signals_do_not_end_the_receiving),
		cmocka_unit_test(cursors_stop_at_the_end),
		cmocka_unit_test(expressions),
#if defined(__x86_64__)
		cmocka_unit_test(frame_rules),
		cmocka_unit_test(unwinds_plain_and_expression_rules),
		cmocka_unit_test(says_why_it_stopped),
		cmocka_unit_test(goes_on_with_the_kernels_chain),
		cmocka_unit_test(from_a_plt_entry),
		cmocka_unit_test(from_the_vdso),
		cmocka_unit_test(registers_of_perf),
#endif
		cmocka_unit_test(garbage_is_survived),
		cmocka_unit_test(maps_over_time),
		cmocka_unit_test(maps_from_text),
		cmocka_unit_test(own_functions_have_names),
		cmocka_unit_test(segments_that_share_a_page),
		cmocka_unit_test(names_of_languages),
		cmocka_unit_test(perf_maps),
		cmocka_unit_test(jitdump_records),
		cmocka_unit_test(kernel_symbols),
		cmocka_unit_test(kernel_symbols_are_read_ahead),
		cmocka_unit_test(files_may_shrink),
		cmocka_unit_test(rows_are_added_to_a_report),
	};

	if (count > 1)
		python_like = arguments[1];
	test_shrinking();
	return cmocka_run_group_tests_name("symbols", tests, set_up, tear_down);
}
