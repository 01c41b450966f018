/* test_parts.c - the parts of CUDA recording that need no process: modules, which calls matter,
 * occupancy, names of kernels, their rows, the map. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "inject/cubin.h"
#include "inject/cuda.h"
#include "record/from_cuda.h"
#include "gpu/occupancy.h"
#include "record/proc.h"
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

static void expect_occupancy(struct ws_launch_shape shape, uint32_t blocks, uint8_t limit)
{
	struct ws_occupancy occupancy = ws_occupancy(&h100, &shape);

	assert_int_equal(occupancy.blocks, blocks);
	if (blocks)
		assert_int_equal(occupancy.limit, limit);
}

/* Numbers as the vendor's occupancy calculator gives them for compute capability 9.0. */
static void test_occupancy(void **state)
{
	(void)state;
	expect_occupancy((struct ws_launch_shape){256, 32, 0, 0}, 8, WS_OCCUPANCY_WARPS);
	expect_occupancy((struct ws_launch_shape){32, 16, 0, 0}, 32, WS_OCCUPANCY_BLOCKS);
	expect_occupancy((struct ws_launch_shape){256, 64, 0, 0}, 4, WS_OCCUPANCY_REGISTERS);
	expect_occupancy((struct ws_launch_shape){256, 65, 0, 0}, 3,
			 WS_OCCUPANCY_REGISTERS); /* 72 a thread are given */
	expect_occupancy((struct ws_launch_shape){128, 32, 49152, 0}, 4, WS_OCCUPANCY_SHARED);
	expect_occupancy((struct ws_launch_shape){128, 32, 49152, 102400}, 2,
			 WS_OCCUPANCY_SHARED); /* a smaller share was asked for */
	expect_occupancy((struct ws_launch_shape){1024, 255, 0, 0}, 0, 0); /* cannot run */
	expect_occupancy((struct ws_launch_shape){0, 32, 0, 0}, 0, 0);
	assert_true(ws_occupancy(&h100, &(struct ws_launch_shape){256, 64, 0, 0}).share == 0.5);
	assert_int_equal(
		ws_occupancy(&(struct ws_sm){0}, &(struct ws_launch_shape){256, 64, 0, 0}).blocks,
		0);
}

static void expect_name(const char *mangled, const char *full, const char *own)
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
	expect_name("triton_poi_fused_add_0", "triton_poi_fused_add_0", "triton_poi_fused_add_0");
	expect_name("_Z5emptyv", "empty()", "empty");
	expect_name("_ZN5outer5scaleIfEEvPT_iS1_", "void outer::scale<float>(float*, int, float)",
		    "scale");
	expect_name("_ZN12_GLOBAL__N_14copyIiEEvPT_", "void (anonymous namespace)::copy<int>(int*)",
		    "copy");
	expect_name("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_21CUDAFunctorOnSelf_"
		    "addIfEESt5arrayIPcLm2EEEEviT0_T1_",
		    "void at::native::vectorized_elementwise_kernel<4, "
		    "at::native::CUDAFunctorOnSelf_add<float>, std::array<char*, 2ul> "
		    ">(int, "
		    "at::native::CUDAFunctorOnSelf_add<float>, std::array<char*, 2ul>)",
		    "vectorized_elementwise_kernel");
	expect_name("_ZN1AclEi", "A::operator()(int)", "operator()");
	expect_name("_ZN1AlsEi", "A::operator<<(int)", "operator<<");
	expect_name("_ZN1AlsIiEEvT_", "void A::operator<< <int>(int)", "operator<<");
	expect_name("_ZN1AcviEv", "A::operator int()", "operator int");
	expect_name("_ZN2at6reduceILi5EZNS_3sumIfEclERiEUlffE_EEvT0_",
		    "void at::reduce<5, at::sum<float>::operator()(int&)::{lambda(float, float)#1}"
		    ">(at::sum<float>::operator()(int&)::{lambda(float, float)#1})",
		    "reduce");
	expect_name("_Zbroken", "_Zbroken", "_Zbroken");
	expect_name("", "", "");
}

/* Callback names of CUDA 12 and 13, in turn for each thing that a program may do; the last two
 * lists hold what only asks or sets.
 */
