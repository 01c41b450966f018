/*
 * fuzz_message.c - requests of any bytes, as a session's socket may get them: what is refused must
 * be refused with a message, and what is accepted be answered without harm. No loop performs the
 * commands: they come to a mailbox that is closed.
 */
#include <string.h>

#include "control/commands.h"
#include "control/message.h"
#include "../replay.h"

static struct ws_commands commands;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	return 0;
}

static void answer(const struct ws_message *message)
{
	struct ws_text text = {0};

	if (!commands.mailbox) {
		ws_commands_init(&commands, ws_mailbox_new(), "program");
		ws_mailbox_close(commands.mailbox, "the session is over");
	}
	ws_commands_answer(&commands, message, &text);
	if (!text.len)
		abort();
	ws_text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct ws_message message;
	struct ws_err err = {""};
	size_t at = 0, members = 0;

	if (ws_message_parse(&message, (const char *)data, n, &err)) {
		if (!*err.msg)
			abort();
	} else {
		while (ws_message_next(&message, "list", &at))
			members++;
		if (members > message.count || message.count > WS_MESSAGE_MOST_MEMBERS)
			abort();
		ws_message_number(&message, "pid", 0);
		ws_message_flag(&message, "overwrite");
		for (size_t i = 0; i < message.count; i++)
			if (!message.members[i].key || !message.members[i].text)
				abort();
		answer(&message);
	}
	ws_message_free(&message);
	return 0;
}

#ifdef FUZZ_REPLAY
static const char *const pieces[] = {
	"{",
	"}",
	"[",
	"]",
	"\"",
	":",
	"\"do\":\"start\"",
	",",
	"true",
	"false",
	"null",
	"-12e3",
	"\\u0000",
	"\"list\":[\"a\",\"b\"]",
	"\\",
	" ",
	"\n",
	"0",
	"\"pid\"",
	"{}",
	"\\ud800",
	"\xff\xfe",
	"[[",
	"1e999",
	"\"\"",
	"\"do\":\"snapshot\"",
};

static size_t make_request(uint8_t *bytes, int round)
{
	size_t n = 0;

	if (round % 4 == 0)
		return replay_fill(bytes, replay_draw() % 200);
	bytes[n++] = '{';
	for (uint32_t i = 0, pieces_left = replay_draw() % 40; i < pieces_left; i++) {
		const char *piece = pieces[replay_draw() % (sizeof(pieces) / sizeof(pieces[0]))];

		memcpy(bytes + n, piece, strlen(piece));
		n += strlen(piece);
	}
	bytes[n++] = '}';
	return n;
}

int main(int argc, char **argv)
{
	return replay_test(argc, argv, 200000, make_request);
}
#endif
