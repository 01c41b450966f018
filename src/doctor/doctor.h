/*
 * doctor.h - what this machine lets us record, feature by feature.
 *
 * A check looks at one thing and says whether it is there, what it found and what to do. Checks are
 * functions in a table and know nothing of each other or of how they are shown; a check that cannot
 * look says so and is not ok. They change nothing: what they try, they try on themselves, in a
 * child, or with a file that is gone at once.
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
	bool needed;	      /* without it nothing can be recorded */
	struct ws_text found; /* one or more sentences; never empty after the check */
	struct ws_text fix;   /* may be empty */
};

struct ws_check {
	const char *name;
	void (*look)(struct ws_finding *finding);
};

extern const struct ws_check ws_checks[]; /* ended by an entry without a name */

void ws_finding_free(struct ws_finding *finding);

/* For checks. Set or worsen the health and add a sentence to what was found. */
void ws_found(struct ws_finding *finding, enum ws_health health, const char *fmt, ...)
	WS_PRINTF(3, 4);
/* Add a sentence to the fix. */
void ws_fix(struct ws_finding *finding, const char *fmt, ...) WS_PRINTF(2, 3);

/* First `n` - 1 bytes of a small file, without the newline at the end. False when it cannot be
 * read; errno says why. */
bool ws_read_small(const char *path, char *out, size_t n);
/* The rest of the first line of `text` that begins with `key`, blanks and colon skipped, up to the
 * line's end; NULL when there is none. */
const char *ws_line_after(const char *text, const char *key, size_t *len);
/* 1 when this process has the capability in effect, 0 when not. */
bool ws_has_capability(int number);
/* Open a perf event on this process, with it closed again: 0, or the errno. */
int ws_try_perf(unsigned type, unsigned long config, int pid, int cpu);

/*
 * Run `work` in a child, for work that may hang or crash: libraries of drivers do. What it writes
 * to the descriptor lands in `out`. False when the child did not end well within `seconds`; what it
 * wrote until then is there nevertheless.
 */
bool ws_in_child(void (*work)(int fd, void *arg), void *arg, unsigned seconds, struct ws_text *out);

/* The checks, by file. */
void ws_look_kernel(struct ws_finding *finding);
void ws_look_clock(struct ws_finding *finding);
void ws_look_perf(struct ws_finding *finding);
void ws_look_bpf(struct ws_finding *finding);
void ws_look_tracefs(struct ws_finding *finding);
void ws_look_ptrace(struct ws_finding *finding);
void ws_look_proc(struct ws_finding *finding);
void ws_look_seccomp(struct ws_finding *finding);
void ws_look_container(struct ws_finding *finding);
void ws_look_capabilities(struct ws_finding *finding);
void ws_look_shm(struct ws_finding *finding);
void ws_look_tmp(struct ws_finding *finding);
void ws_look_cwd(struct ws_finding *finding);
void ws_look_preload(struct ws_finding *finding);
void ws_look_limits(struct ws_finding *finding);
void ws_look_gpu(struct ws_finding *finding);
void ws_look_driver(struct ws_finding *finding);
void ws_look_cupti(struct ws_finding *finding);
void ws_look_nvml(struct ws_finding *finding);
void ws_look_counters(struct ws_finding *finding);
void ws_look_injection(struct ws_finding *finding);
void ws_look_cuda_environment(struct ws_finding *finding);

#endif
