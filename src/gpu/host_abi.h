/*
 * host_abi.h - what warpsight uses of CUPTI's profiler host API, declared here so that building
 * needs no CUDA toolkit. Each call takes one structure that begins with its size. Where the
 * toolkit's headers are present, a test compares sizes and offsets (tests/gpu-host/test_abi.c).
 */
#ifndef WS_GPU_HOST_ABI_H
#define WS_GPU_HOST_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { CUPTI_HOST_RANGE_PROFILER = 0, CUPTI_HOST_PM_SAMPLING = 1 };

/* Types of metrics. */
enum { CUPTI_HOST_COUNTER = 0, CUPTI_HOST_RATIO = 1, CUPTI_HOST_THROUGHPUT = 2, CUPTI_HOST_TYPES };

struct cupti_profiler_initialize {
	size_t size;
	void *priv;
};

struct cupti_host_initialize {
	size_t size;
	void *priv;
	int32_t profiler;
	const char *chip;
	const uint8_t *availability;
	void *host; /* out */
};

struct cupti_host_deinitialize {
	size_t size;
	void *priv;
	void *host;
};

struct cupti_host_chips {
	size_t size;
	void *priv;
	size_t count;		  /* out */
	const char *const *names; /* out */
};

struct cupti_host_base_metrics {
	size_t size;
	void *priv;
	void *host;
	int32_t type;
	const char **names; /* out */
	size_t count;	    /* out */
};

struct cupti_host_sub_metrics {
	size_t size;
	void *priv;
	void *host;
	int32_t type;
	const char *metric;
	size_t count;	    /* out */
	const char **names; /* out */
};

struct cupti_host_properties {
	size_t size;
	void *priv;
	void *host;
	const char *metric;
	const char *description, *hw_unit, *unit; /* out */
	int32_t type;				  /* out */
};

struct cupti_host_add_metrics {
	size_t size;
	void *priv;
	void *host;
	const char **names;
	size_t count;
};

struct cupti_host_image_size {
	size_t size;
	void *priv;
	void *host;
	size_t bytes; /* out */
};

struct cupti_host_image {
	size_t size;
	void *priv;
	void *host;
	size_t bytes;
	uint8_t *image; /* out */
};

struct cupti_host_passes {
	size_t size;
	void *priv;
	size_t bytes;
	uint8_t *image;
	size_t passes; /* out */
};

struct cupti_host_evaluate {
	size_t size;
	void *priv;
	void *host;
	const uint8_t *image;
	size_t bytes, range;
	const char **names;
	size_t count;
	double *values; /* out */
};

#endif
