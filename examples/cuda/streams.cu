/*
 * streams.cu - the work of a step is cut into eight pieces, which four streams share.
 *
 *   streams bug        the number of the stream is computed wrongly: all pieces go to two streams,
 *                      and one of those gets only the last piece
 *   streams repaired   piece i goes to stream i % 4
 *
 * See docs/tutorial/streams.md.
 */
#include "steps.h"

enum { PIECES = 8, STREAMS = 4, FLOATS = 4096, STEPS = 20, ROUNDS = 100000 };

static float *data;
static cudaStream_t streams[STREAMS];
static bool bug;

static cudaStream_t choose_stream(int piece)
{
	if (bug)
		return streams[piece / (PIECES - 1)]; /* meant to share out the pieces */
	return streams[piece % STREAMS];
}

static void compute_pieces(int)
{
	for (int piece = 0; piece < PIECES; piece++)
		compute<<<FLOATS / 256, 256, 0, choose_stream(piece)>>>(data + piece * FLOATS,
									FLOATS, ROUNDS);
	CHECK(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
	const char *version = argc > 1 ? argv[1] : "";

	if (strcmp(version, "bug") && strcmp(version, "repaired")) {
		fprintf(stderr, "usage: streams bug|repaired\n");
		return 2;
	}
	bug = !strcmp(version, "bug");
	CHECK(cudaMalloc(&data, PIECES * FLOATS * sizeof(float)));
	CHECK(cudaMemset(data, 0, PIECES * FLOATS * sizeof(float)));
	for (auto &stream : streams)
		CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	time_steps(version, STEPS, compute_pieces);
	return 0;
}
