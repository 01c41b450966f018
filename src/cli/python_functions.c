/*
 * python_functions.c - which Python functions to trace, from a JSON file of the reference tool's
 * form:
 *
 *	[{"module": "torch.nn.functional", "functions": ["linear", "Module.method"],
 *	  "domain": "nn", "color": "0x00ff00"}]
 *
 * A function may also be an object {"function": NAME, "domain": ..., "color": ...} that gives what
 * differs for it. Names that begin with an underscore (_comment) are ignored; others that are not
 * known cause a warning. Instead of a file, the name of a list that is built in may be given. The
 * file is small and read once: each value is taken where it stands, no
 * tree is made.
 */
#include "cli/python_functions.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"

#define MAX_BYTES (1u << 20)
#define MAX_DEPTH 32

struct json_reader {
	const char *file, *start, *at;
	struct ws_err *err;
};

static int fail_at_line(struct json_reader *reader, const char *what)
{
	int line = 1;

	for (const char *letter = reader->start; letter < reader->at; letter++)
		line += *letter == '\n';
	return ws_fail(reader->err, "--python-functions-trace: %s:%d: %s", reader->file, line,
		       what);
}

static void skip_blanks(struct json_reader *reader)
{
	reader->at += strspn(reader->at, " \t\r\n");
}

static bool take_char(struct json_reader *reader, char letter)
{
	skip_blanks(reader);
	if (*reader->at != letter)
		return false;
	reader->at++;
	return true;
}

/* ---- values ---- */

static int put_unicode(struct json_reader *reader, struct ws_text *text)
{
	char hex[5] = "", *end;
	unsigned long code;

	strncat(hex, reader->at + 1, 4);
	code = strtoul(hex, &end, 16);
	if (strlen(hex) < 4 || *end || !isxdigit((unsigned char)hex[0]) || !code ||
	    (code >= 0xd800 && code < 0xe000))
		return fail_at_line(reader, "\\u takes four hexadecimal digits of a character");
	reader->at += 4;
	if (code < 0x80)
		ws_text_printf(text, "%c", (int)code);
	else if (code < 0x800)
		ws_text_printf(text, "%c%c", (int)(0xc0 | code >> 6), (int)(0x80 | (code & 63)));
	else
		ws_text_printf(text, "%c%c%c", (int)(0xe0 | code >> 12),
			       (int)(0x80 | (code >> 6 & 63)), (int)(0x80 | (code & 63)));
	return 0;
}

/* A string; owned by the caller. */
static int read_text(struct json_reader *reader, char **out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	struct ws_text buffer = {0};
	int rc = 0;

	*out = NULL;
	if (!take_char(reader, '"'))
		return fail_at_line(reader, "a text in quotation marks is expected");
	ws_text_add(&buffer, "", 0);
	for (; !rc && *reader->at && *reader->at != '"'; reader->at++) {
		const char *found;

		if (*reader->at != '\\') {
			ws_text_add(&buffer, reader->at, 1);
			continue;
		}
		reader->at++;
		if (*reader->at == 'u')
			rc = put_unicode(reader, &buffer);
		else if (*reader->at && (found = strchr(from, *reader->at)))
			ws_text_add(&buffer, &to[found - from], 1);
		else
			rc = fail_at_line(reader, "no such escape");
	}
	if (!rc && !take_char(reader, '"'))
		rc = fail_at_line(reader, "a text does not end");
	if (rc)
		ws_text_free(&buffer);
	else
		*out = buffer.text;
	return rc;
}

/* Skips a value of any kind. */
static int skip_value(struct json_reader *reader, int depth)
{
	char close, *one;

	skip_blanks(reader);
	if (depth > MAX_DEPTH)
		return fail_at_line(reader, "nested too deeply");
	if (*reader->at == '"') {
		int rc = read_text(reader, &one);

		free(one);
		return rc;
	}
	if (*reader->at != '[' && *reader->at != '{') {
		size_t length = strcspn(reader->at, ",]} \t\r\n\"");

		reader->at += length;
		if (!length)
			return fail_at_line(reader, "a value is expected");
		return 0;
	}
	close = '}';
	if (*reader->at++ == '[')
		close = ']';
	if (take_char(reader, close))
		return 0;
	do {
		if (close == '}' && (skip_value(reader, depth + 1) || !take_char(reader, ':')))
			return fail_at_line(reader, "NAME: VALUE is expected");
		if (skip_value(reader, depth + 1))
			return -1;
	} while (take_char(reader, ','));
	if (take_char(reader, close))
		return 0;
	if (close == ']')
		return fail_at_line(reader, "']' is expected");
	return fail_at_line(reader, "'}' is expected");
}

