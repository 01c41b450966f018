/*
 * cublas.c - see cublas.h. Descriptors of cuBLASLt are opaque: they are read with the library's own
 * functions, which only copy a value out.
 */
#include "inject/cublas.h"

enum { ROWS = 2, COLUMNS = 3, TYPE = 0, BATCH = 5 };		   /* of a layout */
enum { COMPUTE_TYPE = 0, TRANS_A = 3, TRANS_B = 4, EPILOGUE = 7 }; /* of a matmul */
enum { FIRST_COMPUTE_TYPE = 64, ALGORITHM_ID = 0, NOT_TRANSPOSED = 0 };

typedef int get_attribute_fn(void *descriptor, int attribute, void *value, size_t size,
			     size_t *written);

int64_t ws_cublas_compute(int type)
{
	return type >= FIRST_COMPUTE_TYPE ? type : WS_LIBRARY_NONE;
}

static bool is_complex(int64_t type)
{
	return type == WS_CUBLAS_C32F || type == WS_CUBLAS_C64F || type == WS_CUBLAS_C16F;
}

/* Bits of an element, by its type; 0 when it is not known. */
static int64_t get_type_bits(int64_t type)
{
	static const uint8_t bits[] = {
		[0] = 32,  [1] = 64,  [2] = 16,	 [3] = 8,   [4] = 64,	[5] = 128, [6] = 32,
		[7] = 16,  [8] = 8,   [9] = 16,	 [10] = 32, [11] = 64,	[12] = 32, [13] = 64,
		[14] = 16, [15] = 32, [16] = 4,	 [17] = 8,  [18] = 4,	[19] = 8,  [20] = 16,
		[21] = 32, [22] = 16, [23] = 32, [24] = 64, [25] = 128, [26] = 64, [27] = 128,
		[28] = 8,  [29] = 8,  [30] = 8,	 [31] = 6,  [32] = 6,	[33] = 4,
	};

	if (type < 0 || type >= (int64_t)WS_COUNT(bits))
		return 0;
	return bits[type];
}

int64_t ws_cublas_flops(int64_t m, int64_t n, int64_t k, int64_t batch, int type)
{
	int64_t flops = is_complex(type) ? 8 : 2;

	if (m < 0 || n < 0 || k < 0 || batch < 0 || __builtin_mul_overflow(flops, m, &flops) ||
	    __builtin_mul_overflow(flops, n, &flops) || __builtin_mul_overflow(flops, k, &flops) ||
	    __builtin_mul_overflow(flops, batch, &flops))
		return WS_LIBRARY_NONE;
	return flops;
}

/* Adds rows * columns elements. */
static bool add_bits(int64_t rows, int64_t columns, int type, int64_t *sum)
{
	int64_t bits = get_type_bits(type);

	return bits && rows >= 0 && columns >= 0 && !__builtin_mul_overflow(bits, rows, &bits) &&
	       !__builtin_mul_overflow(bits, columns, &bits) &&
	       !__builtin_add_overflow(*sum, bits, sum);
}

int64_t ws_cublas_bytes(int64_t m, int64_t n, int64_t k, int64_t batch,
			struct ws_cublas_types types)
{
	int64_t bits = 0;

	if (!add_bits(m, k, types.a, &bits) || !add_bits(k, n, types.b, &bits) ||
	    !add_bits(m, n, types.c, &bits) || batch < 0 ||
	    __builtin_mul_overflow(bits, batch, &bits))
		return WS_LIBRARY_NONE;
	return bits / 8;
}

/* ---- groups ---- */

enum { GROUPS_MOST = 4096 };

int64_t ws_cublas_group_batch_64(int64_t groups, const int64_t *sizes)
{
	int64_t sum = 0;

	if (groups < 0 || groups > GROUPS_MOST || !sizes)
		return WS_LIBRARY_NONE;
	for (int64_t i = 0; i < groups; i++)
		sum += sizes[i];
	return sum;
}

int64_t ws_cublas_group_batch(int groups, const int *sizes)
{
	int64_t sum = 0;

	if (groups < 0 || groups > GROUPS_MOST || !sizes)
		return WS_LIBRARY_NONE;
	for (int i = 0; i < groups; i++)
		sum += sizes[i];
	return sum;
}

