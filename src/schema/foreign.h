/* foreign.h - how a report says what other tools' tables, which have none here, were. */
#ifndef WS_SCHEMA_FOREIGN_H
#define WS_SCHEMA_FOREIGN_H

/*
 * Facts of an import about tables of other tools that have none here, from which exports make them
 * again (views/tables_foreign.c).
 *
 * WS_FOREIGN_TABLE_FACT and the table's name: "S " when its rows are slices, "F " when they are
 * rows of `foreign`, and its columns, each with letters after a slash: T text, R real (else
 * integer), @ number of StringIds, and what it became of the row: s start, e end, t thread, n name;
 * i is a number for the row, unless it has one.
 * "S start/s end/e globalTid/t textId/@n tag size".
 *
 * WS_FOREIGN_COUNTER_FACT and the id of a counter: the table of metrics that its values come from
 * and what they are numbered there, "GPU_METRICS type metric", "NET_NIC_METRIC globalId list idx".
 */
#define WS_FOREIGN_TABLE_FACT "table."
#define WS_FOREIGN_COUNTER_FACT "counter."

#endif
