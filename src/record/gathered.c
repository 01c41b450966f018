/* gathered.c - see gathered.h. */
#include "record/gathered.h"

#include <signal.h>
#include <stdlib.h>

#include "base/mem.h"

#define FIRST_NS UINT64_C(30000000000) /* the first one comes at once, unless it has died */
#define LATE_NS UINT64_C(5000000000)   /* launchers start the ranks of a host together */
#define UNKNOWN_NS UINT64_C(1000000000)

int ws_gathered_add(struct ws_gathered *gathered, int program, int starter, struct ws_err *err)
{
	struct ws_gathered_rank rank = {.left = false};

	if (ws_attach_look(program, &rank.program, err))
		return -1;
	if (ws_attach_look(starter, &rank.starter, err)) {
		ws_attach_close(&rank.program);
		return -1;
	}
	ws_grow(gathered->ranks, gathered->cap, gathered->count + 1);
	gathered->ranks[gathered->count++] = rank;
	gathered->quiet_since = 0;
	return 0;
}

static bool is_alive(const struct ws_gathered_rank *rank)
{
	return !ws_attach_has_ended(&rank->program) ||
	       (!rank->left && !ws_attach_has_ended(&rank->starter));
}

static bool is_any_alive(const struct ws_gathered *gathered)
{
	for (size_t i = 0; i < gathered->count; i++)
		if (is_alive(&gathered->ranks[i]))
			return true;
	return false;
}

bool ws_gathered_leave(struct ws_gathered *gathered, int starter)
{
	for (size_t i = 0; i < gathered->count; i++)
		if (gathered->ranks[i].starter.pid == starter)
			gathered->ranks[i].left = true;
	return !is_any_alive(gathered);
}

/* How long to wait for another rank. */
static uint64_t find_patience(const struct ws_gathered *gathered)
{
	if (!gathered->count)
		return FIRST_NS;
	if (!gathered->expected)
		return UNKNOWN_NS;
	if (gathered->count < gathered->expected)
		return LATE_NS;
	return 0;
}

bool ws_gathered_is_over(struct ws_gathered *gathered, uint64_t now)
{
	if (is_any_alive(gathered)) {
		gathered->quiet_since = 0;
		return false;
	}
	if (!gathered->quiet_since)
		gathered->quiet_since = now;
	return now - gathered->quiet_since >= find_patience(gathered);
}

void ws_gathered_kill(const struct ws_gathered *gathered, int sig)
{
	for (size_t i = 0; i < gathered->count; i++)
		if (!ws_attach_has_ended(&gathered->ranks[i].program))
			kill(gathered->ranks[i].program.pid, sig);
}

void ws_gathered_free(struct ws_gathered *gathered)
{
	for (size_t i = 0; i < gathered->count; i++) {
		ws_attach_close(&gathered->ranks[i].program);
		ws_attach_close(&gathered->ranks[i].starter);
	}
	free(gathered->ranks);
	*gathered = (struct ws_gathered){0};
}
