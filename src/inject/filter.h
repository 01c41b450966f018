/*
 * filter.h - what a filter of system calls (seccomp) would do with calls that the hooks make.
 */
#ifndef WS_INJECT_FILTER_H
#define WS_INJECT_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>

/*
 * Whether the filter may end the program, or stop it for a supervisor, for a call that the runtime
 * makes when a thread, a forked child or a new image begins. Decided without knowing the arguments
 * of the calls: true where it depends on them. A program that cannot be read is not lethal: the
 * kernel will refuse it.
 */
bool ws_is_lethal_filter(const struct sock_fprog *program);
/* The same for taking memory, and for the return from a signal handler. */
bool ws_forbids_memory(const struct sock_fprog *program);
bool ws_forbids_signal_handlers(const struct sock_fprog *program);

#endif
