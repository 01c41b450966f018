/* kernel_kinds.c - see kernel_kinds.h. */
#include "analyze/kernel_kinds.h"

#include <string.h>

#include "base/choose.h"

static bool has_part(const char *name, const char *const *parts)
{
	while (*parts && !strstr(name, *parts))
		parts++;
	return *parts != NULL;
}

/* CUTLASS names the elements that are loaded at once: "..._nn_align1>". Its kernels for cores other
 * than the tensor cores (simt) are always called so. */
static bool is_unaligned(const char *name)
{
	const char *at = strstr(name, "align");

	if (strstr(name, "_simt_"))
		return false;
	for (; at; at = strstr(at + 1, "align")) {
		const char *digit = at + strlen("align");

		digit += *digit == 'a';
		if ((*digit == '1' || *digit == '2') && !(digit[1] >= '0' && digit[1] <= '9'))
			return strstr(name, "gemm") != NULL;
	}
	return false;
}

static enum ws_kernel_kind classify_name(const char *name)
{
	static const char *const moves[] = {"copy_kernel_cuda",
					    "CatArrayBatchedCopy",
					    "nchwToNhwc",
					    "nhwcToNchw",
					    "nchw2nhwc",
					    "nhwc2nchw",
					    "convertTensor_",
					    "tensorTransform",
					    "TensorPermute",
					    "transpose_readWrite",
					    "tensor_transpose",
					    "Tensor4DPermute",
					    NULL};
	/* A type of data, not one of the arguments that any kernel may have. */
	static const char *const doubles[] = {"<double",  "double*",	"double *",
					      "(double)", "f64f64",	"d884gemm",
					      "dgemm",	  "d16816gemm", NULL};

	if (has_part(name, moves))
		return WS_KERNEL_MOVES;
	if (has_part(name, doubles))
		return WS_KERNEL_DOUBLE;
	if (is_unaligned(name))
		return WS_KERNEL_UNALIGNED;
	return WS_KERNEL_OTHER;
}

static enum ws_kernel_kind find_kind(const struct ws_model *model, struct ws_kind_counter *counter,
				     uint32_t name)
{
	uint64_t kind = ws_map_get(&counter->kinds, name, NULL);

	if (!kind) {
		kind = (uint64_t)classify_name(ws_report_string(model->report, name, NULL)) + 1;
		ws_map_set(&counter->kinds, name, kind);
	}
	return (enum ws_kernel_kind)(kind - 1);
}

void ws_kernel_kinds_count(const struct ws_model *model, struct ws_kind_counter *counter,
			   uint32_t name, struct ws_span run,
			   struct ws_kernel_kind_fact facts[WS_KERNEL_KINDS])
{
	struct ws_kernel_kind_fact *fact = &facts[find_kind(model, counter, name)];

	fact->count++;
	fact->ns += run.end - run.start;
	if (run.end - run.start > fact->longest.end - fact->longest.start) {
		fact->longest = run;
		fact->name = name;
	}
}

void ws_kind_counter_free(struct ws_kind_counter *counter)
{
	ws_map_free(&counter->kinds);
}

void ws_kernel_kind_calls(const struct ws_model *model, enum ws_kernel_kind kind,
			  struct ws_map *calls)
{
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_cuda_kernel, model->from, model->to);
	struct ws_kind_counter counter = {0};
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t name = (uint32_t)ws_or(values[ws_cuda_kernel_demangled],
						values[ws_cuda_kernel_name]),
			 call;

		if (find_kind(model, &counter, name) != kind)
			continue;
		call = ws_calls_find(&model->calls, values[ws_cuda_kernel_process],
				     values[ws_cuda_kernel_correlation]);
		if (call != WS_NO_CALL)
			ws_map_set(calls, (uint64_t)call + 1, 1);
	}
	ws_cursor_close(cursor);
	ws_kind_counter_free(&counter);
}
