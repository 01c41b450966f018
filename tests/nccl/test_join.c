/* test_join.c - NCCL's calls and kernels in orders that a program with the stand-ins does not make:
 * kernels that are done long before their call returns, launches by NCCL's own threads, several
 * ranks in a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "nccl/nccl.h"

enum { SCHEMA = 5, MADE = 2, CALLER = 1, HELPER = 2 };

struct joined {
	struct ws_nccl *nccl;
	struct ws_row_collective rows[16];
	size_t count;
};

static uint32_t intern_text(void *ctx, const char *text, size_t length)
{
	(void)ctx;
	(void)text;
	return (uint32_t)length;
}

static void put_row(void *ctx, struct ws_row_collective *row)
{
	struct joined *joined = ctx;

	assert_true(joined->count < 16);
	joined->rows[joined->count++] = *row;
}

static void put_rows(struct joined *joined, bool all)
{
	ws_nccl_put_rows(joined->nccl, &(struct ws_nccl_out){joined, intern_text, put_row}, all);
}

static void begin(struct joined *joined)
{
	*joined = (struct joined){.nccl = ws_nccl_new()};
	ws_nccl_define_entry(joined->nccl, SCHEMA, "NCCL communicator ID", 18, 0);
	ws_nccl_define_entry(joined->nccl, SCHEMA, "Message size [bytes]", 22, 8);
	ws_nccl_define_entry(joined->nccl, MADE, "NCCL communicator ID", 18, 0);
	ws_nccl_define_entry(joined->nccl, MADE, "No. of ranks", 5, 8);
	ws_nccl_define_entry(joined->nccl, MADE, "Rank", 5, 12);
	ws_nccl_define_entry(joined->nccl, MADE, "CUDA device", 5, 16);
}

static void add_call(struct joined *joined, const char *name, uint64_t start, uint64_t end,
		     uint64_t bytes)
{
	const uint64_t payload[] = {SCHEMA, 16, 77, bytes};

	ws_nccl_add_call(joined->nccl, &(struct ws_nccl_call){.thread = CALLER,
							      .start = start,
							      .end = end,
							      .name = name,
							      .name_length = strlen(name),
							      .payload = payload,
							      .payload_size = sizeof(payload)});
}

static void make_communicator(struct joined *joined, uint32_t rank, uint32_t device)
{
	const uint32_t payload[] = {MADE, 0, 24, 0, 77, 0, 2, rank, device, 0};

	ws_nccl_add_call(joined->nccl, &(struct ws_nccl_call){.thread = CALLER,
							      .start = 1,
							      .end = 2,
							      .name = "ncclCommInitRank",
							      .name_length = 16,
							      .payload = payload,
							      .payload_size = sizeof(payload)});
}

static void add_kernel(struct joined *joined, uint32_t correlation, uint32_t device)
{
	ws_nccl_add_kernel(joined->nccl, &(struct ws_nccl_kernel){
						 .name = ws_nccl_read_kernel_name(
							 "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
						 .correlation = correlation,
						 .device = device,
						 .node = WS_NO_U64,
						 .start = 1000 + correlation,
						 .end = 2000,
					 });
}

/* A call may last long after its kernel was done, as the first one does that connects ranks. */
static void test_call_that_outlasts_its_kernel(void **state)
{
	struct joined joined;

	(void)state;
	begin(&joined);
	make_communicator(&joined, 1, 0);
	add_call(&joined, "ncclAllReduce", 10, 20, 8); /* its kernel is still to come */
	ws_nccl_add_launch(joined.nccl, CALLER, 5, 110);
	add_kernel(&joined, 5, 0);
	for (int i = 0; i < 200; i++)
		put_rows(&joined, false);
	assert_int_equal(joined.count, 0);
	add_call(&joined, "ncclAllReduce", 100, 9000, 4096);
	put_rows(&joined, false);
	assert_int_equal(joined.count, 1);
	assert_int_equal(joined.rows[0].bytes, 4096);
	assert_int_equal(joined.rows[0].correlation, 5);
	assert_int_equal(joined.rows[0].rank, 1);
	put_rows(&joined, true);
	assert_int_equal(joined.count, 2);
	ws_nccl_free(joined.nccl);
}

/* A communicator that does not block: the call is over before NCCL's thread launches. */
static void test_launch_by_a_helper(void **state)
{
	struct joined joined;

	(void)state;
	begin(&joined);
	make_communicator(&joined, 0, 0);
	add_call(&joined, "ncclAllReduce", 100, 110, 64);
	ws_nccl_add_launch(joined.nccl, HELPER, 9, 500);
	add_kernel(&joined, 9, 0);
	put_rows(&joined, true);
	assert_int_equal(joined.count, 1);
	assert_int_equal(joined.rows[0].bytes, 64);
	assert_int_equal(joined.rows[0].correlation, 9);
	assert_int_equal(joined.rows[0].start, 1009);
	ws_nccl_free(joined.nccl);
}

