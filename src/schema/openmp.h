/* openmp.h - the kinds of events of OpenMP, as they are numbered in records and in the report. */
#ifndef WS_SCHEMA_OPENMP_H
#define WS_SCHEMA_OPENMP_H

enum ws_openmp_kind {
#define WS_OPENMP(kind, callback, text) WS_OPENMP_##kind,
#include "schema/openmp_kinds.def"
#undef WS_OPENMP
	WS_OPENMP_KINDS
};

/* Of the flags of a task (column kind of its rows), as OMPT numbers them. */
enum ws_openmp_task {
	WS_OPENMP_TASK_INITIAL = 1,
	WS_OPENMP_TASK_IMPLICIT = 2,
	WS_OPENMP_TASK_EXPLICIT = 4, /* made by omp task */
};

#endif
