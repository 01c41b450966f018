/*
 * ncu.c - results of Nsight Compute: reads the output of `ncu --csv --page raw` into the tables of
 * measured kernels.
 *
 * The output has a line of names, a line of units, then one line for each result. Lines from ncu
 * and the profiled program may come before and between them. Values are scaled (Mbyte, us) and
 * grouped (1,980,000); they are kept in plain units. The output does not say when a kernel ran, so
 * results are placed one after another.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "import/formats.h"
#include "kernel/units.h"

enum {
	READ_AT_ONCE = 256 << 10,
	MOST_RECORD = 64 << 20, /* of one line: hostile files end here */
};

/* A record of the file: its fields, unquoted, in `text`. */
struct record {
	char **fields;
	size_t count, capacity;
};

struct ncu_column {
	char *name;
	char unit[WS_UNIT_ROOM];
	double factor; /* from the file's unit to the plain one */
	uint32_t name_id, unit_id;
};

struct ncu_csv {
	struct ws_importer *importer;
	struct ws_input *source;
	char *buffer; /* what was read; the part from `at` to `length` is not processed yet */
	size_t at, length, capacity;
	bool ended;
	struct record record;
	struct ncu_column *columns;
	size_t column_count;
	struct ws_map devices; /* process and device -> 1 */
	uint64_t results, odd_lines, time;
	uint32_t tool;
};

/* ---- records ---- */

/* Append more of the file to the buffer; false at the end. */
static bool read_more(struct ncu_csv *csv)
{
	size_t got;

	if (csv->ended)
		return false;
	if (csv->at) {
		memmove(csv->buffer, csv->buffer + csv->at, csv->length - csv->at);
		csv->length -= csv->at;
		csv->at = 0;
	}
	if (csv->length > MOST_RECORD) {
		ws_importer_stop(csv->importer, "%s has a line of more than %d MiB",
				 csv->importer->path, MOST_RECORD >> 20);
		return false;
	}
	ws_grow(csv->buffer, csv->capacity, csv->length + READ_AT_ONCE + 1);
	got = ws_read_input(csv->source, csv->buffer + csv->length, READ_AT_ONCE);
	csv->length += got;
	csv->ended = !got;
	return got > 0;
}

/* Where the line at `at` ends, line breaks within quotes not counted; SIZE_MAX when it is not all
 * there. A line that does not begin with a quote is not from ncu and has no quoting. */
static size_t find_record_end(const struct ncu_csv *csv)
{
	bool quoted = false, quoting = csv->at < csv->length && csv->buffer[csv->at] == '"';

	for (size_t i = csv->at; i < csv->length; i++)
		if (csv->buffer[i] == '"')
			quoted = !quoted && quoting;
		else if (csv->buffer[i] == '\n' && !quoted)
			return i;
	return SIZE_MAX;
}

/* Remove the quotes of the field at `from`, in place, and terminate it. Returns whether a comma
 * followed; *next is what comes after the comma. */
static bool unquote(char *from, char **next)
{
	char *to = from;
	bool quoted = false, comma;

	for (; *from && (quoted || *from != ','); from++)
		if (*from != '"') {
			*to++ = *from;
		} else if (quoted && from[1] == '"') {
			*to++ = *++from;
		} else {
			quoted = !quoted;
		}
	comma = *from == ',';
	*next = from + 1;
	*to = 0;
	return comma;
}

static void split_record(struct record *record, char *line)
{
	bool more = true;

	for (record->count = 0; more; record->count++) {
		ws_grow(record->fields, record->capacity, record->count + 1);
		record->fields[record->count] = line;
		more = unquote(line, &line);
	}
}

/* The next line as fields; false at the end. */
static bool next_record(struct ncu_csv *csv)
{
	size_t end;

	while ((end = find_record_end(csv)) == SIZE_MAX && read_more(csv))
		;
	if (end == SIZE_MAX)
		end = csv->length;
	if (csv->importer->stopped || csv->at >= csv->length)
		return false;
	csv->buffer[end] = 0;
	if (end > csv->at && csv->buffer[end - 1] == '\r')
		csv->buffer[end - 1] = 0;
	if (!strncmp(csv->buffer + csv->at, "\xef\xbb\xbf", 3)) /* a mark of UTF-8 */
		csv->at += 3;
	split_record(&csv->record, csv->buffer + csv->at);
	csv->at = end + 1;
	return true;
}

