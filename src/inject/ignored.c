/*
 * ignored.c - see ignored.h. A child of vfork shares its parent's memory, but has actions of its
 * own: the child writes `handling`, too, but always the value that it already has. When several
 * threads start programs at once, one may restore the handler before the other's child exists. That
 * child then finds the signal at its default action, which also ignores it.
 */
#include "inject/ignored.h"

#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "inject/rt.h"

_Atomic bool ws_ignores_signal;

/* As the kernel has it. */
struct kernel_action {
	uintptr_t handler;
	unsigned long flags;
	uintptr_t restorer;
	uint64_t mask;
};

static struct kernel_action handling; /* the sampler's action, once it has been replaced */

static void exchange_action(const struct kernel_action *next, struct kernel_action *old)
{
	ws_raw_syscall(SYS_rt_sigaction, SIGURG, (long)next, (long)old, sizeof(uint64_t), 0, 0);
}

static bool is_handler(const struct kernel_action *action)
{
	return action->handler != (uintptr_t)SIG_DFL && action->handler != (uintptr_t)SIG_IGN;
}

void ws_ignore_signal_for_exec(void)
{
	const struct kernel_action ignoring = {.handler = (uintptr_t)SIG_IGN};
	struct kernel_action old = {0};

	if (!ws_ignores_signal || ws_rt_is_sandboxed())
		return;
	exchange_action(&ignoring, &old);
	if (is_handler(&old))
		handling = old;
}

void ws_handle_signal_again(void)
{
	if (ws_ignores_signal && is_handler(&handling) && !ws_rt_is_sandboxed())
		exchange_action(&handling, NULL);
}
