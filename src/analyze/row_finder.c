/* row_finder.c - see row_finder.h. */
#include "analyze/row_finder.h"

#include <string.h>

#include "base/choose.h"

/* Kinds of a thread's rows; the one that shows best what the thread did comes first. */
static const uint8_t preferred[] = {WS_LANE_STATE, WS_LANE_OSRT,   WS_LANE_CUDA_API,
				    WS_LANE_OP,	   WS_LANE_NVTX,   WS_LANE_SLICE,
				    WS_LANE_GIL,   WS_LANE_PYTHON, WS_LANE_SAMPLE};

static size_t rank_kind(uint8_t kind)
{
	size_t rank = 0;

	while (rank < WS_COUNT(preferred) && preferred[rank] != kind)
		rank++;
	return rank;
}

static uint64_t make_stream_key(uint32_t process, uint32_t stream)
{
	return (uint64_t)process << 32 | stream;
}

static void note_thread(struct ws_row_finder *finder, uint32_t number)
{
	const struct ws_lane *lane = finder->lanes->lane[number];
	uint64_t known = ws_map_get(&finder->threads, lane->key[0], NULL);

	if (!known || rank_kind(lane->kind) < rank_kind(finder->lanes->lane[known - 1]->kind))
		ws_map_set(&finder->threads, lane->key[0], number + 1);
}

void ws_row_finder_open(const struct ws_lanes *lanes, struct ws_row_finder *finder)
{
	memset(finder, 0, sizeof(*finder));
	finder->lanes = lanes;
	for (uint32_t i = 0; i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];

		if (rank_kind(lane->kind) < WS_COUNT(preferred)) {
			note_thread(finder, i);
		} else if (lane->kind == WS_LANE_STREAM) {
			uint64_t key = make_stream_key(lane->key[0], lane->key[3]);

			if (!ws_map_get(&finder->streams, key, NULL))
				ws_map_set(&finder->streams, key, i + 1);
		}
	}
}

void ws_row_finder_close(struct ws_row_finder *finder)
{
	ws_map_free(&finder->threads);
	ws_map_free(&finder->streams);
}

uint32_t ws_find_thread_row(const struct ws_row_finder *finder, uint32_t thread)
{
	uint64_t found = 0;

	if (thread)
		found = ws_map_get(&finder->threads, thread, NULL);
	if (!found)
		return WS_NO_ROW;
	return (uint32_t)found - 1;
}

/* Streams of several GPUs may have the same number: then this finds the one of this device. */
uint32_t ws_find_stream_row(const struct ws_row_finder *finder, uint64_t device, uint32_t process,
			    uint32_t stream)
{
	const struct ws_lanes *lanes = finder->lanes;
	uint64_t found = ws_map_get(&finder->streams, make_stream_key(process, stream), NULL);

	if (!found)
		return WS_NO_ROW;
	if (lanes->lane[found - 1]->key[1] == device)
		return (uint32_t)found - 1;
	for (uint32_t i = (uint32_t)found; i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];

		if (lane->kind == WS_LANE_STREAM && lane->key[0] == process &&
		    lane->key[1] == device && lane->key[3] == stream)
			return i;
	}
	return (uint32_t)found - 1;
}

uint32_t ws_find_piece_row(const struct ws_row_finder *finder, const struct ws_model *model,
			   const struct ws_piece *piece)
{
	bool on_gpu = piece->kind == WS_PIECE_GPU || piece->kind == WS_PIECE_LAUNCH ||
		      piece->kind == WS_PIECE_DELAY;
	const struct ws_work_gpu *gpu;

	if (!on_gpu || piece->op == WS_NO_OP)
		return ws_find_thread_row(finder, piece->thread);
	gpu = &model->work.gpu[piece->gpu];
	return ws_find_stream_row(finder, gpu->device, gpu->op[piece->op].process,
				  gpu->op[piece->op].stream);
}
