/*
 * kernel_sampled.h - how metrics of kernels are named that are sampled over a kernel's time instead
 * of being counted once: by this prefix. The value of such a metric is its mean over that time.
 */
#ifndef WS_SCHEMA_KERNEL_SAMPLED_H
#define WS_SCHEMA_KERNEL_SAMPLED_H

#define WS_KERNEL_SAMPLED "pmsampling:"
/* In the list of a chip's metrics: the rest says why there are none. */
#define WS_KERNEL_NO_METRICS "! "

#endif
