/* tables.h - what the files that declare tables offer to tables.c; private to views/. */
#ifndef WS_VIEWS_TABLES_H
#define WS_VIEWS_TABLES_H

#include "views/view.h"

/* Tables made row by row; each function writes those it names. */
int ws_write_session_tables(
	struct ws_cell_context *export,
	struct ws_err *err); /* META_DATA_EXPORT, TARGET_INFO_*, ANALYSIS_DETAILS, ProcessStreams */
int ws_write_process_tables(struct ws_cell_context *export,
			    struct ws_err *err); /* PROCESSES, ThreadNames */
int ws_write_gpu_tables(struct ws_cell_context *export,
			struct ws_err *err); /* TARGET_INFO_GPU, TARGET_INFO_CUDA_DEVICE */
int ws_write_enum_tables(struct ws_cell_context *export, struct ws_err *err); /* ENUM_* */
int ws_write_sample_tables(struct ws_cell_context *export,
			   struct ws_err *err); /* COMPOSITE_EVENTS, SCHED_EVENTS */
int ws_write_callchain_tables(struct ws_cell_context *export,
			      struct ws_err *err); /* *_CALLCHAINS */
int ws_write_count_table(struct ws_cell_context *export,
			 struct ws_err *err); /* PERF_EVENT_CPU_RAW_EVENT */
int ws_write_foreign_tables(
	struct ws_cell_context *export,
	struct ws_err *err); /* tables that an import kept, under their own names */
int ws_write_metric_tables(
	struct ws_cell_context *export,
	struct ws_err *err); /* GPU_METRICS, NET_*; after those that an import kept */
/* Write the known tables that nothing fills, as empty tables; after all others. */
int ws_write_known_tables(struct ws_cell_context *export, struct ws_err *err);

/* Write StringIds: the texts that the tables written before it refer to. */
int ws_write_string_table(struct ws_cell_context *export, struct ws_err *err);
/* Free the rows that were collected and not written. */
void ws_free_pending_rows(struct ws_cell_context *export);

/* Whether a table of this name is made from the report's own tables. */
bool ws_is_own_table(const char *name);
/* Whether ws_write_foreign_tables writes it. */
bool ws_is_foreign_table(const struct ws_cell_context *export, const char *name);
/* Find those tables. Call this first. */
void ws_find_foreign_tables(struct ws_cell_context *export);
/* Whether ws_write_metric_tables writes the table; whether it does so when no import kept one. */
bool ws_is_metric_table(const char *name);
bool ws_is_metric_info_table(const char *name);
void ws_free_foreign_tables(struct ws_cell_context *export);

/* Views that are not generic. */
extern const struct ws_table_view ws_images_view, ws_threads_view,
	ws_diagnostics_view;					     /* tables_session.c */
extern const struct ws_table_view ws_contexts_view, ws_streams_view; /* tables_cuda.c */

/* Write the well-known tables of OpenMP and OpenACC to an array of WS_RUNTIME_VIEWS; returns their
 * number. */
enum { WS_RUNTIME_VIEWS = 32 };
size_t ws_make_runtime_views(struct ws_table_view *views);

/* The columns, *count of them, that the table has in other tools' exports; none for our own tables.
 * They live for ever. */
const struct ws_view_column *ws_find_known_columns(const char *table, size_t *count);

/* The id in TARGET_INFO_GPU of the GPU with this UUID, a string key; -1 when it is not there. */
int64_t ws_find_exported_gpu(const struct ws_cell_context *export, uint32_t uuid);

/* Real time (ns since 1970) at the start of the collection, from the clock reading next to it; 0
 * when there is none. */
uint64_t ws_find_start_epoch(const struct ws_cell_context *export);

#endif
