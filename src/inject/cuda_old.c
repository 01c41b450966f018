/*
 * cuda_old.c - calls of the CUDA API with a CUPTI that cannot choose them one by one (before 12.5).
 *
 * Such a CUPTI records all calls or none. Recording all runtime calls, including queries, slows
 * down every step of a program, and recording all driver calls repeats every runtime call from the
 * inside. Callbacks can be selected individually, so records are made here, from the callbacks at
 * the beginning and the end of the calls that are traced: those that the program makes itself, of
 * the runtime or, in libraries that use nothing else, of the driver. What a call does inside is not
 * recorded, and the work that it causes carries its correlation.
 */
#include "inject/cuda.h"
#include "ring/cuda_record.h"

bool ws_cuda_api_by_callback;

void ws_cuda_start_old_calls(void)
{
	ws_cuda_api_by_callback = true;
}

static void write_call(struct ws_thread *thread, int driver, uint32_t cbid,
		       const struct cupti_callback *callback)
{
	const size_t bytes = sizeof(struct ws_rec_cuda_batch) + sizeof(struct cupti_api);
	struct ws_rec_cuda_batch *record = ws_rt_reserve(thread, bytes, WS_LOSS_CUDA);
	struct cupti_api *api;

	if (!record)
		return;
	record->rec = ws_rec_head(WS_REC_CUDA_BATCH, bytes, 0, (uint32_t)(bytes / 8));
	record->time = ws_read_raw_ns();
	api = (void *)record->bytes;
	*api = (struct cupti_api){
		.kind = WS_CUPTI_MADE(driver ? CUPTI_KIND_DRIVER : CUPTI_KIND_RUNTIME,
				      sizeof(*api)),
		.cbid = cbid,
		.start = thread->cuda_call,
		.end = record->time,
		.thread = thread->tid,
		.correlation = callback->correlation,
		.result = callback->result ? *(const uint32_t *)callback->result : 0};
	ws_rt_commit(thread, record, bytes);
}

void ws_cuda_record_old_call(int driver, uint32_t cbid, const struct cupti_callback *callback)
{
	struct ws_cuda_open *open = &ws_cuda_open;
	bool begins = callback->site == CUPTI_SITE_ENTER;
	struct ws_thread *thread;

	if (!ws_cuda_is_api_wanted(driver ? CUPTI_KIND_DRIVER : CUPTI_KIND_RUNTIME, cbid))
		return; /* there is another reason for its callback */
	if (begins ? open->calls++ : !open->calls || --open->calls)
		return;
	thread = ws_rt_is_collecting() ? ws_rt_enter() : NULL;
	if (!thread)
		return;
	if (begins)
		thread->cuda_call = ws_read_raw_ns();
	else if (thread->cuda_call)
		write_call(thread, driver, cbid, callback);
	if (!begins)
		thread->cuda_call = 0;
	ws_rt_leave(thread);
}
