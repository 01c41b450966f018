/* tables.h - the tables that are made row by row (tables_session.c), for tables.c; private to export/. */
#ifndef WS_EXPORT_TABLES_H
#define WS_EXPORT_TABLES_H

#include "export/export.h"

/* Facts about the session, processes, threads, streams: each writes the tables it names. */
int ws_export_processes(struct ws_export *x, struct ws_err *e); /* PROCESSES, WARPSIGHT_PROCESS, WARPSIGHT_THREAD, ThreadNames */
int ws_export_session(struct ws_export *x,
		      struct ws_err *e);		    /* META_DATA_EXPORT, TARGET_INFO_*, ANALYSIS_DETAILS, ProcessStreams */
int ws_export_enums(struct ws_export *x, struct ws_err *e); /* ENUM_* */
/* Devices, contexts and streams of CUDA. */
int ws_export_cuda(struct ws_export *x, enum ws_table t, struct ws_err *e);

/* One enumeration; its values end with a name of NULL. */
struct ws_x_meaning {
	int id;
	const char *name, *label;
};
int ws_export_enum(struct ws_export *x, const char *name, const char *doc, const struct ws_x_meaning *m, struct ws_err *e);
int ws_export_cuda_enums(struct ws_export *x, struct ws_err *e);
int ws_export_diagnostics(struct ws_export *x, struct ws_err *e); /* DIAGNOSTIC_EVENT */

#endif
