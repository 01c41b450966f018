/* cusparse.c - see cusparse.h. */
#include "inject/cusparse.h"

typedef int get_sparse_fn(void *matrix, int64_t *rows, int64_t *columns, int64_t *nonzeros);
typedef int get_dense_fn(void *matrix, int64_t *rows, int64_t *columns, int64_t *leading,
			 void **values, int *type, int *order);

enum { C32F = 4, C64F = 5, C16F = 6 };

static void *_Atomic sparse_function, *_Atomic dense_function;

static bool read_dense(void *matrix, int64_t *rows, int64_t *columns)
{
	get_dense_fn *get =
		(get_dense_fn *)ws_library_find_once(&dense_function, "cusparseDnMatGet");
	int64_t leading;
	void *values;
	int type, order;

	return get && matrix && !get(matrix, rows, columns, &leading, &values, &type, &order);
}

struct ws_cusparse_sizes ws_cusparse_read(void *sparse, void *dense)
{
	get_sparse_fn *get =
		(get_sparse_fn *)ws_library_find_once(&sparse_function, "cusparseSpMatGetSize");
	struct ws_cusparse_sizes sizes;
	int64_t rows;

	if (!get || !sparse || get(sparse, &sizes.rows, &sizes.columns, &sizes.nonzeros))
		sizes.rows = sizes.columns = sizes.nonzeros = WS_LIBRARY_NONE;
	if (!read_dense(dense, &rows, &sizes.n))
		sizes.n = WS_LIBRARY_NONE;
	return sizes;
}

struct ws_cusparse_sizes ws_cusparse_read_product(void *sparse, void *left, int operation)
{
	struct ws_cusparse_sizes sizes = ws_cusparse_read(sparse, NULL);
	int64_t rows, columns;

	if (!read_dense(left, &rows, &columns))
		return sizes;
	sizes.n = columns;
	if (operation)
		sizes.n = rows;
	return sizes;
}

int64_t ws_cusparse_flops(int64_t nonzeros, int64_t n, int type)
{
	int64_t flops = 2;

	if (type == C32F || type == C64F || type == C16F)
		flops = 8;
	if (nonzeros < 0 || n < 0 || __builtin_mul_overflow(flops, nonzeros, &flops) ||
	    __builtin_mul_overflow(flops, n, &flops))
		return WS_LIBRARY_NONE;
	return flops;
}
