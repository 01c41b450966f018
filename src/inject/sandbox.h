/*
 * sandbox.h - recognises calls by which a program sandboxes itself; see ws_rt_enter_sandbox.
 */
#ifndef WS_INJECT_SANDBOX_H
#define WS_INJECT_SANDBOX_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/prctl.h>

/* Whether this call of prctl limits the system calls that are allowed, or announces that. */
static inline bool ws_begins_sandbox(int option)
{
	return option == PR_SET_SECCOMP || option == PR_SET_NO_NEW_PRIVS;
}

/* Whether it forbids the thread even to read the clock, and nearly all system calls. */
static inline bool ws_forbids_all_calls(int option, unsigned long arg)
{
	return (option == PR_SET_SECCOMP && arg == SECCOMP_MODE_STRICT) ||
	       (option == PR_SET_TSC && arg == PR_TSC_SIGSEGV);
}

#endif
