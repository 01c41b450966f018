/* standin_others.c - a few functions of UCX and of OpenSHMEM, which do nothing but return. */
#include <stddef.h>
#include <stdint.h>

#include "standin_others.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT double standin_value;
static int progress;

EXPORT int ucp_worker_create(void *context, const void *params, void **made)
{
	(void)context, (void)params;
	*made = &progress;
	return 0;
}

EXPORT unsigned ucp_worker_progress(void *worker)
{
	(void)worker;
	return progress++ % 10 == 9;
}

EXPORT void *ucp_tag_send_nbx(void *ep, const void *buffer, size_t count, uint64_t tag,
			      const void *param)
{
	(void)ep, (void)buffer, (void)count, (void)param;
	return tag == 99 ? (void *)(intptr_t)-3 : NULL;
}

EXPORT int ucp_put_nbi(void *ep, const void *buffer, size_t length, uint64_t remote, void *rkey)
{
	(void)ep, (void)buffer, (void)length, (void)remote, (void)rkey;
	return 0;
}

EXPORT void shmem_int_put(int *to, const int *from, size_t n, int pe)
{
	(void)to, (void)from, (void)n, (void)pe;
}

EXPORT void shmem_double_p(double *to, double value, int pe)
{
	(void)to, (void)pe;
	standin_value = value;
}

EXPORT float shmem_float_g(const float *from, int pe)
{
	(void)pe;
	return *from;
}

EXPORT void pshmem_barrier_all(void)
{
}
EXPORT void shmem_barrier_all(void) __attribute__((weak, alias("pshmem_barrier_all")));
