/*
 * complete.c - completion for bash, from the tables: `warpsight help --bash-completion`.
 *
 * The script holds one case per command with its option names, one per option that takes known
 * words; for everything else bash completes file names. Where a command ends its options at the
 * first operand, what follows is completed as a command line of its own. It needs nothing but bash:
 * the helper functions of the bash-completion package may be missing.
 */
#include <string.h>

#include "cli/text.h"

static void add_command_names(struct ws_text *out)
{
	const char *separator = "";

	for (const struct ws_command *const *command = ws_commands; *command; command++) {
		ws_text_printf(out, "%s%s", separator, (*command)->name);
		separator = " ";
	}
}

static void add_option_names(struct ws_text *out, const struct ws_command *command)
{
	for (const struct ws_opt *option = NULL; (option = ws_next_opt(command, option));)
		if (ws_is_shown_option(option))
			ws_text_printf(out, "--%s ", option->name);
	ws_text_puts(out, "--help");
}

/* The pattern of words after which a value follows: "--output|-o". */
static void add_option_pattern(struct ws_text *out, const struct ws_opt *option)
{
	ws_text_printf(out, "--%s", option->name);
	if (option->short_name)
		ws_text_printf(out, "|-%c", option->short_name);
}

static void add_words(struct ws_text *out, const struct ws_opt *option)
{
	const char *list = ws_text_or(option->values, ""), *word;
	const char *separator = "";
	int part = WS_WORDS_KNOWN;
	size_t length;

	ws_text_puts(out, "\t\t");
	add_option_pattern(out, option);
	ws_text_puts(out, ") words=\"");
	while ((length = ws_next_word(&list, &word, &part)) && part == WS_WORDS_KNOWN) {
		ws_text_puts(out, separator);
		ws_text_add(out, word, length);
		separator = " ";
	}
	if (option->add_words)
		option->add_words(out);
	ws_text_printf(out, "\" list=%d ;;\n",
		       option->kind == WS_OPT_SET || option->kind == WS_OPT_LIST);
}

static bool takes_value(const struct ws_opt *option)
{
	return option->kind != WS_OPT_FLAG && option->kind != WS_OPT_BOOL &&
	       option->kind != WS_OPT_MAYBE && ws_is_shown_option(option);
}

static void add_command(struct ws_text *out, const struct ws_command *command)
{
	ws_text_printf(out, "\t%s)\n\t\toptions=\"", command->name);
	add_option_names(out, command);
	ws_text_printf(out, "\"\n\t\trunner=%d\n\t\ttakers=\"|", command->stop_at_operand);
	for (const struct ws_opt *option = NULL; (option = ws_next_opt(command, option));)
		if (takes_value(option)) {
			add_option_pattern(out, option);
			ws_text_puts(out, "|");
		}
	ws_text_puts(out, "\"\n\t\tcase $previous in\n");
	for (const struct ws_opt *option = NULL; (option = ws_next_opt(command, option));)
		if (option->kind == WS_OPT_ENUM || option->kind == WS_OPT_SET || option->add_words)
			add_words(out, option);
	ws_text_puts(out, "\t\tesac ;;\n");
}

static const char head[] =
	"# Completion of warpsight for bash; made by 'warpsight help --bash-completion'.\n"
	"\n"
	"# Where the profiled application starts: the first word after the command that is neither "
	"an option nor a value of one.\n"
	"_warpsight_application()\n"
	"{\n"
	"\tlocal i word\n"
	"\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	"\t\tword=${COMP_WORDS[i]}\n"
	"\t\tif [[ $word == -- ]]; then\n"
	"\t\t\techo $((i + 1))\n"
	"\t\t\treturn\n"
	"\t\telif [[ $word == = ]]; then\n"
	"\t\t\t((i++))\n"
	"\t\telif [[ $word == -* ]]; then\n"
	"\t\t\t[[ $1 == *\"|$word|\"* && ${COMP_WORDS[i + 1]} != = ]] && ((i++))\n"
	"\t\telse\n"
	"\t\t\techo $i\n"
	"\t\t\treturn\n"
	"\t\tfi\n"
	"\tdone\n"
	"\techo $COMP_CWORD\n"
	"}\n"
	"\n"
	"_warpsight()\n"
	"{\n"
	"\tlocal current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
	"\tlocal options= words= list=0 runner=0 takers= prefix= application\n"
	"\tCOMPREPLY=()\n"
	"\tif [[ $previous == = ]]; then\n"
	"\t\tprevious=${COMP_WORDS[COMP_CWORD - 2]}\n"
	"\telif [[ $current == = ]]; then\n"
	"\t\tcurrent=\n"
	"\tfi\n"
	"\tif ((COMP_CWORD == 1)); then\n"
	"\t\tCOMPREPLY=($(compgen -W \"$(_warpsight_commands) --help --version\" -- "
	"\"$current\"))\n"
	"\t\treturn\n"
	"\tfi\n"
	"\tcase ${COMP_WORDS[1]} in\n"
	"\thelp) words=$(_warpsight_commands) ;;&\n";

static const char tail[] =
	"\tesac\n"
	"\tif ((runner)); then\n"
	"\t\tapplication=$(_warpsight_application \"$takers\")\n"
	"\t\tif ((application < COMP_CWORD)) || [[ ${COMP_WORDS[COMP_CWORD - 1]} == -- ]]; then\n"
	"\t\t\tif declare -F _command_offset >/dev/null; then\n"
	"\t\t\t\t_command_offset \"$application\"\n"
	"\t\t\telse\n"
	"\t\t\t\tCOMPREPLY=($(compgen -f -- \"$current\"))\n"
	"\t\t\tfi\n"
	"\t\t\treturn\n"
	"\t\tfi\n"
	"\tfi\n"
	"\tif [[ -n $words && $current != -* ]]; then\n"
	"\t\tif ((list)) && [[ $current == *,* ]]; then\n"
	"\t\t\tprefix=${current%,*},\n"
	"\t\tfi\n"
	"\t\tCOMPREPLY=($(compgen -P \"$prefix\" -W \"$words\" -- \"${current##*,}\"))\n"
	"\telif [[ $current == -* ]]; then\n"
	"\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
	"\telif ((runner)) && [[ $takers != *\"|$previous|\"* ]]; then\n"
	"\t\tCOMPREPLY=($(compgen -c -- \"$current\") $(compgen -f -- \"$current\"))\n"
	"\telse\n"
	"\t\tCOMPREPLY=($(compgen -f -- \"$current\"))\n"
	"\tfi\n"
	"}\n"
	"complete -o filenames -F _warpsight warpsight\n";

void ws_add_bash_completion(struct ws_text *out)
{
	ws_text_puts(out, head);
	for (const struct ws_command *const *command = ws_commands; *command; command++)
		add_command(out, *command);
	ws_text_puts(out, tail);
	ws_text_puts(out, "\n_warpsight_commands()\n{\n\techo \"");
	add_command_names(out);
	ws_text_puts(out, "\"\n}\n");
}
