/*
 * nvtx_libraries.h - libraries that report their own calls through NVTX: the words of --trace that
 * ask for this, the environment variables that turn it on, the NVTX domain that a library uses, and
 * where its calls belong in a report.
 */
#ifndef WS_BASE_NVTX_LIBRARIES_H
#define WS_BASE_NVTX_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"

struct ws_nvtx_library {
	const char *word;    /* word of --trace for the calls that do something */
	const char *verbose; /* word of --trace for every call; NULL: the library does not
				distinguish them */
	const char *domain;  /* of NVTX */
	const char *table;   /* category of its calls in `slice`; NULL: they stay ranges of NVTX */
	const char
		*variables[4]; /* set to 1, or to 2 for every call; the user's own values count */
	const char *value;     /* set to this instead */
};

static const struct ws_nvtx_library ws_nvtx_libraries[] = {
	{"cublas",
	 "cublas-verbose",
	 "cuBLAS",
	 "CUBLAS_EVENTS",
	 {"CUBLAS_NVTX_LEVEL", "CUBLASLT_NVTX_LEVEL", "CUBLASXT_NVTX_LEVEL"}},
	{"cudnn", NULL, "cuDNN", "CUDNN_EVENTS", {"CUDNN_NVTX_LEVEL"}},
	{"cusparse", "cusparse-verbose", "CUSPARSE", "CUSPARSE_EVENTS", {"CUSPARSE_NVTX_LEVEL"}},
	{"cusolver",
	 "cusolver-verbose",
	 "cusolverDn",
	 "CUSOLVER_EVENTS",
	 {"CUSOLVERDN_NVTX_LEVEL"}},
	{"nccl", NULL, "NCCL", NULL, {NULL}},
	{"tensorrt", NULL, "TensorRT", NULL, {NULL}},
	{"nvshmem", NULL, "NVSHMEM", "NVSHMEM_EVENTS", {"NVSHMEM_NVTX"}, "common"},
};

/* Whether a list of words with commas between them has `word`. */
static inline bool ws_lists_word(const char *list, const char *word)
{
	size_t length = word ? strlen(word) : 0;

	for (const char *at = list; length && at && *at; at += strcspn(at, ","), at += *at == ',')
		if (!strncmp(at, word, length) && (at[length] == ',' || !at[length]))
			return true;
	return false;
}

/* The level that --trace asks for: 0 none, 1 the calls that do something, 2 every call. */
static inline int ws_get_nvtx_level(const struct ws_nvtx_library *library, const char *trace)
{
	if (ws_lists_word(trace, library->verbose))
		return 2;
	return ws_lists_word(trace, library->word);
}

/* The library whose domain has this name; NULL for other domains. */
static inline const struct ws_nvtx_library *ws_find_nvtx_library(const char *domain)
{
	for (size_t i = 0; i < WS_COUNT(ws_nvtx_libraries); i++)
		if (!strcmp(ws_nvtx_libraries[i].domain, domain))
			return &ws_nvtx_libraries[i];
	return NULL;
}

#endif
