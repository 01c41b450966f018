/* system_calls.c - the same system call repeated very often, other than reading and waiting. */
#include "analyze/rules/rules.h"
#include "analyze/works.h"
#include "base/map.h"

enum { MOST_TOTALS = 64, LEAST_NS = 50000000 };
#define LEAST_SHARE 0.2

/* "close" of "__close" and "__libc_close". */
static const char *strip(const char *name)
{
	static const char *const beginnings[] = {"__libc_", "__"};

	for (size_t i = 0; i < WS_COUNT(beginnings); i++)
		if (!strncmp(name, beginnings[i], strlen(beginnings[i])))
			return name + strlen(beginnings[i]);
	return name;
}

static bool is_same_call(const char *first, const char *second)
{
	return !strcmp(strip(first), strip(second));
}

static const char *choose_advice(const struct ws_usage_row *row)
{
	if (is_same_call(row->name, "close"))
		return "Close only what is open (close_range, the names in /proc/self/fd, "
		       "O_CLOEXEC where it is opened), and keep open what is needed again.";
	if (row->kind == WS_USAGE_FILE)
		return "Ask once and keep the answer: keep files open, remember what a folder or a "
		       "file's attributes were, or let the kernel tell of changes (inotify).";
	if (strstr(row->name, "getrandom") || strstr(row->name, "getentropy"))
		return "random.SystemRandom, secrets, os.urandom and /dev/urandom ask the kernel "
		       "for each number: ask for many bytes at once (secrets.token_hex), or draw "
		       "from a generator of the program's own (random.Random) where nobody "
		       "attacks.";
	if (strstr(row->name, "clock_gettime") || strstr(row->name, "gettimeofday"))
		return "If this is a wait, sleep until the time has come (clock_nanosleep); else "
		       "look at the clock less often.";
	if (row->kind == WS_USAGE_LOCK)
		return "Threads wake each other all the time: take the lock less often, or hand "
		       "over more work at once.";
	return "Keep what the call returns, or make it once for many items.";
}

/* All system calls of a function that concern files, including its reads and writes in between. */
struct call_group {
	struct ws_usage_row most;
	uint64_t path_ns, transfer_ns;
	uint64_t calls; /* different ones */
};

/* How often each file was opened, by its path as it was given; returns how often any was. */
static uint64_t count_opens(const struct ws_model *model, struct ws_map *opens)
{
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_osrt, model->from, model->to);
	const uint64_t *values;
	uint64_t all = 0;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t path = values[ws_osrt_path];

		if (!path ||
		    !strstr(ws_report_string(model->report, (uint32_t)values[ws_osrt_name], NULL),
			    "open"))
			continue;
		ws_map_set(opens, path, ws_map_get(opens, path, NULL) + 1);
		all++;
	}
	ws_cursor_close(cursor);
	return all;
}

/* ", with the same file opened 90000 times, audit.log" */
static void put_file(const struct ws_analysis *analysis, const struct ws_usage_row *row,
		     struct ws_text *text)
{
	const uint64_t least = 50;
	const double most_of_all = 0.8;
	struct ws_map opens = {0};
	const struct ws_map_slot *most = NULL;
	uint64_t all;

	if (row->kind != WS_USAGE_FILE)
		return;
	all = count_opens(analysis->model, &opens);
	for (size_t i = 0; i < opens.size; i++)
		if (opens.used[i] && (!most || opens.slots[i].value > most->value))
			most = &opens.slots[i];
	if (most && most->value >= least && (double)most->value >= most_of_all * (double)all) {
		const char *path = ws_report_string(analysis->model->report, (uint32_t)most->key,
						    NULL),
			   *slash = strrchr(path, '/');

		ws_text_printf(text, ", with the same file opened %llu times, %s",
			       (unsigned long long)most->value, slash ? slash + 1 : path);
	}
	ws_map_free(&opens);
}

/* What the C library's function around the call takes on the path, the call included: the way into
 * the kernel and back counts for it. */
static uint64_t sum_wrapper(const struct ws_analysis *analysis, const struct call_group *group)
{
	const struct ws_stacks *stacks = analysis->model->stacks;
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (row->cause == WS_CAUSE_CPU && row->place.called &&
		    row->place.function == group->most.place.function &&
		    is_same_call(ws_stacks_get_function(stacks, row->place.called)->name,
				 group->most.name))
			sum += row->ns;
	}
	return sum;
}

static void report_group(const struct ws_analysis *analysis, const struct call_group *group,
			 struct ws_findings *findings)
{
	uint64_t cost = ws_max(group->path_ns, sum_wrapper(analysis, group));
	struct ws_finding *finding = ws_findings_add_fault(
		analysis, findings, &ws_rule_system_calls, cost, cost - cost / 5);
	struct ws_text place = {0};

