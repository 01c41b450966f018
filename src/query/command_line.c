/* command_line.c - see command_line.h. */
#include "query/command_line.h"

#include <string.h>

/* Characters that have no special meaning to a shell. */
static const char plain[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";

void ws_put_shell_word(struct ws_text *text, const char *word)
{
	if (*word && !word[strspn(word, plain)]) {
		ws_text_puts(text, word);
		return;
	}
	ws_text_puts(text, "'");
	for (; *word; word++)
		if (*word == '\'')
			ws_text_puts(text, "'\\''");
		else
			ws_text_add(text, word, 1);
	ws_text_puts(text, "'");
}

const char *ws_find_program_line(const struct ws_report *report)
{
	const char *line = ws_find_meta(report, "target.command_line"), *word = line;

	while (word && *word) {
		word += strspn(word, plain);
		if (*word && *word != ' ')
			return "PROGRAM";
		word += *word == ' ';
	}
	return line ? line : "PROGRAM";
}
