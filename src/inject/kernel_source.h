/*
 * kernel_source.h - what the parts of the kernel hook share that look into a kernel, in passes of
 * their own: at single instructions and at moments of its time.
 *
 * kernel_source.c    chooses the passes; what they found becomes records
 * kernel_sampling.c  CUPTI's PC sampling: where warps were, and what they waited for
 * kernel_sass.c      CUPTI's SASS metrics: how often instructions ran, and what they accessed
 * kernel_pm.c        CUPTI's PM sampling: what the GPU's units did over the kernel's time
 * kernel_cubin.c     keeps the code of modules in files for the recorder
 */
#ifndef WS_KERNEL_SOURCE_HOOK_H
#define WS_KERNEL_SOURCE_HOOK_H

#include "inject/kernel.h"
#include "ring/cupti_source_abi.h"

/* A value of an instruction. Texts live as long as the process. */
struct ws_kernel_place {
	uint64_t cubin; /* its checksum */
	const char *function, *metric;
	uint32_t pc;
	double value;
};

struct ws_kernel_moments; /* samples over the time of a kernel: kernel_pm.c */

/* Keep a value of the launch that is looked into. */
void ws_kernel_add_place(const struct ws_kernel_place *place);
/* A copy of a text that lives as long as the process; equal texts have one copy. */
const char *ws_kernel_keep_text(const char *text);
/* Fill `functions` from libcupti: `count` entries of name and place. The name of a function that is
 * missing, or NULL. */
struct ws_kernel_binding {
	const char *name;
	size_t offset;
};
const char *ws_kernel_bind_functions(void *functions, const struct ws_kernel_binding *bindings,
				     size_t count);

/* Enable sampling in a context, and nowhere else, or disable it. */
int ws_kernel_enable_sampling(void *context, const char **what);
void ws_kernel_disable_sampling(void);
/* Around one run of the kernel, which takes `duration` ns. A CUptiResult; *what says which step
 * failed. */
int ws_kernel_begin_sampling(const struct ws_kernel_launch *launch, uint64_t duration,
			     const char **what);
int ws_kernel_end_sampling(const struct ws_kernel_launch *launch, const char **what);
int ws_kernel_begin_sass(const struct ws_kernel_launch *launch, uint64_t duration,
			 const char **what);
int ws_kernel_end_sass(const struct ws_kernel_launch *launch, const char **what);

int ws_kernel_begin_pm(const struct ws_kernel_launch *launch, uint64_t duration, const char **what);
int ws_kernel_end_pm(const struct ws_kernel_launch *launch, const char **what);
/* Keep the samples of the launch that is looked into. They are freed with free(). */
void ws_kernel_keep_moments(struct ws_kernel_moments *moments);
void ws_kernel_write_moments(struct ws_thread *thread, uint32_t result,
			     const struct ws_kernel_moments *moments);

/* The checksum of the cubin as samples name it, when only its lower half is known. */
uint64_t ws_kernel_find_crc(uint32_t lower);

#endif
