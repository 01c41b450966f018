/* test_parts.c - the parts of CUDA recording that need no process: occupancy, names of kernels, the map. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "record/occupancy.h"
#include "schema/schema.h"
#include "symbols/demangle.h"

static const struct ws_sm h100 = {.major = 9,
				  .warp = 32,
				  .warps = 64,
				  .blocks = 32,
				  .registers = 65536,
				  .registers_block = 65536,
				  .shared = 233472,
				  .shared_reserved = 1024};

static void expect(struct ws_launch_shape l, uint32_t blocks, uint8_t limit)
{
	struct ws_occupancy o = ws_occupancy(&h100, &l);

	assert_int_equal(o.blocks, blocks);
	if (blocks)
		assert_int_equal(o.limit, limit);
}

/* Numbers as the vendor's occupancy calculator gives them for compute capability 9.0. */
static void test_occupancy(void **state)
{
	(void)state;
	expect((struct ws_launch_shape){256, 32, 0, 0}, 8, WS_OCCUPANCY_WARPS);
	expect((struct ws_launch_shape){32, 16, 0, 0}, 32, WS_OCCUPANCY_BLOCKS);
	expect((struct ws_launch_shape){256, 64, 0, 0}, 4, WS_OCCUPANCY_REGISTERS);
	expect((struct ws_launch_shape){256, 65, 0, 0}, 3, WS_OCCUPANCY_REGISTERS); /* 72 a thread are given */
	expect((struct ws_launch_shape){128, 32, 49152, 0}, 4, WS_OCCUPANCY_SHARED);
	expect((struct ws_launch_shape){128, 32, 49152, 102400}, 2, WS_OCCUPANCY_SHARED); /* a smaller share was asked for */
	expect((struct ws_launch_shape){1024, 255, 0, 0}, 0, 0);			  /* cannot run */
	expect((struct ws_launch_shape){0, 32, 0, 0}, 0, 0);
	assert_true(ws_occupancy(&h100, &(struct ws_launch_shape){256, 64, 0, 0}).share == 0.5);
	assert_int_equal(ws_occupancy(&(struct ws_sm){0}, &(struct ws_launch_shape){256, 64, 0, 0}).blocks, 0);
}

static void name(const char *mangled, const char *full, const char *own)
{
	char *a = ws_demangle(mangled), *b = ws_demangle_short(mangled);

	assert_string_equal(a, full);
	assert_string_equal(b, own);
	free(a);
	free(b);
}

static void test_names(void **state)
{
	(void)state;
	name("triton_poi_fused_add_0", "triton_poi_fused_add_0", "triton_poi_fused_add_0");
	name("_Z5emptyv", "empty()", "empty");
	name("_ZN5outer5scaleIfEEvPT_iS1_", "void outer::scale<float>(float*, int, float)", "scale");
	name("_ZN12_GLOBAL__N_14copyIiEEvPT_", "void (anonymous namespace)::copy<int>(int*)", "copy");
	name("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_21CUDAFunctorOnSelf_addIfEESt5arrayIPcLm2EEEEviT0_T1_",
	     "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctorOnSelf_add<float>, std::array<char*, 2ul> "
	     ">(int, "
	     "at::native::CUDAFunctorOnSelf_add<float>, std::array<char*, 2ul>)",
	     "vectorized_elementwise_kernel");
	name("_ZN1AclEi", "A::operator()(int)", "operator()");
	name("_ZN1AlsEi", "A::operator<<(int)", "operator<<");
	name("_Zbroken", "_Zbroken", "_Zbroken");
	name("", "", "");
}

static void test_map(void **state)
{
	struct ws_map m = {0};
	uint64_t v;
	bool there;

	(void)state;
	assert_int_equal(ws_map_get(&m, 5, &there), 0);
	assert_false(there);
	assert_false(ws_map_take(&m, 5, &v));
	for (uint64_t i = 0; i < 10000; i++)
		ws_map_set(&m, i * 64, i);
	for (uint64_t i = 0; i < 10000; i += 3) {
		assert_true(ws_map_take(&m, i * 64, &v));
		assert_int_equal(v, i);
	}
	for (uint64_t i = 0; i < 10000; i++) {
		v = ws_map_get(&m, i * 64, &there);
		assert_int_equal(there, i % 3 != 0);
		if (there)
			assert_int_equal(v, i);
	}
	ws_map_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_occupancy), cmocka_unit_test(test_names),
					   cmocka_unit_test(test_map)};

	return cmocka_run_group_tests_name("cuda-parts", tests, NULL, NULL);
}
