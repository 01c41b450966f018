/*
 * openacc_abi.h - OpenACC's profiling interface, as far as it is used: declared here, so that no
 * runtime is needed to build. Each struct says how much of it the runtime has filled in.
 * tests/openmp compares it with acc_prof.h.
 */
#ifndef WS_OPENACC_ABI_H
#define WS_OPENACC_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ws_acc_prof_info {
	int32_t event_type, valid_bytes, version, device_type, device_number, thread_id;
	ssize_t async, async_queue;
	const char *src_file, *func_name;
	int32_t line_no, end_line_no, func_line_no, func_end_line_no;
};

struct ws_acc_event_info { /* the common beginning of all kinds, and what follows it */
	int32_t event_type, valid_bytes, parent_construct, implicit;
	void *tool_info;
	union {
		struct {
			const char *var_name;
			size_t bytes;
			const void *host_ptr, *device_ptr;
		} data;
		struct {
			const char *kernel_name;
			size_t num_gangs, num_workers, vector_length;
		} launch;
	};
};

typedef void ws_acc_callback(struct ws_acc_prof_info *prof, struct ws_acc_event_info *event,
			     void *api);
/* `how`: 0 registers the callback. */
typedef void ws_acc_register(int event, ws_acc_callback *callback, int how);
typedef void (*ws_acc_lookup(const char *name))(void);

#endif
