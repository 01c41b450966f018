/*
 * cudnn.c - see cudnn.h. What is known of a descriptor is kept in a table by its address, as long
 * as descriptors are being put together; a graph's shape is written down when its operations are
 * set, and engines, configurations and plans made from it refer to that. A plan made from text
 * (JSON) has no graph, so its shape is not known.
 *
 * The table has a lock, for which nobody waits long: what cannot be noted in time is not known.
 * Programs make descriptors rarely, as they keep their plans.
 */
#include "inject/cudnn.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "base/choose.h"

enum descriptor_kind {
	CONVOLUTION = 1,
	ENGINE = 2,
	ENGINE_CONFIG = 3,
	HEURISTIC = 4,
	PLAN = 5,
	FORWARD = 10,
	BACKWARD_FILTER = 11,
	BACKWARD_DATA = 12,
	GRAPH = 15,
	TENSOR = 17,
	MATMUL = 19,
	SDPA_FORWARD = 41,
	SDPA_BACKWARD = 43
};

enum attribute {
	CONVOLUTION_DILATIONS = 102,
	CONVOLUTION_STRIDES = 103,
	CONVOLUTION_PADDINGS = 105, /* before the data */
	HEURISTIC_GRAPH = 201,
	HEURISTIC_RESULTS = 202,
	CONFIG_ENGINE = 300,
	PLAN_CONFIG = 401,
	GRAPH_OPERATIONS = 801,
	TENSOR_TYPE = 901,
	TENSOR_DIMENSIONS = 902,
	ENGINE_GRAPH = 1300
};

enum { DIMENSIONS = 8, NOTES = 1 << 14, PROBES = 32, SHAPES = 4096, SPINS = 1 << 16 };
enum role { X, W, Y, CONV, ROLES };

struct dimensions {
	int64_t count, sizes[DIMENSIONS], type;
};

struct note { /* of a descriptor */
	const void *descriptor;
	uint32_t kind, shape; /* shape: number in `shapes`; 0: not known */
	union {
		struct dimensions tensor;
		struct {
			struct dimensions strides, paddings, dilations;
		} convolution;
		struct dimensions operands[ROLES]; /* of an operation, without the last */
	};
	struct dimensions parameters[3]; /* of an operation: strides, paddings, dilations */
};

static struct note *notes;		     /* made when first needed */
static struct ws_cudnn_shape shapes[SHAPES]; /* the first: nothing known */
static uint32_t shape_count = 1;
static _Atomic bool locked;

static const struct {
	int kind;
	const char *name;
} operation_names[] = {
	{FORWARD, "conv_fwd"},
	{BACKWARD_FILTER, "conv_bwd_filter"},
	{13, "pointwise"},
	{BACKWARD_DATA, "conv_bwd_data"},
	{14, "gen_stats"},
	{MATMUL, "matmul"},
	{20, "bn_finalize"},
	{22, "reduction"},
	{23, "bn_bwd_weights"},
	{25, "resample_fwd"},
	{26, "resample_bwd"},
	{27, "concat"},
	{28, "signal"},
	{29, "norm_fwd"},
	{30, "norm_bwd"},
	{31, "reshape"},
	{33, "rng"},
	{35, "paged_cache_load"},
	{36, "block_quantize"},
	{37, "block_dequantize"},
	{SDPA_FORWARD, "sdpa_fwd"},
	{42, "moe_grouped_matmul"},
	{SDPA_BACKWARD, "sdpa_bwd"},
};

/* Which attribute of an operation is which operand. */
static const struct {
	int attribute;
	enum role role;
} operands[] = {
	{702, CONV}, {703, W},	{704, X},  {705, Y},  {708, CONV}, {709, W},  {710, X},	 {711, Y},
	{714, CONV}, {715, W},	{716, X},  {717, Y},  {751, X},	   {753, Y},  {772, X},	 {1520, X},
	{1521, W},   {1522, Y}, {1610, X}, {1611, Y}, {1710, X},   {1711, Y}, {1720, X}, {1721, Y},
	{2002, X},   {2005, W}, {2013, Y}, {2101, X}, {2104, W},   {2109, Y},
};

