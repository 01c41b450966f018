/*
 * test_abi.c - our declarations of OMPT and of OpenACC's profiling interface are those of the
 * headers, where these are installed.
 */
#include <stdio.h>

#include "inject/ompt_abi.h"
#include "inject/openacc_abi.h"

#ifdef WS_HAVE_OMPT
#include <omp-tools.h>
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(WS_OMPT_BEGIN, ompt_scope_begin);
SAME(WS_OMPT_END, ompt_scope_end);
SAME(WS_OMPT_THREAD_BEGIN, ompt_callback_thread_begin);
SAME(WS_OMPT_THREAD_END, ompt_callback_thread_end);
SAME(WS_OMPT_PARALLEL_BEGIN, ompt_callback_parallel_begin);
SAME(WS_OMPT_PARALLEL_END, ompt_callback_parallel_end);
SAME(WS_OMPT_TASK_CREATE, ompt_callback_task_create);
SAME(WS_OMPT_TASK_SCHEDULE, ompt_callback_task_schedule);
SAME(WS_OMPT_IMPLICIT_TASK, ompt_callback_implicit_task);
SAME(WS_OMPT_SYNC_REGION_WAIT, ompt_callback_sync_region_wait);
SAME(WS_OMPT_MUTEX_RELEASED, ompt_callback_mutex_released);
SAME(WS_OMPT_WORK, ompt_callback_work);
SAME(WS_OMPT_SYNC_REGION, ompt_callback_sync_region);
SAME(WS_OMPT_LOCK_INIT, ompt_callback_lock_init);
SAME(WS_OMPT_LOCK_DESTROY, ompt_callback_lock_destroy);
SAME(WS_OMPT_MUTEX_ACQUIRE, ompt_callback_mutex_acquire);
SAME(WS_OMPT_MUTEX_ACQUIRED, ompt_callback_mutex_acquired);
SAME(WS_OMPT_FLUSH, ompt_callback_flush);
SAME(WS_OMPT_CANCEL, ompt_callback_cancel);
SAME(WS_OMPT_REDUCTION, ompt_callback_reduction);
SAME(WS_OMPT_DISPATCH, ompt_callback_dispatch);
SAME(WS_OMPT_TASK_COMPLETE, ompt_task_complete);
SAME(WS_OMPT_TASK_YIELD, ompt_task_yield);
SAME(WS_OMPT_TASK_SWITCH, ompt_task_switch);
_Static_assert(sizeof(union ws_ompt_data) == sizeof(ompt_data_t), "ompt_data_t");
_Static_assert(sizeof(struct ws_ompt_start_tool_result) == sizeof(ompt_start_tool_result_t),
	       "ompt_start_tool_result_t");
#endif

#ifdef WS_HAVE_OPENACC
#include <acc_prof.h>
#define FIELD(ours, theirs, field) \
	_Static_assert(offsetof(struct ours, field) == offsetof(theirs, field), #theirs "." #field)
FIELD(ws_acc_prof_info, acc_prof_info, device_number);
FIELD(ws_acc_prof_info, acc_prof_info, async_queue);
FIELD(ws_acc_prof_info, acc_prof_info, func_name);
FIELD(ws_acc_prof_info, acc_prof_info, line_no);
FIELD(ws_acc_event_info, acc_other_event_info, implicit);
_Static_assert(offsetof(struct ws_acc_event_info, data.bytes) ==
		       offsetof(acc_data_event_info, bytes),
	       "bytes");
_Static_assert(offsetof(struct ws_acc_event_info, launch.vector_length) ==
		       offsetof(acc_launch_event_info, vector_length),
	       "vector_length");
_Static_assert(acc_ev_enqueue_launch_start == 18 && acc_ev_last == 26, "events");
#endif

int main(void)
{
#ifdef WS_HAVE_OMPT
	puts("ok 1 - OMPT is declared as in omp-tools.h");
#else
	puts("ok 1 - OMPT # SKIP omp-tools.h is not installed");
#endif
#ifdef WS_HAVE_OPENACC
	puts("ok 2 - OpenACC is declared as in acc_prof.h");
#else
	puts("ok 2 - OpenACC # SKIP acc_prof.h is not installed");
#endif
	puts("1..2");
	return 0;
}
