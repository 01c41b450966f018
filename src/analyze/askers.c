/* askers.c - see askers.h. */
#include "analyze/askers.h"

#include <string.h>

#include "analyze/facts.h"
#include "analyze/stack_sums.h"
#include "analyze/tasks.h"
#include "base/choose.h"
#include "base/map.h"

/* By what programs of Python ask. The outermost function below the user's that is one tells. */
static const struct {
	const char *origin, *by, *advice;
} protocols[] = {
	{"/multiprocessing/managers.py", "a proxy of multiprocessing.Manager",
	 "Each use of a Manager's object is a message to its process and an answer: gather in a "
	 "local variable and hand that over once (update, extend), return results from the work "
	 "(Pool.map), or use shared memory (Value, Array)."},
	{"/xmlrpc/client.py", "XML-RPC",
	 "Ask for many things in one call (a list of items, xmlrpc.client.MultiCall)."},
	{"/http/client.py", "HTTP",
	 "Ask for many things in one request, and keep the connection (one HTTPConnection or "
	 "session for all of them)."},
	{"/urllib/request.py", "HTTP",
	 "Ask for many things in one request, and keep the connection: urllib makes a new one each "
	 "time (http.client, requests.Session and httpx.Client keep theirs)."},
	{"/requests/", "HTTP",
	 "Ask for many things in one request, and keep the connection (one Session for all)."},
	{"/multiprocessing/queues.py", "a queue between processes",
	 "Put lists of items into the queue instead of single ones."},
	{"/multiprocessing/connection.py", "a pipe between processes",
	 "Send lists of items instead of single ones."},
	{"/socket.py", "a socket", NULL},
};

/* What runs below them asks for nothing. */
static const char *const servers[] = {"*.serve_forever",
				      "*.serve_client",
				      "*.handle_request",
				      "BaseProcess._bootstrap",
				      "BaseManager._run_server",
				      "*Handler.handle*",
				      "*.process_request*",
				      "_process_worker",
				      "worker",
				      "_find_and_load*", /* modules are imported */
				      NULL};

static const char *const transfers[] = {"sock_recv*", "sock_send*", "os_read*", "os_write*",
					"*sendto*",   "*recvfrom*", "read",	"write",
					"*_read",     "*_write",    "recv*",	"send*",
					"*poll",      NULL};

struct asking {
	struct ws_map places;	 /* key: the file */
	struct ws_map protocols; /* key: the protocol, from 1 */
};

static size_t find_protocol(const char *origin)
{
	for (size_t i = 0; i < WS_COUNT(protocols); i++)
		if (strstr(origin, protocols[i].origin))
			return i + 1;
	return 0;
}

/* Code from a text, such as managers make for each method of a proxy. */
static bool is_made(const struct ws_model *model, const struct ws_code_place *place)
{
	return !strcmp(ws_report_string(model->report, place->file, NULL), "<string>");
}

/* The innermost line of the user's Python that sends or receives. */
static uint64_t read_stack(const struct ws_model *model, const uint32_t *frames, size_t count,
			   void *context)
{
	struct asking *asking = context;
	size_t protocol = 0;
	bool transfers_data = false;

	for (size_t i = 0; i < count; i++) {
		const struct ws_function *function = ws_stacks_get_function(
			model->stacks, ws_get_frame_function(model, frames[i]));
		const char *origin = ws_stacks_get_origin(model->stacks, function);
		size_t length = strlen(function->name);
		struct ws_code_place place;

		if (function->kind != WS_FRAME_PYTHON) {
			transfers_data |= ws_is_name_among(function->name, length, transfers);
			continue;
		}
		place = ws_code_place_frames(model, &frames[i], 1);
		if (place.users && !is_made(model, &place)) {
			uint64_t key = (uint64_t)place.function << 32 | place.line;

			/* Tasks of an event loop ask side by side. */
			if ((!transfers_data && !protocol) ||
			    ws_is_task_stack(model, frames, count))
				return 0;
			ws_map_set(&asking->places, key, place.file);
			ws_map_set(&asking->protocols, key,
				   ws_max(protocol,
					  (size_t)ws_map_get(&asking->protocols, key, NULL)));
			return key;
		}
		if (ws_is_name_among(function->name, length, servers) ||
		    strstr(origin, "/asyncio/"))
			return 0;
		protocol = ws_or(find_protocol(origin), protocol);
	}
	return 0;
}

/* The line of the user's Python of a key. */
static struct ws_code_place make_place(uint64_t key, const struct ws_map *places)
{
	return (struct ws_code_place){
		.function = (uint32_t)(key >> 32),
		.leaf = (uint32_t)(key >> 32),
		.line = (uint32_t)key,
		.file = (uint32_t)ws_map_get(places, key, NULL),
		.python = true,
		.users = true,
	};
}

