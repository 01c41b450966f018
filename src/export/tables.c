/*
 * tables.c - what is exported: the tables with many rows in a form of their own (NVTX_EVENTS, OSRT_API), the others of tables.def
 * generically.
 *
 * Generic form: each column that tables.def gives a name becomes a column. Times count from the start of the collection, threads
 * and processes become globalTid and globalPid, a text becomes a StringIds number where the column's name ends in Id and stands
 * inline otherwise; "none" is NULL everywhere.
 */
#include <string.h>

#include "export/tables.h"

/* ---- NVTX_EVENTS ---- */

enum {
	NV_START,
	NV_END,
	NV_TYPE,
	NV_RANGE,
	NV_CATEGORY,
	NV_COLOR,
	NV_TEXT,
	NV_TID,
	NV_END_TID,
	NV_TEXT_ID,
	NV_DOMAIN,
	NV_UINT64,
	NV_INT64,
	NV_DOUBLE,
	NV_UINT32,
	NV_INT32,
	NV_FLOAT,
	NV_JSON_ID,
	NV_JSON,
	NV_BINARY,
	NV_COLUMNS
};

#define PAYLOAD (WS_COL(nvtx, payload) | WS_COL(nvtx, payload_type))

static const struct ws_xcolumn nvtx_columns[NV_COLUMNS] = {
    [NV_START] = {"start", "INTEGER", true, false, "Start of the range, or moment of the mark or definition (ns)",
		  WS_COL(nvtx, start), true},
    [NV_END] = {"end", "INTEGER", false, false, "End of the range (ns); NULL for marks and ranges that never ended",
		WS_COL(nvtx, end), true},
    [NV_TYPE] = {"eventType", "INTEGER", true, false, "ENUM_NSYS_EVENT_TYPE(id)", WS_COL(nvtx, type), true},
    [NV_RANGE] = {"rangeId", "INTEGER", false, false, "Number of a start/end range in its process",
		  WS_COL(nvtx, type) | WS_COL(nvtx, range_id)},
    [NV_CATEGORY] = {"category", "INTEGER", false, false, "Category number in the domain", WS_COL(nvtx, category)},
    [NV_COLOR] = {"color", "INTEGER", false, false, "ARGB", WS_COL(nvtx, flags) | WS_COL(nvtx, color)},
    [NV_TEXT] = {"text", "TEXT", false, false, "Message, unless it is a registered string",
		 WS_COL(nvtx, flags) | WS_COL(nvtx, text)},
    [NV_TID] = {"globalTid", "INTEGER", false, false, "Thread: pid << 24 | tid", WS_COL(nvtx, thread), true},
    [NV_END_TID] = {"endGlobalTid", "INTEGER", false, false, "Thread that ended a start/end range",
		    WS_COL(nvtx, type) | WS_COL(nvtx, end) | WS_COL(nvtx, thread) | WS_COL(nvtx, end_thread)},
    [NV_TEXT_ID] = {"textId", "INTEGER", false, false, "StringIds(id) of a registered string",
		    WS_COL(nvtx, flags) | WS_COL(nvtx, text)},
    [NV_DOMAIN] = {"domainId", "INTEGER", false, false, "Domain number in the process; 0 is the default domain",
		   WS_COL(nvtx, domain), true},
    [NV_UINT64] = {"uint64Value", "INTEGER", false, false, "Payload", PAYLOAD},
    [NV_INT64] = {"int64Value", "INTEGER", false, false, "Payload", PAYLOAD},
    [NV_DOUBLE] = {"doubleValue", "REAL", false, false, "Payload", PAYLOAD},
    [NV_UINT32] = {"uint32Value", "INTEGER", false, false, "Payload", PAYLOAD},
    [NV_INT32] = {"int32Value", "INTEGER", false, false, "Payload", PAYLOAD},
    [NV_FLOAT] = {"floatValue", "REAL", false, false, "Payload", PAYLOAD},
    [NV_JSON_ID] = {"jsonTextId", "INTEGER", false, false, "Not used"},
    [NV_JSON] = {"jsonText", "TEXT", false, false, "Not used"},
    [NV_BINARY] = {"binaryData", "TEXT", false, false, "Bytes of extended payloads, as a blob", WS_COL(nvtx, binary)},
};

