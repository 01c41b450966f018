/*
 * fuzz_rpc.c - lines of any bytes, as a client may send them: each is answered by one line of valid
 * JSON or by nothing, whatever state the server is in. No file is opened: none is below the only
 * folder that is allowed.
 */
#include <string.h>

#include "mcp/server.h"
#include "text/text.h"
#include "../replay.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	return 0;
}

static void answer(struct ws_mcp_server *server, const char *line, size_t n)
{
	struct ws_text out = {0};

	ws_mcp_answer_line(server, line, n, &out);
	if (out.len && (out.text[out.len - 1] != '\n' || memchr(out.text, '\n', out.len - 1) ||
			!ws_is_valid_json(out.text, out.len)))
		abort();
	ws_text_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char nowhere[] = "/nowhere\n", *roots[] = {nowhere};
	struct ws_mcp_server server = {.roots = roots, .root_count = 1};

	answer(&server, (const char *)data, n);
	server.version = "2025-03-26"; /* which has batches */
	answer(&server, (const char *)data, n);
	return 0;
}

#ifdef FUZZ_REPLAY
static const char *const pieces[] = {
	"{",
	"}",
	"[",
	"]",
	",",
	":",
	"\"",
	"\\",
	"\n",
	"null",
	"1e9",
	"-7",
	"\"\\u0000\"",
	"\"\\ud800\"",
	"\xff",
	"\"jsonrpc\":\"2.0\"",
	"\"id\":1",
	"\"id\":\"x\\n\"",
	"\"id\":1.5",
	"\"method\":\"tools/call\"",
	"\"method\":\"initialize\"",
	"\"method\":\"tools/list\"",
	"\"method\":\"ping\"",
	"\"params\":",
	"{\"protocolVersion\":\"2025-03-26\"}",
	"{\"name\":\"open\",\"arguments\":{\"path\":\"/etc/passwd\"}}",
	"{\"name\":\"query\",\"arguments\":{\"report\":\"r1\",\"sql\":\"SELECT 1\",\"limit\":-1}}",
	"{\"name\":\"explain\",\"arguments\":{\"rule\":\"gil\",\"rule\":7}}",
	"{\"name\":\"stats\",\"arguments\":[]}",
};

static size_t put_piece(uint8_t *bytes, size_t n)
{
	const char *piece = pieces[replay_draw() % (sizeof(pieces) / sizeof(pieces[0]))];

	memcpy(bytes + n, piece, strlen(piece));
	return n + strlen(piece);
}

/* A message whose members are drawn; now and then anything, or a few pieces in a batch. */
static size_t make_line(uint8_t *bytes, int round)
{
	size_t n = 0;

	if (round % 8 == 0)
		return replay_fill(bytes, replay_draw() % 200);
	bytes[n++] = round % 8 == 1 ? '[' : '{';
	for (uint32_t i = 0, wanted = 1 + replay_draw() % 8; i < wanted; i++) {
		if (i && replay_draw() % 8)
			bytes[n++] = ',';
		n = put_piece(bytes, n);
	}
	bytes[n++] = round % 8 == 1 ? ']' : '}';
	return n;
}

int main(int argc, char **argv)
{
	return replay_test(argc, argv, 50000, make_line);
}
#endif
