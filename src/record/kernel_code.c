/* kernel_code.c - see kernel_code.h. */
#include "record/kernel_code.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/ticks.h"
#include "record/disassemble.h"
#include "schema/kernel_sass.h"
#include "symbols/cubin.h"

enum { STEP = 16 }; /* bytes of an instruction */
enum { FUNCTION_MOST = 16 << 20, CUBIN_MOST = 512 << 20, SOURCE_MOST = 8 << 20 };
enum { DISASSEMBLY_SECONDS = 60 }; /* in all */
enum { LINES_AROUND = 20, LINE_MOST = 4000, FUNCTIONS_MOST = 4096 };

struct function {
	uint64_t cubin;
	char *name;
	struct ws_kernel_instruction *instructions; /* by offset / STEP */
	size_t count;
};

/* Which lines of a source file are wanted. */
struct source {
	char *path;
	uint8_t *wanted; /* by line: 1, or 2 when it has been written */
	uint32_t lines;
	bool waits; /* a line is wanted that has not been looked for */
};

/* The code that was read last: functions measured one after another are often of one cubin. */
struct cubin {
	uint64_t id;
	char *path;
	void *bytes; /* NULL when there is none */
	struct ws_gpu_code code;
};

struct ws_kernel_code {
	char *folder, *disassembler;
	bool whole; /* the disassembler does not know how to restrict itself to a function */
	uint64_t spent_ns, most_ns; /* in the disassembler */
	char *complaint;	    /* that has not been told; NULL when there is none */
	struct cubin cubin;
	struct function *functions;
	size_t count, capacity;
	struct source *sources;
	size_t source_count, source_capacity;
};

struct ws_kernel_code *ws_kernel_code_new(const char *folder)
{
	struct ws_kernel_code *code = ws_calloc(1, sizeof(*code));
	const char *seconds = getenv("WARPSIGHT_DISASSEMBLY"); /* for tests: another limit */

	code->most_ns = (seconds ? strtoull(seconds, NULL, 10) : DISASSEMBLY_SECONDS) * 1000000000;
	code->folder = ws_strdup(folder);
	code->disassembler = ws_find_disassembler();
	return code;
}

static void close_cubin(struct cubin *cubin)
{
	if (cubin->bytes)
		ws_gpu_code_close(&cubin->code);
	free(cubin->bytes);
	free(cubin->path);
	*cubin = (struct cubin){0};
}

void ws_kernel_code_free(struct ws_kernel_code *code)
{
	if (!code)
		return;
	for (size_t i = 0; i < code->count; i++) {
		free(code->functions[i].name);
		free(code->functions[i].instructions);
	}
	for (size_t i = 0; i < code->source_count; i++) {
		free(code->sources[i].path);
		free(code->sources[i].wanted);
	}
	close_cubin(&code->cubin);
	free(code->functions);
	free(code->sources);
	free(code->folder);
	free(code->disassembler);
	free(code->complaint);
	free(code);
}

static uint32_t intern(struct ws_writer *writer, const char *text)
{
	return *text ? ws_writer_string(writer, text, strlen(text)) : 0;
}

/* ---- source files ---- */

static struct source *find_source(struct ws_kernel_code *code, const char *path)
{
	for (size_t i = 0; i < code->source_count; i++)
		if (!strcmp(code->sources[i].path, path))
			return &code->sources[i];
	ws_grow(code->sources, code->source_capacity, code->source_count + 1);
	code->sources[code->source_count] = (struct source){.path = ws_strdup(path)};
	return &code->sources[code->source_count++];
}

/* The lines around a line of an instruction are to be kept. */
static void want_lines(struct ws_kernel_code *code, const char *path, uint32_t line)
{
	struct source *source = find_source(code, path);
	uint32_t first = line > LINES_AROUND ? line - LINES_AROUND : 1, last = line + LINES_AROUND;

	if (line > SOURCE_MOST)
		return;
	if (last >= source->lines) {
		source->wanted = ws_realloc(source->wanted, 2 * (size_t)last);
		memset(source->wanted + source->lines, 0, 2 * (size_t)last - source->lines);
		source->lines = 2 * last;
	}
	for (uint32_t i = first; i <= last; i++)
		if (!source->wanted[i])
			source->wanted[i] = source->waits = true;
}

static void add_text(struct ws_writer *writer, uint64_t cubin, uint32_t file, uint32_t line,
		     const char *text, size_t length)
{
	struct ws_row_kernel_text row = {.cubin = cubin, .file = file, .line = line};

	while (length && (text[length - 1] == '\r' || text[length - 1] == ' '))
		length--;
	if (length)
		row.text = ws_writer_string(writer, text, ws_min(length, (size_t)LINE_MOST));
	ws_writer_add(writer, WS_TABLE_kernel_text, &row);
}

