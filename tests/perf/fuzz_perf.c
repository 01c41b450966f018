/*
 * fuzz_perf.c - any bytes as perf records and as descriptions of tracepoints.
 *
 * The first byte says what it is: a record and which of the things that a sample may hold are asked
 * for, a format, or a format and a record of it.
 */
#include "perf_case.h"
#include "../replay.h"

static uint64_t bits_of(uint8_t choice)
{
	static const uint64_t bits[] = {PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_RAW,
					PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_REGS_USER,
					PERF_SAMPLE_STACK_USER};
	uint64_t type = WS_PERF_SAMPLE_BASE;

	for (size_t i = 0; i < WS_COUNT(bits); i++)
		if (choice >> i & 1)
			type |= bits[i];
	return type;
}

static void try_format(const uint8_t *data, size_t n)
{
	struct ws_trace_format *trace_format = ws_trace_parse((const char *)data, n);
	struct ws_text text = {0};

	if (trace_format)
		ws_trace_text(trace_format, data, n, &text);
	ws_text_free(&text);
	ws_trace_free(trace_format);
}

static void known_format(const uint8_t *data, size_t n)
{
	struct ws_trace_format *format = ws_trace_parse(format_text, sizeof(format_text) - 1);
	struct ws_text text = {0};
	int64_t v;

	ws_trace_text(format, data, n, &text);
	ws_trace_number(format, "pid", data, n, &v);
	ws_text_free(&text);
	ws_trace_free(format);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	uint8_t choice = n ? data[0] : 0;
	void *copy;

	if (n < 2 || n > 65535)
		return 0;
	copy = malloc(n - 1); /* aligned, and no byte longer */
	memcpy(copy, data + 1, n - 1);
	if (choice & 0x80)
		choice & 0x40 ? known_format(copy, n - 1) : try_format(copy, n - 1);
	else {
		if (n - 1 >= sizeof(struct perf_event_header))
			((struct perf_event_header *)copy)->size = (uint16_t)(n - 1);
		if (n - 1 >= 8) {
			ws_perf_time(copy, n - 1);
			look(copy, n - 1, bits_of(choice));
		}
	}
	free(copy);
	return 0;
}

#ifdef FUZZ_REPLAY
static size_t make_input(uint8_t *bytes, int round)
{
	return replay_fill(bytes, 2 + (size_t)round % 600);
}

int main(int argc, char **argv)
{
	return replay_test(argc, argv, 20000, make_input);
}
#endif
