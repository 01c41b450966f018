/*
 * test_machine.c - what begins and ends collections: sequences of events with the actions that they
 * must lead to, and random sequences against what must hold in every one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "control/machine.h"
#include "../random.h"

/* ---- sequences ---- */

/*
 * Events and actions in short, as they follow each other. Events: L launch, t time, ( range begins,
 * ) range ends, s start, x stop, c cancel, n snapshot, N snapshot by a trigger, q shutdown, e
 * target ends, d target dies; each is followed by its time. Actions: A arm, D disarm, B begin, E
 * end, F finish, X discard, S snapshot, K kill, Q shutdown; ! refused.
 */
static const struct sequence {
	const char *what;
	struct ws_plan plan;
	const char *events, *actions;
} sequences[] = {
	{"all of a run", {0}, "L0 t5 e9", "B0 | | E9F9"},
	{"a delay", {.delay = 5}, "L1 t2 t6 t7 e9", "| | B6 | | E9F9"},
	{"a target that ends before its delay", {.delay = 5}, "L1 t2 e3", "| |"},
	{"a duration", {.duration = 5, .kill = true}, "L1 t2 t6 t9 e10", "B1 | | E6F6K6 | |"},
	{"a duration without a signal", {.duration = 5}, "L1 t7 e8", "B1 | E7F7 |"},
	{"delay and duration", {.delay = 2, .duration = 3}, "L1 t3 t5 t6 e7", "| B3 | | E6F6 |"},
	{"stop",
	 {.capture = WS_CAPTURE_CUDA, .range_end = WS_RANGE_END_STOP},
	 "L0 (3 )5 (6 )7 e9",
	 "A0 | B3 | E5F5D5 | | |"},
	{"stop and shut down",
	 {.capture = WS_CAPTURE_CUDA, .range_end = WS_RANGE_END_STOP_SHUTDOWN, .kill = true},
	 "L0 (3 )5 (6 e9",
	 "A0 | B3 | E5F5D5K5Q5 | |"},
	{"an end that does nothing",
	 {.capture = WS_CAPTURE_NVTX},
	 "L0 (3 )5 (6 )7 e9",
	 "A0 | B3 | | | | E9F9D9"},
	{"repeat without end",
	 {.capture = WS_CAPTURE_NVTX, .range_end = WS_RANGE_END_REPEAT},
	 "L0 (1 )2 (3 )4 (5 e6",
	 "A0 | B1 | E2F2A2 | B3 | E4F4A4 | B5 | E6F6D6"},
	{"repeat twice",
	 {.capture = WS_CAPTURE_NVTX, .range_end = WS_RANGE_END_REPEAT, .repeats = 2},
	 "L0 (1 )2 (3 )4 (5 )6 e7",
	 "A0 | B1 | E2F2A2 | B3 | E4F4D4 | | |"},
	{"repeat and shut down",
	 {.capture = WS_CAPTURE_NVTX,
	  .range_end = WS_RANGE_END_REPEAT_SHUTDOWN,
	  .repeats = 2,
	  .kill = true},
	 "L0 (1 )2 (3 )4 (5",
	 "A0 | B1 | E2F2A2 | B3 | E4F4D4K4Q4 |"},
	{"ranges during the delay",
	 {.capture = WS_CAPTURE_NVTX, .range_end = WS_RANGE_END_STOP, .delay = 5},
	 "L0 (1 )2 t5 (6 )7",
	 "| | | A5 | B6 | E7F7D7"},
	{"no range",
	 {.capture = WS_CAPTURE_NVTX, .range_end = WS_RANGE_END_STOP},
	 "L0 t5 e9",
	 "A0 | | D9"},
	{"the target dies in a range",
	 {.capture = WS_CAPTURE_NVTX, .range_end = WS_RANGE_END_STOP},
	 "L0 (5 e9",
	 "A0 | B5 | E9F9D9"},
	{"a range that lasts longer than the duration",
	 {.capture = WS_CAPTURE_NVTX,
	  .range_end = WS_RANGE_END_REPEAT,
	  .repeats = 2,
	  .duration = 3},
	 "L0 (1 t3 t4 )6 (7 )8",
	 "A0 | B1 | | E4F4A4 | | B7 | E8F8D8"},
	{"a session",
	 {.capture = WS_CAPTURE_USER, .interactive = true},
	 "L0 t1 s2 s3 x4 x5 s6 c7 c8 s9 e10 s11",
	 "| | B2 | ! | E4F4 | ! | B6 | E7X7 | ! | B9 | E10F10 | !"},
	{"start before launch",
	 {.capture = WS_CAPTURE_USER, .interactive = true},
	 "s1 t2 L3 x4",
	 "| | B3 | E4F4"},
	{"cancel before launch",
	 {.capture = WS_CAPTURE_USER, .interactive = true},
	 "s1 c2 L3 e4",
	 "| | |"},
	{"shutdown in a collection",
	 {.capture = WS_CAPTURE_USER, .interactive = true, .kill = true},
	 "L0 s1 q2 s3",
	 "| B1 | E2F2K2Q2 | !"},
	{"a session with ranges",
	 {.capture = WS_CAPTURE_NVTX, .range_end = WS_RANGE_END_STOP, .interactive = true},
	 "L0 (1 )2 s3 (4 )5 s6 c7 (8",
	 "A0 | B1 | E2F2D2 | A3 | B4 | E5F5D5 | A6 | D7 |"},
	{"a flight recorder",
	 {.flight = {.on = true, .keep = 10}},
	 "n0 L0 n3 n4 x5 c6 s7 N8 N9 n10 N17 N18 e20",
	 "! | B0 | S3 | S4 | ! | ! | ! | S8 | | S10 | | S18 | E20F20"},
	{"a flight recorder whose program dies",
	 {.flight = {.on = true, .keep = 10}},
	 "L0 N3 d4 n5",
	 "B0 | S3 | S4E4F4 | !"},
	{"a flight recorder that is shut down",
	 {.flight = {.on = true, .keep = 10}, .kill = true},
	 "L0 q4 d5",
	 "B0 | E4F4K4Q4 |"},
	{"a snapshot where there is no flight recorder", {0}, "L0 n3 N4 d5", "B0 | ! | ! | E5F5"},
	{"stop in profile, and again",
	 {.duration = 9},
	 "L0 x3 s4 t13 s14",
	 "B0 | E3F3 | B4 | E13F13 | !"},
};