static void fill_payload(const uint64_t *v, struct ws_xcell *c)
{
	uint64_t bits = v[ws_nvtx_payload];

	switch (v[ws_nvtx_payload_type]) {
	case WS_NVTX_PAYLOAD_U64:
		c[NV_UINT64] = (struct ws_xcell){.kind = WS_X_UINT, .i = (int64_t)bits};
		break;
	case WS_NVTX_PAYLOAD_I64:
		c[NV_INT64] = ws_x_int((int64_t)bits);
		break;
	case WS_NVTX_PAYLOAD_F64:
		c[NV_DOUBLE].kind = WS_X_REAL;
		memcpy(&c[NV_DOUBLE].r, &bits, 8);
		break;
	case WS_NVTX_PAYLOAD_U32:
		c[NV_UINT32] = ws_x_int((uint32_t)bits);
		break;
	case WS_NVTX_PAYLOAD_I32:
		c[NV_INT32] = ws_x_int((int32_t)(uint32_t)bits);
		break;
	case WS_NVTX_PAYLOAD_F32: {
		uint32_t low = (uint32_t)bits;
		float f;

		memcpy(&f, &low, 4);
		c[NV_FLOAT] = (struct ws_xcell){.kind = WS_X_REAL, .r = f};
		break;
	}
	}
}

static bool fill_nvtx(struct ws_export *x, const uint64_t *v, struct ws_xcell *c)
{
	uint32_t text = (uint32_t)v[ws_nvtx_text];
	bool startend = v[ws_nvtx_type] == WS_NVTX_STARTEND;

	for (int i = 0; i < NV_COLUMNS; i++)
		c[i].kind = WS_X_NULL;
	c[NV_START] = ws_x_time(x, v[ws_nvtx_start]);
	c[NV_END] = ws_x_ntime(x, v[ws_nvtx_end]);
	c[NV_TYPE] = ws_x_int((int64_t)v[ws_nvtx_type]);
	if (startend)
		c[NV_RANGE] = (struct ws_xcell){.kind = WS_X_UINT, .i = (int64_t)v[ws_nvtx_range_id]};
	if (v[ws_nvtx_category])
		c[NV_CATEGORY] = ws_x_int((int64_t)v[ws_nvtx_category]);
	if (v[ws_nvtx_flags] & WS_NVTX_HAS_COLOR)
		c[NV_COLOR] = ws_x_int((int64_t)v[ws_nvtx_color]);
	if (v[ws_nvtx_flags] & WS_NVTX_REGISTERED)
		c[NV_TEXT_ID] = ws_x_string(x, text);
	else
		c[NV_TEXT] = ws_x_text(x, text);
	c[NV_TID] = ws_x_thread(x, v[ws_nvtx_thread]);
	if (startend && v[ws_nvtx_end] != WS_NO_TIME)
		c[NV_END_TID] = v[ws_nvtx_end_thread] ? ws_x_thread(x, v[ws_nvtx_end_thread]) : c[NV_TID];
	c[NV_DOMAIN] = ws_x_int((int64_t)v[ws_nvtx_domain]);
	fill_payload(v, c);
	if (v[ws_nvtx_binary]) {
		c[NV_BINARY].kind = WS_X_BLOB;
		c[NV_BINARY].s = ws_report_string(x->r, (uint32_t)v[ws_nvtx_binary], &c[NV_BINARY].n);
	}
	return true;
}

/* ---- OSRT_API ---- */

static const struct ws_xcolumn osrt_columns[] = {
    {"start", "INTEGER", true, false, "Start of the call (ns)", WS_COL(osrt, start), true},
    {"end", "INTEGER", false, false, "Return of the call (ns); NULL when it never returned", WS_COL(osrt, end), true},
    {"eventClass", "INTEGER", true, false, "ENUM_NSYS_EVENT_CLASS(id)"},
    {"globalTid", "INTEGER", false, false, "Thread: pid << 24 | tid", WS_COL(osrt, thread), true},
    {"nameId", "INTEGER", true, false, "StringIds(id) of the function", WS_COL(osrt, name)},
    {"returnValue", "INTEGER", true, false, "What it returned", WS_COL(osrt, result), true},
    {"nestingLevel", "INTEGER", false, false, "How many traced calls it is inside of", WS_COL(osrt, nesting), true},
    {"callchainId", "INTEGER", true, false, "0: call stacks are not recorded"},
};

enum { EVENT_CLASS_OSRT = 27 };

static bool fill_osrt(struct ws_export *x, const uint64_t *v, struct ws_xcell *c)
{
	c[0] = ws_x_time(x, v[ws_osrt_start]);
	c[1] = ws_x_ntime(x, v[ws_osrt_end]);
	c[2] = ws_x_int(EVENT_CLASS_OSRT);
	c[3] = ws_x_thread(x, v[ws_osrt_thread]);
	c[4] = ws_x_string(x, (uint32_t)v[ws_osrt_name]);
	if (c[4].kind == WS_X_NULL)
		c[4] = ws_x_int(0);
	c[5] = ws_x_int((int64_t)v[ws_osrt_result]);
	c[6] = ws_x_int((int64_t)v[ws_osrt_nesting]);
	c[7] = ws_x_int(0);
	return true;
}

