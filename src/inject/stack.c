/* stack.c - see stack.h. */
#include "inject/stack.h"
#include "base/choose.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "inject/bind.h"

#define FREE_REPORTS 8u
#define MAPS_PIECE 8192u
#define PIECES (WS_STACK_PIECE / WS_SMALLEST_PAGE + 2)

static _Atomic uint64_t
	changed_at; /* ticks before the first change since the map was written; 0: none */
static _Atomic uint64_t tell_next; /* ticks before which additions are not worth writing it again */
static _Atomic uint32_t reports;   /* how often it was written */
static uint32_t maps_announced;	   /* generation of the process whose map was written; wrong after a
				 fork,    as it should be */

static void read_own_registers(uint64_t regs[WS_STACK_REGS])
{
#if defined(__x86_64__)
	__asm__ volatile("lea 1f(%%rip), %%rax\n\t"
			 "1: mov %%rax, 0(%0)\n\t"
			 "mov %%rsp, 8(%0)\n\t"
			 "mov %%rbp, 16(%0)\n\t"
			 "mov %%rbx, 24(%0)\n\t"
			 "mov %%r12, 32(%0)\n\t"
			 "mov %%r13, 40(%0)\n\t"
			 "mov %%r14, 48(%0)\n\t"
			 "mov %%r15, 56(%0)\n\t"
			 :
			 : "c"(regs)
			 : "rax", "memory");
#else
	__asm__ volatile("adr x9, 1f\n\t"
			 "1: mov x10, sp\n\t"
			 "stp x9, x10, [%0]\n\t"
			 "stp x29, x30, [%0, #16]\n\t"
			 "stp x19, x20, [%0, #32]\n\t"
			 "stp x21, x22, [%0, #48]\n\t"
			 "stp x23, x24, [%0, #64]\n\t"
			 "stp x25, x26, [%0, #80]\n\t"
			 "stp x27, x28, [%0, #96]\n\t"
			 :
			 : "r"(regs)
			 : "x9", "x10", "memory");
#endif
}

/* Copies up to `n` bytes and returns how many: it stops at the first page that is not there. Where
 * the kernel forbids the call, only the rest of the page of `from` is certain to be there. */
static uint32_t copy_memory(char *to, uint64_t from, uint32_t n)
{
	struct iovec local = {to, n}, remote[PIECES];
	uint32_t pieces = 0, left = n;
	long got;

	for (uint64_t at = from; left && pieces < PIECES; pieces++) {
		uint32_t part = (uint32_t)(WS_SMALLEST_PAGE - at % WS_SMALLEST_PAGE);

		part = ws_min(part, left);
		remote[pieces] = (struct iovec){(void *)(uintptr_t)at, part};
		at += part;
		left -= part;
	}
	got = ws_rt_is_sandboxed() ? -1
				   : ws_raw_syscall(SYS_process_vm_readv,
						    ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0),
						    (long)&local, 1, (long)remote, pieces, 0);
	if (got > 0)
		return (uint32_t)got;
	if (got == -EFAULT) /* nothing is there: the stack ended where the last piece did */
		return 0;
	got = (long)(WS_SMALLEST_PAGE - from % WS_SMALLEST_PAGE);
	got = ws_min(got, (long)n);
	memcpy(to, (const void *)(uintptr_t)from, (size_t)got);
	return (uint32_t)got;
}

static struct ws_rec make_long_head(enum ws_rec_kind kind, size_t bytes, uint16_t small)
{
	return (struct ws_rec){
		.kind = (uint8_t)kind, .words = 0, .small = small, .value = (uint32_t)(bytes / 8)};
}

/* ---- the address map ---- */

/* Keeps the lines of executable mappings among the buffer's whole lines; returns how many bytes
 * remain. */
static uint32_t keep_code(char *text, uint32_t n)
{
	uint32_t kept = 0;

	for (uint32_t at = 0; at < n;) {
		const char *stop = memchr(text + at, '\n', n - at), *blank;
		uint32_t len = stop ? (uint32_t)(stop - text) + 1 - at : n - at;

		blank = memchr(text + at, ' ', len);
		if (blank && blank + 3 < text + at + len && blank[3] == 'x') {
			memmove(text + kept, text + at, len);
			kept += len;
		}
		at += len;
	}
	return kept;
}

/* Read lines of the map: whole ones, for where the kernel's pages are larger than our piece, a read
 * may end within a line. Returns their bytes; 0 at the end, or -errno. */
static long read_lines(long fd, char *text)
{
	long got = ws_raw_syscall(SYS_read, fd, (long)text, MAPS_PIECE, 0, 0, 0), whole = got;

	while (whole > 0 && text[whole - 1] != '\n')
		whole--;
	if (whole <= 0 || whole == got)
		return got;
	ws_raw_syscall(SYS_lseek, fd, whole - got, SEEK_CUR, 0, 0, 0);
	return whole;
}

