/*
 * test_abi.c - compares ring/cupti_abi.h with the toolkit's own headers, where those are: sizes,
 * offsets, numbers. Built only then. The comparisons are made while compiling; running it prints
 * that they held.
 */
#include <cupti.h>
#include <stdio.h>

#include "ring/cupti_abi.h"

#define SAME(a, b) _Static_assert((long long)(a) == (long long)(b), #a " is not " #b)
#define FIELD(mine, field, theirs, its) \
	SAME(offsetof(struct mine, field), offsetof(CUpti_Activity##theirs, its))

#if CUPTI_API_VERSION >= 130000
SAME(sizeof(struct cupti_kernel), sizeof(CUpti_ActivityKernel10));
SAME(sizeof(struct cupti_memcpy), sizeof(CUpti_ActivityMemcpy6));
SAME(sizeof(struct cupti_memcpy_peer), sizeof(CUpti_ActivityMemcpyPtoP4));
SAME(sizeof(struct cupti_memset), sizeof(CUpti_ActivityMemset4));
SAME(sizeof(struct cupti_api), sizeof(CUpti_ActivityAPI));
SAME(sizeof(struct cupti_sync), sizeof(CUpti_ActivitySynchronization2));
SAME(sizeof(struct cupti_event), sizeof(CUpti_ActivityCudaEvent2));
SAME(sizeof(struct cupti_stream), sizeof(CUpti_ActivityStream));
SAME(sizeof(struct cupti_context), sizeof(CUpti_ActivityContext3));
SAME(sizeof(struct cupti_device), sizeof(CUpti_ActivityDevice5));
SAME(sizeof(struct cupti_overhead), sizeof(CUpti_ActivityOverhead3));
SAME(sizeof(struct cupti_memory), sizeof(CUpti_ActivityMemory4));
SAME(sizeof(struct cupti_pool), sizeof(CUpti_ActivityMemoryPool3));
SAME(sizeof(struct cupti_jit), sizeof(CUpti_ActivityJit2));
SAME(sizeof(struct cupti_graph_trace), sizeof(CUpti_ActivityGraphTrace2));
SAME(sizeof(struct cupti_um), sizeof(CUpti_ActivityUnifiedMemoryCounter3));

FIELD(cupti_kernel, cache_config, Kernel10, cacheConfig);
FIELD(cupti_kernel, registers, Kernel10, registersPerThread);
FIELD(cupti_kernel, start, Kernel10, start);
FIELD(cupti_kernel, device, Kernel10, deviceId);
FIELD(cupti_kernel, grid_x, Kernel10, gridX);
FIELD(cupti_kernel, block_z, Kernel10, blockZ);
FIELD(cupti_kernel, static_shared, Kernel10, staticSharedMemory);
FIELD(cupti_kernel, dynamic_shared, Kernel10, dynamicSharedMemory);
FIELD(cupti_kernel, local_thread, Kernel10, localMemoryPerThread);
FIELD(cupti_kernel, correlation, Kernel10, correlationId);
FIELD(cupti_kernel, grid_id, Kernel10, gridId);
FIELD(cupti_kernel, name, Kernel10, name);
FIELD(cupti_kernel, launch_type, Kernel10, launchType);
FIELD(cupti_kernel, carveout_requested, Kernel10, isSharedMemoryCarveoutRequested);
FIELD(cupti_kernel, shared_executed, Kernel10, sharedMemoryExecuted);
FIELD(cupti_kernel, graph_node, Kernel10, graphNodeId);
FIELD(cupti_kernel, shared_limit, Kernel10, shmemLimitConfig);
FIELD(cupti_kernel, graph, Kernel10, graphId);
FIELD(cupti_kernel, cluster_x, Kernel10, clusterX);
FIELD(cupti_kernel, local_total2, Kernel10, localMemoryTotal_v2);
FIELD(cupti_kernel, max_cluster, Kernel10, maxPotentialClusterSize);
FIELD(cupti_kernel, device_launched, Kernel10, isDeviceLaunched);
FIELD(cupti_memcpy, bytes, Memcpy6, bytes);
FIELD(cupti_memcpy, correlation, Memcpy6, correlationId);
FIELD(cupti_memcpy, graph_node, Memcpy6, graphNodeId);
FIELD(cupti_memcpy, device_launched, Memcpy6, isDeviceLaunched);
FIELD(cupti_memcpy, copies, Memcpy6, copyCount);
FIELD(cupti_memcpy_peer, src_device, MemcpyPtoP4, srcDeviceId);
FIELD(cupti_memcpy_peer, correlation, MemcpyPtoP4, correlationId);
FIELD(cupti_memcpy_peer, graph_node, MemcpyPtoP4, graphNodeId);
FIELD(cupti_memset, correlation, Memset4, correlationId);
FIELD(cupti_memset, memory_kind, Memset4, memoryKind);
FIELD(cupti_memset, graph_node, Memset4, graphNodeId);
FIELD(cupti_api, cbid, API, cbid);
FIELD(cupti_api, thread, API, threadId);
FIELD(cupti_api, result, API, returnValue);
FIELD(cupti_sync, event, Synchronization2, cudaEventId);
FIELD(cupti_sync, event_sync, Synchronization2, cudaEventSyncId);
FIELD(cupti_event, device, CudaEvent2, deviceId);
FIELD(cupti_event, time, CudaEvent2, deviceTimestamp);
FIELD(cupti_context, null_stream, Context3, nullStreamId);
FIELD(cupti_context, green, Context3, isGreenContext);
FIELD(cupti_context, sms, Context3, numMultiprocessors);
FIELD(cupti_device, constant, Device5, constantMemorySize);
FIELD(cupti_device, sms, Device5, numMultiprocessors);
FIELD(cupti_device, shared_sm, Device5, maxSharedMemoryPerMultiprocessor);
FIELD(cupti_device, regs_sm, Device5, maxRegistersPerMultiprocessor);
FIELD(cupti_device, regs_block, Device5, maxRegistersPerBlock);
FIELD(cupti_device, grid_z, Device5, maxGridDimZ);
FIELD(cupti_device, major, Device5, computeCapabilityMajor);
FIELD(cupti_device, uuid, Device5, uuid);
FIELD(cupti_device, name, Device5, name);
FIELD(cupti_device, mig_uuid, Device5, migUuid);
FIELD(cupti_overhead, id, Overhead3, objectId);
FIELD(cupti_overhead, start, Overhead3, start);
FIELD(cupti_overhead, correlation, Overhead3, correlationId);
FIELD(cupti_overhead, data, Overhead3, overheadData);
FIELD(cupti_memory, pc, Memory4, PC);
FIELD(cupti_memory, stream, Memory4, streamId);
FIELD(cupti_memory, pool_type, Memory4, memoryPoolConfig);
FIELD(cupti_memory, source, Memory4, source);
FIELD(cupti_pool, keep, MemoryPool3, minBytesToKeep);
FIELD(cupti_pool, used, MemoryPool3, utilizedSize);
FIELD(cupti_jit, cache_path, Jit2, cachePath);
FIELD(cupti_jit, thread, Jit2, threadId);
FIELD(cupti_graph_trace, graph, GraphTrace2, graphId);
FIELD(cupti_graph_trace, end_device, GraphTrace2, endDeviceId);
FIELD(cupti_um, address, UnifiedMemoryCounter3, address);
FIELD(cupti_um, flags, UnifiedMemoryCounter3, flags);
#endif

SAME(CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME(CUPTI_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMCPY2);
SAME(CUPTI_KIND_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD);
SAME(CUPTI_KIND_UNIFIED_MEMORY_COUNTER, CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
SAME(CUPTI_KIND_CUDA_EVENT, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
SAME(CUPTI_KIND_STREAM, CUPTI_ACTIVITY_KIND_STREAM);
SAME(CUPTI_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
SAME(CUPTI_KIND_MEMORY2, CUPTI_ACTIVITY_KIND_MEMORY2);
SAME(CUPTI_KIND_MEMORY_POOL, CUPTI_ACTIVITY_KIND_MEMORY_POOL);
SAME(CUPTI_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
SAME(CUPTI_KIND_JIT, CUPTI_ACTIVITY_KIND_JIT);
SAME(CUPTI_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
SAME(CUPTI_ATTR_PER_THREAD_ACTIVITY_BUFFER, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER);
SAME(CUPTI_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
SAME(CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
SAME(CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME(CUPTI_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
SAME(CUPTI_DOMAIN_STATE, CUPTI_CB_DOMAIN_STATE);
SAME(CUPTI_RESOURCE_MODULE_LOADED, CUPTI_CBID_RESOURCE_MODULE_LOADED);
SAME(CUPTI_RESOURCE_MODULE_UNLOAD_STARTING, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING);
SAME(CUPTI_RESOURCE_GRAPH_CREATED, CUPTI_CBID_RESOURCE_GRAPH_CREATED);
SAME(CUPTI_RESOURCE_GRAPH_CLONED, CUPTI_CBID_RESOURCE_GRAPH_CLONED);
SAME(CUPTI_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
SAME(CUPTI_RESOURCE_GRAPHNODE_CLONED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
SAME(CUPTI_RESOURCE_GRAPHEXEC_CREATED, CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED);
SAME(CUPTI_STATE_FATAL_ERROR, CUPTI_CBID_STATE_FATAL_ERROR);
SAME(CUPTI_ERR_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME(CUPTI_ERR_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED);
SAME(sizeof(struct cupti_callback), sizeof(CUpti_CallbackData));
SAME(offsetof(struct cupti_callback, params), offsetof(CUpti_CallbackData, functionParams));
SAME(offsetof(struct cupti_callback, context), offsetof(CUpti_CallbackData, context));
SAME(offsetof(struct cupti_callback, correlation), offsetof(CUpti_CallbackData, correlationId));
SAME(offsetof(struct cupti_graph, exec), offsetof(CUpti_GraphData, graphExec));
SAME(offsetof(struct cupti_graph, node_type), offsetof(CUpti_GraphData, nodeType));
SAME(offsetof(struct cupti_module, bytes), offsetof(CUpti_ModuleResourceData, cubinSize));
SAME(offsetof(struct cupti_resource, descriptor), offsetof(CUpti_ResourceData, resourceDescriptor));
SAME(sizeof(struct cupti_um_config), sizeof(CUpti_ActivityUnifiedMemoryCounterConfig));

/* Arguments that callbacks read, as words: cuda_sync.c, cuda_host.c. */
#define WORD(call, word, its) SAME(offsetof(call##_params, its), 8 * (word))
WORD(cudaStreamSynchronize_v3020, 0, stream);
WORD(cudaEventSynchronize_v3020, 0, event);
WORD(cudaEventRecord_v3020, 0, event);
WORD(cudaEventRecord_v3020, 1, stream);
WORD(cudaEventRecordWithFlags_v11010, 1, stream);
WORD(cudaStreamWaitEvent_v3020, 0, stream);
WORD(cudaStreamWaitEvent_v3020, 1, event);
WORD(cuStreamSynchronize, 0, hStream);
WORD(cuEventSynchronize, 0, hEvent);
WORD(cuEventRecord, 0, hEvent);
WORD(cuEventRecord, 1, hStream);
WORD(cuStreamWaitEvent, 0, hStream);
WORD(cuStreamWaitEvent, 1, hEvent);
WORD(cudaLaunchHostFunc_v10000, 0, stream);
WORD(cudaLaunchHostFunc_v10000, 1, fn);
WORD(cudaLaunchHostFunc_ptsz_v10000, 1, fn);
WORD(cudaStreamAddCallback_v5000, 0, stream);
WORD(cudaStreamAddCallback_v5000, 1, callback);
WORD(cudaGraphAddHostNode_v10000, 0, pGraphNode);
WORD(cudaGraphAddHostNode_v10000, 1, graph);
WORD(cudaGraphAddHostNode_v10000, 4, pNodeParams);
SAME(offsetof(struct cudaHostNodeParams, fn), 0);
WORD(cuLaunchHostFunc, 0, hStream);
WORD(cuLaunchHostFunc, 1, fn);
WORD(cuStreamAddCallback, 1, callback);
WORD(cuGraphAddHostNode, 0, phGraphNode);
WORD(cuGraphAddHostNode, 1, hGraph);
WORD(cuGraphAddHostNode, 4, nodeParams);
SAME(offsetof(CUDA_HOST_NODE_PARAMS, fn), 0);

int main(void)
{
	printf("ok 1 - cuda: our declarations of CUPTI match the toolkit's (version %d)\n1..1\n",
	       CUPTI_API_VERSION);
	return 0;
}