/* The value as it stands in the file. */
static int copy_raw_value(struct json_reader *reader, char **out)
{
	const char *from;
	int rc;

	skip_blanks(reader);
	from = reader->at;
	rc = skip_value(reader, 0);
	*out = NULL;
	if (!rc)
		*out = ws_strndup(from, (size_t)(reader->at - from));
	return rc;
}

/* ---- entries ---- */

struct function_entry {
	char *module, *function, *domain, *color;
	const char *functions; /* where their list begins */
};

static void free_entry(struct function_entry *entry)
{
	free(entry->module);
	free(entry->function);
	free(entry->domain);
	free(entry->color);
}

static int read_field(struct json_reader *reader, struct function_entry *entry, bool function)
{
	char *key, **target = NULL;
	int rc = read_text(reader, &key);

	if (rc)
		return rc;
	if (!take_char(reader, ':'))
		rc = fail_at_line(reader, "':' is expected");
	else if (!function && !strcmp(key, "module"))
		target = &entry->module;
	else if (function && (!strcmp(key, "function") || !strcmp(key, "name")))
		target = &entry->function;
	else if (!strcmp(key, "domain"))
		target = &entry->domain;
	if (target) {
		free(*target);
		rc = read_text(reader, target);
	} else if (!rc && !strcmp(key, "color")) {
		free(entry->color);
		rc = copy_raw_value(reader, &entry->color);
	} else if (!rc && !function && !strcmp(key, "functions")) {
		skip_blanks(reader);
		entry->functions = reader->at;
		rc = skip_value(reader, 0);
	} else if (!rc) {
		if (key[0] != '_')
			ws_warn("--python-functions-trace: %s: '%s' is not known and ignored",
				reader->file, key);
		rc = skip_value(reader, 0);
	}
	free(key);
	return rc;
}

static int read_fields(struct json_reader *reader, struct function_entry *entry, bool function)
{
	if (!take_char(reader, '{'))
		return fail_at_line(reader, "'{' is expected");
	if (take_char(reader, '}'))
		return 0;
	do {
		if (read_field(reader, entry, function))
			return -1;
	} while (take_char(reader, ','));
	if (!take_char(reader, '}'))
		return fail_at_line(reader, "',' or '}' is expected");
	return 0;
}

static int add_function(struct json_reader *reader, const struct function_entry *entry,
			const struct function_entry *own, struct ws_python_opts *out)
{
	const char *domain = ws_text_or(own->domain, entry->domain),
		   *color = ws_text_or(own->color, entry->color);
	struct ws_python_function *function;

	if (!own->function || !*own->function)
		return fail_at_line(reader, "a function has no name");
	if (out->function_n == WS_PYTHON_FUNCTIONS_MOST)
		return fail_at_line(reader, "more than 512 functions");
	out->functions =
		ws_realloc(out->functions, (out->function_n + 1) * sizeof(*out->functions));
	function = &out->functions[out->function_n++];
	*function = (struct ws_python_function){.module = ws_strdup(entry->module),
						.name = ws_strdup(own->function)};
	if (domain)
		function->category = ws_strdup(domain);
	if (color)
		function->args = ws_format("{\"color\":%s}", color);
	return 0;
}

static int read_functions(struct json_reader *reader, const struct function_entry *entry,
			  struct ws_python_opts *out)
{
	if (!take_char(reader, '['))
		return fail_at_line(reader, "\"functions\" is not a list");
	if (take_char(reader, ']'))
		return 0;
	do {
		struct function_entry own = {0};
		int rc;

		skip_blanks(reader);
		if (*reader->at == '{')
			rc = read_fields(reader, &own, true);
		else
			rc = read_text(reader, &own.function);
		if (!rc)
			rc = add_function(reader, entry, &own, out);
		free_entry(&own);
		if (rc)
			return rc;
	} while (take_char(reader, ','));
	return 0;
}

static int read_entry(struct json_reader *reader, struct ws_python_opts *out)
{
	struct function_entry entry = {0};
	const char *behind;
	int rc = read_fields(reader, &entry, false);

	if (!rc && (!entry.module || !*entry.module || !entry.functions))
		rc = fail_at_line(reader, "an entry needs \"module\" and \"functions\"");
	behind = reader->at;
	if (!rc) {
		reader->at = entry.functions;
		rc = read_functions(reader, &entry, out);
		if (!rc)
			reader->at = behind;
	}
	free_entry(&entry);
	return rc;
}

