/* senders.c - see senders.h. */
#include "analyze/senders.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "base/search.h"

enum {
	LONGEST_SEND_NS = 1000000, /* one that takes longer waits for its peer */
	MOST_SENDS = 64,	   /* that are looked at for one wait */
};

struct send {
	uint64_t start, end;
	uint32_t thread;
};

struct sends {
	struct send *send;
	size_t count, cap;
};

/* What one worker of the scan found. */
struct reading {
	const struct ws_report *report;
	struct ws_map names; /* string: 2 when such calls send, 1 when not */
	struct sends sends;
};

static bool is_one_of(const char *name, const char *const *known, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(name, known[i]))
			return true;
	return false;
}

static bool is_sending_call(const char *name)
{
	static const char *const known[] = {
		"send",	    "sendto",	  "sendmsg",  "sendmmsg", "write",   "writev",
		"sendfile", "sendfile64", "shutdown", "close",	  "connect", "splice",
	};

	return is_one_of(name, known, WS_COUNT(known));
}

static bool is_receiving_call(const char *name)
{
	static const char *const known[] = {
		"recv", "recvfrom", "recvmsg", "recvmmsg", "accept", "accept4",
	};

	while (*name == '_')
		name++;
	return is_one_of(name, known, WS_COUNT(known));
}

static bool sends(struct reading *reading, uint32_t name)
{
	uint64_t known = ws_map_get(&reading->names, name, NULL);

	if (!known) {
		known = 1 + is_sending_call(ws_report_string(reading->report, name, NULL));
		ws_map_set(&reading->names, name, known);
	}
	return known == 2;
}

static int read_sends(void *context, const struct ws_batch *batch)
{
	struct reading *reading = (struct reading *)context + batch->worker;

	for (size_t i = 0; i < batch->rows; i++) {
		struct send send = {.start = batch->col[ws_osrt_start][i],
				    .end = batch->col[ws_osrt_end][i],
				    .thread = (uint32_t)batch->col[ws_osrt_thread][i]};

		if (send.end < send.start || send.end - send.start > LONGEST_SEND_NS ||
		    !sends(reading, (uint32_t)batch->col[ws_osrt_name][i]))
			continue;
		ws_grow(reading->sends.send, reading->sends.cap, reading->sends.count + 1);
		reading->sends.send[reading->sends.count++] = send;
	}
	return 0;
}

static int compare_sends(const void *first, const void *second)
{
	const struct send *left = first, *right = second;

	if (left->start != right->start)
		return ws_compare(left->start, right->start);
	return ws_compare(left->thread, right->thread);
}

/* All calls that send, in order of time. Free sends.send. Blocks that cannot be read have been
 * counted with the states. */
static struct sends load_sends(const struct ws_model *model)
{
	struct ws_scan scan = {
		.table = WS_TABLE_osrt,
		.columns = WS_COLUMN_BIT(osrt, start) | WS_COLUMN_BIT(osrt, end) |
			   WS_COLUMN_BIT(osrt, thread) | WS_COLUMN_BIT(osrt, name),
		.time_max = UINT64_MAX,
	};
	uint32_t workers = ws_count_scan_workers(&scan);
	struct reading *readings = ws_calloc(workers, sizeof(*readings));
	struct sends all = {0};

	for (uint32_t i = 0; i < workers; i++)
		readings[i].report = model->report;
	ws_run_scan(model->report, &scan, read_sends, readings, NULL);
	for (uint32_t i = 0; i < workers; i++) {
		struct sends *part = &readings[i].sends;

		ws_grow(all.send, all.cap, all.count + part->count);
		if (part->count)
			memcpy(all.send + all.count, part->send, part->count * sizeof(*part->send));
		all.count += part->count;
		free(part->send);
		ws_map_free(&readings[i].names);
	}
	free(readings);
	if (all.count)
		qsort(all.send, all.count, sizeof(*all.send), compare_sends);
	return all;
}

/* ---- waits ---- */

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* Whether the state may be a wait for what another thread sends. */
static bool waits_on_socket(const struct ws_model *model, const struct ws_model_state *state)
{
	const struct ws_wait_call *call;

	if (state->doing != WS_DOING_WAIT || state->waker ||
	    (state->wait != WS_WAIT_POLL && state->wait != WS_WAIT_IO))
		return false;
	call = ws_model_get_call(model, state);
	if (!call->function)
		return false;
	if (state->wait == WS_WAIT_POLL)
		return true;
	return is_receiving_call(ws_report_string(model->report, call->function, NULL)) ||
	       starts_with(ws_report_string(model->report, call->path, NULL), "socket:");
}

static bool runs_at(const struct ws_model *model, uint32_t thread, uint64_t at)
{
	const struct ws_model_state *state = ws_model_find_state(model, thread, at);

	return state && state->end >= at && state->doing == WS_DOING_RUN;
}

/* The only thread but `waiting` that runs in a call that sends at `at`; 0 when none or several do.
 */
static uint32_t find_sender(const struct ws_model *model, const struct sends *sends,
			    uint32_t waiting, uint64_t at)
{
	size_t i = ws_find_first_not(0, sends->count, middle, sends->send[middle].start < at);
	uint32_t found = 0;

	for (size_t tries = 0; i-- > 0 && tries < MOST_SENDS; tries++) {
		const struct send *send = &sends->send[i];

		if (send->start + LONGEST_SEND_NS < at)
			break;
		if (send->end < at || send->thread == waiting || send->thread == found ||
		    !runs_at(model, send->thread, at))
			continue;
		if (found)
			return 0;
		found = send->thread;
	}
	return found;
}

struct socket_search {
	const struct ws_model *model;
	_Atomic bool found;
};

static void search_thread(void *ctx, unsigned worker, size_t i)
{
	struct socket_search *search = ctx;
	const struct ws_model_thread *thread = &search->model->threads[i + 1];

	(void)worker;
	if (!(thread->waits & (1u << WS_WAIT_POLL | 1u << WS_WAIT_IO)))
		return;
	for (size_t k = 0; k < thread->count && !search->found; k++)
		if (waits_on_socket(search->model, &thread->states[k]))
			search->found = true;
}

static bool has_wait_on_socket(const struct ws_model *model)
{
	struct socket_search search = {.model = model};

	ws_run_parallel(ws_count_workers(), model->thread_count - 1, search_thread, &search);
	return search.found;
}

static void find_thread_senders(struct ws_model *model, const struct sends *sends, uint32_t id)
{
	for (size_t i = 0; i < model->threads[id].count; i++) {
		struct ws_model_state *state = &model->threads[id].states[i];

		if (waits_on_socket(model, state))
			state->waker = find_sender(model, sends, id, state->end);
	}
}

void ws_find_senders(struct ws_model *model)
{
	struct sends sends;

	if (!model->has_scheduling || !has_wait_on_socket(model))
		return;
	sends = load_sends(model);
	if (sends.count)
		for (uint32_t id = 1; id < model->thread_count; id++)
			find_thread_senders(model, &sends, id);
	free(sends.send);
}
