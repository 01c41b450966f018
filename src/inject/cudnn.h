/*
 * cudnn.h - what the wrappers of cuDNN's functions follow: descriptors of its graph interface, from
 * tensors and operations to plans. Used by libraries/cudnn.calls. Attributes and descriptors are
 * numbered as in cudnn_graph.h, which is not needed to build.
 */
#ifndef WS_INJECT_CUDNN_H
#define WS_INJECT_CUDNN_H

#include "inject/library.h"

enum { WS_CUDNN_TEXT = 64, WS_CUDNN_OPERATIONS = 128 };

/* What a plan or a call computes. Texts are "" for what is not known, such as 8x3x32x32. */
struct ws_cudnn_shape {
	char operations[WS_CUDNN_OPERATIONS]; /* joined by '+' */
	char x[WS_CUDNN_TEXT], w[WS_CUDNN_TEXT], y[WS_CUDNN_TEXT];
	char stride[WS_CUDNN_TEXT], padding[WS_CUDNN_TEXT], dilation[WS_CUDNN_TEXT];
	int64_t type, groups, flops, bytes; /* WS_LIBRARY_NONE: not known */
};

#pragma GCC visibility push(hidden)

/* The status of a call that failed. */
static inline int64_t ws_cudnn_error(int result)
{
	return result ? result : WS_LIBRARY_NONE;
}

/* NULL for a text that is not known. */
static inline const char *ws_cudnn_text(const char *text)
{
	if (!*text)
		return NULL;
	return text;
}

/* The graph interface's calls, after them. `result` is what they returned. */
void ws_cudnn_create(int result, int type, void **descriptor);
void ws_cudnn_destroy(const void *descriptor);
void ws_cudnn_set(int result, const void *descriptor, int attribute, int64_t count,
		  const void *elements);
void ws_cudnn_get(int result, const void *descriptor, int attribute, const int64_t *count,
		  const void *elements);
/* What a plan computes; never NULL, stays valid. */
const struct ws_cudnn_shape *ws_cudnn_find_shape(const void *plan);

/* A convolution of the older interface, by the functions with which cuDNN reads its descriptors. */
void ws_cudnn_read_shape(struct ws_cudnn_shape *shape, void *x, void *filter, void *convolution,
			 void *y);

#pragma GCC visibility pop

#endif
