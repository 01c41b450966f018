/*
 * safe_point.c - see safe_point.h.
 *
 * The thread's stack is unwound to its end. It must not contain the loader, an allocator, or any of
 * the few other functions that hold locks which the loader takes; an allocator may be the program's
 * own, so functions are known by their names, in every module. In the C library, whose internal
 * functions have no names, a thread must be in a system call: there it holds no lock of the library
 * except those of the exported functions around the call. A thread that waits for input, time or
 * another process is not in an allocator, whatever its stack is like, and need not be unwound to
 * the end.
 */
#include "record/safe_point.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/ticks.h"
#include "record/process_memory.h"
#include "symbols/symtab.h"
#include "symbols/unwind.h"

enum { STACK_READ = 256 << 10, FRAMES_MOST = 512, BASE_FRAMES = 3 };

enum module_kind { KIND_PLAIN, KIND_LIBC, KIND_LOADER };

struct span {
	uint64_t from, to; /* addresses relative to the module */
};

struct spans {
	struct span *list; /* by `from` */
	size_t count, cap;
};

/* What is known about a module. */
struct module_facts {
	const struct ws_module *module;
	enum module_kind kind;
	struct spans refused; /* functions that must not be on the stack */
	struct spans named;   /* of the C library: the functions that it exports */
};

struct region { /* of /proc/PID/maps */
	uint64_t from, to;
	bool stack; /* grows by itself */
};

struct ws_process_code {
	int pid;
	struct ws_modules *modules;
	struct ws_maps *maps;
	struct ws_unwinder *unwinder;
	struct module_facts *facts;
	size_t facts_n, facts_cap;
	struct region *regions; /* the writable ones, by address */
	size_t regions_n, regions_cap;
	uint64_t dlopen, sigreturn;
	int dlopen_mode;
	uint8_t *stack;
};

/* ---- names ---- */

static const char *const refused_names[] = {
	"malloc",
	"free",
	"cfree",
	"calloc",
	"realloc",
	"reallocarray",
	"memalign",
	"aligned_alloc",
	"posix_memalign",
	"valloc",
	"pvalloc",
	"malloc_trim",
	"malloc_info",
	"malloc_stats",
	"mallopt",
	"mallinfo",
	"mallinfo2",
	"malloc_usable_size",
	"_int_malloc",
	"_int_free",
	"_int_realloc",
	"_int_memalign",
	"malloc_consolidate",
	"sysmalloc",
	"systrim",
	"arena_get2",
	"tcache_init",
	"fork",
	"vfork",
	"_Fork",
	"__fork",
	"__libc_fork",
	"__libc_vfork",
	"__vfork",
	"exit",
	"quick_exit",
	"__run_exit_handlers",
	"__cxa_finalize",
	"dlopen",
	"dlmopen",
	"dlclose",
	"dlsym",
	"dlvsym",
	"dlerror",
	"dladdr",
	"dladdr1",
	"dlinfo",
	"dl_iterate_phdr",
	"__libc_dlopen_mode",
	"__libc_dlclose",
	"__libc_dlsym",
	"pthread_create",
	"pthread_exit",
	"__pthread_exit",
	"__pthread_create_2_1",
	"atexit",
	"__cxa_atexit",
	"at_quick_exit",
	"pthread_atfork",
	"__register_atfork",
	"posix_spawn",
	"posix_spawnp",
	"system",
	"popen",
	"execve",
	"execv",
	"execvp",
	"setuid",
	"setgid",
	"setresuid",
	"setresgid",
	"setreuid",
	"setregid",
	"setgroups",
	"__libc_start_call_main_",
};

/* C++'s operators new and delete, and allocators that programs bring. */
static const char *const refused_beginnings[] = {
	"_Znw", "_Zna", "_Zdl", "_Zda", "__libc_m", "__libc_f", "__libc_c", "__libc_re", "je_",
	"tc_",	"mi_",	"_mi_", "_dl_", "_rjem_",   "scalloc",	"rpmalloc", "rpfree",	 "hoard",
};