/* A regular file of this machine, whole; NULL when there is none or it is no text. */
static char *read_source(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat info;
	char *text = NULL;
	ssize_t n = -1;

	if (fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_size > 0 &&
	    info.st_size <= SOURCE_MOST) {
		text = ws_malloc((size_t)info.st_size);
		n = pread(fd, text, (size_t)info.st_size, 0);
	}
	if (fd >= 0)
		close(fd);
	if (n > 0 && !memchr(text, 0, (size_t)n)) {
		*size = (size_t)n;
		return text;
	}
	free(text);
	return NULL;
}

static void write_source(struct ws_writer *writer, struct source *source)
{
	size_t size;
	char *text, *at;
	uint32_t file, line = 1;

	if (!source->waits)
		return;
	source->waits = false;
	text = at = read_source(source->path, &size);
	file = intern(writer, source->path);
	for (; text && at < text + size && line < source->lines; line++) {
		char *end = memchr(at, '\n', (size_t)(text + size - at));
		size_t n = end ? (size_t)(end - at) : (size_t)(text + size - at);

		if (source->wanted[line] == 1) {
			add_text(writer, 0, file, line, at, n);
			source->wanted[line] = 2;
		}
		at += n + 1;
	}
	free(text);
}

/* ---- functions ---- */

static char *join_callers(const struct ws_gpu_code_function *function,
			  const struct ws_gpu_code_row *row)
{
	struct ws_text text = {0};

	while ((row = ws_gpu_code_find_caller(function, row))) {
		char *file = ws_gpu_code_file_name(function, row);

		ws_text_printf(&text, "%s%s:%u", text.len ? "\n" : "", file, row->line);
		free(file);
	}
	return text.text;
}

static void fill_place(struct ws_kernel_code *code, struct ws_writer *writer,
		       const struct ws_gpu_code_function *function,
		       struct ws_row_kernel_instruction *row)
{
	const struct ws_gpu_code_row *place = ws_gpu_code_find_row(function, row->pc);
	char *file, *callers;

	if (!place)
		return;
	file = ws_gpu_code_file_name(function, place);
	callers = join_callers(function, place);
	row->file = intern(writer, file);
	row->line = place->line;
	row->inlined = intern(writer, place->function);
	if (callers)
		row->callers = intern(writer, callers);
	if (*file)
		want_lines(code, file, place->line);
	for (; place && *file; place = ws_gpu_code_find_caller(function, place)) {
		free(file);
		file = ws_gpu_code_file_name(function, place);
		if (*file)
			want_lines(code, file, place->line);
	}
	free(file);
	free(callers);
}

static void write_ptx(struct ws_writer *writer, const struct ws_gpu_code *cubin,
		      const struct function *function)
{
	uint32_t first, last, name = intern(writer, function->name);

	if (!ws_gpu_code_find_ptx_range(cubin, function->name, &first, &last))
		return;
	for (uint32_t line = first; line <= last; line++)
		add_text(writer, function->cubin, name, line, cubin->ptx[line - 1],
			 strlen(cubin->ptx[line - 1]));
}

struct listing {
	struct ws_writer *writer;
	struct function *function;
};

static void take_instruction(void *context, const char *name, uint64_t pc, const char *text)
{
	struct listing *listing = context;

	if (pc / STEP < listing->function->count && !(pc % STEP) &&
	    !strcmp(name, listing->function->name))
		listing->function->instructions[pc / STEP].sass = intern(listing->writer, text);
}

/* The code ends where only padding follows the last instruction that has a line. */
static void write_instructions(struct ws_kernel_code *code, struct ws_writer *writer,
			       const struct ws_gpu_code_function *from, struct function *function)
{
	for (size_t i = 0; i < function->count; i++) {
		struct ws_row_kernel_instruction row = {.cubin = function->cubin,
							.function = intern(writer, function->name),
							.pc = i * STEP,
							.sass = function->instructions[i].sass,
							.ptx = ws_gpu_code_find_ptx(from,
										    i * STEP)};

		fill_place(code, writer, from, &row);
		function->instructions[i].file = row.file;
		function->instructions[i].line = row.line;
		ws_writer_add(writer, WS_TABLE_kernel_instruction, &row);
	}
}

static bool has_instructions(const struct function *function)
{
	for (size_t i = 0; i < function->count; i++)
		if (function->instructions[i].sass)
			return true;
	return false;
}

static void complain(struct ws_kernel_code *code, const char *functions, const char *why)
{
	free(code->complaint);
	code->complaint = ws_format(WS_KERNEL_NO_SASS "%s.", functions, why);
}