static bool add_flops(int64_t flops, int64_t *sum)
{
	return flops != WS_LIBRARY_NONE && !__builtin_add_overflow(*sum, flops, sum);
}

int64_t ws_cublas_group_flops_64(int64_t groups, const int64_t *sizes, const int64_t *m,
				 const int64_t *n, const int64_t *k, int type)
{
	int64_t sum = 0;

	if (groups < 0 || groups > GROUPS_MOST || !sizes || !m || !n || !k)
		return WS_LIBRARY_NONE;
	for (int64_t i = 0; i < groups; i++)
		if (!add_flops(ws_cublas_flops(m[i], n[i], k[i], sizes[i], type), &sum))
			return WS_LIBRARY_NONE;
	return sum;
}

int64_t ws_cublas_group_flops(int groups, const int *sizes, const int *m, const int *n,
			      const int *k, int type)
{
	int64_t sum = 0;

	if (groups < 0 || groups > GROUPS_MOST || !sizes || !m || !n || !k)
		return WS_LIBRARY_NONE;
	for (int i = 0; i < groups; i++)
		if (!add_flops(ws_cublas_flops(m[i], n[i], k[i], sizes[i], type), &sum))
			return WS_LIBRARY_NONE;
	return sum;
}

/* ---- cuBLASLt ---- */

/* A number that a descriptor holds in four or eight bytes. */
static int64_t get_attribute(get_attribute_fn *get, void *descriptor, int attribute, size_t size)
{
	size_t written = 0;
	int64_t value = 0;

	if (!get || !descriptor || get(descriptor, attribute, &value, size, &written) ||
	    written != size)
		return WS_LIBRARY_NONE;
	return size == 4 ? (int32_t)value : value;
}

static void *_Atomic layout_function, *_Atomic description_function, *_Atomic algorithm_function;

static int64_t get_layout(void *layout, int attribute, size_t size)
{
	return get_attribute(ws_library_find_once(&layout_function,
						  "cublasLtMatrixLayoutGetAttribute"),
			     layout, attribute, size);
}

static int64_t get_description(void *description, int attribute)
{
	return get_attribute(ws_library_find_once(&description_function,
						  "cublasLtMatmulDescGetAttribute"),
			     description, attribute, 4);
}

int64_t ws_cublas_lt_algorithm(const void *algo)
{
	/* Reading does not change the description. */
	return get_attribute(ws_library_find_once(&algorithm_function,
						  "cublasLtMatmulAlgoConfigGetAttribute"),
			     (void *)(uintptr_t)algo, ALGORITHM_ID, 4);
}

void ws_cublas_read_matmul(struct ws_cublas_matmul *matmul, void *description, void *a, void *b,
			   void *d)
{
	int64_t rows = get_layout(a, ROWS, 8), columns = get_layout(a, COLUMNS, 8);
	bool transposed;

	matmul->trans_a = get_description(description, TRANS_A);
	matmul->trans_b = get_description(description, TRANS_B);
	matmul->compute = get_description(description, COMPUTE_TYPE);
	matmul->epilogue = get_description(description, EPILOGUE);
	matmul->m = get_layout(d, ROWS, 8);
	matmul->n = get_layout(d, COLUMNS, 8);
	transposed = matmul->trans_a != NOT_TRANSPOSED && matmul->trans_a != WS_LIBRARY_NONE;
	matmul->k = transposed ? rows : columns;
	matmul->batch = get_layout(d, BATCH, 4);
	matmul->a = get_layout(a, TYPE, 4);
	matmul->b = get_layout(b, TYPE, 4);
	matmul->d = get_layout(d, TYPE, 4);
	matmul->flops =
		ws_cublas_flops(matmul->m, matmul->n, matmul->k, matmul->batch, (int)matmul->a);
	matmul->bytes =
		ws_cublas_bytes(matmul->m, matmul->n, matmul->k, matmul->batch,
				WS_CUBLAS_TYPES((int)matmul->a, (int)matmul->b, (int)matmul->d));
}
