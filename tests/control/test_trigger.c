/*
 * test_trigger.c - --trigger: what each way of writing one means, what is refused and how, and
 * that no text of any bytes does harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "control/trigger.h"
#include "../random.h"

static void check_good(void **state)
{
	static const struct {
		const char *text;
		enum ws_flight_trigger_kind kind;
		const char *name;
		uint64_t ns;
		double factor;
		const char *label;
	} good[] = {
		{"range step > 500ms", WS_TRIGGER_ON_RANGE, "step", 500000000, 0, "range-step"},
		{" range  a b>c  >1.5x ", WS_TRIGGER_ON_RANGE, "a b>c", 0, 1.5, "range-a-b-c"},
		{"Range \xc3\xa4/../x > 1us", WS_TRIGGER_ON_RANGE, "\xc3\xa4/../x", 1000, 0,
		 "range-x"},
		{"range step > 2X", WS_TRIGGER_ON_RANGE, "step", 0, 2, "range-step"},
		{"step > 1.5x", WS_TRIGGER_ON_STEP, NULL, 0, 1.5, "step"},
		{"step>2m", WS_TRIGGER_ON_STEP, NULL, UINT64_C(120000000000), 0, "step"},
		{"mark out of memory", WS_TRIGGER_ON_MARK, "out of memory", 0, 0,
		 "mark-out-of-memory"},
		{"mark a > b", WS_TRIGGER_ON_MARK, "a > b", 0, 0, "mark-a-b"},
		{"gpu idle > 100ms", WS_TRIGGER_ON_GPU_IDLE, NULL, 100000000, 0, "gpu-idle"},
		{"GPU\tidle >1s", WS_TRIGGER_ON_GPU_IDLE, NULL, 1000000000, 0, "gpu-idle"},
		{"xid", WS_TRIGGER_ON_XID, NULL, 0, 0, "xid"},
	};
	struct ws_flight_triggers list = {0};
	struct ws_err err;

	(void)state;
	for (size_t i = 0; i < WS_COUNT(good); i++) {
		const struct ws_flight_trigger *trigger;

		if (ws_trigger_read(good[i].text, &list, &err))
			fail_msg("%s", err.msg);
		trigger = &list.triggers[i];
		assert_int_equal(trigger->kind, good[i].kind);
		if (good[i].name)
			assert_string_equal(trigger->name, good[i].name);
		else
			assert_null(trigger->name);
		assert_int_equal(trigger->ns, good[i].ns);
		assert_true(trigger->factor == good[i].factor);
		assert_string_equal(trigger->label, good[i].label);
		assert_string_equal(trigger->text, good[i].text);
	}
	ws_trigger_free(&list);
}

static void check_bad(void **state)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{"", "is none of"},
		{"range", "is none of"},
		{"range a", "is none of"},
		{"range > 5ms", "is none of"},
		{"ranges a > 5ms", "is none of"},
		{"step", "is none of"},
		{"step 3 > 5ms", "is none of"},
		{"step 1.5x", "is none of"},
		{"mark", "is none of"},
		{"gpuidle > 1s", "is none of"},
		{"gpu idle", "is none of"},
		{"xid > 1s", "is none of"},
		{"xid 79", "is none of"},
		{"range a >", "a time (500ms) or a factor"},
		{"range a > 5", "a time (500ms) or a factor"},
		{"range a > 0ms", "a time (500ms) or a factor"},
		{"range a > -5ms", "a time (500ms) or a factor"},
		{"range a > 5ms ago", "a time (500ms) or a factor"},
		{"step > nanx", "a time (500ms) or a factor"},
		{"step > 1.5.5x", "a time (500ms) or a factor"},
		{"step > 1x", "from 1.05x to 1000x"},
		{"step > 5000x", "from 1.05x to 1000x"},
		{"gpu idle > 2x", "a time, such as 100ms"},
	};
	struct ws_flight_triggers list = {0};

	(void)state;
	for (size_t i = 0; i < WS_COUNT(bad); i++) {
		struct ws_err err = {""};
		char expected[100];

		if (!ws_trigger_read(bad[i].text, &list, &err))
			fail_msg("'%s' was accepted", bad[i].text);
		snprintf(expected, sizeof(expected), "--trigger: '%s'", bad[i].text);
		assert_ptr_equal(strstr(err.msg, expected), err.msg);
		if (!strstr(err.msg, bad[i].why))
			fail_msg("%s", err.msg);
	}
	assert_int_equal(list.count, 0);
}

static void check_random(void **state)
{
	static const char *const pieces[] = {"range",	 " ",	">",	"step", "mark",
					     "gpu idle", "xid", "5ms",	"1.5x", "a",
					     "\t",	 "x",	"\xff", "9",	"e9",
					     ".",	 "-",	"ns",	"inf",	"%s"};
	uint64_t random = RANDOM_SEED;
	uint32_t accepted = 0;

	(void)state;
	for (int round = 0; round < 100000; round++) {
		struct ws_flight_triggers list = {0};
		struct ws_err err = {""};
		char text[100] = "";

		for (uint64_t n = random_star(&random) % 8; n; n--)
			strcat(text, pieces[random_star(&random) % WS_COUNT(pieces)]);
		if (ws_trigger_read(text, &list, &err)) {
			assert_true(*err.msg && !list.count);
		} else {
			assert_true(list.count == 1 && *list.triggers[0].label);
			assert_null(strchr(list.triggers[0].label, '/'));
			accepted++;
		}
		ws_trigger_free(&list);
	}
	assert_true(accepted > 100);
}

static void check_many(void **state)
{
	struct ws_flight_triggers list = {0};
	struct ws_err err;

	(void)state;
	for (int i = 0; i < WS_TRIGGERS_MOST; i++)
		assert_int_equal(ws_trigger_read("xid", &list, &err), 0);
	assert_int_equal(ws_trigger_read("xid", &list, &err), -1);
	ws_trigger_free(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_good),
		cmocka_unit_test(check_bad),
		cmocka_unit_test(check_random),
		cmocka_unit_test(check_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