/*
 * A process that lives for less than one of the recorder's rounds has gone when its stacks are
 * unwound, and its map with it, so the map is written before the first stack. The recorder finds
 * later libraries itself. The map is read directly into the ring.
 */
static WS_NOINLINE void write_maps(struct ws_thread *thread)
{
	uint64_t time = atomic_exchange_explicit(&changed_at, 0, memory_order_relaxed),
		 began = ws_rt_read_ticks();
	struct ws_rec_maps *record;
	long got = 1, fd;

	if (ws_rt_is_sandboxed())
		return;
	fd = ws_raw_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0,
			    0, 0);
	if (fd < 0)
		return;
	while (got > 0 &&
	       (record = ws_rt_reserve(thread, sizeof(*record) + MAPS_PIECE, WS_LOSS_OTHER))) {
		size_t bytes;

		got = read_lines(fd, record->text);
		record->time = time ? time : ws_rt_read_ticks();
		record->changed = time != 0;
		record->bytes = got > 0 ? keep_code(record->text, (uint32_t)got) : 0;
		bytes = WS_ALIGN_UP(sizeof(*record) + record->bytes, 8u);
		record->rec = make_long_head(WS_REC_MAPS, bytes, got > 0);
		ws_rt_commit(thread, record, bytes);
	}
	ws_raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	/* The first few times cost little, and they matter to short-lived programs. */
	if (atomic_fetch_add_explicit(&reports, 1, memory_order_relaxed) >= FREE_REPORTS)
		atomic_store_explicit(&tell_next,
				      ws_rt_read_ticks() + 20 * (ws_rt_read_ticks() - began),
				      memory_order_relaxed);
}

void ws_rt_note_maps_changed(void)
{
	uint64_t none = 0;

	atomic_compare_exchange_strong_explicit(&changed_at, &none, ws_rt_read_ticks(),
						memory_order_relaxed, memory_order_relaxed);
}

/* The map is written before the first stack, at once when something was unloaded and, when
 * something was loaded, as often as is cheap compared to the rest. */
static bool are_maps_wanted(const struct ws_thread *thread, uint64_t now)
{
	if (__atomic_exchange_n(&maps_announced, thread->generation, __ATOMIC_RELAXED) !=
	    thread->generation)
		return true;
	return atomic_load_explicit(&changed_at, memory_order_relaxed) &&
	       now >= atomic_load_explicit(&tell_next, memory_order_relaxed);
}

void ws_rt_write_maps(struct ws_thread *thread)
{
	if (are_maps_wanted(thread, ws_rt_read_ticks()))
		write_maps(thread);
}

/*
 * What is loaded next may lie where this library lay, and an old map would give its functions the
 * old names. Libraries that are opened need no such care: where no mapping was known, the recorder
 * looks again.
 */
WS_EXPORT int dlclose(void *handle);
int dlclose(void *handle)
{
	int (*real)(void *) = ws_find_next_symbol("dlclose"), r;

	ws_rt_note_maps_changed();
	r = real ? real(handle) : -1;
	__atomic_store_n(&maps_announced, 0, __ATOMIC_RELAXED);
	return r;
}

/* ---- stacks ---- */

WS_NOINLINE bool ws_rt_write_stack(struct ws_thread *thread, enum ws_stack_of of, uint64_t key,
				   uint32_t bytes)
{
	uint64_t regs[WS_STACK_REGS];
	bool any;

	read_own_registers(regs);
	any = ws_rt_write_stack_from(thread, of, key, bytes, regs);
	__asm__ volatile(""); /* not a tail call: this frame is in the copy */
	return any;
}

bool ws_rt_write_stack_from(struct ws_thread *thread, enum ws_stack_of of, uint64_t key,
			    uint32_t bytes, const uint64_t regs[WS_STACK_REGS])
{
	uint64_t time = ws_rt_read_ticks();
	bool any = false;

	ws_rt_write_maps(thread);
	bytes = ws_min(bytes, WS_STACK_MOST);
	for (uint32_t at = 0; at < bytes;) {
		uint32_t want = bytes - at < WS_STACK_PIECE ? bytes - at : WS_STACK_PIECE, got;
		struct ws_rec_stack *record = ws_rt_reserve(
			thread, WS_ALIGN_UP(sizeof(*record) + want, 8u), WS_LOSS_OTHER);
		size_t size;

		if (!record)
			return any;
		got = copy_memory(record->stack, regs[1] + at, want);
		size = WS_ALIGN_UP(sizeof(*record) + got, 8u);
		record->rec = make_long_head(
			WS_REC_STACK, size,
			(uint16_t)(of | (got < want || at + got >= bytes ? WS_STACK_LAST : 0)));
		record->key = key;
		record->time = time;
		memcpy(record->regs, regs, sizeof(record->regs));
		record->offset = at;
		record->bytes = got;
		ws_rt_commit(thread, record, size);
		any = true;
		at += got;
		if (got < want)
			break;
	}
	return any;
}