/* ---- columns ---- */

static bool is_header(const struct record *record)
{
	return record->count > 4 && !strcmp(record->fields[0], "ID") &&
	       !strcmp(record->fields[1], "Process ID");
}

static void free_columns(struct ncu_csv *csv)
{
	for (size_t i = 0; i < csv->column_count; i++)
		free(csv->columns[i].name);
	free(csv->columns);
	csv->columns = NULL;
	csv->column_count = 0;
}

static int read_names(struct ncu_csv *csv)
{
	free_columns(csv);
	csv->column_count = csv->record.count;
	csv->columns = ws_calloc(csv->column_count, sizeof(*csv->columns));
	for (size_t i = 0; i < csv->column_count; i++) {
		csv->columns[i].name = ws_strdup(csv->record.fields[i]);
		csv->columns[i].factor = 1;
		if (!strcmp(csv->columns[i].name, "Section Name"))
			return ws_importer_stop(csv->importer,
						"%s is the page 'details' of Nsight Compute, which "
						"rounds: export it with --csv --page raw",
						csv->importer->path);
	}
	return 0;
}

/* A line whose first fields are empty gives the units. */
static bool read_units(struct ncu_csv *csv)
{
	if (csv->record.count != csv->column_count || *csv->record.fields[0])
		return false;
	for (size_t i = 0; i < csv->column_count; i++) {
		struct ncu_column *column = &csv->columns[i];

		column->factor = ws_kernel_normalise_unit(csv->record.fields[i], column->unit);
	}
	return true;
}

static const char *find_field(const struct ncu_csv *csv, const char *name)
{
	for (size_t i = 0; i < csv->column_count; i++)
		if (!strcmp(csv->columns[i].name, name))
			return csv->record.fields[i];
	return "";
}

/* Read a number as ncu prints it, such as 1,234.5; false for other text. */
static bool parse_number(const char *text, double *value)
{
	char plain[64], *end;
	size_t n = 0;

	for (; *text && n + 1 < sizeof(plain); text++)
		if (*text != ',')
			plain[n++] = *text;
	plain[n] = 0;
	if (!n || *text || !(isdigit((unsigned char)*plain) || strchr("-.", *plain)))
		return false;
	*value = strtod(plain, &end);
	return !*end && isfinite(*value);
}

/* The value of a column in plain units; 0 where it has none. */
static double find_number(const struct ncu_csv *csv, const char *name)
{
	double value;

	for (size_t i = 0; i < csv->column_count; i++)
		if (!strcmp(csv->columns[i].name, name) &&
		    parse_number(csv->record.fields[i], &value))
			return value * csv->columns[i].factor;
	return 0;
}

static uint32_t find_whole(const struct ncu_csv *csv, const char *name)
{
	double value = find_number(csv, name);

	if (value < 0 || value > UINT32_MAX)
		return 0;
	return (uint32_t)llround(value);
}

/* ---- rows ---- */

/* "(65536, 1, 1)" */
static void parse_sizes(const char *text, uint32_t *x, uint32_t *y, uint32_t *z)
{
	if (sscanf(text, " (%u, %u, %u)", x, y, z) != 3 &&
	    sscanf(text, " %u, %u, %u", x, y, z) != 3)
		*x = *y = *z = 0;
}

/* The chip of a compute capability; its family is what matters. */
static const char *find_chip(unsigned major, unsigned minor)
{
	static const struct {
		unsigned major, minor;
		const char *chip;
	} chips[] = {{8, 0, "GA100"}, {8, 6, "GA102"},	{8, 7, "GA10B"},  {8, 9, "AD102"},
		     {9, 0, "GH100"}, {10, 0, "GB100"}, {10, 3, "GB110"}, {12, 0, "GB202"}};

	for (size_t i = 0; i < WS_COUNT(chips); i++)
		if (chips[i].major == major && chips[i].minor == minor)
			return chips[i].chip;
	return "";
}

