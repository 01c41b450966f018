/*
 * filter.c - see filter.h. A filter only jumps forward, so that one pass over its instructions
 * follows every way through it at once: `states` holds, for each instruction, whether it can be
 * reached and what the registers then hold, if that is the same by all ways.
 */
#include "inject/filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/choose.h"
#include "inject/readable.h"
#include "inject/rt.h"

#if defined(__x86_64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#define MOST_INSTRUCTIONS 4096u /* the kernel takes no longer filter */

struct value {
	bool known;
	uint32_t number;
};

struct state {
	bool reached;
	struct value a, x;
};

static const uint16_t hook_calls[] = {SYS_clock_gettime,  SYS_close,	    SYS_faccessat,
				      SYS_fallocate,	  SYS_fstat,	    SYS_futex,
				      SYS_getpid,	  SYS_getppid,	    SYS_gettid,
				      SYS_madvise,	  SYS_mmap,	    SYS_mremap,
				      SYS_munlock,	  SYS_munmap,	    SYS_nanosleep,
				      SYS_newfstatat,	  SYS_openat,	    SYS_prctl,
				      SYS_pread64,	  SYS_prlimit64,    SYS_read,
				      SYS_readlinkat,	  SYS_rt_sigaction, SYS_rt_sigreturn,
				      SYS_rt_sigprocmask, SYS_sigaltstack,  SYS_timer_create,
				      SYS_timer_settime,  SYS_timer_delete, SYS_sched_yield,
				      SYS_flock,	  SYS_kill,	    SYS_process_vm_readv,
				      SYS_fcntl};

static struct value make_known(uint32_t number)
{
	return (struct value){true, number};
}

static struct value join_values(struct value one, struct value other)
{
	one.known = one.known && other.known && one.number == other.number;
	return one;
}

static void join_states(struct state *into, const struct state *from)
{
	if (!into->reached) {
		*into = *from;
		return;
	}
	into->a = join_values(into->a, from->a);
	into->x = join_values(into->x, from->x);
}

/* What the filter finds in the description of the call. */
static struct value load_field(uint32_t offset, uint32_t call)
{
	if (offset == offsetof(struct seccomp_data, nr))
		return make_known(call);
	if (offset == offsetof(struct seccomp_data, arch))
		return make_known(OWN_ARCHITECTURE);
	return (struct value){0};
}

static uint32_t compute(uint16_t operation, uint32_t a, uint32_t b)
{
	switch (operation) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_AND:
		return a & b;
	case BPF_OR:
		return a | b;
	case BPF_XOR:
		return a ^ b;
	case BPF_LSH:
		return b < 32 ? a << b : 0;
	default: /* BPF_RSH; compute_value knows no other */
		return b < 32 ? a >> b : 0;
	}
}

static struct value compute_value(const struct sock_filter *at, const struct state *state)
{
	uint16_t operation = BPF_OP(at->code);
	struct value b = make_known(at->k);

	if (BPF_SRC(at->code) == BPF_X)
		b = state->x;
	if (operation == BPF_MUL || operation == BPF_DIV || operation == BPF_NEG ||
	    operation == BPF_MOD || !state->a.known || !b.known)
		return (struct value){0};
	return make_known(compute(operation, state->a.number, b.number));
}

static bool is_jump_taken(uint16_t operation, uint32_t a, uint32_t b)
{
	switch (operation) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	default: /* BPF_JSET */
		return (a & b) != 0;
	}
}

/* What a load, a computation or a move between registers leaves in the state. */
static void change_registers(const struct sock_filter *at, uint32_t call, struct state *state)
{
	struct value loaded = {0};

	if (BPF_MODE(at->code) == BPF_IMM)
		loaded = make_known(at->k);
	else if (BPF_MODE(at->code) == BPF_ABS)
		loaded = load_field(at->k, call);
	else if (BPF_MODE(at->code) == BPF_LEN)
		loaded = make_known(sizeof(struct seccomp_data));
	switch (BPF_CLASS(at->code)) {
	case BPF_LD:
		state->a = loaded;
		break;
	case BPF_LDX:
		state->x = loaded;
		break;
	case BPF_ALU:
		state->a = compute_value(at, state);
		break;
	case BPF_MISC:
		if (BPF_MISCOP(at->code) == BPF_TAX)
			state->x = state->a;
		else
			state->a = state->x;
		break;
	}
}

