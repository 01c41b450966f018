/* common.h - errors and ranges for the examples. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                        \
	do {                                                               \
		cudaError_t rc = (call);                                   \
		if (rc != cudaSuccess) {                                   \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, \
				cudaGetErrorString(rc));                   \
			exit(1);                                           \
		}                                                          \
	} while (0)

struct Range {
	explicit Range(const char *name)
	{
		nvtxRangePushA(name);
	}
	~Range()
	{
		nvtxRangePop();
	}
};

#endif