static void fill_limits(const struct ncu_csv *csv, struct ws_row_cuda_device *row)
{
#define DEVICE(name) find_whole(csv, "device__attribute_" #name)
	row->sms = DEVICE(multiprocessor_count);
	row->warp = DEVICE(warp_size);
	row->warps_sm = DEVICE(max_warps_per_multiprocessor);
	row->blocks_sm = DEVICE(max_blocks_per_multiprocessor);
	row->regs_sm = DEVICE(max_registers_per_multiprocessor);
	row->regs_block = DEVICE(max_registers_per_block);
	row->shared_sm = DEVICE(max_shared_memory_per_multiprocessor);
	row->shared_block = DEVICE(max_shared_memory_per_block);
	row->shared_block_optin = DEVICE(max_shared_memory_per_block_optin);
	row->shared_reserved = DEVICE(reserved_shared_memory_per_block);
	row->threads_block = DEVICE(max_threads_per_block);
	row->max_ipc = DEVICE(max_ipc_per_multiprocessor);
#undef DEVICE
	row->l2_bytes = (uint64_t)find_number(csv, "device__attribute_l2_cache_size");
	row->memory_bytes = (uint64_t)find_number(csv, "device__attribute_total_memory");
	row->clock_rate = 1000 * (uint64_t)find_number(csv, "device__attribute_clock_rate");
}

static void add_device(struct ncu_csv *csv, uint32_t process, uint32_t device)
{
	uint64_t key = (uint64_t)process << 32 | device;
	struct ws_row_cuda_device *row;
	unsigned major = 0, minor = 0;
	bool there;

	ws_map_get(&csv->devices, key, &there);
	if (there)
		return;
	ws_map_set(&csv->devices, key, 1);
	row = ws_importer_add_row(csv->importer, WS_TABLE_cuda_device);
	sscanf(find_field(csv, "CC"), "%u.%u", &major, &minor);
	row->process = process;
	row->id = device;
	row->start = csv->time;
	row->visible = 1;
	row->major = major;
	row->minor = minor;
	row->name = ws_importer_add_text(csv->importer,
					 find_field(csv, "device__attribute_display_name"));
	row->chip = ws_importer_add_text(csv->importer, find_chip(major, minor));
	fill_limits(csv, row);
}

static uint32_t find_process(struct ncu_csv *csv)
{
	uint32_t pid = find_whole(csv, "Process ID"),
		 id = ws_importer_intern_process(csv->importer, pid, pid);
	struct ws_import_process *process = ws_importer_get_process(csv->importer, id);

	if (!process->name)
		process->name =
			ws_importer_add_text(csv->importer, find_field(csv, "Process Name"));
	return id;
}

/* "transpose" of "void ns::transpose<float>(float *, int)". */
static uint32_t add_short_name(struct ncu_csv *csv, const char *name)
{
	size_t n = strcspn(name, "(<");
	const char *from = name;

	for (size_t i = 0; i + 1 < n; i++)
		if (name[i] == ' ' || (name[i] == ':' && name[i + 1] == ':'))
			from = name + i + (name[i] == ' ' ? 1 : 2);
	return ws_importer_add_string(csv->importer, from, n - (size_t)(from - name));
}

static void fill_launch(struct ncu_csv *csv, struct ws_row_kernel_result *row)
{
	const char *config = find_field(csv, "launch__shared_mem_config_size");

	parse_sizes(find_field(csv, "Grid Size"), &row->grid_x, &row->grid_y, &row->grid_z);
	parse_sizes(find_field(csv, "Block Size"), &row->block_x, &row->block_y, &row->block_z);
	row->cluster_x = find_whole(csv, "launch__cluster_dim_x");
	row->cluster_y = find_whole(csv, "launch__cluster_dim_y");
	row->cluster_z = find_whole(csv, "launch__cluster_dim_z");
	row->registers = find_whole(csv, "launch__registers_per_thread");
	row->static_shared = find_whole(csv, "launch__shared_mem_per_block_static");
	row->dynamic_shared = find_whole(csv, "launch__shared_mem_per_block_dynamic");
	row->executed_shared = WS_NO_U32;
	if (*config)
		row->executed_shared = find_whole(csv, "launch__shared_mem_config_size");
	row->shared_percent = row->cache_config = row->graph = WS_NO_U32;
	row->graph_node = WS_NO_U64;
	row->passes = find_whole(csv, "profiler__replayer_passes");
}

