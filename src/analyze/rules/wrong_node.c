/*
 * wrong_node.c - the thread that feeds a GPU runs on the cores of another NUMA node.
 *
 * Copies and calls then go through the link between the nodes: pinned copies are some 20 % slower.
 */
#include "analyze/rules/rules.h"

enum { MOST_CORES = 4096, NO_NODE = 255 };
#define SLOWER 0.2

struct node_map {
	uint8_t node[MOST_CORES]; /* by core */
};

static const char *read_cores(const char *at, uint8_t node, struct node_map *map)
{
	while (*at && *at != ';') {
		char *end;
		unsigned long first = strtoul(at, &end, 10), last = first;

		if (end == at)
			return at + strcspn(at, ";");
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < MOST_CORES; first++)
			map->node[first] = node;
		at = end + (*end == ',');
	}
	return at;
}

/* "0-3;4-7": the cores of each node. */
static void read_nodes(const char *text, struct node_map *map)
{
	memset(map->node, NO_NODE, sizeof(map->node));
	for (uint8_t node = 0; *text && node < NO_NODE; node++) {
		text = read_cores(text, node, map);
		text += *text == ';';
	}
}

/* The node of the GPU that worked most, from "BUS=NODE;..."; NO_NODE when not known. */
static uint8_t find_gpu_node(const struct ws_analysis *analysis, size_t gpu, const char *nodes)
{
	const struct ws_report *report = analysis->model->report;
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	const struct ws_work_gpu *work = &analysis->model->work.gpu[gpu];
	uint8_t node = NO_NODE;
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		const char *bus =
			ws_report_string(report, (uint32_t)values[ws_cuda_device_bus], NULL);
		const char *at = *bus ? strstr(nodes, bus) : NULL;

		if (values[ws_cuda_device_process] == work->process &&
		    values[ws_cuda_device_id] == work->device && at && at[strlen(bus)] == '=')
			node = (uint8_t)strtoul(at + strlen(bus) + 1, NULL, 10);
	}
	ws_cursor_close(cursor);
	return node;
}

/* The share of its time on cores that the thread of the steps spent on other nodes. */
static double measure_away(const struct ws_analysis *analysis, const struct node_map *map,
			   uint8_t node, uint32_t *most_node)
{
	const struct ws_model *model = analysis->model;
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_sched, model->from, model->to);
	uint64_t on[256] = {0}, all = 0, most = 0;
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t cpu = values[ws_sched_cpu], end = values[ws_sched_end],
			 start = ws_max(values[ws_sched_start], model->from);

		if (values[ws_sched_thread] != model->thread || cpu >= MOST_CORES ||
		    end == WS_NO_TIME || ws_min(end, model->to) <= start)
			continue;
		on[map->node[cpu]] += ws_min(end, model->to) - start;
		all += ws_min(end, model->to) - start;
	}
	ws_cursor_close(cursor);
	*most_node = NO_NODE;
	for (uint32_t i = 0; i < NO_NODE; i++)
		if (i != node && on[i] > most) {
			most = on[i];
			*most_node = i;
		}
	if (!all)
		return 0;
	return (double)(all - on[node] - on[NO_NODE]) / (double)all;
}

static size_t find_busiest(const struct ws_analysis *analysis)
{
	size_t best = 0;

	for (size_t i = 1; i < analysis->model->work.gpus; i++)
		if (analysis->gpus[i].idle_total < analysis->gpus[best].idle_total)
			best = i;
	return best;
}

static void report_node(const struct ws_analysis *analysis, size_t gpu, double away,
			const uint32_t nodes[2], struct ws_findings *findings)
{
	uint64_t cost = ws_min(analysis->gpus[gpu].exposed_copies +
				       analysis->breakdown.by_cause[WS_CAUSE_CUDA_CALL],
			       analysis->window);
	struct ws_finding *finding = ws_findings_add_fault(analysis, findings, &ws_rule_wrong_node,
							   cost, (uint64_t)((double)cost * SLOWER));
	struct ws_text name = {0}, thread = {0};

	if (ws_analysis_share(analysis, cost) >= WS_WARNING_SHARE)
		finding->level = ws_max(finding->level, WS_LEVEL_WARNING);
	ws_analysis_put_gpu(analysis, gpu, &name);
	ws_put_thread(analysis, analysis->model->thread, &thread);
	finding->title = ws_format("Thread %s runs on NUMA node %u for %.0f %% of its time, but %s "
				   "is at node %u",
				   thread.text, nodes[0], 100 * away, name.text, nodes[1]);
	finding->advice = ws_format("Bind the process to the cores and the memory of that node: "
				    "numactl --cpunodebind=%u --membind=%u, or what the launcher "
				    "offers (mpirun --bind-to numa, srun --cpu-bind).",
				    nodes[1], nodes[1]);
	finding->assumption = ws_strdup("calls and copies are a fifth faster on the GPU's node");
	ws_text_free(&name);
	ws_text_free(&thread);
}

static void check_node(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_report *report = analysis->model->report;
	size_t gpu = find_busiest(analysis);
	uint8_t node = find_gpu_node(analysis, gpu, ws_find_meta(report, "gpu.nodes"));
	struct node_map *map = ws_malloc(sizeof(*map));
	uint32_t nodes[2] = {0, node};
	double away = 0;

	read_nodes(ws_find_meta(report, "cpu.nodes"), map);
	if (node != NO_NODE)
		away = measure_away(analysis, map, node, &nodes[0]);
	if (away >= 0.5)
		report_node(analysis, gpu, away, nodes, findings);
	free(map);
}

static const char *find_obstacle(const struct ws_analysis *analysis)
{
	const struct ws_report *report = analysis->model->report;

	if (!analysis->model->has_cuda)
		return ws_need_cuda(analysis);
	if (!ws_find_meta(report, "cpu.nodes") || !ws_find_meta(report, "gpu.nodes"))
		return "the report names no NUMA nodes (the machine has one, or does not say where "
		       "its GPUs are)";
	return ws_need_scheduling(analysis);
}

const struct ws_rule ws_rule_wrong_node = {
	.name = "wrong-numa-node",
	.title = "A GPU fed from another NUMA node",
	.about = "The thread of the steps, or the main thread, spends half of its time on cores or "
		 "more on a NUMA node that is not the GPU's. A warning where calls of CUDA and "
		 "copies that nothing hides take 5 % of the time or more.",
	.find_obstacle = find_obstacle,
	.query = ws_proof_cores,
	.check = check_node,
};
