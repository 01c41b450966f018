/* tables.h - the tables that are made row by row (tables_session.c), for tables.c; private to export/. */
#ifndef WS_EXPORT_TABLES_H
#define WS_EXPORT_TABLES_H

#include "export/export.h"

/* Facts about the session, processes, threads, streams: each writes the tables it names. */
int ws_export_processes(struct ws_export *x, struct ws_err *e); /* PROCESSES, WARPSIGHT_PROCESS, WARPSIGHT_THREAD, ThreadNames */
int ws_export_session(struct ws_export *x,
		      struct ws_err *e);		    /* META_DATA_EXPORT, TARGET_INFO_*, ANALYSIS_DETAILS, ProcessStreams */
int ws_export_enums(struct ws_export *x, struct ws_err *e); /* ENUM_* */
int ws_export_gpus(struct ws_export *x, struct ws_err *e);  /* TARGET_INFO_GPU */
int ws_export_diagnostics(struct ws_export *x, struct ws_err *e); /* DIAGNOSTIC_EVENT */

/* Values of DIAGNOSTIC_EVENT.source and timestampType. */
enum { WS_X_SOURCE_INJECTION = 1, WS_X_SOURCE_DAEMON = 2, WS_X_TIMESTAMP_TARGET = 1 };

#endif