static const char *const runtime_in[] = {
	"cudaLaunchKernel_v7000",
	"cudaLaunchKernel_ptsz_v7000",
	"cudaLaunchKernelExC_v11060",
	"__cudaLaunchKernel_v13000",
	"cudaLaunchCooperativeKernel_v9000",
	"cudaLaunchCooperativeKernelMultiDevice_v9000",
	"cudaLaunchHostFunc_v10000",
	"cudaStreamAddCallback_v5000",
	"cudaGraphLaunch_v10000",
	"cudaGraphInstantiateWithParams_v12000",
	"cudaGraphAddNode_v12030",
	"cudaGraphExecUpdate_v10020",
	"cudaGraphUpload_v10000",
	"cudaStreamBeginCaptureToGraph_v12030",
	"cudaStreamEndCapture_v10000",
	"cudaStreamUpdateCaptureDependencies_v12030",
	"cudaMemcpyAsync_v3020",
	"cudaMemcpy3DPeerAsync_ptsz_v7000",
	"cudaMemcpyBatchAsync_v13000",
	"cudaMemcpy3DBatchAsync_v12080",
	"cudaMemcpyToSymbolAsync_v3020",
	"cudaMemset2DAsync_v3020",
	"cudaMalloc_v3020",
	"cudaMallocAsync_v11020",
	"cudaMallocFromPoolAsync_ptsz_v11020",
	"cudaMallocManaged_v6000",
	"cudaFree_v3020",
	"cudaFreeAsync_v11020",
	"cudaFreeHost_v3020",
	"cudaHostAlloc_v3020",
	"cudaHostRegister_v4000",
	"cudaMemPoolCreate_v11020",
	"cudaMemPoolTrimTo_v11020",
	"cudaMemPoolImportPointer_v11020",
	"cudaMemPrefetchAsync_v12020",
	"cudaMemPrefetchBatchAsync_v13000",
	"cudaMemDiscardAndPrefetchBatchAsync_v13000",
	"cudaMemAdvise_v12020",
	"cudaStreamAttachMemAsync_v6000",
	"cudaDeviceSynchronize_v3020",
	"cudaStreamSynchronize_ptsz_v7000",
	"cudaEventSynchronize_v3020",
	"cudaEventRecordWithFlags_v11010",
	"cudaStreamWaitEvent_v3020",
	"cudaEventCreateWithFlags_v3020",
	"cudaEventDestroy_v3020",
	"cudaStreamCreateWithPriority_v5050",
	"cudaStreamDestroy_v5050",
	"cudaLibraryLoadData_v12060",
	"cudaLibraryUnload_v12060",
	"cudaImportExternalMemory_v10000",
	"cudaSignalExternalSemaphoresAsync_v11020",
	"cudaIpcOpenMemHandle_v4010",
	"cudaIpcCloseMemHandle_v4010",
	"cudaDeviceReset_v3020",
	"cudaInitDevice_v12000",
	"cudaDeviceEnablePeerAccess_v4000",
	"cudaDeviceGraphMemTrim_v11040",
	"cudaProfilerStart_v4000",
	"cudaExecutionCtxSynchronize_v13010",
};
static const char *const driver_in[] = {
	"cuLaunchKernel",
	"cuLaunchKernelEx",
	"cuLaunchKernelEx_ptsz",
	"cuLaunchCooperativeKernelMultiDevice",
	"cuLaunchHostFunc",
	"cuGraphLaunch_ptsz",
	"cuGraphInstantiateWithParams",
	"cuGraphAddKernelNode_v2",
	"cuMemcpyHtoDAsync_v2_ptsz",
	"cuMemcpyPeerAsync",
	"cuMemcpyBatchAsync_v2",
	"cuMemcpy3DBatchAsync_ptsz",
	"cuMemsetD2D32Async",
	"cuMemAlloc_v2",
	"cuMemAllocAsync",
	"cuMemAllocFromPoolAsync",
	"cuMemFree_v2",
	"cuMemFreeAsync_ptsz",
	"cuMemHostRegister_v2",
	"cuMemCreate",
	"cuMemRelease",
	"cuMemAddressReserve",
	"cuMemAddressFree",
	"cuMemMap",
	"cuMemMapArrayAsync",
	"cuMemUnmap",
	"cuMemSetAccess",
	"cuMemImportFromShareableHandle",
	"cuMulticastCreate",
	"cuMulticastAddDevice",
	"cuMulticastBindMem",
	"cuMulticastUnbind",
	"cuMemPrefetchAsync_v2",
	"cuMemAdvise_v2",
	"cuMemPoolDestroy",
	"cuMemBatchDecompressAsync",
	"cuMipmappedArrayCreate",
	"cuStreamWaitValue64_v2",
	"cuStreamWriteValue32_v2",
	"cuStreamBatchMemOp_v2",
	"cuCtxSynchronize",
	"cuCtxSynchronize_v2",
	"cuStreamSynchronize",
	"cuEventSynchronize",
	"cuEventCreate",
	"cuEventDestroy_v2",
	"cuEventRecord_ptsz",
	"cuEventRecordWithFlags",
	"cuStreamWaitEvent",
	"cuCtxRecordEvent",
	"cuGreenCtxWaitEvent",
	"cuGreenCtxStreamCreate",
	"cuStreamCreate",
	"cuStreamDestroy_v2",
	"cuModuleLoadDataEx",
	"cuModuleUnload",
	"cuLibraryLoadFromFile",
	"cuFuncLoad",
	"cuLinkComplete",
	"cuCtxCreate_v4",
	"cuCtxDestroy_v2",
	"cuDevicePrimaryCtxRetain",
	"cuInit",
	"cuProfilerStop",
};
static const char *const runtime_out[] = {
	"cudaGetLastError_v3020",
	"cudaPeekAtLastError_v3020",
	"cudaStreamQuery_v3020",
	"cudaEventQuery_v3020",
	"cudaGetDevice_v3020",
	"cudaSetDevice_v3020",
	"cudaStreamIsCapturing_v10000",
	"cudaStreamGetCaptureInfo_v2_v11030",
	"cudaMemGetInfo_v3020",
	"cudaPointerGetAttributes_v4000",
	"cudaFuncGetAttributes_v3020",
	"cudaDeviceGetAttribute_v5000",
	"cudaEventElapsedTime_v12080",
	"cudaGraphGetNodes_v10000",
	"cudaGraphKernelNodeGetParams_v10000",
	"cudaMemPoolGetAttribute_v11020",
	"cudaStreamGetPriority_v5050",
	"cudaThreadExchangeStreamCaptureMode_v10010",
	"cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_v7000",
	"__cudaPushCallConfiguration_v13000",
	"cudaGetDriverEntryPointByVersion_v12050",
	"cudaMemRangeGetAttribute_v8000",
	"cudaGetExportTable_v13000",
};
static const char *const driver_out[] = {
	"cuCtxGetCurrent",
	"cuCtxSetCurrent",
	"cuCtxPushCurrent_v2",
	"cuStreamQuery_ptsz",
	"cuEventQuery",
	"cuDevicePrimaryCtxGetState",
	"cuPointerGetAttribute",
	"cuMemGetInfo_v2",
	"cuKernelGetAttribute",
	"cuFuncSetAttribute",
	"cuModuleGetFunction",
	"cuGetProcAddress_v2",
	"cuStreamIsCapturing",
	"cuStreamGetCtx_v2",
	"cuMemGetAllocationGranularity",
	"cuMulticastGetGranularity",
	"cuGreenCtxGetDevResource",
	"cuGraphNodeFindInClone",
	"cuGraphRetainUserObject",
	"cuDeviceGetAttribute",
	"cuTensorMapEncodeTiled",
	"cuEventElapsedTime_v2",
	"cuFuncIsLoaded",
	"cuMemPoolGetAccess",
	"cuIpcGetMemHandle",
};