static struct ws_control_event read_event(const char **at)
{
	static const char letters[] = "Lt()sxcqenNd";
	static const enum ws_event_kind kinds[] = {
		WS_CONTROL_LAUNCH,    WS_CONTROL_TIME,	   WS_CONTROL_RANGE_BEGIN,
		WS_CONTROL_RANGE_END, WS_CONTROL_START,	   WS_CONTROL_STOP,
		WS_CONTROL_CANCEL,    WS_CONTROL_SHUTDOWN, WS_CONTROL_TARGET_ENDED,
		WS_CONTROL_SNAPSHOT,  WS_CONTROL_SNAPSHOT, WS_CONTROL_TARGET_ENDED,
	};
	struct ws_control_event event = {.kind = kinds[strchr(letters, **at) - letters],
					 .cause = **at == 'N' ? WS_SNAPSHOT_TRIGGER : 0,
					 .failed = **at == 'd'};

	for (++*at; **at >= '0' && **at <= '9'; ++*at)
		event.time = event.time * 10 + (uint64_t)(**at - '0');
	*at += **at == ' ';
	return event;
}

static void write_answer(char *text, size_t size, const struct ws_machine_answer *answer)
{
	size_t n = strlen(text);

	if (answer->refused)
		n += (size_t)snprintf(text + n, size - n, "!");
	for (unsigned i = 0; i < answer->count; i++)
		n += (size_t)snprintf(text + n, size - n, "%c%d",
				      "ADBEFXSKQ"[answer->actions[i].kind],
				      (int)answer -> actions[i].time);
}

/* Without blanks: those are for the reader. */
static void squeeze(const char *from, char *to)
{
	for (; *from; from++)
		if (*from != ' ')
			*to++ = *from;
	*to = 0;
}

static void check_sequences(void **state)
{
	(void)state;
	for (size_t i = 0; i < WS_COUNT(sequences); i++) {
		const struct sequence *sequence = &sequences[i];
		char got[512] = "", expected[512];
		struct ws_machine machine;

		ws_machine_init(&machine, &sequence->plan);
		for (const char *at = sequence->events; *at;) {
			struct ws_machine_answer answer =
				ws_machine_post(&machine, read_event(&at));

			write_answer(got, sizeof(got), &answer);
			if (*at)
				strcat(got, "|");
		}
		squeeze(sequence->actions, expected);
		if (strcmp(got, expected))
			fail_msg("%s: %s and not %s", sequence->what, got, expected);
	}
}

/* ---- what always holds ---- */

struct watch {
	bool collecting, ended, armed, shut; /* ended: FINISH or DISCARD must follow */
	uint64_t began, last;
	unsigned kills, snapshots;
};