bool ws_find_asker(const struct ws_model *model, struct ws_asker *asker)
{
	struct asking asking = {{0}};
	struct ws_stack_sums sums;
	size_t protocol;

	*asker = (struct ws_asker){.by = NULL};
	if (!model->python)
		return false;
	ws_stack_sums_make(model, 0, read_stack, &asking, &sums);
	if (sums.count) {
		uint64_t key = sums.sums[0].key;

		protocol = (size_t)ws_map_get(&asking.protocols, key, NULL);
		asker->place = make_place(key, &asking.places);
		asker->share = (double)sums.sums[0].ns / (double)sums.ns;
		if (protocol) {
			asker->by = protocols[protocol - 1].by;
			asker->advice = protocols[protocol - 1].advice;
		}
	}
	ws_map_free(&asking.places);
	ws_map_free(&asking.protocols);
	ws_stack_sums_free(&sums);
	return asker->place.function != 0;
}

/* The innermost line of the user's Python that starts a process. */
static uint64_t read_starter(const struct ws_model *model, const uint32_t *frames, size_t count,
			     void *context)
{
	static const char *const starts[] = {"os_system*", "*fork_exec*",  "os_posix_spawn*",
					     "os_fork*",   "posix.system", "posix.fork",
					     NULL};
	bool is_start = false;

	for (size_t i = 0; i < count; i++) {
		const struct ws_function *function = ws_stacks_get_function(
			model->stacks, ws_get_frame_function(model, frames[i]));
		struct ws_code_place place;

		is_start |= ws_is_name_among(function->name, strlen(function->name), starts) ||
			    strstr(ws_stacks_get_origin(model->stacks, function), "/subprocess.py");
		if (function->kind != WS_FRAME_PYTHON)
			continue;
		place = ws_code_place_frames(model, &frames[i], 1);
		if (!place.users)
			continue;
		if (!is_start)
			return 0;
		ws_map_set(context, (uint64_t)place.function << 32 | place.line, place.file);
		return (uint64_t)place.function << 32 | place.line;
	}
	return 0;
}

struct ws_code_place ws_find_process_starter(const struct ws_model *model)
{
	struct ws_code_place found = {0};
	struct ws_map places = {0};
	struct ws_stack_sums sums;

	if (!model->python)
		return found;
	ws_stack_sums_make(model, 0, read_starter, &places, &sums);
	if (sums.count)
		found = make_place(sums.sums[0].key, &places);
	ws_map_free(&places);
	ws_stack_sums_free(&sums);
	return found;
}

struct ws_code_place ws_find_longest_wait(const struct ws_model *model, uint32_t thread)
{
	const struct ws_model_thread *facts = &model->threads[thread];
	struct ws_code_place found = {0};
	struct ws_map sums = {0};
	uint64_t most = 0;

	for (size_t i = 0; i < facts->count; i++) {
		const struct ws_model_state *state = &facts->states[i];
		uint32_t stack = ws_model_get_call(model, state)->callchain;
		uint64_t sum;

		if (state->doing != WS_DOING_WAIT || !stack || stack == WS_NO_U32)
			continue;
		sum = ws_map_get(&sums, stack, NULL) + state->end - state->start;
		ws_map_set(&sums, stack, sum);
	}
	for (size_t i = 0; i < sums.size; i++) {
		struct ws_code_place place;

		if (!sums.used || !sums.used[i] || sums.slots[i].value <= most)
			continue;
		place = ws_code_find_place(model, 0, (uint32_t)sums.slots[i].key);
		if (!place.users)
			continue;
		found = place;
		most = sums.slots[i].value;
	}
	ws_map_free(&sums);
	return found;
}

uint64_t ws_count_crossings(const struct ws_model *model, const struct ws_path *path)
{
	uint32_t last = 0;
	uint64_t count = 0;

	for (size_t i = 0; i < path->count; i++) {
		uint32_t process;

		if (!path->pieces[i].thread)
			continue;
		process = ws_find_thread(model->who, path->pieces[i].thread)->process;
		count += last && process != last;
		last = process;
	}
	return count;
}

static bool is_pipe(const struct ws_model *model, uint32_t path)
{
	const char *name = ws_report_string(model->report, path, NULL);

	return !strncmp(name, "pipe:", 5) || !strncmp(name, "socket:", 7);
}

uint64_t ws_count_calls_of(const struct ws_model *model, const char *const *names, bool piped)
{
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_osrt, model->from, model->to);
	struct ws_map known = {0}; /* string: 1 more than whether it is one of the names */
	const uint64_t *values;
	uint64_t count = 0;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t name = values[ws_osrt_name], named = ws_map_get(&known, name, NULL);

		if (!named) {
			const char *text = ws_report_string(model->report, (uint32_t)name, NULL);

			named = 1u + ws_is_name_among(text, strlen(text), names);
			ws_map_set(&known, name, named);
		}
		count += named > 1 && (!piped || is_pipe(model, (uint32_t)values[ws_osrt_path]));
	}
	ws_cursor_close(cursor);
	ws_map_free(&known);
	return count;
}
