/*
 * signals.h - the recorder's signals. A terminal's Ctrl-C reaches the target by itself: the
 * recorder must outlive it and write the report. A signal sent to the recorder alone is meant for
 * the run as a whole and is passed on to the target.
 */
#ifndef WS_RECORD_SIGNALS_H
#define WS_RECORD_SIGNALS_H

#include <stdbool.h>
#include <sys/types.h>

void ws_signals_install(void);
/* Put back what was there before: in the child before exec, and at the end. Async-signal-safe. */
void ws_signals_restore(void);
/* A signal to pass on to the target that has arrived since the last call; 0 for none. */
int ws_signals_pending(void);
/* From now on WS_SNAPSHOT_SIGNO, which is ignored by default, is noted. */
void ws_signals_await_snapshot(void);
/* Whether it has come since this was last asked. */
bool ws_signals_take_snapshot(void);
/* Interrupts from the terminal so far. */
int ws_signals_interrupts(void);

#endif
