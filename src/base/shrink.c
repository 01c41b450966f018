/* shrink.c - see shrink.h. */
#include "base/shrink.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/compiler.h"

/* For the signal handler: a slot is in use while `end` is not 0. */
#define GUARDS 8192
static struct {
	_Atomic(uintptr_t) begin, end;
	_Atomic int protection;
} guard[GUARDS];
static struct sigaction previous_action;
static pthread_once_t install_once = PTHREAD_ONCE_INIT;
static long page_size = 4096;

static void on_bus_error(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	int saved = errno;

	for (size_t i = 0; i < GUARDS; i++)
		if (at >= atomic_load(&guard[i].begin) && at < atomic_load(&guard[i].end)) {
			void *memory = (void *)(at & ~(uintptr_t)(page_size - 1));

			if (mmap(memory, (size_t)page_size, atomic_load(&guard[i].protection),
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory) {
				errno = saved;
				return;
			}
		}
	if ((previous_action.sa_flags & SA_SIGINFO) && previous_action.sa_sigaction)
		previous_action.sa_sigaction(sig, info, context);
	else /* the access is repeated, and fails as it would without our handler */
		sigaction(SIGBUS, &previous_action, NULL);
}

static void install_bus_handler(void)
{
	struct sigaction sa = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

	page_size = sysconf(_SC_PAGESIZE);
	sigemptyset(&sa.sa_mask);
	sigaction(SIGBUS, &sa, &previous_action);
}

void ws_guard_mapping(const void *data, size_t size, bool writable)
{
	pthread_once(&install_once, install_bus_handler);
	for (size_t i = 0; i < GUARDS; i++) {
		uintptr_t free_slot = 0;

		if (atomic_load(&guard[i].end) ||
		    !atomic_compare_exchange_strong(&guard[i].begin, &free_slot, (uintptr_t)data))
			continue;
		atomic_store(&guard[i].protection, writable ? PROT_READ | PROT_WRITE : PROT_READ);
		atomic_store(&guard[i].end, (uintptr_t)data + WS_ALIGN_UP(size, (size_t)page_size));
		return;
	}
}

void ws_unguard_mapping(const void *data)
{
	for (size_t i = 0; i < GUARDS; i++)
		if (atomic_load(&guard[i].begin) == (uintptr_t)data) {
			atomic_store(&guard[i].end, 0);
			atomic_store(&guard[i].begin, 0);
			return;
		}
}