/* What a call was about has a table of its own: OSRT_API keeps the columns that scripts expect. */
static const struct ws_xcolumn osrt_detail_columns[] = {
    {"start", "INTEGER", true, false, "Start of the call (ns); with globalTid it names the row of OSRT_API"},
    {"globalTid", "INTEGER", false, false, "Thread: pid << 24 | tid"},
    {"nameId", "INTEGER", true, false, "StringIds(id) of the function"},
    {"error", "INTEGER", false, false, "errno of a call that failed"},
    {"object", "INTEGER", false, false, "The lock, condition, thread or descriptor it was about"},
    {"path", "TEXT", false, false, "Path of a file call"},
};

static bool fill_osrt_detail(struct ws_export *x, const uint64_t *v, struct ws_xcell *c)
{
	if (!v[ws_osrt_error] && !v[ws_osrt_object] && !v[ws_osrt_path])
		return false;
	c[0] = ws_x_time(x, v[ws_osrt_start]);
	c[1] = ws_x_thread(x, v[ws_osrt_thread]);
	c[2] = ws_x_string(x, (uint32_t)v[ws_osrt_name]);
	if (c[2].kind == WS_X_NULL)
		c[2] = ws_x_int(0);
	c[3] = v[ws_osrt_error] ? ws_x_int((int64_t)v[ws_osrt_error]) : ws_x_null();
	c[4] = v[ws_osrt_object] ? ws_x_int((int64_t)v[ws_osrt_object]) : ws_x_null();
	c[5] = ws_x_text(x, (uint32_t)v[ws_osrt_path]);
	return true;
}

/* ---- the rest of tables.def ---- */

/* A generic table being written: one at a time. */
static struct generic {
	enum ws_table table;
	struct ws_xtable t;
	struct ws_xcolumn columns[WS_MAX_COLUMNS];
	uint8_t source[WS_MAX_COLUMNS]; /* column of the table, or NOWHERE: it is null */
	bool number[WS_MAX_COLUMNS];	/* a text that stands as its number */
} generic;

#define NOWHERE UINT8_MAX

/* Columns that people's queries may name and that no recording of ours fills: NULL. */
static const struct {
	enum ws_table table;
	const char *name, *type;
	const char *doc;
} absent[] = {
    {WS_TABLE_cuda_kernel, "qmdBulkReleaseDone", "INTEGER", "Not used"},
    {WS_TABLE_cuda_kernel, "qmdPreexitDone", "INTEGER", "Not used"},
    {WS_TABLE_cuda_kernel, "qmdLastCtaDone", "INTEGER", "Not used"},
    {WS_TABLE_cuda_kernel, "tensorSizeMinusOneElements", "TEXT", "Not used"},
    {WS_TABLE_cuda_memcpy, "deprecatedSrcId", "INTEGER", "Not used: srcDeviceId"},
    {WS_TABLE_cuda_sync, "deprecatedSyncType", "INTEGER", "Not used: syncType"},
    {WS_TABLE_cuda_um_cpu_fault, "unresolvedFaultPc", "INTEGER", "Not used"},
};

static bool ends_in_id(const char *name)
{
	size_t n = strlen(name);

	return n > 2 && !strcmp(name + n - 2, "Id");
}

/* Texts that stand as numbers of StringIds: columns called ...Id, and those that people know under other names. */
static bool by_number(const char *name)
{
	static const char *const others[] = {"demangledName", "shortName", "mangledName", "CpuInstruction", "module"};

	for (size_t i = 0; i < WS_COUNT(others); i++)
		if (!strcmp(name, others[i]))
			return true;
	return ends_in_id(name);
}

struct ws_xcell ws_x_plain(struct ws_export *x, const struct ws_column_desc *d, bool number, uint64_t v)
{
	switch (d->type) {
	case WS_T_TIME:
		return ws_x_time(x, v);
	case WS_T_NTIME:
		return ws_x_ntime(x, v);
	case WS_T_STR:
		return number ? ws_x_string(x, (uint32_t)v) : ws_x_text(x, (uint32_t)v);
	case WS_T_THREAD:
	case WS_T_NTHREAD:
		return ws_x_thread(x, v);
	case WS_T_PROCESS:
		return ws_x_process(x, v);
	case WS_T_NU32:
		return v == WS_NO_U32 ? ws_x_null() : ws_x_int((int64_t)v);
	case WS_T_NU64:
		return v == WS_NO_U64 ? ws_x_null() : (struct ws_xcell){.kind = WS_X_UINT, .i = (int64_t)v};
	case WS_T_F64: {
		struct ws_xcell c = {.kind = WS_X_REAL};

		memcpy(&c.r, &v, 8);
		return c;
	}
	case WS_T_U64:
		return (struct ws_xcell){.kind = WS_X_UINT, .i = (int64_t)v};
	case WS_T_I32:
		return (int32_t)v == WS_NO_STATUS ? ws_x_null() : ws_x_int((int64_t)v);
	default:
		return ws_x_int((int64_t)v);
	}
}