static bool is_refused_name(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(refused_names); i++)
		if (!strcmp(name, refused_names[i]))
			return true;
	for (size_t i = 0; i < WS_COUNT(refused_beginnings); i++)
		if (!strncmp(name, refused_beginnings[i], strlen(refused_beginnings[i])))
			return true;
	return strstr(name, "tcmalloc") || strstr(name, "jemalloc") || strstr(name, "mimalloc");
}

static void add_span(struct spans *spans, uint64_t from, uint64_t to)
{
	ws_grow(spans->list, spans->cap, spans->count + 1);
	spans->list[spans->count++] = (struct span){from, to};
}

static bool is_in(const struct spans *spans, uint64_t address)
{
	for (size_t i = 0; i < spans->count; i++)
		if (address >= spans->list[i].from && address < spans->list[i].to)
			return true;
	return false;
}

/* ---- modules ---- */

static void read_symbols(struct module_facts *facts, const struct ws_symbol_table *symbols)
{
	for (uint64_t i = 0; i < symbols->count; i++) {
		Elf64_Sym symbol;
		const char *name = ws_symtab_get(symbols, i, &symbol);

		if (!name || !symbol.st_size || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC)
			continue;
		if (is_refused_name(name))
			add_span(&facts->refused, symbol.st_value,
				 symbol.st_value + symbol.st_size);
		else if (facts->kind == KIND_LIBC)
			add_span(&facts->named, symbol.st_value, symbol.st_value + symbol.st_size);
	}
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool begins_with(const char *text, const char *beginning)
{
	return !strncmp(text, beginning, strlen(beginning));
}

static enum module_kind find_kind(const struct ws_module *module)
{
	const char *name = base_name(ws_text_or(module->path, ""));

	if (begins_with(name, "ld-linux") || begins_with(name, "ld-2."))
		return KIND_LOADER;
	if (begins_with(name, "libc.so") || begins_with(name, "libc-2.") ||
	    begins_with(name, "libpthread.so") || begins_with(name, "libpthread-2.") ||
	    begins_with(name, "libdl.so") || begins_with(name, "libdl-2."))
		return KIND_LIBC;
	return KIND_PLAIN;
}

static const struct module_facts *find_facts(struct ws_process_code *code,
					     const struct ws_module *module)
{
	struct module_facts *facts;
	struct ws_symbol_table symbols;

	for (size_t i = 0; i < code->facts_n; i++)
		if (code->facts[i].module == module)
			return &code->facts[i];
	ws_grow(code->facts, code->facts_cap, code->facts_n + 1);
	facts = &code->facts[code->facts_n++];
	*facts = (struct module_facts){.module = module, .kind = find_kind(module)};
	if (!module->opened)
		return facts;
	if (ws_symtab_open(&module->elf, true, &symbols))
		read_symbols(facts, &symbols);
	if (ws_symtab_open(&module->elf, false, &symbols))
		read_symbols(facts, &symbols);
	return facts;
}

/* ---- addresses for calls ---- */

/* mov $15, %rax; syscall */
static const uint8_t sigreturn_code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

static uint64_t find_sigreturn(const struct ws_module *module)
{
	Elf64_Phdr segment;

	for (uint32_t i = 0; module->opened && ws_elf_get_segment(&module->elf, i, &segment); i++) {
		const uint8_t *bytes, *at;

		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) ||
		    segment.p_offset > module->elf.size ||
		    segment.p_filesz > module->elf.size - segment.p_offset)
			continue;
		bytes = module->elf.data + segment.p_offset;
		at = memmem(bytes, segment.p_filesz, sigreturn_code, sizeof(sigreturn_code));
		if (at)
			return segment.p_vaddr + (uint64_t)(at - bytes);
	}
	return 0;
}

/* Before glibc 2.34 dlopen is in a library of its own, and the C library has an internal one, which
 * needs a flag to say that the caller is not the C library. */
