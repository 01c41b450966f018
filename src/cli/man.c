/*
 * man.c - the manual page, in roff, from the same tables as the help: `warpsight help --man`. The
 * build runs that and installs the result.
 *
 * One page holds all commands: there is one program, and one page can be searched. Only man(7)
 * macros that every formatter knows are used.
 */
#include <string.h>

#include "cli/text.h"
#include "base/choose.h"

/* Adds text escaped for roff: a backslash, a minus and a line that begins with a control character
 * must not be taken for markup. */
static void add_roff(struct ws_text *out, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		bool line_start = !out->len || out->text[out->len - 1] == '\n';

		if (line_start && (text[i] == '.' || text[i] == '\''))
			ws_text_puts(out, "\\&");
		if (text[i] == '\\')
			ws_text_puts(out, "\\e");
		else if (text[i] == '-')
			ws_text_puts(out, "\\-");
		else
			ws_text_add(out, text + i, 1);
	}
}

static void add_roff_text(struct ws_text *out, const char *text)
{
	add_roff(out, text, strlen(text));
}

/* Adds paragraphs of help text: lines that begin with a blank as they are, an empty line between
 * paragraphs. */
static void add_paragraphs(struct ws_text *out, const char *text)
{
	bool kept = false;

	while (*text) {
		size_t length = strcspn(text, "\n");
		bool keep = length && (*text == ' ' || *text == '\t');

		if (keep && !kept)
			ws_text_puts(out, ".PP\n.nf\n");
		else if (kept && !keep)
			ws_text_puts(out, ".fi\n");
		kept = keep;
		if (!length)
			ws_text_puts(out, ".PP");
		add_roff(out, text, length);
		ws_text_puts(out, "\n");
		text += length + (text[length] == '\n');
	}
	if (kept)
		ws_text_puts(out, ".fi\n");
}

static void add_option_entry(struct ws_text *out, const struct ws_opt *option)
{
	struct ws_text text = {0};

	ws_text_puts(out, ".TP\n.B ");
	ws_add_option_spelling(&text, option);
	add_roff_text(out, text.text);
	ws_text_puts(out, "\n");
	text.len = 0;
	ws_add_option_help(&text, option);
	add_paragraphs(out, text.text);
	ws_text_free(&text);
}

static void add_command_section(struct ws_text *out, const struct ws_command *command)
{
	struct ws_text later = {0};

	ws_text_puts(out, ".SS \"warpsight ");
	add_roff_text(out, command->name);
	ws_text_puts(out, " ");
	add_roff_text(out, ws_text_or(command->usage, ""));
	ws_text_puts(out, "\"\n");
	add_paragraphs(out, command->summary);
	if (command->details) {
		ws_text_puts(out, ".PP\n");
		add_paragraphs(out, command->details);
	}
	for (const struct ws_opt *option = NULL; (option = ws_next_opt(command, option));)
		if (ws_is_shown_option(option))
			add_option_entry(out, option);
	if (ws_add_unsupported_options(&later, command)) {
		ws_text_puts(out, ".PP\n");
		add_roff_text(out, ws_describe_unsupported(command));
		ws_text_puts(out, " ");
		add_roff_text(out, later.text);
		ws_text_puts(out, ".\n");
	}
	ws_text_free(&later);
	if (command->examples) {
		ws_text_puts(out, ".PP\nExamples:\n.PP\n.nf\n.RS\n");
		add_roff_text(out, command->examples);
		if (out->text[out->len - 1] != '\n')
			ws_text_puts(out, "\n");
		ws_text_puts(out, ".RE\n.fi\n");
	}
}

void ws_add_man_page(struct ws_text *out)
{
	ws_text_puts(out, ".\\\" Made by 'warpsight help --man'.\n"
			  ".TH WARPSIGHT 1 \"\" \"warpsight " WS_VERSION "\" \"User Commands\"\n"
			  ".SH NAME\nwarpsight \\- record what a program does on CPUs and GPUs, "
			  "and show where the time goes\n"
			  ".SH SYNOPSIS\n.B warpsight\n.I COMMAND\n[options] [arguments]\n"
			  ".SH DESCRIPTION\n");
	add_paragraphs(out, "warpsight starts a program, records the ranges it marks, the system "
			    "calls it waits in and the processes it "
			    "starts into one report file, and reads such files back.\n\n"
			    "Long options take their value after '=' or in the next word, short "
			    "ones after '=', in the same or in the next "
			    "word; short options without a value can be bundled. An option that "
			    "takes true or false means true when it is "
			    "given alone. '--' ends the options. Times are in seconds unless they "
			    "carry a unit (ns, us, ms, s, m, h).");
	ws_text_puts(out, ".SH COMMANDS\n");
	for (const struct ws_command *const *command = ws_commands; *command; command++)
		add_command_section(out, *command);
	ws_text_puts(out, ".SH EXIT STATUS\n");
	add_paragraphs(out, "0 when all went well, 1 when something failed, 2 when the command "
			    "line was wrong. The exit status of 'profile' "
			    "is that of the profiled program, 128 plus the signal's number when a "
			    "signal ended it.");
}
