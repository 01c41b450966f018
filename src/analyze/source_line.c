/* source_line.c - see source_line.h. */
#include "analyze/source_line.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 16 << 20, SHOWN = 90 };

/* Opens a regular file that has not changed since; a pipe would wait for a writer. */
static FILE *open_source(const char *path, uint64_t until)
{
	int fd = *path == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	struct stat info;
	FILE *file = NULL;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_size <= MOST_BYTES &&
	    (uint64_t)info.st_mtime * 1000000000 <= until)
		file = fdopen(fd, "r");
	if (!file)
		close(fd);
	return file;
}

char *ws_read_source(const char *path, uint64_t until)
{
	FILE *file = open_source(path, until);
	struct ws_text text = {0};
	char *buffer = NULL;
	size_t capacity = 0;

	if (!file)
		return NULL;
	while (getline(&buffer, &capacity, file) >= 0)
		ws_text_puts(&text, buffer);
	free(buffer);
	fclose(file);
	return text.text;
}

static bool put_trimmed(char *line, struct ws_text *text)
{
	size_t length;

	while (isspace((unsigned char)*line))
		line++;
	length = strlen(line);
	while (length && isspace((unsigned char)line[length - 1]))
		length--;
	if (!length)
		return false;
	for (size_t i = 0; i < length; i++)
		if (iscntrl((unsigned char)line[i]))
			line[i] = ' ';
	if (length <= SHOWN) {
		ws_text_add(text, line, length);
		return true;
	}
	length = SHOWN; /* not in the middle of a character of UTF-8 */
	while (length && ((unsigned char)line[length] & 0xc0) == 0x80)
		length--;
	ws_text_add(text, line, length);
	ws_text_puts(text, "...");
	return true;
}

bool ws_put_source_line(const char *path, uint32_t line, uint64_t until, struct ws_text *text)
{
	FILE *file = line ? open_source(path, until) : NULL;
	char *buffer = NULL;
	size_t capacity = 0;
	bool put = false;

	if (!file)
		return false;
	for (uint32_t i = 1; getline(&buffer, &capacity, file) >= 0; i++)
		if (i == line) {
			put = put_trimmed(buffer, text);
			break;
		}
	free(buffer);
	fclose(file);
	return put;
}

/* ---- lines that run a command ---- */

