/* flops.c - see flops.h. */
#include "import/flops.h"

#include <string.h>

enum { MOST_DIMS = 8 };

struct shape {
	int rank;
	int64_t sizes[MOST_DIMS];
};

static bool read_shape(const struct ws_json_value *value, struct shape *shape)
{
	struct ws_json_walk walk;
	struct ws_json_value element;
	bool ok;

	shape->rank = 0;
	if (value->type != WS_JSON_ARRAY)
		return false;
	walk = ws_begin_json_walk(value);
	while (ws_next_json_member(&walk, NULL, &element)) {
		int64_t size = ws_parse_json_fixed(&element, 0, &ok);

		if (!ok || size < 0 || shape->rank == MOST_DIMS)
			return false;
		shape->sizes[shape->rank++] = size;
	}
	return true;
}

/* Element `at` of an array. */
static bool get_element(const struct ws_json_value *array, int index, struct ws_json_value *out)
{
	struct ws_json_walk walk;

	if (array->type != WS_JSON_ARRAY)
		return false;
	walk = ws_begin_json_walk(array);
	while (ws_next_json_member(&walk, NULL, out))
		if (!index--)
			return true;
	return false;
}

/* The shape of input number `at`. */
static bool read_input_shape(const struct ws_json_value *dims, int index, struct shape *shape)
{
	struct ws_json_value value;

	return get_element(dims, index, &value) && read_shape(&value, shape);
}

/* Scalars written in a string: a list, "[1, 1]", or a single one, "1". */
static bool read_scalars(const struct ws_json_value *concrete, int index, struct shape *shape)
{
	struct ws_json_value text, list;
	bool more, ok;

	if (!get_element(concrete, index, &text) || text.type != WS_JSON_STRING || !text.length)
		return false;
	if (text.text[0] != '[') {
		shape->rank = 1;
		shape->sizes[0] = ws_parse_json_fixed(&text, 0, &ok);
		return ok;
	}
	return ws_read_json_value(text.text, text.text + text.length, &list, &more) &&
	       read_shape(&list, shape);
}

/* `start` times all the numbers; 0 when the product overflows. */
static uint64_t multiply_sizes(const int64_t *sizes, int count, uint64_t start)
{
	for (int i = 0; i < count; i++)
		if (__builtin_mul_overflow(start, (uint64_t)sizes[i], &start))
			return 0;
	return start;
}

/* Operations of the product of inputs `first` and `first` + 1, which are matrices or batches of
 * them. */
static uint64_t count_matmul_flops(const struct ws_json_value *dims, int first, int rank)
{
	struct shape left, right;

	if (!read_input_shape(dims, first, &left) || !read_input_shape(dims, first + 1, &right) ||
	    left.rank != rank || right.rank != rank ||
	    left.sizes[rank - 1] != right.sizes[rank - 2])
		return 0;
	return multiply_sizes(&right.sizes[rank - 1], 1, multiply_sizes(left.sizes, left.rank, 2));
}

static uint64_t count_elements(const struct ws_json_value *dims)
{
	struct shape shape;

	if (!read_input_shape(dims, 0, &shape) || !shape.rank)
		return 0;
	return multiply_sizes(shape.sizes, shape.rank, 1);
}

/* Element `at` of a parameter of a convolution; a single value applies to all dimensions. */
static int64_t get_parameter(const struct shape *shape, int index)
{
	return shape->sizes[shape->rank > 1 ? index : 0];
}

static uint64_t count_conv2d_flops(const struct ws_json_value *dims,
				   const struct ws_json_value *concrete)
{
	struct shape in, kernel, stride, pad, dilation, groups = {0};
	int64_t factors[7];

	if (!read_input_shape(dims, 0, &in) || !read_input_shape(dims, 1, &kernel) ||
	    in.rank != 4 || kernel.rank != 4 || !read_scalars(concrete, 3, &stride) ||
	    !read_scalars(concrete, 4, &pad) || !read_scalars(concrete, 5, &dilation) ||
	    !read_scalars(concrete, 6, &groups) || groups.sizes[0] < 1)
		return 0;
	factors[0] = in.sizes[0];
	for (int i = 0; i < 2; i++) {
		int64_t step = get_parameter(&stride, i), padding = get_parameter(&pad, i);
		int64_t spread = get_parameter(&dilation, i), span;

		if (!stride.rank || !pad.rank || !dilation.rank || step < 1 || padding > 1 << 20 ||
		    spread > 1 << 20 || in.sizes[2 + i] > 1 << 30 || kernel.sizes[2 + i] > 1 << 20)
			return 0;
		span = in.sizes[2 + i] + 2 * padding - spread * (kernel.sizes[2 + i] - 1) - 1;
		factors[1 + i] = span < 0 ? 0 : span / step + 1;
		factors[3 + i] = kernel.sizes[2 + i];
	}
	factors[5] = in.sizes[1];
	factors[6] = kernel.sizes[0];
	return multiply_sizes(factors, 7, 2) / (uint64_t)groups.sizes[0];
}

uint64_t ws_count_flops(const char *name, size_t n, const struct ws_json_value *dims,
			const struct ws_json_value *concrete)
{
#define IS(text) (n == sizeof("aten::" text) - 1 && !memcmp(name, "aten::" text, n))
	if (n > 13 || n < 8 || memcmp(name, "aten::", 6) || dims->type != WS_JSON_ARRAY)
		return 0;
	if (IS("mm"))
		return count_matmul_flops(dims, 0, 2);
	if (IS("addmm"))
		return count_matmul_flops(dims, 1, 2);
	if (IS("bmm"))
		return count_matmul_flops(dims, 0, 3);
	if (IS("baddbmm"))
		return count_matmul_flops(dims, 1, 3);
	if (IS("mul") || IS("add"))
		return count_elements(dims);
	if (IS("conv2d"))
		return count_conv2d_flops(dims, concrete);
	return 0;
#undef IS
}
