/*
 * cli.h - commands and options as data.
 *
 * A command is one entry in the table of commands.c, defined in a file of its own; its options are
 * an array of struct ws_opt from which parsing, --help, the man page, shell completion and error
 * messages are all made. Values go to the command's own struct, at `offset`. Accepted are
 * --opt=value and --opt value; -o value, -ovalue; bundled short flags; for an unknown option the
 * nearest one is suggested. A BOOL takes the next word only if it is true or false (or yes, no, on,
 * off, 1, 0 after '=').
 */
#ifndef WS_CLI_H
#define WS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

enum ws_opt_kind {
	WS_OPT_FLAG,	/* bool: present or not */
	WS_OPT_BOOL,	/* bool: bare means true; =true/=false, or next word true/false */
	WS_OPT_STRING,	/* const char * */
	WS_OPT_MAYBE,	/* const char *: "" when bare; a value only after '=' */
	WS_OPT_INT,	/* int64_t */
	WS_OPT_SECONDS, /* double: 1.5, and 500ms, 10s, 2m are understood */
	WS_OPT_ENUM,	/* const char *, one of the comma-separated `values` */
	WS_OPT_SET,	/* const char *: comma-separated words, each of `values` */
	WS_OPT_LIST,	/* struct ws_list: may be given several times */
	WS_OPT_WORDS,	/* the same, and takes all words up to the next option */
	/* Known to users of Nsight Systems but not supported. The sentence in `help` says so and
	 * what to use instead. `values` are words that ask for nothing (none, false) and are
	 * accepted. With `arg` it takes a value as a STRING does, else as a BOOL. `fallback` says
	 * what the report then holds, for options whose absence could mislead its reader. */
	WS_OPT_UNSUPPORTED,
	/* Another spelling of the option that `help` names; "true=stop,false=none" in `values` says
	 * what its values are called there, the others are handed on. Not shown in help. */
	WS_OPT_ALIAS,
};

/* The parts of `values`, in order, with a '|' between them. */
enum {
	WS_WORDS_KNOWN,
	WS_WORDS_LATER, /* known but not built yet: left out, or "word=used-instead" */
	WS_WORDS_OLD	/* "word=meant": other spellings, accepted without a word */
};

struct ws_list {
	const char **values;
	size_t count, cap;
};

/* What a command line asked for and did not get: one sentence for each reason. */
struct ws_left_out {
	struct ws_list sentences;
	const char *consequence; /* what the report holds because of it, or NULL */
};

struct ws_opt {
	const char *name; /* without the dashes */
	char short_name;  /* or 0 */
	enum ws_opt_kind kind;
	size_t offset;	      /* of the value in the command's option struct */
	const char *arg;      /* what the value is called in help, such as NAME */
	const char *values;   /* for ENUM and SET: "a,b|x=b,y|old=a", see WS_WORDS_KNOWN */
	const char *help;     /* one or more sentences */
	const char *fallback; /* default as text, shown in help and applied before parsing; NULL for
				 none */
	/* Appends the words that completion offers, separated by blanks, where they are not in
	 * `values`; NULL for none. */
	void (*add_words)(struct ws_text *out);
	/* Where several commands share a table: bits of those, beside the one with `part` 0, that
	 * have this option. An alias is wherever the option that it stands for is. */
	unsigned also;
	/* What the report holds when a word of `values` that is not built yet is asked for, where
	 * that could mislead its reader; or NULL. */
	const char *misleads;
};

struct ws_command {
	const char *name, *summary;
	const char *usage;	   /* after the name: "[options] [--] APP [ARG...]" */
	const char *details;	   /* paragraphs for the man page and --help */
	const struct ws_opt *opts; /* ended by an entry without a name */
	unsigned part; /* only the options of `opts` with this bit in `also`; 0: all of them */
	const char *elsewhere; /* what is said of an option that another part has, after its name;
				  NULL where there are no parts */
	size_t opts_size;      /* of the option struct, which run gets zeroed and filled */
	size_t left_out;      /* offset of a struct ws_left_out in the option struct; 0: what is not
				 supported is refused */
	bool stop_at_operand; /* options end at the first operand: profile app --its-own-options */
	bool (*goes_on)(const char *operand); /* but not at these; NULL: at all */
	const char *examples;
	int (*run)(void *opts, int argc, char **argv); /* operands; returns the exit status */
};

extern const struct ws_command *const ws_commands[]; /* ended by NULL; declared in commands.c */

/*
 * A command file NAME.c defines `const struct ws_command ws_cmd_NAME` (recover too: ws_cmd_recover
 * in info.c). commands.c lists them.
 */

/* Exit statuses of the tool's own failures (profile otherwise returns the target's). */
enum { WS_EXIT_OK = 0, WS_EXIT_FAIL = 1, WS_EXIT_USAGE = 2 };

/*
 * Parse `argv` (without the command's name) by `opts` into `values`. *operands gets the index of
 * the first operand after operands were moved behind options (or left in place, with
 * stop_at_operand). Returns 0; 1 for --help (or -h, where the command has no -h of its own); or -1
 * with a message that names the option and suggests a fix. Strings in `values` point into argv and
 * into the tables, or live until
 * ws_opts_free. Of a repeated option the last one wins; a LIST collects all. A short option's
 * value may follow '=': -o=name is -o name. Free with ws_opts_free.
 */
int ws_opts_parse(const struct ws_command *command, int argc, char **argv, void *values,
		  int *operands, struct ws_err *err);
/* The option of the command that follows `previous` (NULL: the first); NULL behind the last. */
const struct ws_opt *ws_next_opt(const struct ws_command *command, const struct ws_opt *previous);
/* Free what parsing allocated (the arrays of LISTs). */
void ws_opts_free(const struct ws_command *command, void *values);

#endif
