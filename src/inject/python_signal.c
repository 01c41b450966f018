/*
 * python_signal.c - hides the sampler's signal from the program: sigaction and signal answer as if
 * it had its default action, and go on doing so when the program sets it to the default or ignores
 * it, which amounts to the same. If the program wants to handle the signal itself, it gets it: the
 * recorder is told to stop, and from then on Python frames are read from outside the process.
 */
#include <sys/syscall.h>
#include <time.h>

#include "inject/bind.h"
#include "inject/ignored.h"
#include "inject/python.h"
#include "schema/schema.h"

static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);
static sighandler_t (*real_signal)(int, sighandler_t);
static struct sigaction shown; /* what the program believes to be set */

static void bind_signal_functions(void)
{
	if (!real_sigaction)
		real_sigaction = ws_find_next_symbol("sigaction");
	if (!real_signal)
		real_signal = ws_find_next_symbol("signal");
}

bool ws_python_take_signal(void)
{
	struct sigaction ours = {.sa_sigaction = ws_python_handle_signal,
				 .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK},
			 old;

	bind_signal_functions();
	if (!real_sigaction || real_sigaction(WS_PYTHON_SIGNAL, NULL, &old) ||
	    (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN))
		return false;
	sigfillset(&ours.sa_mask);
	shown = old;
	if (real_sigaction(WS_PYTHON_SIGNAL, &ours, NULL))
		return false;
	ws_python.signals = true;
	ws_ignores_signal = shown.sa_handler == SIG_IGN;
	return true;
}

void ws_python_stop_sampling(void)
{
	struct ws_process_home *home = ws_rt->home;
	struct timespec pause = {0, 1000000};

	ws_python.signals = false;
	ws_ignores_signal = false;
	if (!ws_rt->arena || !home)
		return;
	atomic_store(&home->python_refused, 1);
	ws_rt_write_diagnostic(
		WS_INFO, "python",
		"The program handles SIGURG itself, by which Python frames are recorded "
		"at the moment of a sample: from "
		"then on they are read from "
		"outside, as samples of their own (python_sample).");
	for (int i = 0;
	     i < 300 && atomic_load(&home->python_events) && !atomic_load(&ws_rt->arena->closed);
	     i++)
		ws_raw_syscall(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

WS_EXPORT int sigaction(int sig, const struct sigaction *restrict act,
			struct sigaction *restrict old);
int sigaction(int sig, const struct sigaction *restrict act, struct sigaction *restrict old)
{
	struct sigaction before;

	bind_signal_functions();
	if (ws_likely(sig != WS_PYTHON_SIGNAL || !ws_python.signals))
		return real_sigaction(sig, act, old);
	before = shown;
	if (act && act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN) {
		ws_python_stop_sampling();
		if (real_sigaction(sig, act, NULL))
			return -1;
	} else if (act) {
		shown = *act;
		ws_ignores_signal = shown.sa_handler == SIG_IGN;
	}
	if (old)
		*old = before;
	return 0;
}

WS_EXPORT sighandler_t signal(int sig, sighandler_t handler);
sighandler_t signal(int sig, sighandler_t handler)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

	bind_signal_functions();
	if (ws_likely(sig != WS_PYTHON_SIGNAL || !ws_python.signals) || handler == SIG_ERR)
		return real_signal(sig, handler);
	return sigaction(sig, &act, &old) ? SIG_ERR : old.sa_handler;
}
