/*
 * gpu_idle.h - when GPUs had nothing to do, judging by the work that is reported. Work is reported
 * after it has ended, in no order. Work that is older than WS_GPU_IDLE_LATE is assumed to be
 * complete.
 */
#ifndef WS_RECORD_GPU_IDLE_H
#define WS_RECORD_GPU_IDLE_H

#include "store/store.h"

#define WS_GPU_IDLE_LATE UINT64_C(2000000000)

struct ws_gpu_idle;

struct ws_gpu_idle *ws_gpu_idle_new(void);
void ws_gpu_idle_free(struct ws_gpu_idle *gpus); /* NULL does nothing */
/* Set which tables it must see. */
void ws_gpu_idle_tables(bool tables[WS_TABLE_COUNT]);
void ws_gpu_idle_see(struct ws_gpu_idle *gpus, enum ws_table table, const void *rows,
		     uint32_t count);
/*
 * Whether a GPU has been found, since ws_gpu_idle_pass was last called, to have had nothing to do
 * for longer than `least` ns between two pieces of work, or after the last one while no call asks
 * for more. Each gap is found once. *since and *until get when.
 */
bool ws_gpu_idle_find(struct ws_gpu_idle *gpus, uint64_t now, uint64_t least, uint64_t *since,
		      uint64_t *until);
/* All triggers have examined the work that is complete at `now`: forget it. */
void ws_gpu_idle_pass(struct ws_gpu_idle *gpus, uint64_t now);

#endif