#define ALL(driver, list, in)                                          \
	for (size_t i = 0; i < WS_COUNT(list); i++)                    \
		if (ws_cuda_is_call_recorded(driver, list[i]) != (in)) \
	fail_msg("%s should be %s", list[i], (in) ? "in" : "out")

static void test_calls(void **state)
{
	(void)state;
	ALL(0, runtime_in, true);
	ALL(1, driver_in, true);
	ALL(0, runtime_out, false);
	ALL(1, driver_out, false);
}

static void test_map(void **state)
{
	struct ws_map map = {0};
	uint64_t v;
	bool there;

	(void)state;
	assert_int_equal(ws_map_get(&map, 5, &there), 0);
	assert_false(there);
	assert_false(ws_map_remove(&map, 5, &v));
	for (uint64_t i = 0; i < 10000; i++)
		ws_map_set(&map, i * 64, i);
	for (uint64_t i = 0; i < 10000; i += 3) {
		assert_true(ws_map_remove(&map, i * 64, &v));
		assert_int_equal(v, i);
	}
	for (uint64_t i = 0; i < 10000; i++) {
		v = ws_map_get(&map, i * 64, &there);
		assert_int_equal(there, i % 3 != 0);
		if (there)
			assert_int_equal(v, i);
	}
	ws_map_free(&map);
}

/* Rows are filled in where they are kept until there are enough for a block; whatever was kept
 * there before must not show through. */
#define CONVERTED "cuda-parts.wsrep"

static void fill_stage(struct ws_stage *stage, int byte, unsigned rows)
{
	assert_true((size_t)(stage->limit - stage->next) >= rows * (size_t)stage->row_size);
	memset(stage->next, byte, rows * (size_t)stage->row_size);
}