static bool is_lethal_result(struct value result)
{
	if (!result.known)
		return true;
	switch (result.number & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
	case SECCOMP_RET_TRACE:
	case SECCOMP_RET_ERRNO:
		return false;
	}
	return true;
}

/* The instructions that may come after the jump at `i`. */
static void follow_jump(const struct sock_filter *at, uint32_t i, uint32_t n, struct state *states)
{
	struct value b = make_known(at->k);
	const struct state *state = &states[i];
	bool both, taken;

	if (BPF_SRC(at->code) == BPF_X)
		b = state->x;
	if (BPF_OP(at->code) == BPF_JA) {
		if (at->k < n - i - 1)
			join_states(&states[i + 1 + at->k], state);
		return;
	}
	both = !state->a.known || !b.known;
	taken = is_jump_taken(BPF_OP(at->code), state->a.number, b.number);
	if ((both || taken) && i + 1 + at->jt < n)
		join_states(&states[i + 1 + at->jt], state);
	if ((both || !taken) && i + 1 + at->jf < n)
		join_states(&states[i + 1 + at->jf], state);
}

static bool is_lethal_for(const struct sock_filter *filter, uint32_t n, uint32_t call,
			  struct state *states)
{
	memset(states, 0, n * sizeof(*states));
	states[0].reached = true;
	for (uint32_t i = 0; i < n; i++) {
		const struct sock_filter *at = &filter[i];
		struct state next = states[i];

		if (!next.reached)
			continue;
		if (BPF_CLASS(at->code) == BPF_RET) {
			if (is_lethal_result(BPF_RVAL(at->code) == BPF_A ? next.a
									 : make_known(at->k)))
				return true;
		} else if (BPF_CLASS(at->code) == BPF_JMP) {
			follow_jump(at, i, n, states);
		} else if (i + 1 < n) {
			change_registers(at, call, &next);
			join_states(&states[i + 1], &next);
		}
	}
	return false;
}

static bool is_range_readable(const void *from, size_t bytes)
{
	uintptr_t at = (uintptr_t)from, end = at + bytes, known = 0;

	for (; at < end; at = ((at >> WS_PAGE_BITS) + 1) << WS_PAGE_BITS)
		if (!ws_is_readable(at, &known))
			return false;
	return true;
}

static bool is_lethal_for_any(const struct sock_fprog *program, const uint16_t *calls, size_t count)
{
	size_t bytes = MOST_INSTRUCTIONS * sizeof(struct state);
	bool lethal = false;
	uint32_t n;
	long p;

	if (!is_range_readable(program, sizeof(*program)))
		return false;
	n = ws_min((uint32_t)program->len, MOST_INSTRUCTIONS);
	if (!n || !is_range_readable(program->filter, n * sizeof(*program->filter)))
		return false;
	p = ws_raw_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p < 0 && p > -4096)
		return true; /* nothing is known */
	for (size_t i = 0; i < count && !lethal; i++)
		lethal = is_lethal_for(program->filter, n, calls[i], (struct state *)p);
	ws_raw_syscall(SYS_munmap, p, (long)bytes, 0, 0, 0, 0);
	return lethal;
}

bool ws_is_lethal_filter(const struct sock_fprog *program)
{
	return is_lethal_for_any(program, hook_calls, sizeof(hook_calls) / sizeof(*hook_calls));
}

bool ws_forbids_memory(const struct sock_fprog *program)
{
	static const uint16_t calls[] = {SYS_mmap, SYS_madvise};

	return is_lethal_for_any(program, calls, 2);
}

bool ws_forbids_signal_handlers(const struct sock_fprog *program)
{
	static const uint16_t call = SYS_rt_sigreturn;

	return is_lethal_for_any(program, &call, 1);
}
