/*
 * make_image.c - make an image (image.h) of a running interpreter: make_image PID RUNTIME VERSION
 * FILE, the address and the version in hexadecimal. It reads the process as the recorder does and
 * keeps what was read. images/README says how those that are here were made.
 */
#include <sys/uio.h>

#include "image.h"

static struct image image;
static int pid;

static size_t read_process(void *ctx, const struct ws_py_piece *piece, size_t n)
{
	size_t done = 0;

	(void)ctx;
	for (; done < n; done++) {
		struct iovec local = {piece[done].to, piece[done].bytes},
			     remote = {(void *)(uintptr_t)piece[done].from, piece[done].bytes};

		if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)piece[done].bytes)
			break;
		memcpy(image_put(&image, piece[done].from, piece[done].bytes)->data, piece[done].to,
		       piece[done].bytes);
	}
	return done;
}

static void read_code(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		      uint64_t code)
{
	static struct ws_py_code py_code;
	uint8_t *table;

	if (!ws_py_read_code(layout, memory, code, &py_code))
		return;
	table = malloc(py_code.table_bytes + 1);
	ws_py_read(memory, py_code.table, table, py_code.table_bytes);
	free(table);
}

static void write_image(const char *path)
{
	FILE *file = fopen(path, "wb");
	uint64_t kept = 0;

	if (!file)
		exit(1);
	fwrite("WSPYIMG1", 8, 1, file);
	fwrite(&image.version, 8, 1, file);
	fwrite(&image.runtime, 8, 1, file);
	for (int pass = 0; pass < 2; pass++) {
		for (uint64_t i = 0; i < image.n; i++) {
			bool again = false;

			for (uint64_t j = 0; j < i && !again; j++)
				again = image.piece[j].at == image.piece[i].at &&
					image.piece[j].bytes >= image.piece[i].bytes;
			if (again)
				continue;
			kept += !pass;
			if (pass) {
				fwrite(&image.piece[i].at, 16, 1, file);
				fwrite(image.piece[i].data, image.piece[i].bytes, 1, file);
			}
		}
		if (!pass)
			fwrite(&kept, 8, 1, file);
	}
	fclose(file);
}

int main(int argc, char **argv)
{
	static struct ws_py_frame frame[64];
	static struct ws_py_walk walk;
	struct ws_py_memory memory = {read_process, NULL};
	struct ws_py_thread thread[8];
	struct ws_py_layout layout;
	size_t n;

	if (argc != 5)
		return 2;
	pid = atoi(argv[1]);
	image.runtime = strtoull(argv[2], NULL, 16);
	image.version = strtoull(argv[3], NULL, 16);
	if (!image_layout(&image, &memory, &layout))
		return 1;
	ws_py_find_gil_holder(&layout, &memory, image.runtime);
	n = ws_py_list_threads(&layout, &memory, image.runtime, thread, 8);
	for (size_t i = 0; i < n; i++) {
		size_t frames = ws_py_walk(&layout, &memory, thread[i].state, &walk, frame, 64);

		for (size_t k = 0; k < frames; k++)
			read_code(&layout, &memory, frame[k].code);
	}
	write_image(argv[4]);
	return n ? 0 : 1;
}