	ws_put_at_place(analysis, &group->most.place, &place);
	put_file(analysis, &group->most, &place);
	ws_limit_to_asked(analysis, finding, &group->most.place);
	finding->title =
		ws_format("%.0f %% of the time is spent in %s %s%s",
			  100 * ws_analysis_share(analysis, cost),
			  group->calls > 1 ? "system calls, most of all" : "the system call",
			  group->most.name, ws_text_or(place.text, ""));
	finding->advice = ws_strdup(choose_advice(&group->most));
	finding->assumption = ws_strdup("most of the calls can be left out");
	ws_finding_add_evidence(finding, "from the first sample in it to the last", NULL,
				group->most.span.start, group->most.span.end);
	ws_text_free(&place);
}

/* Calls from places that are not known have nothing in common but their names. */
static bool is_in_group(const struct call_group *group, const struct ws_usage_row *row)
{
	return group->most.place.function == row->place.function &&
	       (row->place.function || !strcmp(group->most.name, row->name));
}

/* Waits for a lock within a library's work, such as rand(): library-work says what to do. */
static bool is_locked_work(const struct ws_usage_row *row)
{
	return row->kind == WS_USAGE_LOCK && row->place.work != WS_WORK_NONE &&
	       ws_get_work_kind(row->place.work)->is_locked;
}

static void add_to_groups(const struct ws_usage_row *row, struct call_group *groups, size_t *count)
{
	size_t k = 0;

	if (is_locked_work(row))
		return;

	while (k < *count && !is_in_group(&groups[k], row))
		k++;
	if (k == MOST_TOTALS)
		return;
	if (k == *count)
		groups[(*count)++] = (struct call_group){.most = *row};
	groups[k].path_ns += row->path_ns;
	groups[k].calls++;
	if (row->kind == WS_USAGE_TRANSFER) {
		groups[k].transfer_ns += row->path_ns;
		return;
	}
	if (groups[k].most.kind == WS_USAGE_TRANSFER || row->path_ns > groups[k].most.path_ns)
		groups[k].most = *row;
}

/* Signals: what they cost the threads on the path, and the handler that runs most. */
static void check_signals(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_usage_row *handler = NULL, *longest = NULL;
	struct ws_finding *finding;
	struct ws_text place = {0};
	uint64_t cost = 0;

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->kind != WS_USAGE_SIGNAL)
			continue;
		cost += row->path_ns;
		longest = ws_or(longest, row);
		if (*row->name && row->place.users)
			handler = ws_or(handler, row);
	}
	if (cost < LEAST_NS || ws_analysis_share(analysis, cost) < LEAST_SHARE)
		return;
	longest = handler ? handler : longest;
	ws_put_at_place(analysis, &longest->place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_system_calls, cost,
					cost - cost / 5);
	ws_limit_to_users(analysis, finding, &longest->place);
	finding->title = ws_format("%.0f %% of the time goes into signals%s%s",
				   100 * ws_analysis_share(analysis, cost),
				   handler ? " and their handler" : ", most of them",
				   ws_text_or(place.text, ""));
	finding->advice = ws_strdup("Send fewer signals: a longer interval of the timer "
				    "(setitimer, timer_create), or a thread that waits for them "
				    "(timerfd, signalfd, sigwait) instead of a handler.");
	finding->assumption = ws_strdup("a fifth of the signals remain");
	ws_finding_add_evidence(finding, "from the first sample in it to the last", NULL,
				longest->span.start, longest->span.end);
	ws_text_free(&place);
}

static void check_calls(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint32_t kinds = 1u << WS_USAGE_FILE | 1u << WS_USAGE_OTHER_CALL | 1u << WS_USAGE_LOCK;
	struct ws_usage_total totals[MOST_TOTALS];
	struct call_group groups[MOST_TOTALS];
	size_t count, group_count = 0;

	check_signals(analysis, findings);
	if (ws_findings_have(findings, &ws_rule_handovers))
		return;
	if (!ws_findings_have(findings, &ws_rule_small_io))
		kinds |= 1u << WS_USAGE_TRANSFER;
	count = ws_total_usage(analysis, kinds, totals, MOST_TOTALS);
	for (size_t i = 0; i < count; i++)
		add_to_groups(&totals[i].row, groups, &group_count);
	for (size_t k = 0; k < group_count; k++)
		if (groups[k].path_ns >= LEAST_NS && groups[k].most.kind != WS_USAGE_TRANSFER &&
		    ws_analysis_share(analysis, groups[k].path_ns) >= LEAST_SHARE)
			report_group(analysis, &groups[k], findings);
}

const struct ws_rule ws_rule_system_calls = {
	.name = "system-calls",
	.title = "The same system call again and again",
	.about = "20 % of the critical path or more, and at least 50 ms, is spent on cores in "
		 "system calls that one function of the user's makes: opening and closing files, "
		 "asking for their attributes, anything but memory and threads, which have rules "
		 "of their own. Reading and writing count where they are not most of it. The same "
		 "share for signals and their handlers.",
	.find_obstacle = ws_need_samples,
	.by_samples = true,
	.query = ws_proof_waits,
	.check = check_calls,
};
