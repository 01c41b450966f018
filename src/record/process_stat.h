/* process_stat.h - what /proc says of a process in one line. */
#ifndef WS_RECORD_PROCESS_STAT_H
#define WS_RECORD_PROCESS_STAT_H

enum { WS_PROCESS_STAT = 1024 };

/*
 * Read /proc/PID/stat into `line`. Returns what comes from the parenthesis on that closes the name
 * of the program, which may hold anything: ") S PARENT ..."; NULL when there is no such process.
 */
const char *ws_read_process_stat(int pid, char line[WS_PROCESS_STAT]);

#endif
