/*
 * proofs.h - the queries that show the rows behind findings: one for each kind of rows, over the
 * tables that `warpsight query` knows, within :from and :to (ns from the start of the collection).
 */
#ifndef WS_ANALYZE_PROOFS_H
#define WS_ANALYZE_PROOFS_H

#include <stdint.h>

extern const char ws_proof_kernels[];	/* by name: runs, time, blocks, occupancy */
extern const char ws_proof_streams[];	/* kernels by GPU and stream */
extern const char ws_proof_launchers[]; /* kernels by GPU and the thread that launched them */
extern const char ws_proof_copies[];	/* by direction and kinds of memory */
extern const char ws_proof_cuda_calls[];
extern const char ws_proof_waits[]; /* calls of the system in which threads waited, by thread */
extern const char ws_proof_code[];  /* functions by what samples of them stand for */
extern const char ws_proof_cores[]; /* threads by their time on cores */
extern const char ws_proof_gil[];   /* threads by how long they held the GIL and waited for it */
extern const char ws_proof_processes[];
extern const char ws_proof_metrics[]; /* of GPUs: means and extremes */

/* A proof with its window filled in; owned by the caller. */
char *ws_make_proof(const char *proof, int64_t from, int64_t to);

#endif