/* Two ranks of one communicator in a process: each has the number of the other's collective. */
static void test_ranks_of_one_process(void **state)
{
	struct joined joined;

	(void)state;
	begin(&joined);
	make_communicator(&joined, 0, 0);
	make_communicator(&joined, 1, 1);
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t at = 100 * (i + 1);

		add_call(&joined, "ncclGroupStart", at, at + 1, 0);
		add_call(&joined, "ncclAllReduce", at + 2, at + 3, 8);
		add_call(&joined, "ncclAllReduce", at + 4, at + 5, 8);
		add_call(&joined, "ncclGroupEnd", at + 6, at + 20, 0);
		for (uint32_t device = 0; device < 2; device++) {
			ws_nccl_add_launch(joined.nccl, CALLER, 10 * i + device + 1,
					   at + 8 + device);
			add_kernel(&joined, 10 * i + device + 1, device);
		}
	}
	put_rows(&joined, false);
	assert_int_equal(joined.count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(joined.rows[i].sequence, i / 2);
		assert_int_equal(joined.rows[i].device, i % 2);
		assert_int_equal(joined.rows[i].rank, i % 2);
	}
	ws_nccl_free(joined.nccl);
}

static void add_graph_kernel(struct joined *joined, uint64_t node, uint64_t start)
{
	ws_nccl_add_kernel(joined->nccl, &(struct ws_nccl_kernel){
						 .name = ws_nccl_read_kernel_name(
							 "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
						 .correlation = 50,
						 .node = node,
						 .start = start,
						 .end = start + 5,
					 });
}

/* Kernels of a graph do the captured calls each time, which have done nothing when they were
 * captured. */
static void test_graph(void **state)
{
	struct joined joined;

	(void)state;
	begin(&joined);
	make_communicator(&joined, 1, 0);
	ws_nccl_add_node(joined.nccl, CALLER, 901, 0, 105);
	ws_nccl_add_node(joined.nccl, CALLER, 902, 0, 205);
	ws_nccl_add_node(joined.nccl, CALLER, 903, 0, 206);
	for (uint64_t node = 901; node <= 903; node++) /* instantiated */
		ws_nccl_add_node(joined.nccl, CALLER, node + 10, node, 300);
	add_graph_kernel(&joined, 911, 1000); /* seen before the call has returned */
	put_rows(&joined, false);
	assert_int_equal(joined.count, 0);
	add_call(&joined, "ncclAllReduce", 100, 110, 64);
	add_call(&joined, "ncclGroupStart", 200, 201, 0);
	add_call(&joined, "ncclAllReduce", 202, 203, 8);
	add_call(&joined, "ncclAllReduce", 203, 204, 16);
	add_call(&joined, "ncclGroupEnd", 204, 210, 0);
	put_rows(&joined, false);
	/* Said once, it holds each time. */
	ws_nccl_add_choice(joined.nccl, &(struct ws_nccl_choice){.number = 70,
								 .start = 105,
								 .communicator = 77,
								 .rank = 1,
								 .peer = -1,
								 .algorithm = 4,
								 .channels = 24,
								 .operation = WS_NCCL_ALL_REDUCE});
	for (uint64_t at = 2000; at <= 3000; at += 1000) {
		add_graph_kernel(&joined, 911, at);
		add_graph_kernel(&joined, 912, at + 10);
		add_graph_kernel(&joined, 913, at + 20);
	}
	add_graph_kernel(&joined, 999, 4000); /* of a graph that nobody has seen being made */
	put_rows(&joined, true);
	assert_int_equal(joined.count, 8);
	for (size_t i = 0; i < 7; i++) {
		static const uint64_t bytes[] = {64, 64, 16, 8, 64, 16, 8};

		assert_int_equal(joined.rows[i].bytes, bytes[i]);
		assert_int_equal(joined.rows[i].rank, 1);
		assert_int_equal(joined.rows[i].correlation, 50);
		assert_true(joined.rows[i].sequence == WS_NO_U64);
	}
	assert_int_equal(joined.rows[6].start, 3020);
	assert_int_equal(joined.rows[1].event, 70);
	assert_int_equal(joined.rows[4].channels, 24);
	assert_int_equal(joined.rows[4].algorithm, 4);
	assert_true(joined.rows[4].event == WS_NO_U64);
	assert_int_equal(joined.rows[5].algorithm, 0);
	assert_true(joined.rows[7].bytes == WS_NO_U64);
	ws_nccl_free(joined.nccl);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_call_that_outlasts_its_kernel),
		cmocka_unit_test(test_launch_by_a_helper),
		cmocka_unit_test(test_ranks_of_one_process),
		cmocka_unit_test(test_graph),
	};

	return cmocka_run_group_tests_name("nccl", tests, NULL, NULL);
}