static void expect_same_columns(const char *row, const char *other)
{
	const struct ws_table_desc *table = &ws_tables[WS_TABLE_cuda_kernel];

	for (uint32_t i = 0; i < table->column_count; i++) {
		const struct ws_column_desc *column = &table->columns[i];

		if (memcmp(row + column->offset, other + column->offset, column->size))
			fail_msg("column %s keeps what was there before", column->name);
	}
}

static void test_kernel_rows(void **state)
{
	struct cupti_kernel kernel = {.start = 1000, .end = 2000, .grid_x = 3, .block_x = 64};
	struct ws_arena *arena = calloc(1, sizeof(*arena));
	struct ws_drain *drain = calloc(1, sizeof(*drain));
	struct ws_cuda_proc *process = calloc(1, sizeof(*process));
	struct ws_proc proc = {.drain = drain};
	struct ws_reading now = {.raw = 10000};
	struct ws_clock clock = {.readings = &now, .n = 1};
	struct ws_stream stream = {
		.proc = &proc, .window = &drain->window, .process = 1, .clock = &clock};
	struct ws_cuda_record record = {.p = process, .time = 900, .size = sizeof(kernel)};
	struct ws_stage *stage;
	struct ws_err err;
	char *rows;

	(void)state;
	drain->arena = arena;
	drain->window.to = UINT64_MAX;
	stream.writer =
		ws_writer_create(CONVERTED, &(struct ws_writer_opts){.overwrite = true}, &err);
	assert_non_null(stream.writer);
	stage = ws_writer_stage(stream.writer, WS_TABLE_cuda_kernel);
	stream.stage[WS_TABLE_cuda_kernel] = stage;
	rows = stage->next;
	fill_stage(stage, 0x00, 1);
	ws_cuda_kernel(&stream, &record, &kernel);
	fill_stage(stage, 0xaa, 1);
	ws_cuda_kernel(&stream, &record, &kernel);
	assert_ptr_equal(stage->next, rows + 2 * (size_t)stage->row_size);
	expect_same_columns(rows, rows + stage->row_size);
	ws_writer_discard(stream.writer);
	free(process);
	free(drain);
	free(arena);
}

/* A module with two sections: its strings, and one of this name. */
struct made_cubin {
	Elf64_Ehdr head;
	Elf64_Shdr sections[3];
	char strings[64];
};

static struct made_cubin make_cubin(const char *section)
{
	struct made_cubin made = {
		.head = {.e_shoff = offsetof(struct made_cubin, sections),
			 .e_shnum = 3,
			 .e_shstrndx = 1,
			 .e_shentsize = sizeof(Elf64_Shdr)},
		.sections = {[1] = {.sh_offset = offsetof(struct made_cubin, strings),
				    .sh_size = sizeof(made.strings)},
			     [2] = {.sh_name = 1}}};

	memcpy(made.head.e_ident, ELFMAG, SELFMAG);
	made.head.e_ident[EI_CLASS] = ELFCLASS64;
	strcpy(made.strings + 1, section);
	return made;
}

static bool is_for_debugger(const struct made_cubin *made, size_t bytes)
{
	struct cupti_module module = {.bytes = bytes, .cubin = (const char *)made};

	return ws_cubin_is_for_debugger(&module);
}

/* -G is known by what describes variables; damaged modules are read up to where they end. */
static void test_cubins(void **state)
{
	struct made_cubin debug = make_cubin(".debug_info"), lines = make_cubin(".debug_line");

	(void)state;
	assert_true(is_for_debugger(&debug, sizeof(debug)));
	assert_false(is_for_debugger(&lines, sizeof(lines)));
	for (size_t bytes = 0; bytes < sizeof(debug); bytes++)
		assert_false(is_for_debugger(&debug, bytes));
	assert_false(is_for_debugger(NULL, sizeof(debug)));
	debug.sections[1].sh_size = UINT64_MAX;
	assert_false(is_for_debugger(&debug, sizeof(debug)));
	debug = make_cubin(".debug_info");
	debug.head.e_shstrndx = 77;
	assert_false(is_for_debugger(&debug, sizeof(debug)));
	debug.head.e_shoff = UINT64_MAX - 7;
	assert_false(is_for_debugger(&debug, sizeof(debug)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cubins),	    cmocka_unit_test(test_calls),
		cmocka_unit_test(test_occupancy),   cmocka_unit_test(test_names),
		cmocka_unit_test(test_kernel_rows), cmocka_unit_test(test_map)};

	return cmocka_run_group_tests_name("cuda-parts", tests, NULL, NULL);
}