static bool fill_generic(struct ws_export *x, const uint64_t *v, struct ws_xcell *c)
{
	const struct ws_column_desc *columns = ws_tables[generic.table].columns;

	for (size_t i = 0; i < generic.t.column_count; i++) {
		uint8_t from = generic.source[i];

		c[i] = from == NOWHERE ? ws_x_null() : ws_x_plain(x, &columns[from], generic.number[i], v[from]);
	}
	return true;
}

static int export_generic(struct ws_export *x, enum ws_table table, struct ws_err *e)
{
	const struct ws_table_desc *d = &ws_tables[table];
	struct generic *g = &generic;

	g->table = table;
	g->t = (struct ws_xtable){d->sqlite, d->doc, g->columns, 0};
	for (uint32_t i = 0; i < d->column_count; i++) {
		const struct ws_column_desc *c = &d->columns[i];
		bool number = c->type == WS_T_STR && by_number(c->sqlite);
		bool text = c->type == WS_T_STR && !number;

		if (!*c->sqlite)
			continue;
		g->number[g->t.column_count] = number;
		g->source[g->t.column_count] = (uint8_t)i;
		g->columns[g->t.column_count++] = (struct ws_xcolumn){c->sqlite,
								      text ? "TEXT" : c->type == WS_T_F64 ? "REAL" : "INTEGER",
								      c->type == WS_T_TIME,
								      false,
								      c->doc,
								      UINT64_C(1) << i,
								      true};
	}
	for (size_t i = 0; i < WS_COUNT(absent); i++) {
		if (absent[i].table != table)
			continue;
		g->source[g->t.column_count] = NOWHERE;
		g->columns[g->t.column_count++] = (struct ws_xcolumn){absent[i].name, absent[i].type, false, false, absent[i].doc};
	}
	if (x->lazily && g->t.column_count)
		return x->lazily(x, &g->t, table, NULL, e);
	return g->t.column_count ? ws_export_rows(x, &g->t, table, fill_generic, e) : 0;
}

static const struct ws_xtable nvtx_table = {"NVTX_EVENTS", "NVTX ranges and marks, and the definitions of domains and categories",
					    nvtx_columns, NV_COLUMNS};
static const struct ws_xtable osrt_table = {"OSRT_API", "Calls of libc and pthread functions that blocked or lasted", osrt_columns,
					    WS_COUNT(osrt_columns)};

static const struct ws_xtable osrt_detail_table = {"WARPSIGHT_OSRT_DETAIL",
						   "What calls in OSRT_API were about: lock, descriptor, path, error",
						   osrt_detail_columns, WS_COUNT(osrt_detail_columns)};

/* Tables whose form in the export is made elsewhere than generically. */
static int export_table(struct ws_export *x, enum ws_table t, struct ws_err *e)
{
	switch (t) {
	case WS_TABLE_nvtx:
		return ws_export_rows(x, &nvtx_table, t, fill_nvtx, e);
	case WS_TABLE_osrt:
		return ws_export_rows(x, &osrt_table, t, fill_osrt, e) < 0
			   ? -1
			   : ws_export_rows(x, &osrt_detail_table, t, fill_osrt_detail, e);
	case WS_TABLE_process:
		return ws_export_processes(x, e);
	case WS_TABLE_diagnostic:
		return ws_export_diagnostics(x, e);
	case WS_TABLE_cuda_device:
	case WS_TABLE_cuda_context:
	case WS_TABLE_cuda_stream:
		return ws_export_cuda(x, t, e);
	case WS_TABLE_thread:
	case WS_TABLE_thread_name: /* with the processes */
	case WS_TABLE_collection:
	case WS_TABLE_output: /* with the session */
		return 0;
	default:
		return export_generic(x, t, e);
	}
}

int ws_export_tables(struct ws_export *x, struct ws_err *e)
{
	if (ws_export_session(x, e) < 0 || ws_export_enums(x, e) < 0)
		return -1;
	for (int t = 0; t < WS_TABLE_COUNT; t++)
		if (export_table(x, (enum ws_table)t, e) < 0)
			return -1;
	return 0;
}
