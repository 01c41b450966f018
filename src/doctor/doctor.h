/*
 * doctor.h - what can be recorded on this machine, feature by feature.
 *
 * A check examines one feature and says whether it is there, what it found and what to do. Checks
 * are functions in a table, independent of each other and of how they are shown; a check that
 * cannot find out says so and is not ok. Checks change nothing: they try things only on themselves,
 * in a child process, or with a file that is deleted at once.
 */
#ifndef WS_DOCTOR_H
#define WS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/mem.h"

enum ws_health { WS_HEALTH_OK, WS_HEALTH_DEGRADED, WS_HEALTH_MISSING };

struct ws_finding {
	enum ws_health health;
	bool needed;	      /* nothing can be recorded without it */
	struct ws_text found; /* one or more sentences; never empty after the check */
	struct ws_text fix;   /* may be empty */
};

struct ws_check {
	const char *name;
	void (*examine)(struct ws_finding *finding);
};

extern const struct ws_check ws_doctor_checks[]; /* an entry without a name ends it */

void ws_finding_free(struct ws_finding *finding);

/* For checks: lower the health to `health` unless it is already worse, and add a sentence to what
 * was found. */
void ws_add_finding(struct ws_finding *finding, enum ws_health health, const char *fmt, ...)
	WS_PRINTF(3, 4);
/* Add a sentence to the fix. */
void ws_add_fix(struct ws_finding *finding, const char *fmt, ...) WS_PRINTF(2, 3);

/* Read up to `n` - 1 bytes of a small file, without the newline at the end. False when it cannot be
 * read; errno says why. */
bool ws_read_small_file(const char *path, char *out, size_t n);
/* What follows `key` and then blanks and a colon in the first line of `text` that begins with it;
 * NULL when there is none. *len gets its length. */
const char *ws_find_line_value(const char *text, const char *key, size_t *len);
/* Whether the capability with this number is in effect for this process. */
bool ws_has_capability(int number);
/* Try to open a perf event and close it again: 0, or the errno. */
int ws_try_perf(unsigned type, unsigned long config, int pid, int cpu);

/*
 * Run `work` in a child process, since it may hang or crash, as the libraries of drivers do. What
 * it writes to the descriptor is added to `out`. False when the child fails, or takes longer than
 * `seconds` and is killed; `out` then has what it had written by then.
 */
bool ws_run_in_child(void (*work)(int fd, void *arg), void *arg, unsigned seconds,
		     struct ws_text *out);

/* The checks, by file. */
void ws_check_kernel(struct ws_finding *finding);
void ws_check_clock(struct ws_finding *finding);
void ws_check_perf(struct ws_finding *finding);
void ws_check_bpf(struct ws_finding *finding);
void ws_check_tracefs(struct ws_finding *finding);
void ws_check_ptrace(struct ws_finding *finding);
void ws_check_proc(struct ws_finding *finding);
void ws_check_seccomp(struct ws_finding *finding);
void ws_check_container(struct ws_finding *finding);
void ws_check_capabilities(struct ws_finding *finding);
void ws_check_shm(struct ws_finding *finding);
void ws_check_tmp(struct ws_finding *finding);
void ws_check_cwd(struct ws_finding *finding);
void ws_check_preload(struct ws_finding *finding);
void ws_check_limits(struct ws_finding *finding);
void ws_check_gpu(struct ws_finding *finding);
void ws_check_driver(struct ws_finding *finding);
void ws_check_cupti(struct ws_finding *finding);
void ws_check_nvml(struct ws_finding *finding);
void ws_check_counters(struct ws_finding *finding);
void ws_check_injection(struct ws_finding *finding);
void ws_check_cuda_environment(struct ws_finding *finding);
void ws_check_graphics(struct ws_finding *finding);

#endif