static void find_dlopen(struct ws_process_code *code, const struct ws_mapping *mapping)
{
	static const struct {
		const char *name;
		int mode;
	} ways[] = {{"dlopen", 2}, {"__libc_dlopen_mode", (int)0x80000002}};

	for (size_t i = 0; i < WS_COUNT(ways) && !code->dlopen; i++) {
		uint64_t value = 0;

		if (mapping->module->opened)
			value = ws_symtab_find_exported(&mapping->module->elf, ways[i].name);

		if (value) {
			code->dlopen = value + mapping->shift;
			code->dlopen_mode = ways[i].mode;
		}
	}
	if (!code->sigreturn) {
		uint64_t value = find_sigreturn(mapping->module);

		code->sigreturn = value ? value + mapping->shift : 0;
	}
}

/* One line of /proc/PID/maps. */
static void read_region(struct ws_process_code *code, const char *line)
{
	unsigned long long from, to;
	char rights[8];
	struct ws_mapping *mapping;

	if (sscanf(line, "%llx-%llx %7s", &from, &to, rights) != 3)
		return;
	if (rights[1] == 'w') {
		ws_grow(code->regions, code->regions_cap, code->regions_n + 1);
		code->regions[code->regions_n++] =
			(struct region){from, to, strstr(line, "[stack]") != NULL};
	}
	mapping = rights[2] == 'x'
			  ? ws_maps_find_mapping(ws_maps_find_process(code->maps, code->pid),
						 ws_read_raw_ns(), from)
			  : NULL;
	if (mapping && find_facts(code, mapping->module)->kind == KIND_LIBC)
		find_dlopen(code, mapping);
}

