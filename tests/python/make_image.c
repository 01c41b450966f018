/*
 * make_image.c - make an image (image.h) of a running interpreter: make_image PID RUNTIME VERSION
 * FILE, the address and the version in hexadecimal. It reads the process as the recorder does and
 * keeps what was read. images/README says how those that are here were made.
 */
#include <sys/uio.h>

#include "image.h"

static struct image image;
static int pid;

static size_t read_process(void *ctx, const struct ws_py_piece *p, size_t n)
{
	size_t done = 0;

	(void)ctx;
	for (; done < n; done++) {
		struct iovec local = {p[done].to, p[done].bytes},
			     remote = {(void *)(uintptr_t)p[done].from, p[done].bytes};

		if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != (ssize_t)p[done].bytes)
			break;
		memcpy(image_put(&image, p[done].from, p[done].bytes)->p, p[done].to,
		       p[done].bytes);
	}
	return done;
}

static void read_code(const struct ws_py_layout *l, const struct ws_py_memory *m, uint64_t code)
{
	static struct ws_py_code c;
	uint8_t *table;

	if (!ws_py_code_read(l, m, code, &c))
		return;
	table = malloc(c.table_bytes + 1);
	ws_py_read(m, c.table, table, c.table_bytes);
	free(table);
}

static void write_image(const char *path)
{
	FILE *f = fopen(path, "wb");
	uint64_t kept = 0;

	if (!f)
		exit(1);
	fwrite("WSPYIMG1", 8, 1, f);
	fwrite(&image.version, 8, 1, f);
	fwrite(&image.runtime, 8, 1, f);
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
				fwrite(&image.piece[i].at, 16, 1, f);
				fwrite(image.piece[i].p, image.piece[i].bytes, 1, f);
			}
		}
		if (!pass)
			fwrite(&kept, 8, 1, f);
	}
	fclose(f);
}

int main(int argc, char **argv)
{
	static struct ws_py_frame frame[64];
	static struct ws_py_walk walk;
	struct ws_py_memory m = {read_process, NULL};
	struct ws_py_thread thread[8];
	struct ws_py_layout l;
	size_t n;

	if (argc != 5)
		return 2;
	pid = atoi(argv[1]);
	image.runtime = strtoull(argv[2], NULL, 16);
	image.version = strtoull(argv[3], NULL, 16);
	if (!image_layout(&image, &m, &l))
		return 1;
	ws_py_gil_holder(&l, &m, image.runtime);
	n = ws_py_threads(&l, &m, image.runtime, thread, 8);
	for (size_t i = 0; i < n; i++) {
		bool truncated;
		size_t frames = ws_py_walk(&l, &m, thread[i].state, &walk, frame, 64, &truncated);

		for (size_t k = 0; k < frames; k++)
			read_code(&l, &m, frame[k].code);
	}
	write_image(argv[4]);
	return n ? 0 : 1;
}
