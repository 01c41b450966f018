/* ucx.c - see ucx.h. */
#include "inject/ucx.h"

/* The head of ucp_request_param_t. */
struct request_param {
	uint32_t mask, flags;
	void *request, *callback;
	uint64_t type;
};
#define HAS_TYPE (1u << 3)

/* The lowest bits of a type say what kind it is, the others how large a piece is. */
enum { TYPE_BITS = 3, TYPE_CONTIGUOUS = 0, TYPE_LIST = 2 };

struct piece { /* ucp_dt_iov_t */
	void *buffer;
	size_t length;
};

uint64_t ws_ucx_type(const void *param)
{
	const struct request_param *given = param;

	if (given && given->mask & HAS_TYPE)
		return given->type;
	return 1u << TYPE_BITS | TYPE_CONTIGUOUS;
}

int64_t ws_ucx_size(const void *buffer, size_t count, uint64_t type)
{
	const struct piece *pieces = buffer;
	size_t sum = 0;

	switch (type & ((1u << TYPE_BITS) - 1)) {
	case TYPE_CONTIGUOUS:
		return (int64_t)(count * (type >> TYPE_BITS));
	case TYPE_LIST:
		for (size_t i = 0; i < count; i++)
			sum += pieces[i].length;
		return (int64_t)sum;
	}
	return WS_LIBRARY_NONE;
}

void ws_ucx_note_worker(int result, void **worker)
{
	int64_t uid;

	if (result || !worker)
		return;
	uid = (int64_t)(uintptr_t)*worker;
	ws_library_write_row(WS_LIBRARY_TABLE_UCP_WORKERS, &uid, 1, 0);
}
