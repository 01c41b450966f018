/* script_loops.c - see script_loops.h. */
#include "analyze/script_loops.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/source_line.h"
#include "base/mem.h"

enum { MOST_FUNCTIONS = 64, MOST_BLOCKS = 32, MOST_LINES = 5000, NAME_SIZE = 48 };

struct script_function {
	char name[NAME_SIZE];	/* "" for what is in none */
	uint32_t line;		/* of its deepest loop */
	unsigned depth, called; /* of that loop within it; of the loops that call it */
};

struct script_block {
	size_t indent;
	unsigned loops;	 /* that it opens */
	size_t function; /* that it opens; 0: none */
};

struct script {
	char **lines;
	size_t count;
	struct script_function functions[MOST_FUNCTIONS];
	size_t function_count;
	struct script_block blocks[MOST_BLOCKS];
	size_t block_count;
};

static bool is_name_part(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

static bool is_comment(const char *line)
{
	return !*line || *line == '#' || !strncmp(line, "//", 2) || !strncmp(line, "--", 2);
}

/* Whether a word of a loop begins one: first on its line or in its block, or before a bracket. */
static bool begins_loop(const char *line, const char *at, size_t length)
{
	const char *before = at;

	if ((at > line && is_name_part(at[-1])) || is_name_part(at[length]))
		return false;
	while (before > line && isblank((unsigned char)before[-1]))
		before--;
	return before == line || strchr(";{}|'", before[-1]) || *skip_blanks(at + length) == '(';
}

/* How many loops a line opens. */
static unsigned count_loops(const char *line)
{
	static const char *const words[] = {"for", "foreach", "while", "until", NULL},
				 *const methods[] = {".each ", ".each_",      ".times",
						     ".upto",  ".forEach",    ".downto(",
						     ".find(", ".findIndex(", ".filter(",
						     ".some(", NULL};
	unsigned count = 0;

	for (size_t i = 0; words[i]; i++)
		for (const char *at = strstr(line, words[i]); at; at = strstr(at + 1, words[i]))
			count += begins_loop(line, at, strlen(words[i]));
	for (size_t i = 0; methods[i]; i++)
		count += strstr(line, methods[i]) != NULL;
	return count;
}

/* function find(id), def find(id), sub find {: the number of a new function; 0 for other lines. */
static size_t add_function(struct script *script, const char *line)
{
	static const char *const words[] = {
		"local function ", "async function ", "function ", "def ", "sub ", "proc ", NULL};
	struct script_function *function = &script->functions[script->function_count];
	size_t length = 0;

	for (size_t i = 0; words[i]; i++) {
		if (strncmp(line, words[i], strlen(words[i])))
			continue;
		line = skip_blanks(line + strlen(words[i]));
		while (is_name_part(line[length]))
			length++;
		if (!length || length >= NAME_SIZE || script->function_count == MOST_FUNCTIONS)
			return 0;
		*function = (struct script_function){.depth = 0};
		memcpy(function->name, line, length);
		return script->function_count++;
	}
	return 0;
}

static size_t find_function(const struct script *script)
{
	for (size_t i = script->block_count; i--;)
		if (script->blocks[i].function)
			return script->blocks[i].function;
	return 0;
}

/* The loops around a line, within its function. */
static unsigned count_around(const struct script *script)
{
	unsigned count = 0;

	for (size_t i = script->block_count; i-- && !script->blocks[i].function;)
		count += script->blocks[i].loops;
	return count;
}

static void close_blocks(struct script *script, size_t indent)
{
	while (script->block_count && script->blocks[script->block_count - 1].indent >= indent)
		script->block_count--;
}

static void open_block(struct script *script, struct script_block block)
{
	if (script->block_count < MOST_BLOCKS && (block.loops || block.function))
		script->blocks[script->block_count++] = block;
}

static void read_loops(struct script *script)
{
	for (size_t i = 0; i < script->count; i++) {
		const char *line = skip_blanks(script->lines[i]);
		struct script_block block = {.indent = (size_t)(line - script->lines[i])};
		struct script_function *function;
		unsigned depth;

		if (is_comment(line))
			continue;
		close_blocks(script, block.indent);
		block.function = add_function(script, line);
		block.loops = block.function ? 0 : count_loops(line);
		function = &script->functions[find_function(script)];
		depth = count_around(script) + block.loops;
		if (block.loops && depth > function->depth) {
			function->depth = depth;
			function->line = (uint32_t)i + 1;
		}
		open_block(script, block);
	}
}

static bool calls(const char *line, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = strstr(line, name); at; at = strstr(at + 1, name))
		if ((at == line || !is_name_part(at[-1])) && !is_name_part(at[length]))
			return true;
	return false;
}