static void add_result(struct ncu_csv *csv, uint32_t id)
{
	struct ws_row_kernel_result *row;
	uint32_t process = find_process(csv), device = find_whole(csv, "Device");
	const char *name = find_field(csv, "Kernel Name");
	double duration = find_number(csv, "gpu__time_duration.sum");

	add_device(csv, process, device);
	row = ws_importer_add_row(csv->importer, WS_TABLE_kernel_result);
	*row = (struct ws_row_kernel_result){.id = id, .process = process, .device = device};
	row->thread = 0;
	row->start = csv->time;
	row->end = WS_NO_TIME;
	if (duration > 0 && duration < 1e18)
		row->end = csv->time + (uint64_t)llround(duration);
	row->context = find_whole(csv, "Context");
	row->stream = find_whole(csv, "Stream");
	row->correlation = WS_NO_U32;
	row->launch = row->instance = id;
	row->demangled = ws_importer_add_text(csv->importer, name);
	row->name = add_short_name(csv, name);
	row->tool = csv->tool;
	fill_launch(csv, row);
	csv->time = row->end == WS_NO_TIME ? csv->time + 1 : row->end;
	ws_importer_include_time(csv->importer, row->start);
	ws_importer_include_time(csv->importer, csv->time);
}

static void add_metric(struct ncu_csv *csv, struct ncu_column *column, const char *field,
		       uint32_t result)
{
	struct ws_row_kernel_metric *row;
	double value = 0;
	bool number = parse_number(field, &value);

	if (!*field || !strcmp(field, "n/a") || !strcmp(field, "nan") || !strcmp(field, "inf"))
		return;
	if (!column->name_id) {
		column->name_id = ws_importer_add_text(csv->importer, column->name);
		if (*column->unit)
			column->unit_id = ws_importer_add_text(csv->importer, column->unit);
	}
	row = ws_importer_add_row(csv->importer, WS_TABLE_kernel_metric);
	*row = (struct ws_row_kernel_metric){
		.result = result, .name = column->name_id, .unit = column->unit_id};
	if (number)
		row->value = value * column->factor;
	else
		row->text = ws_importer_add_text(csv->importer, field);
}

/* Metrics are called unit__...; the other columns say which launch it was. */
static void read_result(struct ncu_csv *csv)
{
	uint32_t id = csv->importer->kernel_results++;

	csv->results++;
	add_result(csv, id);
	for (size_t i = 0; i < csv->column_count; i++)
		if (strstr(csv->columns[i].name, "__"))
			add_metric(csv, &csv->columns[i], csv->record.fields[i], id);
	ws_writer_commit(csv->importer->writer);
}

static void read_record(struct ncu_csv *csv)
{
	if (is_header(&csv->record))
		read_names(csv);
	else if (csv->column_count && csv->record.count == csv->column_count) {
		if (!read_units(csv))
			read_result(csv);
	} else if (csv->column_count && *csv->record.fields[0]) {
		csv->odd_lines++;
	}
}

int ws_import_ncu_csv(struct ws_importer *importer, struct ws_input *source)
{
	struct ncu_csv csv = {.importer = importer, .source = source};

	csv.tool = ws_importer_add_text(importer, "Nsight Compute");
	while (!importer->stopped && next_record(&csv)) {
		read_record(&csv);
		ws_importer_show_progress(importer, ws_count_input_read(source),
					  ws_find_input_size(source));
	}
	ws_importer_add_notes(importer, csv.odd_lines,
			      "Lines that are no result of Nsight Compute were left out.");
	if (ws_explain_broken_input(source))
		ws_importer_add_note(importer,
				     "The text is broken: %s. What stands before was read.",
				     ws_explain_broken_input(source));
	if (!csv.results && !importer->stopped)
		ws_importer_stop(importer, "%s holds no results of Nsight Compute", importer->path);
	ws_map_free(&csv.devices);
	free_columns(&csv);
	free(csv.record.fields);
	free(csv.buffer);
	return ws_importer_get_status(importer);
}