static void watch_action(struct watch *watch, const struct ws_action *action)
{
	assert_false(watch->shut);
	switch (action->kind) {
	case WS_ACTION_ARM:
		assert_false(watch->collecting || watch->ended);
		watch->armed = true;
		break;
	case WS_ACTION_DISARM:
		assert_true(watch->armed);
		watch->armed = false;
		break;
	case WS_ACTION_BEGIN:
		assert_false(watch->collecting || watch->ended);
		watch->collecting = true;
		watch->began = action->time;
		break;
	case WS_ACTION_END:
		assert_true(watch->collecting && action->time >= watch->began);
		watch->collecting = false;
		watch->ended = true;
		break;
	case WS_ACTION_FINISH:
	case WS_ACTION_DISCARD:
		assert_true(watch->ended);
		watch->ended = false;
		break;
	case WS_ACTION_SNAPSHOT:
		assert_true(watch->collecting);
		watch->snapshots++;
		break;
	case WS_ACTION_KILL:
		assert_false(watch->collecting || watch->ended);
		watch->kills++;
		break;
	default:
		assert_false(watch->collecting || watch->ended || watch->armed);
		watch->shut = true;
	}
}

static void check_state(const struct ws_machine *machine, const struct watch *watch, uint64_t now)
{
	assert_false(watch->ended);
	assert_int_equal(watch->collecting, machine->state == WS_MACHINE_COLLECTING);
	assert_int_equal(watch->armed, machine->armed);
	if (watch->armed)
		assert_true(machine->state == WS_MACHINE_ARMED ||
			    machine->state == WS_MACHINE_COLLECTING);
	if (watch->shut)
		assert_int_equal(machine->state, WS_MACHINE_OVER);
	if (!machine->plan.flight.on)
		assert_int_equal(watch->snapshots, 0);
	assert_true(machine->triggered <= WS_SNAPSHOTS_BY_TRIGGERS);
	if (!machine->plan.kill)
		assert_int_equal(watch->kills, 0);
	(void)now;
}

static void random_plan(uint64_t *random, struct ws_plan *plan)
{
	*plan = (struct ws_plan){
		.capture = (enum ws_capture)(random_star(random) % WS_CAPTURES),
		.range_end = (enum ws_range_end)(random_star(random) % WS_RANGE_ENDS),
		.repeats = (uint32_t)(random_star(random) % 3),
		.delay = random_star(random) % 3 ? 0 : random_star(random) % 9,
		.duration = random_star(random) % 3 ? 0 : 1 + random_star(random) % 9,
		.kill = random_star(random) % 2,
		.interactive = random_star(random) % 2};
	if (random_star(random) % 4 == 0)
		*plan = (struct ws_plan){.kill = plan->kill,
					 .interactive = plan->interactive,
					 .flight = {.on = true, .keep = random_star(random) % 4}};
}

static void check_random(void **state)
{
	uint64_t random = RANDOM_SEED, begun = 0, refused = 0;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct watch watch = {false};
		struct ws_machine machine;
		struct ws_plan plan, other;
		uint64_t now = 0;

		random_plan(&random, &plan);
		ws_machine_init(&machine, &plan);
		for (int step = 0; step < 30; step++) {
			struct ws_control_event event = {
				.kind = (enum ws_event_kind)(random_star(&random) %
							     (WS_CONTROL_TARGET_ENDED + 1)),
				.time = now += random_star(&random) % 4,
				.cause = (unsigned)(random_star(&random) % 6),
				.failed = random_star(&random) % 2};
			struct ws_machine_answer answer;
			enum ws_machine_state before = machine.state;

			/* Ends of sessions are as likely as they should be. */
			if (event.kind >= WS_CONTROL_SHUTDOWN && random_star(&random) % 8)
				event.kind = WS_CONTROL_TIME;
			if (event.kind == WS_CONTROL_START && random_star(&random) % 2) {
				random_plan(&random, &other);
				other.interactive = plan.interactive;
				other.kill = plan.kill;
				other.flight.on = false;
				event.plan = &other;
			}
			answer = ws_machine_post(&machine, event);
			if (answer.refused)
				assert_true(!answer.count && machine.state == before);
			refused += answer.refused != NULL;
			for (unsigned i = 0; i < answer.count; i++) {
				begun += answer.actions[i].kind == WS_ACTION_BEGIN;
				watch_action(&watch, &answer.actions[i]);
			}
			check_state(&machine, &watch, now);
			if (event.kind == WS_CONTROL_TARGET_ENDED)
				assert_int_equal(machine.state, WS_MACHINE_OVER);
			if (event.kind == WS_CONTROL_TIME)
				assert_true(ws_machine_next_time(&machine) > now);
		}
	}
	assert_true(begun > 10000 && refused > 1000);
}