/* ---- the table ---- */

static bool lock_notes(void)
{
	bool expected = false;

	for (int i = 0; i < SPINS; i++) {
		if (atomic_compare_exchange_weak(&locked, &expected, true))
			return true;
		expected = false;
	}
	return false;
}

static void unlock_notes(void)
{
	atomic_store_explicit(&locked, false, memory_order_release);
}

static bool make_notes(void)
{
	long at;

	if (notes)
		return true;
	at = ws_raw_syscall(SYS_mmap, 0, NOTES * sizeof(*notes), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at <= 0)
		return false;
	notes = (struct note *)at;
	return true;
}

static struct note *get_probe(const void *descriptor, unsigned i)
{
	uint64_t hash = (uintptr_t)descriptor * UINT64_C(0x9e3779b97f4a7c15);

	return &notes[((hash >> 40) + i) % NOTES];
}

static struct note *find_note(const void *descriptor)
{
	for (unsigned i = 0; descriptor && notes && i < PROBES; i++)
		if (get_probe(descriptor, i)->descriptor == descriptor)
			return get_probe(descriptor, i);
	return NULL;
}

/* A place for a new descriptor: its old one, a free one, or one that is given up. */
static struct note *place_note(const void *descriptor)
{
	struct note *place = find_note(descriptor);

	for (unsigned i = 0; !place && i < PROBES; i++)
		if (!get_probe(descriptor, i)->descriptor)
			place = get_probe(descriptor, i);
	if (!place)
		place = get_probe(descriptor, 0);
	memset(place, 0, sizeof(*place));
	place->descriptor = descriptor;
	return place;
}

/* ---- shapes ---- */

static void add_text(char *text, size_t room, const char *more)
{
	size_t length = strlen(text), added = strlen(more);

	if (length + added < room)
		memcpy(text + length, more, added + 1);
}

