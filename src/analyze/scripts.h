/*
 * scripts.h - what interpreters written in C do for the scripts that they run: Perl, Ruby, PHP,
 * Lua, Tcl, awk, node and shells.
 *
 * Their functions are not the user's, and the lines of the script are not known. But the functions
 * that do one operation of the language tell what the script asks for.
 */
#ifndef WS_ANALYZE_SCRIPTS_H
#define WS_ANALYZE_SCRIPTS_H

#include "analyze/model.h"
#include "base/mem.h"

enum { WS_SCRIPT_WORKS = 24 };

enum ws_script_kind {
	WS_SCRIPT_PLAIN, /* it may be just what the script is for */
	WS_SCRIPT_LOOP,	 /* of the language: what its body does runs beside it and is its cost, too
			  */
	WS_SCRIPT_WASTE, /* a cheaper way is known, and nothing is lost by it */
	WS_SCRIPT_COPY,	 /* waste where the script's text copies whole lists (Perl) */
};

struct ws_script_work {
	const char *what; /* "most of it goes into ..."; NULL ends the list */
	const char *advice;
	double least; /* the share of the interpreter's time from which on it is named */
	enum ws_script_kind kind;
	const char *names[24];
	const char *words[8]; /* of the statements that ask for it; the first NULL ends them */
	double gain;	      /* the part of it that the advice saves; 0: half */
	/* It has no functions of its own: other work within that of the next in the list, which
	 * calls code of the script back for each comparison. Its cost is that of both. */
	bool is_callback;
	bool is_little;	   /* such code can do hardly anything without it */
	const char *waste; /* a statement that makes it WS_SCRIPT_WASTE; NULL for none */
};

struct ws_interpreter {
	const char *name;
	const char *files[4]; /* how its programs' and libraries' names begin */
	const char *advice;   /* how to see which line takes the time */
	bool compiles;	      /* scripts to machine code: time in what is not known is theirs */
	struct ws_script_work works[WS_SCRIPT_WORKS]; /* what tells most comes first */
};

/* Number of the interpreter that a file belongs to, from 1; 0 for none. */
uint32_t ws_find_interpreter(const char *path);
const struct ws_interpreter *ws_get_interpreter(uint32_t number);
/* The number, from 1, of the work that a function does for the script, 0 for none: of the
 * interpreter, or of the C library for it. */
uint32_t ws_classify_script_work(uint32_t interpreter, const char *function);
const struct ws_script_work *ws_get_script_work(uint32_t interpreter, uint32_t work);
/* Append the script's name from a command line: "./count.pl". */
void ws_put_script(const char *command, struct ws_text *text);

/* The path of the script that a process runs, as the program was started in its folder. */
void ws_put_script_path(const struct ws_model *model, const char *command, struct ws_text *text);
/* Append the line of a script, which a process runs by `command`, that starts another one by
 * `child`: ", sed at line 8: name=$(echo $x | sed ...)"; nothing where it is not found. */
void ws_put_script_start(const struct ws_model *model, const char *command,
			 const struct ws_process_info *child, struct ws_text *text);
/* Append the lines of the script whose statements ask for the work, where they are few: ", at line
 * 6: while read -r name; do". */
void ws_put_script_statements(const struct ws_model *model, const char *command,
			      const struct ws_script_work *work, struct ws_text *text);

/* Append the lines of a script of Perl that copy a whole hash or array to variables of a sub: ", at
 * line 7: my ($key, %all) = @_;"; false where there is none. */
bool ws_put_script_copies(const struct ws_model *model, const char *command, struct ws_text *text);

/* Append the innermost loop of the script: ", whose innermost loop is at line 7: for (k = 1; k <=
 * n; k++)"; returns an advice where it searches, NULL elsewhere. Nothing is appended where no loop
 * is at least `depth` loops deep. */
const char *ws_put_script_loop(const struct ws_model *model, const char *command, unsigned depth,
			       struct ws_text *text);

#endif
