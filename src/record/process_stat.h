/* process_stat.h - reads the one-line state of a process from /proc. */
#ifndef WS_RECORD_PROCESS_STAT_H
#define WS_RECORD_PROCESS_STAT_H

enum { WS_PROCESS_STAT = 1024 };

/*
 * Read /proc/PID/stat into `line`. Returns the text from the parenthesis that closes the name of
 * the program on, because the name may contain anything: ") S PARENT ..."; NULL when there is no
 * such process.
 */
const char *ws_read_process_stat(int pid, char line[WS_PROCESS_STAT]);

#endif