/* How deep in loops each function is called. Functions are numbered as they come. */
static void read_calls(struct script *script)
{
	size_t next = 1;

	script->block_count = 0;
	for (size_t i = 0; i < script->count; i++) {
		const char *line = skip_blanks(script->lines[i]);
		struct script_block block = {.indent = (size_t)(line - script->lines[i])};
		struct script probe = {.function_count = 1};
		unsigned depth;

		if (is_comment(line))
			continue;
		close_blocks(script, block.indent);
		if (next < script->function_count && add_function(&probe, line)) {
			block.function = next++;
			open_block(script, block);
			continue;
		}
		block.loops = count_loops(line);
		depth = count_around(script) + block.loops;
		for (size_t k = 1; depth && k < script->function_count; k++)
			if (depth > script->functions[k].called && k != find_function(script) &&
			    calls(line, script->functions[k].name))
				script->functions[k].called = depth;
		open_block(script, block);
	}
}

/* people.find((person) => person.id === id) */
static bool finds(const char *line)
{
	static const char *const methods[] = {".find(", ".findIndex(", ".filter(", ".some(", NULL};

	for (size_t i = 0; methods[i]; i++)
		if (strstr(line, methods[i]))
			return true;
	return false;
}

/* A loop whose line, or one of the next two, compares for equality. */
static bool compares(const struct script *script, uint32_t line)
{
	enum { LOOKED_AT = 3 };

	for (size_t i = line - 1; i < script->count && i < line - 1 + LOOKED_AT; i++)
		if ((strstr(script->lines[i], "if") || finds(script->lines[i])) &&
		    (strstr(script->lines[i], "==") || strstr(script->lines[i], " eq ")))
			return true;
	return false;
}

static struct ws_script_loop find_deepest(struct script *script)
{
	const struct script_function *deepest = &script->functions[0];
	struct ws_script_loop loop = {0};

	script->function_count = 1;
	read_loops(script);
	read_calls(script);
	for (size_t i = 1; i < script->function_count; i++) {
		const struct script_function *function = &script->functions[i];

		if (function->depth &&
		    function->depth + function->called > deepest->depth + deepest->called)
			deepest = function;
	}
	if (!deepest->line)
		return loop;
	loop.line = deepest->line;
	loop.depth = deepest->depth + deepest->called;
	loop.compares = compares(script, loop.line);
	return loop;
}

struct ws_script_loop ws_find_deepest_loop(const char *path, uint64_t until)
{
	char *text = ws_read_source(path, until), *rest = text, *line;
	struct script *script = ws_calloc(1, sizeof(*script));
	struct ws_script_loop loop = {0};

	script->lines = ws_calloc(MOST_LINES, sizeof(*script->lines));
	while (text && script->count < MOST_LINES && (line = strsep(&rest, "\n")))
		script->lines[script->count++] = line;
	if (script->count < MOST_LINES)
		loop = find_deepest(script);
	free(script->lines);
	free(script);
	free(text);
	return loop;
}

/* my ($key, %all) = @_; my %copy = %$all; but not my ($key, $value) = @_; my @words = split... */
static bool copies_list(const char *line)
{
	static const char *const sources[] = {"@_", "%$", "@$", "%{", "@{", NULL};
	const char *equals = strchr(line, '='), *from;

	if (!isblank((unsigned char)*line))
		return false;
	line = skip_blanks(line);
	if (strncmp(line, "my ", 3) || !equals || equals[1] == '=')
		return false;
	if (!memchr(line, '%', (size_t)(equals - line)) &&
	    !memchr(line, '@', (size_t)(equals - line)))
		return false;
	from = skip_blanks(equals + 1);
	for (size_t i = 0; sources[i]; i++)
		if (!strncmp(from, sources[i], 2))
			return true;
	return false;
}

size_t ws_find_list_copies(const char *path, uint64_t until, uint32_t *lines, size_t most)
{
	char *text = ws_read_source(path, until), *rest = text, *line;
	size_t count = 0;

	for (uint32_t i = 1; text && count < most && (line = strsep(&rest, "\n")); i++)
		if (copies_list(line))
			lines[count++] = i;
	free(text);
	return count;
}