/* ---- options ---- */

static void read_words(void **state)
{
	static const char *const bad_steps[] = {"",    "-",  "-3",	   "3--4",
						"4-3", "a",  "1-b",	   "1-2-3",
						" 1",  "1 ", "5000000000", "1-4294967295"};
	enum ws_capture capture;
	struct ws_plan plan;
	struct ws_err err;

	(void)state;
	for (int i = 0; i < WS_CAPTURES; i++)
		if (i != WS_CAPTURE_STEPS && i != WS_CAPTURE_USER) {
			assert_int_equal(
				ws_plan_read_capture(ws_plan_capture_name((enum ws_capture)i),
						     &capture, &err),
				0);
			assert_int_equal(capture, i);
		}
	assert_int_equal(ws_plan_read_capture("NVTX", &capture, &err), 0);
	assert_int_equal(ws_plan_read_capture("cuda", &capture, &err), -1);
	assert_non_null(strstr(err.msg, "'cuda' is none of none, cudaProfilerApi, nvtx"));
	assert_int_equal(ws_plan_read_steps("10-19", &plan, &err), 0);
	assert_int_equal(plan.capture, WS_CAPTURE_STEPS);
	assert_int_equal(plan.first_step, 10);
	assert_int_equal(plan.last_step, 19);
	assert_int_equal(ws_plan_read_steps("7", &plan, &err), 0);
	assert_int_equal(plan.last_step, 7);
	assert_int_equal(ws_plan_read_steps("0-", &plan, &err), 0);
	assert_int_equal(plan.last_step, UINT32_MAX);
	for (size_t i = 0; i < WS_COUNT(bad_steps); i++)
		assert_int_equal(ws_plan_read_steps(bad_steps[i], &plan, &err), -1);
	assert_int_equal(ws_plan_read_range_end("repeat", &plan, &err), 0);
	assert_int_equal(plan.repeats, 0);
	assert_int_equal(ws_plan_read_range_end("repeat:3", &plan, &err), 0);
	assert_int_equal(plan.repeats, 3);
	assert_int_equal(plan.range_end, WS_RANGE_END_REPEAT);
	assert_int_equal(ws_plan_read_range_end("repeat-shutdown:12", &plan, &err), 0);
	assert_int_equal(plan.range_end, WS_RANGE_END_REPEAT_SHUTDOWN);
	assert_int_equal(ws_plan_read_range_end("stop-shutdown", &plan, &err), 0);
	assert_int_equal(plan.range_end, WS_RANGE_END_STOP_SHUTDOWN);
	for (size_t i = 0; i < 9; i++)
		assert_int_equal(ws_plan_read_range_end(
					 (const char *[]){"", "repeat:", "repeat:0", "repeat:-1",
							  "repeat:3x", "repeat-shutdown", "stop:2",
							  "end", "repeat:4294967296"}[i],
					 &plan, &err),
				 -1);
}

static void read_flight(void **state)
{
	static const struct {
		const char *text;
		uint64_t keep, bytes;
	} good[] = {{"30s", 30, 256},	  {"5m", 300, 256},	    {"2min,64M", 120, 64},
		    {"1.5s,1G", 1, 1024}, {"24h,16MiB", 86400, 16}, {"1000ms,512mb", 1, 512}};
	static const char *const bad[] = {"",	       "30",	"s",	 "30s,",   "30s,256",
					  "0.5s",      "25h",	"-1s",	 "30s,8M", "30s256M",
					  "1s,2000G",  "1e3s",	"0x10s", "30 s",   "nan s",
					  "30s,256M,", "1..2s", "infs",	 "30sec"};
	struct ws_flight_plan plan;
	struct ws_err err;

	(void)state;
	for (size_t i = 0; i < WS_COUNT(good); i++) {
		assert_int_equal(ws_flight_read(good[i].text, &plan, &err), 0);
		assert_true(plan.on);
		assert_int_equal(plan.keep / 1000000000, good[i].keep);
		assert_int_equal(plan.bytes >> 20, good[i].bytes);
	}
	for (size_t i = 0; i < WS_COUNT(bad); i++) {
		if (!ws_flight_read(bad[i], &plan, &err))
			fail_msg("'%s' was accepted", bad[i]);
		assert_non_null(strstr(err.msg, "--flight-recorder"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_sequences),
		cmocka_unit_test(check_random),
		cmocka_unit_test(read_words),
		cmocka_unit_test(read_flight),
	};

	return cmocka_run_group_tests_name("control-machine", tests, NULL, NULL);
}
