/*
 * transfers_form.cu - transfers bound by latency, and transfers bound by bandwidth.
 *
 *   transfers_form pieces     512 pieces of 2 KiB are copied to the GPU one by one: latency
 *   transfers_form gathered   the same bytes gathered in one buffer and copied at once
 *   transfers_form whole      a table of 128 MiB is copied to the GPU in every step: bandwidth
 *   transfers_form changed    it stays there, and only the part that changed is copied
 *
 * See docs/tutorial/bandwidth-and-latency.md.
 */
#include "steps.h"

enum { PIECES = 512, PIECE = 512, TABLE = 32 << 20, CHANGED = TABLE / 512, STEPS = 20 };

static float *host, *device;
static float pieces[PIECES][PIECE];

static void use_table(int floats, int rounds)
{
	compute<<<floats / 256, 256>>>(device, floats, rounds);
	CHECK(cudaDeviceSynchronize());
}

static void copy_pieces(int)
{
	for (int i = 0; i < PIECES; i++) {
		memcpy(host + i * PIECE, pieces[i], sizeof(pieces[i]));
		CHECK(cudaMemcpyAsync(device + i * PIECE, host + i * PIECE, sizeof(pieces[i]),
				      cudaMemcpyHostToDevice));
	}
	use_table(PIECES * PIECE, 100000);
}

static void copy_gathered(int)
{
	for (int i = 0; i < PIECES; i++)
		memcpy(host + i * PIECE, pieces[i], sizeof(pieces[i]));
	CHECK(cudaMemcpyAsync(device, host, sizeof(pieces), cudaMemcpyHostToDevice));
	use_table(PIECES * PIECE, 100000);
}

static void copy_table(int)
{
	CHECK(cudaMemcpyAsync(device, host, TABLE * sizeof(float), cudaMemcpyHostToDevice));
	use_table(TABLE, 400);
}

static void copy_changes(int)
{
	CHECK(cudaMemcpyAsync(device, host, CHANGED * sizeof(float), cudaMemcpyHostToDevice));
	use_table(TABLE, 400);
}

static const struct {
	const char *name;
	void (*step)(int);
} versions[] = {{"pieces", copy_pieces},
		{"gathered", copy_gathered},
		{"whole", copy_table},
		{"changed", copy_changes}};

int main(int argc, char **argv)
{
	CHECK(cudaMallocHost(&host, TABLE * sizeof(float)));
	CHECK(cudaMalloc(&device, TABLE * sizeof(float)));
	memset(host, 0, TABLE * sizeof(float));
	for (const auto &version : versions)
		if (argc > 1 && !strcmp(argv[1], version.name)) {
			time_steps(version.name, STEPS, version.step);
			return 0;
		}
	fprintf(stderr, "usage: transfers_form pieces|gathered|whole|changed\n");
	return 2;
}
