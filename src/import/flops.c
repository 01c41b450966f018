/* flops.c - see flops.h. */
#include "import/flops.h"

#include <string.h>

enum { MOST_DIMS = 8 };

struct shape {
	int n;
	int64_t d[MOST_DIMS];
};

static bool read_shape(const struct ws_json_value *value, struct shape *shape)
{
	struct ws_json_walk walk;
	struct ws_json_value json_value;
	bool ok;

	shape->n = 0;
	if (value->type != WS_J_ARRAY)
		return false;
	walk = ws_json_walk(value);
	while (ws_json_next(&walk, NULL, &json_value)) {
		int64_t d = ws_json_fixed(&json_value, 0, &ok);

		if (!ok || d < 0 || shape->n == MOST_DIMS)
			return false;
		shape->d[shape->n++] = d;
	}
	return true;
}

/* Element `at` of an array. */
static bool element(const struct ws_json_value *array, int at, struct ws_json_value *out)
{
	struct ws_json_walk walk;

	if (array->type != WS_J_ARRAY)
		return false;
	walk = ws_json_walk(array);
	while (ws_json_next(&walk, NULL, out))
		if (!at--)
			return true;
	return false;
}

static bool input(const struct ws_json_value *dims, int at, struct shape *shape)
{
	struct ws_json_value value;

	return element(dims, at, &value) && read_shape(&value, shape);
}

/* A list of scalars that is written inside a string: "[1, 1]", or one: "1". */
static bool scalars(const struct ws_json_value *concrete, int at, struct shape *shape)
{
	struct ws_json_value text, list;
	bool more, ok;

	if (!element(concrete, at, &text) || text.type != WS_J_STRING || !text.n)
		return false;
	if (text.text[0] != '[') {
		shape->n = 1;
		shape->d[0] = ws_json_fixed(&text, 0, &ok);
		return ok;
	}
	return ws_json_value(text.text, text.text + text.n, &list, &more) &&
	       read_shape(&list, shape);
}

/* Products that overflow are no counts. */
static uint64_t product(const int64_t *d, int n, uint64_t start)
{
	for (int i = 0; i < n; i++)
		if (__builtin_mul_overflow(start, (uint64_t)d[i], &start))
			return 0;
	return start;
}

static uint64_t matmul(const struct ws_json_value *dims, int first, int rank)
{
	struct shape left, right;

	if (!input(dims, first, &left) || !input(dims, first + 1, &right) || left.n != rank ||
	    right.n != rank || left.d[rank - 1] != right.d[rank - 2])
		return 0;
	return product(&right.d[rank - 1], 1, product(left.d, left.n, 2));
}

static uint64_t elements(const struct ws_json_value *dims)
{
	struct shape shape;

	return input(dims, 0, &shape) && shape.n ? product(shape.d, shape.n, 1) : 0;
}

static uint64_t conv2d(const struct ws_json_value *dims, const struct ws_json_value *concrete)
{
	struct shape in, kernel, stride, pad, dilation, groups = {0};
	int64_t f[7];

	if (!input(dims, 0, &in) || !input(dims, 1, &kernel) || in.n != 4 || kernel.n != 4 ||
	    !scalars(concrete, 3, &stride) || !scalars(concrete, 4, &pad) ||
	    !scalars(concrete, 5, &dilation) || !scalars(concrete, 6, &groups) || groups.d[0] < 1)
		return 0;
	f[0] = in.d[0];
	for (int i = 0; i < 2; i++) {
		int64_t s = stride.d[stride.n > 1 ? i : 0], p = pad.d[pad.n > 1 ? i : 0],
			d = dilation.d[dilation.n > 1 ? i : 0];
		int64_t span;

		if (!stride.n || !pad.n || !dilation.n || s < 1 || p > 1 << 20 || d > 1 << 20 ||
		    in.d[2 + i] > 1 << 30 || kernel.d[2 + i] > 1 << 20)
			return 0;
		span = in.d[2 + i] + 2 * p - d * (kernel.d[2 + i] - 1) - 1;
		f[1 + i] = span < 0 ? 0 : span / s + 1;
		f[3 + i] = kernel.d[2 + i];
	}
	f[5] = in.d[1];
	f[6] = kernel.d[0];
	return product(f, 7, 2) / (uint64_t)groups.d[0];
}

uint64_t ws_flops(const char *name, size_t n, const struct ws_json_value *dims,
		  const struct ws_json_value *concrete)
{
#define IS(text) (n == sizeof("aten::" text) - 1 && !memcmp(name, "aten::" text, n))
	if (n > 13 || n < 8 || memcmp(name, "aten::", 6) || dims->type != WS_J_ARRAY)
		return 0;
	if (IS("mm"))
		return matmul(dims, 0, 2);
	if (IS("addmm"))
		return matmul(dims, 1, 2);
	if (IS("bmm"))
		return matmul(dims, 0, 3);
	if (IS("baddbmm"))
		return matmul(dims, 1, 3);
	if (IS("mul") || IS("add"))
		return elements(dims);
	if (IS("conv2d"))
		return conv2d(dims, concrete);
	return 0;
#undef IS
}
