/* others_app.c - calls of UCX and OpenSHMEM with known arguments. */
#include <stdio.h>

#include "standin_others.h"

int main(void)
{
	struct standin_param doubles = {.mask = 1 << 3, .type = 8 << 3},
			     pieces = {.mask = 1 << 3, .type = 2};
	struct standin_piece list[] = {{NULL, 10}, {NULL, 7}};
	float fraction = 0.25f;
	int numbers[4] = {0};
	void *worker;

	ucp_worker_create(NULL, NULL, &worker);
	ucp_tag_send_nbx(NULL, numbers, 5, 1, NULL);
	ucp_tag_send_nbx(NULL, numbers, 2, UINT64_MAX, &doubles);
	ucp_tag_send_nbx(NULL, list, 2, 3, &pieces);
	printf("%ld\n", (long)(intptr_t)ucp_tag_send_nbx(NULL, list, 2, 99, &pieces));
	ucp_put_nbi(NULL, numbers, 16, 0, NULL);
	for (int i = 0; i < 30; i++)
		ucp_worker_progress(worker);
	shmem_int_put(numbers, numbers, 4, 3);
	shmem_double_p(NULL, 1.5, 2);
	printf("%g %g\n", standin_value, (double)shmem_float_g(&fraction, 1));
	shmem_barrier_all();
	pshmem_barrier_all();
	return 0;
}
