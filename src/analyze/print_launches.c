/* print_launches.c - how far the CPU runs ahead and which kernels are short, as text and JSON. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/facts.h"
#include "analyze/print.h"
#include "base/choose.h"
#include "text/json_write.h"

enum { QUEUES_SHOWN = 8, KERNELS_SHOWN = 5, KERNELS_IN_JSON = 50 };

static const char *const band_names[WS_QUEUE_BANDS] = {"none",	   "1",		  "2 to 9",
						       "10 to 99", "100 to 1023", "1024 or more"};

static const char *const short_names[WS_QUEUE_BANDS] = {"none",	 "1",	     "2-9",
							"10-99", "100-1023", "1024+"};

static double measure_share(uint64_t part, uint64_t whole)
{
	if (!whole)
		return 0;
	return (double)part / (double)whole;
}

static void print_queue(const struct ws_analysis *analysis, const struct ws_queue *queue,
			FILE *file)
{
	const struct ws_launches *launches = &analysis->launches;
	uint64_t part = launches->to - launches->from;
	struct ws_text name = {0};

	ws_analysis_put_gpu(analysis, queue->gpu, &name);
	fprintf(file, "  %8.1f %6" PRIu64, measure_share(queue->depth_ns, part), queue->most);
	for (int band = 0; band < WS_QUEUE_BANDS; band++)
		fprintf(file, " %6.1f %%", 100 * measure_share(queue->ns[band], part));
	fprintf(file, " %9.1f %9" PRIu64 "  %s stream %u\n",
		measure_share(queue->lead_ns, queue->launches) / 1e3, queue->launches, name.text,
		queue->stream);
	ws_text_free(&name);
}

static void print_queues(const struct ws_analysis *analysis, FILE *file)
{
	const struct ws_launches *launches = &analysis->launches;

	fprintf(file,
		"\nHow far the CPU runs ahead: launches whose work has not begun, by stream%s\n",
		launches->to < analysis->model->to ? " (first part)" : "");
	fprintf(file, "  %8s %6s", "mean", "most");
	for (int band = 0; band < WS_QUEUE_BANDS; band++)
		fprintf(file, " %8s", short_names[band]);
	fprintf(file, " %9s %9s\n", "lead, us", "launches");
	for (size_t i = 0; i < launches->queue_count && i < QUEUES_SHOWN; i++)
		print_queue(analysis, &launches->queues[i], file);
	if (launches->queue_count > QUEUES_SHOWN)
		fprintf(file, "  and %zu more streams\n", launches->queue_count - QUEUES_SHOWN);
}

static void print_short_kernel(const struct ws_short_kernel *kernel, const char *name, FILE *file)
{
	fprintf(file, "  %8" PRIu64 " %11.3f %11.3f %11.2f  %s\n", kernel->count,
		(double)kernel->kernel_ns / 1e6, (double)kernel->launch_ns / 1e6,
		measure_share(kernel->launch_ns, kernel->kernel_ns), name);
}

static void print_short_kernels(const struct ws_analysis *analysis, FILE *file)
{
	const struct ws_launches *launches = &analysis->launches;

	if (!launches->all_short.count)
		return;
	fprintf(file,
		"\nKernels of less than 10 us: %.0f %% of all %" PRIu64 "\n"
		"  %8s %11s %11s %11s\n",
		100 * measure_share(launches->all_short.count, launches->all_kernels),
		launches->all_kernels, "count", "run, ms", "launch, ms", "launch/run");
	print_short_kernel(&launches->all_short, "all", file);
	for (size_t i = 0; i < launches->kernel_count && i < KERNELS_SHOWN; i++)
		print_short_kernel(&launches->kernels[i],
				   ws_report_string(analysis->model->report,
						    launches->kernels[i].name, NULL),
				   file);
}

void ws_print_launches_text(const struct ws_analysis *analysis, FILE *file)
{
	if (!analysis->launches.queue_count)
		return;
	print_queues(analysis, file);
	print_short_kernels(analysis, file);
}

static void put_queue(const struct ws_analysis *analysis, const struct ws_queue *queue,
		      struct ws_text *out)
{
	struct ws_text name = {0};

	ws_analysis_put_gpu(analysis, queue->gpu, &name);
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "gpu", name.text);
	ws_put_json_int(out, "stream", queue->stream);
	ws_put_json_int(out, "launches", (int64_t)queue->launches);
	ws_put_json_int(out, "most", (int64_t)queue->most);
	ws_put_json_int(out, "depth_ns", (int64_t)queue->depth_ns);
	ws_put_json_int(out, "lead_ns", (int64_t)queue->lead_ns);
	ws_put_json_key(out, "ns_by_depth");
	ws_text_puts(out, "{");
	for (int band = 0; band < WS_QUEUE_BANDS; band++)
		ws_put_json_int(out, band_names[band], (int64_t)queue->ns[band]);
	ws_text_puts(out, "}}");
	ws_text_free(&name);
}

static void put_short_kernel(const struct ws_analysis *analysis,
			     const struct ws_short_kernel *kernel, struct ws_text *out)
{
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "name",
			   ws_report_string(analysis->model->report, kernel->name, NULL));
	ws_put_json_int(out, "count", (int64_t)kernel->count);
	ws_put_json_int(out, "run_ns", (int64_t)kernel->kernel_ns);
	ws_put_json_int(out, "launch_ns", (int64_t)kernel->launch_ns);
	ws_text_puts(out, "}");
}

void ws_put_launches_json(const struct ws_analysis *analysis, struct ws_text *out)
{
	const struct ws_launches *launches = &analysis->launches;

	ws_put_json_key(out, "queues");
	ws_text_puts(out, "{");
	ws_put_json_int(out, "part_ns", (int64_t)(launches->to - launches->from));
	ws_put_json_key(out, "streams");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < launches->queue_count; i++)
		put_queue(analysis, &launches->queues[i], out);
	ws_text_puts(out, "]}");
	ws_put_json_key(out, "short_kernels");
	ws_text_puts(out, "{");
	ws_put_json_int(out, "kernels", (int64_t)launches->all_kernels);
	ws_put_json_int(out, "count", (int64_t)launches->all_short.count);
	ws_put_json_int(out, "run_ns", (int64_t)launches->all_short.kernel_ns);
	ws_put_json_int(out, "launch_ns", (int64_t)launches->all_short.launch_ns);
	ws_put_json_key(out, "names");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < launches->kernel_count && i < KERNELS_IN_JSON; i++)
		put_short_kernel(analysis, &launches->kernels[i], out);
	ws_text_puts(out, "]}");
}
