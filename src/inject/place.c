/*
 * place.c - see place.h. Allocating would be simple, but wrong below malloc. A place is used only
 * briefly, so a few suffice; a thread that finds none starts directly and is registered at its
 * first record.
 */
#include "inject/place.h"

#include <stddef.h>

#define PLACES 1024u

static struct ws_place_to_run places[PLACES];

struct ws_place_to_run *ws_take_start_place(void *(*run)(void *), void *arg)
{
	static _Atomic uint32_t hint;
	uint32_t from = atomic_fetch_add_explicit(&hint, 1, memory_order_relaxed);

	for (uint32_t i = 0; i < PLACES; i++) {
		struct ws_place_to_run *place_to_run = &places[(from + i) % PLACES];
		uint32_t no = 0;

		if (!atomic_load_explicit(&place_to_run->taken, memory_order_relaxed) &&
		    atomic_compare_exchange_strong_explicit(&place_to_run->taken, &no, 1,
							    memory_order_acquire,
							    memory_order_relaxed)) {
			place_to_run->run = run;
			place_to_run->arg = arg;
			return place_to_run;
		}
	}
	return NULL;
}

void ws_give_start_place(struct ws_place_to_run *run)
{
	atomic_store_explicit(&run->taken, 0, memory_order_release);
}