static bool is_name_part(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static bool is_word_part(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Whether a line has a word between others. */
static bool has_word(const char *line, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = strstr(line, word); length && at; at = strstr(at + length, word))
		if ((at == line || !is_word_part(at[-1])) && !is_word_part(at[length]))
			return true;
	return false;
}

/* 0 where a line does not run the program, else one more than how many of the arguments it has. */
static uint32_t count_words(const char *line, const char *command)
{
	uint32_t count = 0;

	for (bool first = true; *command && (first || count); first = false) {
		size_t length = strcspn(command, " ");
		char *word = ws_format("%.*s", (int)length, command), *slash = strrchr(word, '/');

		if (first)
			count = has_word(line, slash ? slash + 1 : word);
		else if (*word && strstr(line, word))
			count++;
		free(word);
		command += length;
		command += strspn(command, " ");
	}
	return count;
}

uint32_t ws_find_command_line(const char *path, const char *command, uint64_t until)
{
	FILE *file = open_source(path, until);
	uint32_t found = 0, most = 0;
	char *buffer = NULL;
	size_t capacity = 0;

	if (!file)
		return 0;
	for (uint32_t i = 1; getline(&buffer, &capacity, file) >= 0; i++) {
		const char *line = buffer + strspn(buffer, " \t");
		uint32_t count = *line == '#' ? 0 : count_words(line, command);

		if (count > most) {
			most = count;
			found = i;
		}
	}
	free(buffer);
	fclose(file);
	return found;
}

static bool has_statement(const char *line, const char *word)
{
	size_t length = strlen(word);
	bool name = is_name_part(*word);

	for (const char *at = strstr(line, word); at; at = strstr(at + length, word))
		if (!name || ((at == line || !is_name_part(at[-1])) && !is_name_part(at[length])))
			return true;
	return false;
}

static bool is_comment(const char *line)
{
	return *line == '#' || !strncmp(line, "//", 2);
}

size_t ws_find_statements(const char *path, uint64_t until, const char *const *words,
			  uint32_t *lines, size_t most)
{
	FILE *file = *words ? open_source(path, until) : NULL;
	char *buffer = NULL;
	size_t capacity = 0, count = 0;

	if (!file)
		return 0;
	for (uint32_t i = 1; count < most && getline(&buffer, &capacity, file) >= 0; i++) {
		const char *line = buffer + strspn(buffer, " \t");
		bool found = false;

		for (size_t k = 0; words[k] && !is_comment(line) && !found; k++)
			found = has_statement(line, words[k]);
		if (found)
			lines[count++] = i;
	}
	free(buffer);
	fclose(file);
	return count;
}

/* ---- what a line of Python stands in ---- */

enum { VARIABLES_SIZE = 48 };

enum block_kind { BLOCK_OTHER, BLOCK_FUNCTION, BLOCK_COROUTINE, BLOCK_LOOP, BLOCK_WITH };

/* async with self.slots: the name after the last dot, and whether that says that it is a lock. */
struct lock_use {
	uint32_t line;
	bool named;
	char name[64];
};

struct blocks {
	struct block {
		size_t indent;
		enum block_kind kind;
		uint32_t line;
		bool property, asks;		/* def after @property; a loop with a condition */
		char variables[VARIABLES_SIZE]; /* for name, age in ...: "name, age" */
	} open[64];
	size_t count;
	bool property;	      /* the last line was @property */
	struct lock_use lock; /* the last one, wherever it ends */
};

static bool has_any(const char *line, const char *const *parts)
{
	for (; *parts; parts++)
		if (strstr(line, *parts))
			return true;
	return false;
}

#define ASYNC_WITH "async with "

static bool starts_with_any(const char *line, const char *const *words)
{
	for (; *words; words++)
		if (!strncmp(line, *words, strlen(*words)))
			return true;
	return false;
}

static enum block_kind classify_line(const char *line)
{
	static const char *const functions[] = {"def ", "class ", NULL};
	static const char *const loops[] = {"for ", "while ", "async for ", NULL};

	if (starts_with_any(line, functions))
		return BLOCK_FUNCTION;
	if (!strncmp(line, "async def ", 10))
		return BLOCK_COROUTINE;
	if (starts_with_any(line, loops))
		return BLOCK_LOOP;
	/* [await fetch(item) for item in items] */
	if (strchr(line, '[') && strstr(line, "await ") && strstr(line, " for "))
		return BLOCK_LOOP;
	return strncmp(line, ASYNC_WITH, strlen(ASYNC_WITH)) ? BLOCK_OTHER : BLOCK_WITH;
}

static struct lock_use read_lock_use(const char *line, uint32_t number)
{
	static const char *const locks[] = {"sem", "Sem", "lock", "Lock", "limit", "mutex", NULL};
	struct lock_use use = {.line = number, .named = has_any(line, locks)};
	const char *name = line + strlen(ASYNC_WITH), *end = name;

	/* A call makes what is entered anew. */
	while (is_name_part(*end) || *end == '.') {
		if (*end++ == '.')
			name = end;
	}
	if ((*end == ':' || *end == '[') && (size_t)(end - name) < sizeof(use.name))
		memcpy(use.name, name, (size_t)(end - name));
	return use;
}

/* while not done: */
static bool is_condition(const char *line)
{
	static const char *const endless[] = {"while True", "while 1", NULL};

	return !strncmp(line, "while ", 6) && !starts_with_any(line, endless);
}

/* for name, age in people: "name, age"; "" where it does not fit or is no such loop. */
static void read_variables(const char *line, char *variables, size_t size)
{
	const char *end = strstr(line, " in ");

	*variables = 0;
	if (!end || (size_t)(end - line) >= size)
		return;
	memcpy(variables, line, (size_t)(end - line));
	variables[end - line] = 0;
}

/* Closes the blocks that a line is not in, and opens its own. */
static void read_line(struct blocks *blocks, const char *line, uint32_t number)
{
	size_t indent = strspn(line, " \t");

	line += indent;
	if (!*line || *line == '\n' || *line == '\r' || *line == '#')
		return;
	while (blocks->count && blocks->open[blocks->count - 1].indent >= indent)
		blocks->count--;
	if (blocks->count < sizeof(blocks->open) / sizeof(blocks->open[0])) {
		struct block *block = &blocks->open[blocks->count++];

		*block = (struct block){.indent = indent,
					.kind = classify_line(line),
					.line = number,
					.property = blocks->property,
					.asks = is_condition(line)};
		if (!strncmp(line, "for ", 4))
			read_variables(line + 4, block->variables, sizeof(block->variables));
	}
	blocks->property = !strncmp(line, "@property", strlen("@property"));
	if (blocks->count && blocks->open[blocks->count - 1].kind == BLOCK_WITH)
		blocks->lock = read_lock_use(line, number);
}

/* Two values that a condition compares for equality, each a part of a line. */
struct comparison {
	const char *sides[2];
	size_t lengths[2];
	const char *condition; /* where the condition begins */
};

/* After the last "and", "or" or "not" before `end`. */
static const char *find_side_start(const char *from, const char *end)
{
	static const char *const words[] = {" and ", " or ", "not ", NULL};
	const char *start = from;

	for (size_t i = 0; words[i]; i++)
		for (const char *at = strstr(from, words[i]); at && at < end;
		     at = strstr(at + 1, words[i]))
			start = ws_max(start, at + strlen(words[i]));
	return start;
}

static size_t measure_side(const char *side)
{
	static const char *const ends[] = {" and ", " or ", ":", "\n", " for ", NULL};
	size_t length = strlen(side);

	for (size_t i = 0; ends[i]; i++) {
		const char *end = strstr(side, ends[i]);

		if (end)
			length = ws_min(length, (size_t)(end - side));
	}
	return length;
}

/* A number, a text or a constant; or a remainder: no item is looked for by those. */
static bool is_plain_value(const char *side, size_t length)
{
	static const char *const constants[] = {"None", "True", "False", NULL};

	while (length && strchr("( ", *side)) {
		side++;
		length--;
	}
	return !length || isdigit((unsigned char)*side) || strchr("'\"-", *side) ||
	       starts_with_any(side, constants) || memchr(side, '%', length);
}

/* if item.id == wanted:, or ... for item in items if item.id == wanted; not a if b == c else d. */
static bool read_comparison(const char *line, struct comparison *comparison)
{
	static const char *const conditions[] = {"if ", "elif ", NULL};
	const char *loop = strstr(line, " for "), *equals;

	line += strspn(line, " \t");
	if (starts_with_any(line, conditions))
		comparison->condition = strchr(line, ' ') + 1;
	else if (loop && (line = strstr(loop, " if ")))
		comparison->condition = line + strlen(" if ");
	else
		return false;
	equals = strstr(comparison->condition, " == ");
	if (!equals)
		return false;
	comparison->sides[0] = find_side_start(comparison->condition, equals);
	comparison->lengths[0] = (size_t)(equals - comparison->sides[0]);
	comparison->sides[1] = equals + strlen(" == ");
	comparison->lengths[1] = measure_side(comparison->sides[1]);
	return !is_plain_value(comparison->sides[0], comparison->lengths[0]) &&
	       !is_plain_value(comparison->sides[1], comparison->lengths[1]);
}

/* As a variable: not order["name"], nor order.name. */
static bool uses_name(const char *side, size_t length, const char *name, size_t name_length)
{
	for (size_t i = 0; i + name_length <= length; i++)
		if (!strncmp(side + i, name, name_length) &&
		    (!i || (!is_name_part(side[i - 1]) && !strchr(".'\"", side[i - 1]))) &&
		    (i + name_length == length || !is_name_part(side[i + name_length])))
			return true;
	return false;
}

/* Whether a side uses one of a loop's variables: "name, age". */
static bool uses_variable(const char *side, size_t length, const char *variables)
{
	while (*variables) {
		size_t name = 0;

		while (is_name_part(variables[name]))
			name++;
		if (name && uses_name(side, length, variables, name))
			return true;
		variables += name ? name : 1;
	}
	return false;
}

/* table[row]: by the place of an item, which is no search. */
static bool is_by_place(const char *side, size_t length, const char *variables)
{
	const char *open = memchr(side, '[', length);

	return open && is_name_part(open[1]) && !isdigit((unsigned char)open[1]) &&
	       uses_variable(open, length - (size_t)(open - side), variables);
}

/* The loops around a condition: `variables` of the innermost, then those of others. */
struct loops_around {
	char inner[VARIABLES_SIZE], outer[4 * VARIABLES_SIZE];
	bool found;
};

static void add_variables(struct loops_around *loops, const char *variables)
{
	size_t used = strlen(loops->outer), length = strlen(variables);

	if (!loops->found)
		memcpy(loops->inner, variables, length + 1);
	else if (used + length + 2 < sizeof(loops->outer)) {
		loops->outer[used] = ' ';
		memcpy(loops->outer + used + 1, variables, length + 1);
	}
	loops->found = true;
}

/* Those of comprehensions on the line itself come first, the last one before the condition. */
static struct loops_around find_loops_around(const char *line, const char *condition,
					     const struct blocks *blocks)
{
	struct loops_around loops = {.found = false};
	char variables[VARIABLES_SIZE];
	const char *inner = NULL, *at;

	for (at = strstr(line, " for "); at && at < condition; at = strstr(at + 1, " for "))
		inner = at;
	for (at = inner; at; at = strstr(at + 1, " for ")) {
		read_variables(at + strlen(" for "), variables, sizeof(variables));
		add_variables(&loops, variables);
	}
	for (size_t i = blocks->count; i--;)
		if (blocks->open[i].kind == BLOCK_LOOP)
			add_variables(&loops, blocks->open[i].variables);
	return loops;
}

/* Whether a line compares the items of the innermost loop that it is in, one by one, with something
 * else, and whether that are items of a loop around it. */
static void look_at_comparison(const char *line, const struct blocks *blocks,
			       struct ws_line_around *around)
{
	struct comparison comparison;
	struct loops_around loops;
	bool inner[2], outer[2], by_place = false;

	if (!read_comparison(line, &comparison))
		return;
	loops = find_loops_around(line, comparison.condition, blocks);
	for (unsigned i = 0; i < 2; i++) {
		const char *side = comparison.sides[i];
		size_t length = comparison.lengths[i];

		inner[i] = uses_variable(side, length, loops.inner);
		outer[i] = uses_variable(side, length, loops.outer);
		by_place |= is_by_place(side, length, loops.inner) ||
			    is_by_place(side, length, loops.outer);
	}
	/* Of while loops, the variables are not known. */
	around->compares = loops.found && (!*loops.inner || inner[0] != inner[1]);
	around->searches = around->compares && *loops.inner && !by_place;
	around->joins = around->searches && ((inner[0] && outer[1]) || (inner[1] && outer[0]));
}

static bool is_loop_head(const char *line)
{
	return classify_line(line + strspn(line, " \t")) == BLOCK_LOOP && !strchr(line, '[');
}

/* Whether a line makes what has the name, as a lock: self.slots = asyncio.Semaphore(). */
static bool makes_lock(const char *line, const char *name, bool *single)
{
	static const char *const kinds[] = {"Semaphore(", "Lock(", "Condition(", "Limiter(", NULL},
				 *const singles[] = {
					 "Semaphore()", "Semaphore(1)", "Semaphore(value=1)",
					 "Lock(",	"Condition(",	"Limiter(1)",
					 NULL};
	size_t length = strlen(name);
	const char *at = strstr(line, name);

	if (!length || !at || (at > line && is_name_part(at[-1])) || is_name_part(at[length]) ||
	    !strchr(at, '=') || !has_any(at, kinds))
		return false;
	*single = has_any(at, singles);
	return true;
}

static void find_lock(FILE *file, const struct lock_use *use, struct ws_line_around *around)
{
	char *buffer = NULL;
	size_t capacity = 0;

	around->lock = use->named;
	around->taken = use->line;
	rewind(file);
	for (uint32_t i = 1; !around->made && getline(&buffer, &capacity, file) >= 0; i++)
		if (makes_lock(buffer, use->name, &around->single)) {
			around->made = i;
			around->lock = true;
		}
	free(buffer);
}

struct ws_line_around ws_look_around_line(const char *path, uint32_t line, uint64_t until)
{
	FILE *file = line ? open_source(path, until) : NULL;
	struct ws_line_around around = {false};
	struct blocks blocks = {.count = 0};
	char *buffer = NULL;
	size_t capacity = 0;
	uint32_t left = line;
	bool pauses;

	if (!file)
		return around;
	while (left && getline(&buffer, &capacity, file) >= 0) {
		read_line(&blocks, buffer, line - left + 1);
		left--;
	}
	around.head = buffer && is_loop_head(buffer);
	if (around.head && getline(&buffer, &capacity, file) < 0)
		left = 1; /* a loop without a body */
	if (buffer)
		look_at_comparison(buffer, &blocks, &around);
	pauses = buffer && strstr(buffer, "sleep(");
	free(buffer);
	for (size_t i = left ? 0 : blocks.count; i--;) {
		enum block_kind kind = blocks.open[i].kind;

		around.loop |= kind == BLOCK_LOOP;
		around.loops += kind == BLOCK_LOOP;
		around.polls |= blocks.open[i].asks && pauses;
		around.property |= kind == BLOCK_FUNCTION && blocks.open[i].property;
		if (kind == BLOCK_WITH && blocks.open[i].line == blocks.lock.line)
			find_lock(file, &blocks.lock, &around);
		around.plain |= kind == BLOCK_FUNCTION;
		if (kind == BLOCK_FUNCTION || kind == BLOCK_COROUTINE) {
			around.def = blocks.open[i].line;
			break;
		}
	}
	fclose(file);
	return around;
}

/* How many more brackets a line opens than it closes; texts and comments are not told apart. */
static int count_open(const char *line)
{
	int open = 0;

	for (; *line; line++)
		open += (strchr("([{", *line) != NULL) - (strchr(")]}", *line) != NULL);
	return open;
}

bool ws_has_statement_part(const char *path, uint32_t line, uint64_t until,
			   const char *const *parts)
{
	FILE *file = line ? open_source(path, until) : NULL;
	char *buffer = NULL;
	size_t capacity = 0;
	bool found = false;
	int open = 0;

	if (!file)
		return false;
	while (line && getline(&buffer, &capacity, file) >= 0) {
		found = (found && open > 0) || has_any(buffer, parts);
		open = (open > 0 ? open : 0) + count_open(buffer);
		line--;
	}
	free(buffer);
	fclose(file);
	return found && !line;
}

/* ---- loops that only ask ---- */

struct source {
	char *text;
	char **lines; /* without their ends; the blanks before them are kept */
	uint32_t count;
};

static size_t measure_indent(const char *line)
{
	return strspn(line, " \t");
}

static bool is_blank(const char *line)
{
	line += measure_indent(line);
	return !*line || *line == '#';
}

static bool read_source(const char *path, uint64_t until, struct source *source)
{
	FILE *file = open_source(path, until);
	size_t length = 0, capacity = 0;
	char *rest, *line;

	*source = (struct source){0};
	if (!file)
		return false;
	if (getdelim(&source->text, &capacity, '\0', file) > 0)
		length = strlen(source->text);
	fclose(file);
	source->lines = ws_calloc(length + 1, sizeof(*source->lines));
	rest = source->text;
	while (length && (line = strsep(&rest, "\n")))
		source->lines[source->count++] = line;
	return true;
}

static void free_source(struct source *source)
{
	free(source->lines);
	free(source->text);
}

/* Leaves the loop, or does nothing in it. */
static bool is_exit(const char *statement)
{
	static const char *const words[] = {"break", "return", "raise", NULL};

	return starts_with_any(statement, words);
}

static bool is_idle(const char *statement)
{
	static const char *const words[] = {"pass",	     "continue", "...",
					    "time.sleep(0)", "sleep(0)", NULL};

	return starts_with_any(statement, words);
}

/* What a condition may call that only asks. */
static bool only_asks(const char *condition)
{
	static const char *const calls[] = {
		"empty()",  "done()",	   "poll()",	     "exists(", "is_alive()", "is_set()",
		"locked()", "full()",	   "len(",	     "qsize()", "running()",  "ready()",
		"time(",    "monotonic()", "perf_counter()", NULL};

	return !strchr(condition, '(') || has_any(condition, calls);
}

/* turns += 1, of a variable that the loop does not ask for. */
static bool is_counter(const char *statement, const char *head)
{
	size_t length = 0;
	char *name;
	bool counts;

	while (is_name_part(statement[length]))
		length++;
	name = ws_format("%.*s", (int)length, statement);
	counts = length &&
		 starts_with_any(statement + length,
				 (const char *const[]){" += 1", " -= 1", NULL}) &&
		 !has_statement(head, name);
	free(name);
	return counts;
}

/* if turns % 1000 == 0: what is done now and then. */
static bool is_now_and_then(const char *statement)
{
	return !strncmp(statement, "if ", 3) && strchr(statement, '%');
}

static bool has_block(const char *statement)
{
	static const char *const words[] = {"if ", "elif ", "else:", "try:", "except", NULL};

	return starts_with_any(statement, words);
}

/* The statement after a colon on the same line; "" where there is none. */
static const char *find_inline_block(const char *line)
{
	const char *colon = strrchr(line, ':');

	if (!colon)
		return "";
	return colon + 1 + measure_indent(colon + 1);
}

/* The lines of a block that are deeper than `indent`: either none of them does anything, or the
 * last one leaves the loop. */
static bool is_idle_block(const struct source *source, uint32_t *at, size_t indent)
{
	const char *last = "";
	bool idle = true;

	for (; *at < source->count; ++*at) {
		const char *line = source->lines[*at];

		if (is_blank(line))
			continue;
		if (measure_indent(line) <= indent)
			break;
		last = line + measure_indent(line);
		idle = idle && is_idle(last);
	}
	return idle || is_exit(last);
}

/* Whether the body of a loop, whose head is the line `head` (from 0), does nothing. */
static bool is_idle_body(const struct source *source, uint32_t head)
{
	size_t indent = measure_indent(source->lines[head]);
	const char *line = find_inline_block(source->lines[head]);
	uint32_t at = head + 1;

	if (*line && *line != '#')
		return is_idle(line);
	while (at < source->count) {
		size_t inner;

		line = source->lines[at];
		inner = measure_indent(line);
		at++;
		if (is_blank(line))
			continue;
		if (inner <= indent)
			break;
		line += inner;
		if (is_now_and_then(line)) {
			is_idle_block(source, &at, inner);
		} else if (has_block(line)) {
			const char *block = find_inline_block(line);

			if (*block && *block != '#' ? !is_idle(block) && !is_exit(block)
						    : !is_idle_block(source, &at, inner))
				return false;
		} else if (!is_idle(line) && !is_counter(line, source->lines[head])) {
			return false;
		}
	}
	return true;
}

/* The head of the innermost loop around a line (both from 0), or the line itself; the number of
 * lines where there is none. */
static uint32_t find_loops_head(const struct source *source, uint32_t line)
{
	size_t indent = measure_indent(source->lines[line]) + 1;

	for (uint32_t i = line + 1; i--;) {
		const char *text = source->lines[i];

		if (is_blank(text) || measure_indent(text) >= indent)
			continue;
		indent = measure_indent(text);
		text += indent;
		if (!strncmp(text, "while ", 6))
			return i;
		if (i < line && !has_block(text) && !is_now_and_then(text))
			break;
	}
	return source->count;
}

bool ws_is_asking_loop(const char *path, uint32_t line, uint64_t until)
{
	struct source source;
	bool asks = false;

	if (!line || !read_source(path, until, &source))
		return false;
	if (line <= source.count) {
		uint32_t head = find_loops_head(&source, line - 1);

		asks = head < source.count && only_asks(source.lines[head]) &&
		       is_idle_body(&source, head);
	}
	free_source(&source);
	return asks;
}

/* The head of the innermost loop around a line (both from 0), whatever stands between; the number
 * of lines where there is none. */
static uint32_t find_outer_head(const struct source *source, uint32_t line)
{
	static const char *const functions[] = {"def ", "async def ", NULL};
	size_t indent = measure_indent(source->lines[line]);

	for (uint32_t i = line; i--;) {
		const char *text = source->lines[i];

		if (is_blank(text) || measure_indent(text) >= indent)
			continue;
		indent = measure_indent(text);
		if (!strncmp(text + indent, "while ", 6))
			return i;
		if (starts_with_any(text + indent, functions))
			break;
	}
	return source->count;
}

bool ws_is_yielding_loop(const char *path, uint32_t line, uint64_t until)
{
	struct source source;
	bool yields = false;
	uint32_t head;

	if (!line || !read_source(path, until, &source))
		return false;
	head = line <= source.count ? find_outer_head(&source, line - 1) : source.count;
	for (uint32_t i = head + 1; i < source.count && !yields; i++) {
		if (is_blank(source.lines[i]))
			continue;
		if (measure_indent(source.lines[i]) <= measure_indent(source.lines[head]))
			break;
		yields = strstr(source.lines[i], "sleep(0)") != NULL;
	}
	free_source(&source);
	return yields;
}
