/* standin_others.h - what standin_others.c has. */
#ifndef STANDIN_OTHERS_H
#define STANDIN_OTHERS_H

#include <stddef.h>
#include <stdint.h>

struct standin_param { /* the head of ucp_request_param_t */
	uint32_t mask, flags;
	void *request, *callback;
	uint64_t type;
};
struct standin_piece {
	void *buffer;
	size_t length;
};

extern double standin_value;
int ucp_worker_create(void *context, const void *params, void **made);
unsigned ucp_worker_progress(void *worker);
void *ucp_tag_send_nbx(void *ep, const void *buffer, size_t count, uint64_t tag, const void *param);
int ucp_put_nbi(void *ep, const void *buffer, size_t length, uint64_t remote, void *rkey);
void shmem_int_put(int *to, const int *from, size_t n, int pe);
void shmem_double_p(double *to, double value, int pe);
float shmem_float_g(const float *from, int pe);
void shmem_barrier_all(void);
void pshmem_barrier_all(void);

#endif
