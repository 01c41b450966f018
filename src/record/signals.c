/* signals.c - see signals.h. */
#include "record/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "control/flight.h"

static const int handled[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,  SIGUSR1,
			      SIGUSR2, SIGALRM, SIGCHLD, SIGPIPE, SIGXFSZ};
static struct sigaction before[WS_COUNT(handled)];
static bool installed;
static _Atomic uint64_t pending; /* bits 1 << signal */
static _Atomic int interrupts;
static _Atomic bool snapshot, awaits_snapshot;

static void handle_signal(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (sig == SIGCHLD)
		return; /* it only has to interrupt the wait */
	if (info->si_code > 0 && (sig == SIGINT || sig == SIGQUIT)) {
		atomic_fetch_add(&interrupts, 1); /* from the terminal: the target has it too */
		return;
	}
	if (sig != SIGUSR1 && sig != SIGUSR2 && sig != SIGALRM)
		atomic_fetch_add(&interrupts, 1);
	atomic_fetch_or(&pending, UINT64_C(1) << sig);
}

void ws_signals_install(void)
{
	for (size_t i = 0; i < WS_COUNT(handled); i++) {
		struct sigaction sa = {.sa_flags = SA_SIGINFO};

		sigemptyset(&sa.sa_mask);
		sa.sa_sigaction = handle_signal;
		if (handled[i] == SIGPIPE || handled[i] == SIGXFSZ) {
			sa.sa_flags = 0;
			sa.sa_handler = SIG_IGN;
		}
		sigaction(handled[i], &sa, &before[i]);
		/* Ignored on purpose (nohup): keep ignoring, the target will too. */
		if (before[i].sa_handler == SIG_IGN && handled[i] != SIGCHLD)
			sigaction(handled[i], &before[i], NULL);
	}
	installed = true;
}

void ws_signals_restore(void)
{
	if (!installed)
		return;
	for (size_t i = 0; i < WS_COUNT(handled); i++)
		sigaction(handled[i], &before[i], NULL);
	if (awaits_snapshot)
		signal(WS_SNAPSHOT_SIGNO, SIG_DFL);
}

static void note_snapshot(int sig)
{
	(void)sig;
	atomic_store(&snapshot, true);
}

void ws_signals_await_snapshot(void)
{
	struct sigaction action = {.sa_handler = note_snapshot};

	sigemptyset(&action.sa_mask);
	sigaction(WS_SNAPSHOT_SIGNO, &action, NULL);
	atomic_store(&awaits_snapshot, true);
}

bool ws_signals_take_snapshot(void)
{
	return atomic_exchange(&snapshot, false);
}

int ws_signals_pending(void)
{
	uint64_t all = atomic_load(&pending);
	int sig = all ? __builtin_ctzll(all) : 0;

	if (sig)
		atomic_fetch_and(&pending, ~(UINT64_C(1) << sig));
	return sig;
}

int ws_signals_interrupts(void)
{
	return atomic_load(&interrupts);
}
