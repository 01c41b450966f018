/*
 * cufft.c - see cufft.h. Plans are small numbers that are reused after they are destroyed. Plans
 * whose numbers have the same lower bits share a place, which belongs to the one created last.
 */
#include "inject/cufft.h"

enum { PLANS = 1024 };
enum { HALF_C2C = 1, HALF_R2C, HALF_C2R };
enum { R32F = 0, R64F = 1, R16F = 2, C32F = 4, C64F = 5, C16F = 6, R16BF = 14, C16BF = 15 };

/* In each place `owner` is the plan's number + 1, or 0 while the place is being written. */
static struct plan {
	_Atomic int64_t owner;
	_Atomic int64_t fields[WS_CUFFT_FIELDS];
} plans[PLANS];

static const struct {
	int input, output, type;
} types[] = {
	{C32F, C32F, 0x29},	{R32F, C32F, 0x2a},	{C32F, R32F, 0x2c},
	{C64F, C64F, 0x69},	{R64F, C64F, 0x6a},	{C64F, R64F, 0x6c},
	{C16F, C16F, HALF_C2C}, {R16F, C16F, HALF_R2C}, {C16F, R16F, HALF_C2R},
};

int ws_cufft_type(int input, int output)
{
	for (size_t i = 0; i < WS_COUNT(types); i++)
		if (types[i].input == input && types[i].output == output)
			return types[i].type;
	return 0;
}

/* The binary logarithm, to about six digits, since hooks do not use the mathematical library. */
static double find_log2(double value)
{
	double log = 0, bit = 0.5;

	for (; value >= 2; log++)
		value /= 2;
	for (int i = 0; i < 24; i++, bit /= 2) {
		value *= value;
		if (value >= 2) {
			value /= 2;
			log += bit;
		}
	}
	return log;
}

/* Bytes of an element on the complex side; 0 when the type is not known. */
static int64_t get_complex_size(int type)
{
	if (type <= 0)
		return 0;
	if (type <= HALF_C2R)
		return 4;
	return type & 0x40 ? 16 : 8;
}

static bool is_real(int type)
{
	return type == HALF_R2C || type == HALF_C2R || (type > HALF_C2R && type & 6);
}

/* The usual estimate: 5 N log2 N, and half of that if one side is real. */
static int64_t count_flops(double elements, double batch, int type)
{
	double flops = 5 * elements * find_log2(elements) * batch;

	if (!type || elements < 1 || flops > 1e18)
		return WS_LIBRARY_NONE;
	return (int64_t)(is_real(type) ? flops / 2 : flops);
}

/* Both sides, each counted once: a real side is half as large, and so is its complex counterpart.
 */
static int64_t count_bytes(double elements, double batch, int type)
{
	double bytes = (double)get_complex_size(type) * elements * batch * 2;

	if (bytes <= 0 || bytes > 1e18)
		return WS_LIBRARY_NONE;
	return (int64_t)(is_real(type) ? bytes / 2 : bytes);
}

static void set_field(struct plan *plan, enum ws_cufft_field field, int64_t value)
{
	atomic_store_explicit(&plan->fields[field], value, memory_order_relaxed);
}

void ws_cufft_note(int result, int plan, struct ws_cufft_sizes sizes, int type, int64_t batch)
{
	struct plan *place = &plans[(unsigned)plan % PLANS];
	double elements = (double)(sizes.x > 0 ? sizes.x : 1) *
			  (double)(sizes.y > 0 ? sizes.y : 1) * (double)(sizes.z > 0 ? sizes.z : 1);

	if (result)
		return;
	atomic_store(&place->owner, 0);
	set_field(place, WS_CUFFT_X, sizes.x);
	set_field(place, WS_CUFFT_Y, sizes.y ? sizes.y : WS_LIBRARY_NONE);
	set_field(place, WS_CUFFT_Z, sizes.z ? sizes.z : WS_LIBRARY_NONE);
	set_field(place, WS_CUFFT_BATCH, batch);
	set_field(place, WS_CUFFT_TYPE, type ? type : WS_LIBRARY_NONE);
	set_field(place, WS_CUFFT_FLOPS, count_flops(elements, (double)batch, type));
	set_field(place, WS_CUFFT_BYTES, count_bytes(elements, (double)batch, type));
	atomic_store(&place->owner, (int64_t)plan + 1);
}

struct ws_cufft_sizes ws_cufft_read_sizes(int rank, const int *sizes)
{
	if (!sizes || rank < 1)
		return WS_CUFFT_SIZES(0, 0, 0);
	return WS_CUFFT_SIZES(sizes[0], rank > 1 ? sizes[1] : 0, rank > 2 ? sizes[2] : 0);
}

struct ws_cufft_sizes ws_cufft_read_long_sizes(int rank, const long long *sizes)
{
	if (!sizes || rank < 1)
		return WS_CUFFT_SIZES(0, 0, 0);
	return WS_CUFFT_SIZES(sizes[0], rank > 1 ? sizes[1] : 0, rank > 2 ? sizes[2] : 0);
}

int64_t ws_cufft_get(int plan, enum ws_cufft_field field)
{
	struct plan *place = &plans[(unsigned)plan % PLANS];

	if (atomic_load(&place->owner) != (int64_t)plan + 1)
		return WS_LIBRARY_NONE;
	return atomic_load_explicit(&place->fields[field], memory_order_relaxed);
}