/* NULL, or why it gave less than it should. */
static char *run_disassembler(struct ws_kernel_code *code, uint32_t symbol, struct listing *listing)
{
	uint64_t start = ws_read_raw_ns();
	char *why = ws_disassemble(code->disassembler, code->cubin.path, symbol, take_instruction,
				   listing);

	code->spent_ns += ws_read_raw_ns() - start;
	return why;
}

/* Only this function: a library's cubin has thousands. All of it where that prints nothing, and
 * from then on if it helps. */
static void disassemble(struct ws_kernel_code *code, struct ws_writer *writer,
			const struct ws_gpu_code_function *from, struct function *function)
{
	struct listing listing = {writer, function};
	uint32_t symbol = code->whole ? 0 : ws_gpu_code_find_symbol(from);
	char *why;

	if (code->spent_ns >= code->most_ns) {
		complain(code, WS_KERNEL_FURTHER_FUNCTIONS, "nvdisasm took more than a minute");
		return;
	}
	if (symbol)
		free(run_disassembler(code, symbol, &listing));
	if (has_instructions(function))
		return;
	why = run_disassembler(code, 0, &listing);
	if (!has_instructions(function))
		complain(code, function->name, why ? why : "nvdisasm printed none of them");
	else if (symbol)
		code->whole = true;
	free(why);
}

static void read_function(struct ws_kernel_code *code, struct ws_writer *writer,
			  struct function *function)
{
	struct ws_gpu_code_function from;

	if (!ws_gpu_code_find_function(&code->cubin.code, function->name, &from)) {
		complain(code, function->name, "its module has no code of this name");
		return;
	}
	function->count = (size_t)ws_min(from.bytes, (uint64_t)FUNCTION_MOST) / STEP;
	function->instructions = ws_calloc(function->count + 1, sizeof(*function->instructions));
	if (code->disassembler)
		disassemble(code, writer, &from, function);
	else
		complain(code, WS_KERNEL_ALL_FUNCTIONS,
			 "this machine has no nvdisasm, which belongs to the CUDA toolkit");
	write_instructions(code, writer, &from, function);
	write_ptx(writer, &code->cubin.code, function);
	for (size_t i = 0; i < code->source_count; i++)
		write_source(writer, &code->sources[i]);
	ws_gpu_code_free_function(&from);
}

/* ---- cubins ---- */

static void *read_cubin(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat info;
	void *bytes = NULL;

	if (fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_size > 0 &&
	    info.st_size <= CUBIN_MOST) {
		*size = (size_t)info.st_size;
		bytes = ws_malloc(*size);
		if (pread(fd, bytes, *size, 0) != info.st_size) {
			free(bytes);
			bytes = NULL;
		}
	}
	if (fd >= 0)
		close(fd);
	return bytes;
}

/* Have the cubin open; false when it was not kept or cannot be read. */
static bool open_cubin(struct ws_kernel_code *code, uint64_t id)
{
	struct cubin *cubin = &code->cubin;
	struct ws_err err;
	size_t size;

	if (cubin->bytes && cubin->id == id)
		return true;
	close_cubin(cubin);
	cubin->id = id;
	cubin->path = ws_format("%s/%016llx.cubin", code->folder, (unsigned long long)id);
	cubin->bytes = read_cubin(cubin->path, &size);
	if (cubin->bytes && ws_gpu_code_open(&cubin->code, cubin->bytes, size, &err))
		close_cubin(cubin);
	return cubin->bytes;
}

static struct function *find_function(struct ws_kernel_code *code, struct ws_writer *writer,
				      uint64_t cubin, const char *name)
{
	struct function *function;

	for (size_t i = code->count; i-- > 0;)
		if (code->functions[i].cubin == cubin && !strcmp(code->functions[i].name, name))
			return &code->functions[i];
	if (code->count == FUNCTIONS_MOST)
		return NULL;
	ws_grow(code->functions, code->capacity, code->count + 1);
	function = &code->functions[code->count++];
	*function = (struct function){.cubin = cubin, .name = ws_strdup(name)};
	if (open_cubin(code, cubin))
		read_function(code, writer, function);
	else
		complain(code, name, "its code was not kept");
	return function;
}

struct ws_kernel_instruction ws_kernel_code_find(struct ws_kernel_code *code,
						 struct ws_writer *writer, uint64_t cubin,
						 const char *function, uint64_t pc)
{
	const struct function *found = find_function(code, writer, cubin, function);

	if (!found || pc / STEP >= found->count)
		return (struct ws_kernel_instruction){0};
	return found->instructions[pc / STEP];
}

/* A machine without the toolkit is no fault. */
char *ws_kernel_code_complaint(struct ws_kernel_code *code, enum ws_severity *severity)
{
	char *complaint = code->complaint;

	*severity = code->disassembler ? WS_WARNING : WS_INFO;

	code->complaint = NULL;
	return complaint;
}