static void add_number(char *text, size_t room, int64_t number)
{
	char digits[24], *at = digits + sizeof(digits) - 1;
	uint64_t rest = (uint64_t)number;

	if (number < 0)
		rest = -rest;
	*at = 0;
	do {
		*--at = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	if (number < 0)
		*--at = '-';
	add_text(text, room, at);
}

static void write_dimensions(char text[WS_CUDNN_TEXT], const struct dimensions *dimensions)
{
	*text = 0;
	for (int64_t i = 0; i < dimensions->count; i++) {
		if (i)
			add_text(text, WS_CUDNN_TEXT, "x");
		add_number(text, WS_CUDNN_TEXT, dimensions->sizes[i]);
	}
}

/* The product of the sizes from `first` on; 0 when it is not known. */
static int64_t multiply_sizes(const struct dimensions *dimensions, int64_t first)
{
	int64_t product = 1;

	for (int64_t i = first; i < dimensions->count; i++)
		if (dimensions->sizes[i] < 0 ||
		    __builtin_mul_overflow(product, dimensions->sizes[i], &product))
			return 0;
	return dimensions->count ? product : 0;
}

/* Bytes of an element, by its type; 0 when they are not known, or less than one. */
static int64_t get_type_size(int64_t type)
{
	static const uint8_t sizes[] = {4, 8, 2, 1, 4, 4, 1, 4, 32, 2, 8,
					1, 1, 1, 4, 1, 0, 0, 0, 4,  8, 16};

	if (type < 0 || type >= (int64_t)WS_COUNT(sizes))
		return 0;
	return sizes[type];
}

static int64_t add_sizes(const struct dimensions operand[ROLES])
{
	int64_t sum = 0;

	for (int i = X; i <= Y; i++) {
		int64_t elements = multiply_sizes(&operand[i], 0);

		if (!elements || !get_type_size(operand[i].type) ||
		    __builtin_mul_overflow(elements, get_type_size(operand[i].type), &elements) ||
		    __builtin_add_overflow(sum, elements, &sum))
			return WS_LIBRARY_NONE;
	}
	return sum;
}

/* Two operations for each element of the result (of a convolution forward) and of what it is the
 * sum of: an element's channels and filter, or a row times a column. */
static int64_t count_flops(int kind, const struct dimensions operand[ROLES])
{
	int64_t results = multiply_sizes(&operand[Y], 0), terms = 0, flops;

	if (kind == FORWARD || kind == BACKWARD_DATA || kind == BACKWARD_FILTER)
		terms = multiply_sizes(&operand[W], 1);
	else if (kind == MATMUL && operand[X].count)
		terms = operand[X].sizes[operand[X].count - 1];
	if (!results || terms <= 0 || __builtin_mul_overflow(2 * results, terms, &flops))
		return WS_LIBRARY_NONE;
	return flops;
}

static void fill_shape(struct ws_cudnn_shape *shape, int kind,
		       const struct dimensions operand[ROLES],
		       const struct dimensions parameters[3])
{
	const struct dimensions *x = &operand[X], *w = &operand[W];

	write_dimensions(shape->x, x);
	write_dimensions(shape->w, w);
	write_dimensions(shape->y, &operand[Y]);
	write_dimensions(shape->stride, &parameters[0]);
	write_dimensions(shape->padding, &parameters[1]);
	write_dimensions(shape->dilation, &parameters[2]);
	shape->type = x->count ? x->type : WS_LIBRARY_NONE;
	shape->groups = WS_LIBRARY_NONE;
	if (parameters[0].count && x->count > 1 && w->count > 1 && w->sizes[1] > 0)
		shape->groups = x->sizes[1] / w->sizes[1];
	shape->flops = count_flops(kind, operand);
	shape->bytes = add_sizes(operand);
}

/* How much of a graph's work an operation is, to name the graph's shape after the largest. */
static int get_weight(uint32_t kind)
{
	if (kind == FORWARD || kind == BACKWARD_DATA || kind == BACKWARD_FILTER || kind == MATMUL)
		return 3;
	return kind == 13 ? 1 : 2;
}

static void add_operation(struct ws_cudnn_shape *shape, uint32_t kind)
{
	for (size_t i = 0; i < WS_COUNT(operation_names); i++) {
		if (operation_names[i].kind != (int)kind)
			continue;
		if (*shape->operations)
			add_text(shape->operations, sizeof(shape->operations), "+");
		add_text(shape->operations, sizeof(shape->operations), operation_names[i].name);
	}
}

static bool is_equal_shape(const struct ws_cudnn_shape *left, const struct ws_cudnn_shape *right)
{
	return !memcmp(left, right, sizeof(*left));
}

/* The number of this shape; 0 when there is no space. */
static uint32_t number_shape(const struct ws_cudnn_shape *shape)
{
	for (uint32_t i = 1; i < shape_count; i++)
		if (is_equal_shape(&shapes[i], shape))
			return i;
	if (shape_count == SHAPES)
		return 0;
	shapes[shape_count] = *shape;
	return shape_count++;
}

static uint32_t make_graph_shape(const void *const *operations, int64_t count)
{
	struct ws_cudnn_shape shape;
	const struct note *main_one = NULL;

	memset(&shape, 0, sizeof(shape));
	for (int64_t i = 0; i < count; i++) {
		const struct note *note = find_note(operations[i]);

		if (!note)
			continue;
		add_operation(&shape, note->kind);
		if (!main_one || get_weight(note->kind) > get_weight(main_one->kind))
			main_one = note;
	}
	if (!main_one)
		return 0;
	fill_shape(&shape, (int)main_one->kind, main_one->operands, main_one->parameters);
	return number_shape(&shape);
}

/* ---- descriptors ---- */

static void copy_sizes(struct dimensions *dimensions, int64_t count, const int64_t *sizes)
{
	dimensions->count = ws_min(count, (int64_t)DIMENSIONS);
	memcpy(dimensions->sizes, sizes, (size_t)dimensions->count * sizeof(*sizes));
}

static void set_tensor(struct note *note, int attribute, int64_t count, const void *elements)
{
	if (attribute == TENSOR_DIMENSIONS)
		copy_sizes(&note->tensor, count, elements);
	else if (attribute == TENSOR_TYPE)
		note->tensor.type = *(const int *)elements;
}

static void set_convolution(struct note *note, int attribute, int64_t count, const void *elements)
{
	if (attribute == CONVOLUTION_STRIDES)
		copy_sizes(&note->convolution.strides, count, elements);
	else if (attribute == CONVOLUTION_PADDINGS)
		copy_sizes(&note->convolution.paddings, count, elements);
	else if (attribute == CONVOLUTION_DILATIONS)
		copy_sizes(&note->convolution.dilations, count, elements);
}

static void set_operand(struct note *note, int attribute, const void *const *elements)
{
	for (size_t i = 0; i < WS_COUNT(operands); i++) {
		const struct note *given;

		if (operands[i].attribute != attribute)
			continue;
		given = find_note(*elements);
		if (given && operands[i].role == CONV && given->kind == CONVOLUTION) {
			note->parameters[0] = given->convolution.strides;
			note->parameters[1] = given->convolution.paddings;
			note->parameters[2] = given->convolution.dilations;
		} else if (given && operands[i].role != CONV && given->kind == TENSOR) {
			note->operands[operands[i].role] = given->tensor;
		}
	}
}

/* What is made of a graph has its shape. */
static void set_shape(struct note *note, int attribute, int64_t count, const void *elements)
{
	const void *const *descriptors = elements;
	const struct note *from;

	if (note->kind == GRAPH && attribute == GRAPH_OPERATIONS) {
		note->shape = make_graph_shape(descriptors, count);
		return;
	}
	if (attribute != HEURISTIC_GRAPH && attribute != CONFIG_ENGINE &&
	    attribute != PLAN_CONFIG && attribute != ENGINE_GRAPH)
		return;
	from = find_note(*descriptors);
	if (from && note->kind <= PLAN)
		note->shape = from->shape;
}

static void set_attribute(struct note *note, int attribute, int64_t count, const void *elements)
{
	switch (note->kind) {
	case TENSOR:
		set_tensor(note, attribute, count, elements);
		break;
	case CONVOLUTION:
		set_convolution(note, attribute, count, elements);
		break;
	case ENGINE:
	case ENGINE_CONFIG:
	case HEURISTIC:
	case PLAN:
	case GRAPH:
		set_shape(note, attribute, count, elements);
		break;
	default:
		set_operand(note, attribute, elements);
	}
}

void ws_cudnn_create(int result, int type, void **descriptor)
{
	if (result || !descriptor || !*descriptor || !lock_notes())
		return;
	if (make_notes())
		place_note(*descriptor)->kind = (uint32_t)type;
	unlock_notes();
}

void ws_cudnn_destroy(const void *descriptor)
{
	struct note *note;

	if (!lock_notes())
		return;
	note = find_note(descriptor);
	if (note)
		note->descriptor = NULL;
	unlock_notes();
}

void ws_cudnn_set(int result, const void *descriptor, int attribute, int64_t count,
		  const void *elements)
{
	struct note *note;

	if (result || count < 1 || !elements || !lock_notes())
		return;
	note = find_note(descriptor);
	if (note)
		set_attribute(note, attribute, count, elements);
	unlock_notes();
}

void ws_cudnn_get(int result, const void *descriptor, int attribute, const int64_t *count,
		  const void *elements)
{
	const void *const *configs = elements;
	const struct note *from;

	if (result || attribute != HEURISTIC_RESULTS || !count || !elements || !lock_notes())
		return;
	from = find_note(descriptor);
	for (int64_t i = 0; from && i < *count; i++) {
		struct note *config = find_note(configs[i]);

		if (config && config->kind == ENGINE_CONFIG)
			config->shape = from->shape;
	}
	unlock_notes();
}

static void forget_shape(struct ws_cudnn_shape *shape)
{
	memset(shape, 0, sizeof(*shape));
	shape->type = shape->groups = shape->flops = shape->bytes = WS_LIBRARY_NONE;
}

const struct ws_cudnn_shape *ws_cudnn_find_shape(const void *plan)
{
	const struct note *note;
	uint32_t number = 0;

	if (lock_notes()) {
		if (!shapes[0].type)
			forget_shape(&shapes[0]);
		note = find_note(plan);
		if (note)
			number = note->shape;
		unlock_notes();
	}
	return &shapes[number];
}

/* ---- the older interface ---- */

typedef int get_tensor_fn(void *descriptor, int wanted, int *type, int *count, int *sizes,
			  int *strides);
typedef int get_filter_fn(void *descriptor, int wanted, int *type, int *format, int *count,
			  int *sizes);
typedef int get_convolution_fn(void *descriptor, int wanted, int *count, int *paddings,
			       int *strides, int *dilations, int *mode, int *type);

static void *_Atomic tensor_function, *_Atomic filter_function, *_Atomic convolution_function;

static void widen_sizes(struct dimensions *dimensions, int count, const int *sizes)
{
	dimensions->count = ws_max(ws_min(count, (int)DIMENSIONS), 0);
	for (int64_t i = 0; i < dimensions->count; i++)
		dimensions->sizes[i] = sizes[i];
}

static void read_tensor(void *descriptor, struct dimensions *dimensions)
{
	get_tensor_fn *get = ws_library_find_once(&tensor_function, "cudnnGetTensorNdDescriptor");
	int type = -1, count = 0, sizes[DIMENSIONS], strides[DIMENSIONS];

	if (get && !get(descriptor, DIMENSIONS, &type, &count, sizes, strides))
		widen_sizes(dimensions, count, sizes);
	dimensions->type = type;
}

static void read_filter(void *descriptor, struct dimensions *dimensions)
{
	get_filter_fn *get = ws_library_find_once(&filter_function, "cudnnGetFilterNdDescriptor");
	int type = -1, format, count = 0, sizes[DIMENSIONS];

	if (get && !get(descriptor, DIMENSIONS, &type, &format, &count, sizes))
		widen_sizes(dimensions, count, sizes);
	dimensions->type = type;
}

static void read_convolution(void *descriptor, struct dimensions parameters[3])
{
	get_convolution_fn *get =
		ws_library_find_once(&convolution_function, "cudnnGetConvolutionNdDescriptor");
	int count = 0, paddings[DIMENSIONS], strides[DIMENSIONS], dilations[DIMENSIONS], mode, type;

	if (!get ||
	    get(descriptor, DIMENSIONS - 2, &count, paddings, strides, dilations, &mode, &type))
		return;
	widen_sizes(&parameters[0], count, strides);
	widen_sizes(&parameters[1], count, paddings);
	widen_sizes(&parameters[2], count, dilations);
}

void ws_cudnn_read_shape(struct ws_cudnn_shape *shape, void *x, void *filter, void *convolution,
			 void *y)
{
	struct dimensions operand[ROLES] = {0}, parameters[3] = {0};

	forget_shape(shape);
	read_tensor(x, &operand[X]);
	read_tensor(y, &operand[Y]);
	read_filter(filter, &operand[W]);
	read_convolution(convolution, parameters);
	fill_shape(shape, FORWARD, operand, parameters);
}
