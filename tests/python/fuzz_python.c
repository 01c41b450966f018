/*
 * fuzz_python.c - the reader of interpreters against hostile memory: it may find nothing or
 * nonsense, and must not crash, hang, or write beyond what it was given.
 *
 * The input's first byte chooses an image of an interpreter (or memory that is made of the input
 * alone); then come edits of 10 bytes: a place in what the image holds (4), a way (1), a value (5).
 * What is left is tried as a line table of each form.
 */
#include <unistd.h>

#include "base/compiler.h"
#include "base/choose.h"
#include "image.h"
#include "../replay.h"

static const char *const versions[] = {"3.8", "3.9", "3.10", "3.11", "3.12", "3.13"};
static struct image images[WS_COUNT(versions)];

static const uint8_t *input;
static size_t input_n;

/* Memory that is there everywhere. */
static size_t read_input(void *ctx, const struct ws_py_piece *piece, size_t n)
{
	(void)ctx;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < piece[i].bytes; k++)
			((uint8_t *)piece[i].to)[k] = input[(piece[i].from * 7 + k) % input_n];
	return n;
}

static void explore_process(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			    uint64_t runtime)
{
	static struct ws_py_thread thread[16];
	static struct ws_py_frame py_frames[300];
	static struct ws_py_walk walk;
	static struct ws_py_code code;
	size_t n = ws_py_list_threads(layout, memory, runtime, thread, WS_COUNT(thread));

	memset(&walk, 0, sizeof(walk));
	ws_py_find_gil_holder(layout, memory, runtime);
	for (size_t i = 0; i < n; i++) {
		size_t frames = ws_py_walk(layout, memory, thread[i].state, &walk, py_frames,
					   WS_COUNT(py_frames));

		if (frames > WS_COUNT(py_frames))
			abort();
		for (size_t k = 0; k < frames && k < 20; k++) {
			uint8_t table[4096];

			if (!ws_py_read_code(layout, memory, py_frames[k].code, &code))
				continue;
			if (code.name_len > sizeof(code.name) ||
			    code.file_len > sizeof(code.file) ||
			    code.table_bytes > WS_PY_TABLE_MOST)
				abort();
			if (code.table_bytes < sizeof(table) &&
			    ws_py_read(memory, code.table, table, code.table_bytes) &&
			    ws_py_find_line(layout->version, code.first_line, table,
					    code.table_bytes, py_frames[k].at) < 0 &&
			    py_frames[k].at >= 0)
				abort();
		}
	}
}

static void edit_bytes(const struct image *im, const uint8_t *e)
{
	uint32_t place;
	struct piece *piece;
	uint64_t value = 0;

	memcpy(&place, e, 4);
	piece = &im->piece[place % im->n];
	memcpy(&value, e + 5, 5);
	place = piece->bytes > 8 ? (place / (uint32_t)im->n) % (uint32_t)(piece->bytes - 8) : 0;
	if (e[4] & 1) /* a pointer into something that is there */
		value = im->piece[value % im->n].at + (e[4] >> 1 & 0x78);
	memcpy(piece->data + place, &value, piece->bytes < 8 ? piece->bytes : e[4] & 2 ? 4 : 8);
}

static struct image copy_image(const struct image *from)
{
	struct image im = {from->version, from->runtime, 0, NULL};

	for (uint64_t i = 0; i < from->n; i++)
		memcpy(image_put(&im, from->piece[i].at, from->piece[i].bytes)->data,
		       from->piece[i].data, from->piece[i].bytes);
	return im;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ws_py_layout layout;
	size_t at = 1;

	if (!images[0].n) {
		const char *folder = getenv("FUZZ_IMAGES");
		char path[1024];

		for (size_t i = 0; i < WS_COUNT(versions); i++) {
			snprintf(path, sizeof(path), "%s/cpython-%s.img",
				 ws_text_or(folder, "tests/python/images"), versions[i]);
			if (!image_load(path, &images[i]))
				abort();
		}
	}
	if (size < 2)
		return 0;
	if (data[0] % 8 < WS_COUNT(versions)) {
		struct image im = copy_image(&images[data[0] % 8]);
		struct ws_py_memory memory = {image_read, &im};

		for (; at + 10 <= size && at < 200; at += 10)
			edit_bytes(&im, data + at);
		if (image_layout(&im, &memory, &layout))
			explore_process(&layout, &memory, im.runtime);
		image_free(&im);
	} else {
		struct ws_py_memory memory = {read_input, NULL};

		input = data + 1;
		input_n = size - 1;
		for (uint16_t v = 0x0308; v <= 0x030c; v++)
			if (ws_py_get_layout(v, &layout))
				explore_process(&layout, &memory, 0x10000);
		if (ws_py_read_layout(&memory, 0x10000, &layout))
			explore_process(&layout, &memory, 0x10000);
	}
	for (uint16_t v = 0x0308; v <= 0x030e; v++)
		for (int32_t i = -1; i < 64; i += 5)
			ws_py_find_line(v, 1, data + at, at < size ? size - at : 0, i);
	return 0;
}

#ifdef FUZZ_REPLAY
static size_t make_input(uint8_t *bytes, int round)
{
	return replay_fill(bytes, 2 + (size_t)round % 400);
}

int main(int argc, char **argv)
{
	return replay_test(argc, argv, 6000, make_input);
}
#endif