static int read_regions(struct ws_process_code *code, struct ws_err *err)
{
	char path[64], line[PATH_MAX + 128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", code->pid);
	file = fopen(path, "re");
	if (!file)
		return ws_fail_errno(err, "cannot read %s", path);
	while (fgets(line, sizeof(line), file))
		read_region(code, line);
	fclose(file);
	return 0;
}

struct ws_process_code *ws_process_code_read(int pid, struct ws_err *err)
{
	struct ws_process_code *code = ws_calloc(1, sizeof(*code));

	code->pid = pid;
	code->modules = ws_modules_new();
	code->maps = ws_maps_new(code->modules);
	code->unwinder = ws_unwinder_new();
	code->stack = ws_malloc(STACK_READ);
	if (ws_maps_scan(code->maps, pid, 0, ws_read_raw_ns()) ||
	    !ws_maps_find_process(code->maps, pid))
		ws_fail(err, "the memory map of process %d cannot be read", pid);
	else if (read_regions(code, err))
		(void)0;
	else if (!code->dlopen || !code->sigreturn)
		ws_fail(err,
			"process %d has no dlopen of the GNU C library: it is linked statically, "
			"or with another C library",
			pid);
	else
		return code;
	ws_process_code_free(code);
	return NULL;
}

void ws_process_code_free(struct ws_process_code *code)
{
	if (!code)
		return;
	for (size_t i = 0; i < code->facts_n; i++) {
		free(code->facts[i].refused.list);
		free(code->facts[i].named.list);
	}
	free(code->facts);
	free(code->regions);
	free(code->stack);
	ws_unwinder_free(code->unwinder);
	ws_maps_free(code->maps);
	ws_modules_free(code->modules);
	free(code);
}

uint64_t ws_process_code_dlopen(const struct ws_process_code *code)
{
	return code->dlopen;
}

uint64_t ws_process_code_sigreturn(const struct ws_process_code *code)
{
	return code->sigreturn;
}

int ws_process_code_dlopen_mode(const struct ws_process_code *code)
{
	return code->dlopen_mode;
}

/* ---- stacks ---- */

static const struct region *find_stack(const struct ws_process_code *code, uint64_t sp)
{
	for (size_t i = 0; i < code->regions_n; i++)
		if (sp >= code->regions[i].from && sp < code->regions[i].to)
			return &code->regions[i];
	return NULL;
}

static size_t unwind_thread(struct ws_process_code *code, const struct ws_inside *inside,
			    const struct region *region, struct ws_unwound_frame *frames,
			    unsigned *flags)
{
	struct ws_stopped_thread stop = {.maps = ws_maps_find_process(code->maps, code->pid),
					 .time = ws_read_raw_ns(),
					 .stack = code->stack};
	size_t size;
	ssize_t got;

	ws_inside_get_regs(inside, &stop.regs);
	stop.stack_at = stop.regs.values[WS_REG_SP];
	size = ws_min((size_t)STACK_READ, (size_t)(region->to - stop.stack_at));
	got = ws_process_memory_read(code->pid, code->stack, stop.stack_at, size);
	stop.stack_size = (size_t)ws_max(got, (ssize_t)0);
	return ws_unwind_stack(code->unwinder, &stop, WS_MODE_AUTO, frames, FRAMES_MOST, flags);
}

/* Calls that wait for something from outside: no allocator and no loader makes them while it holds
 * a lock. */
static bool waits_outside(long nr)
{
	static const long calls[] = {
		SYS_read,    SYS_readv,	   SYS_nanosleep,  SYS_clock_nanosleep, SYS_epoll_pwait,
		SYS_ppoll,   SYS_pselect6, SYS_wait4,	   SYS_waitid,		SYS_accept,
		SYS_accept4, SYS_recvfrom, SYS_recvmsg,	   SYS_rt_sigtimedwait, SYS_rt_sigsuspend,
		SYS_connect, SYS_msgrcv,   SYS_semtimedop,
#ifdef SYS_poll
		SYS_poll,    SYS_select,   SYS_epoll_wait, SYS_pause,
#endif
	};

	for (size_t i = 0; i < WS_COUNT(calls); i++)
		if (calls[i] == nr)
			return true;
	return false;
}

/* Frames of the C library without a name belong to the named function around them. At the end of a
 * stack they are the start code of threads. */
static bool is_known_place(const struct module_facts *const *facts,
			   const struct ws_unwound_frame *frames, size_t n, size_t i)
{
	for (size_t k = i; k < n && facts[k] && facts[k]->kind == KIND_LIBC; k++) {
		if (is_in(&facts[k]->named, frames[k].address))
			return true;
		if (i && k + 1 == n)
			return true;
	}
	return false;
}

static bool are_frames_safe(struct ws_process_code *code, const struct ws_unwound_frame *frames,
			    size_t n, bool in_call)
{
	const struct module_facts *facts[FRAMES_MOST];

	for (size_t i = 0; i < n; i++)
		facts[i] = NULL;
	for (size_t i = 0; i < n; i++)
		if (frames[i].module)
			find_facts(code, frames[i].module);
	for (size_t i = 0; i < n; i++)
		if (frames[i].module)
			facts[i] = find_facts(code, frames[i].module);
	for (size_t i = 0; i < n; i++) {
		if (!facts[i])
			continue;
		if (facts[i]->kind == KIND_LOADER || is_in(&facts[i]->refused, frames[i].address))
			return false;
		if (facts[i]->kind != KIND_LIBC)
			continue;
		if ((!i && !in_call) || !is_known_place(facts, frames, n, i))
			return false;
	}
	return true;
}

bool ws_is_safe_point(struct ws_process_code *code, const struct ws_inside *inside,
		      uint64_t *stack_low)
{
	struct ws_unwound_frame frames[FRAMES_MOST];
	const struct region *region;
	struct ws_regs regs;
	long nr = ws_inside_syscall(inside);
	unsigned flags = 0;
	size_t n;

	ws_inside_get_regs(inside, &regs);
	region = find_stack(code, regs.values[WS_REG_SP]);
	if (!region)
		return false;
	*stack_low = region->from;
	if (region->stack) /* a stack grows, so some room below it is certain */
		*stack_low -= ws_min(*stack_low, UINT64_C(1) << 20);
	n = unwind_thread(code, inside, region, frames, &flags);
	if (!n || (flags && !waits_outside(nr)))
		return false;
	return are_frames_safe(code, frames, n, nr >= 0);
}