static int parse_list(struct json_reader *reader, struct ws_python_opts *out)
{
	size_t bytes = 0;

	if (!take_char(reader, '['))
		return fail_at_line(reader, "a list, [...], is expected");
	if (!take_char(reader, ']')) {
		do {
			if (read_entry(reader, out))
				return -1;
		} while (take_char(reader, ','));
		if (!take_char(reader, ']'))
			return fail_at_line(reader, "',' or ']' is expected");
	}
	skip_blanks(reader);
	if (*reader->at)
		return fail_at_line(reader, "something follows the list");
	if (!out->function_n)
		return ws_fail(reader->err, "--python-functions-trace: %s names no function",
			       reader->file);
	for (size_t i = 0; i < out->function_n; i++)
		bytes += strlen(out->functions[i].module) + strlen(out->functions[i].name) + 2;
	if (bytes > 8000)
		return ws_fail(reader->err,
			       "--python-functions-trace: %s: the names are longer than 8000 bytes "
			       "together",
			       reader->file);
	return 0;
}

/* Lists that need no file, by name: what training loops and schedulers are made of. Functions that
 * a version does not have are never called. */
static const struct {
	const char *name, *text;
} known_lists[] = {
	{"pytorch",
	 "[{\"module\": \"torch\", \"domain\": \"PyTorch\", \"functions\": ["
	 "\"_tensor.Tensor.backward\", \"autograd.backward\", \"autograd.grad\","
	 "\"optim.Optimizer.zero_grad\","
	 "\"optim.optimizer.Optimizer.profile_hook_step.<locals>.wrapper\","
	 "\"amp.GradScaler.scale\", \"amp.GradScaler.step\", \"amp.GradScaler.update\","
	 "\"utils.data._BaseDataLoaderIter.__next__\", \"load\", \"save\", \"compile\","
	 "\"nn.modules.Module._call_impl\", \"nn.utils.clip_grad_norm_\","
	 "\"nn.parallel.DistributedDataParallel.forward\"]},"
	 "{\"module\": \"torch.distributed\", \"domain\": \"PyTorch distributed\","
	 "\"functions\": [\"init_process_group\", \"barrier\", \"broadcast\", \"all_reduce\","
	 "\"all_gather\", \"all_gather_into_tensor\", \"reduce\", \"reduce_scatter\","
	 "\"reduce_scatter_tensor\", \"all_to_all\", \"all_to_all_single\", \"send\","
	 "\"recv\"]}]"},
	{"dask",
	 "[{\"module\": \"distributed\", \"domain\": \"Dask\", \"functions\": ["
	 "\"worker.execute_task\", \"worker.apply_function_simple\", \"worker.Worker.execute\","
	 "\"worker.Worker.gather_dep\", \"worker.Worker.transition\","
	 "\"scheduler.Scheduler.update_graph\", \"scheduler.Scheduler.transitions\","
	 "\"client.Client.submit\", \"client.Client.compute\", \"protocol.serialize.serialize\","
	 "\"protocol.serialize.deserialize\", \"comm.utils.to_frames\","
	 "\"comm.utils.from_frames\"]},"
	 "{\"module\": \"dask\", \"domain\": \"Dask\", \"functions\": ["
	 "\"base.compute\", \"base.persist\", \"core.get\", \"local.get_async\"]}]"},
};

/* The list of that name, unless a file is called so; NULL for none. */
static const char *find_known_list(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(known_lists); i++)
		if (!strcmp(known_lists[i].name, name) && access(name, F_OK))
			return known_lists[i].text;
	return NULL;
}

int ws_python_functions_read(const char *file, struct ws_python_opts *out, struct ws_err *err)
{
	const char *known = find_known_list(file);
	FILE *stream = known ? NULL : fopen(file, "re");
	struct ws_text text = {0};
	struct json_reader reader = {.file = file, .err = err, .start = known, .at = known};
	char buf[4096];
	size_t size, before = out->function_n;
	int rc;

	if (known) {
		rc = parse_list(&reader, out);
		for (size_t i = before; i < out->function_n; i++)
			out->functions[i].optional = true;
		return rc;
	}
	if (!stream)
		return ws_fail_errno(err, "--python-functions-trace: cannot read %s", file);
	while ((size = fread(buf, 1, sizeof(buf), stream)) > 0 && text.len <= MAX_BYTES)
		ws_text_add(&text, buf, size);
	rc = 0;
	if (ferror(stream))
		rc = ws_fail_errno(err, "--python-functions-trace: cannot read %s", file);
	fclose(stream);
	if (!rc && (text.len > MAX_BYTES || (text.text && strlen(text.text) != text.len)))
		rc = ws_fail(err, "--python-functions-trace: %s is not a list of functions", file);
	reader.start = reader.at = ws_text_or(text.text, "");
	if (!rc)
		rc = parse_list(&reader, out);
	ws_text_free(&text);
	return rc;
}

void ws_python_functions_free(struct ws_python_opts *options)
{
	for (size_t i = 0; i < options->function_n; i++) {
		free(options->functions[i].module);
		free(options->functions[i].name);
		free(options->functions[i].category);
		free(options->functions[i].args);
	}
	free(options->functions);
}
