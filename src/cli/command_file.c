/* command_file.c - options from a file (--command-file). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "cli/record_options.h"
#include "cli/text.h"

/* Splits text into words as a shell does: blanks, quotes, backslashes, comments. Nothing is
 * expanded. */
static int split_words(const char *text, const char *file, struct ws_list *out, struct ws_err *err)
{
	const char *at = text;

	for (;;) {
		struct ws_text word = {0};
		char quote = 0;

		at += strspn(at, " \t\r\n");
		if (*at == '#') {
			at += strcspn(at, "\n");
			continue;
		}
		if (!*at)
			return 0;
		ws_text_add(&word, "", 0);
		for (; *at && (quote || !isspace((unsigned char)*at)); at++) {
			if (quote && *at == quote)
				quote = 0;
			else if (!quote && (*at == '"' || *at == '\''))
				quote = *at;
			else if (*at == '\\' && quote != '\'' && at[1] == '\n')
				at++;
			else if (*at == '\\' && quote != '\'' && at[1])
				ws_text_add(&word, ++at, 1);
			else
				ws_text_add(&word, at, 1);
		}
		if (quote) {
			ws_text_free(&word);
			return ws_fail(err, "%s: a quotation mark is not closed", file);
		}
		ws_grow(out->values, out->cap, out->count + 1);
		out->values[out->count++] = word.text;
	}
}

static int read_command_file(const char *file, struct ws_list *words, struct ws_err *err)
{
	FILE *stream = fopen(file, "re");
	struct ws_text text = {0};
	char buf[4096];
	size_t size;
	int rc;

	if (!stream)
		return ws_fail_errno(err, "--command-file: cannot read %s", file);
	while ((size = fread(buf, 1, sizeof(buf), stream)) > 0 && text.len < 1 << 20)
		ws_text_add(&text, buf, size);
	rc = 0;
	if (ferror(stream))
		rc = ws_fail_errno(err, "--command-file: cannot read %s", file);
	fclose(stream);
	if (!rc && text.text && strlen(text.text) != text.len)
		rc = ws_fail(err, "--command-file: %s is not text", file);
	if (!rc)
		rc = split_words(ws_text_or(text.text, ""), file, words, err);
	ws_text_free(&text);
	return rc;
}

int ws_apply_command_file(const struct ws_command *command, struct ws_record_options *options,
			  int argc, char **operands, char ***target, struct ws_err *err)
{
	const char *file = options->command_file;
	struct ws_list words = {0};
	/* The words before the target lie before it: the parser left them in place. */
	char **given_words = ws_main_argv + 2, **joined;
	size_t given_count = (size_t)(operands + argc - given_words);
	int first, given;

	if (read_command_file(file, &words, err))
		return -1;
	ws_opts_free(command, options);
	memset(options, 0, sizeof(*options));
	if (ws_opts_parse(command, (int)words.count, (char **)words.values, options, &first, err))
		return -1;
	if (options->command_file)
		return ws_fail(err, "--command-file: %s names another command file", file);
	/* The command line is parsed again on top, because only then is it known which of its
	 * options were given. */
	joined = ws_calloc(words.count + given_count + 1, sizeof(char *));
	memcpy(joined, words.values, (size_t)first * sizeof(char *));
	given = first;
	if (given && !strcmp(joined[given - 1], "--"))
		given--;
	memcpy(joined + given, given_words, given_count * sizeof(char *));
	ws_opts_free(command, options);
	memset(options, 0, sizeof(*options));
	if (ws_opts_parse(command, given + (int)given_count, joined, options, &given, err))
		return -1;
	*target = joined + given;
	if (!joined[given]) { /* the target is the file's; end its list */
		ws_grow(words.values, words.cap, words.count + 1);
		words.values[words.count] = NULL;
		*target = (char **)words.values + first;
	}
	return 0;
}
