/*
 * kernel_sass.h - what a report says where instructions of measured kernels have no text: a
 * diagnostic of this form, by which the source page finds it again.
 */
#ifndef WS_SCHEMA_KERNEL_SASS_H
#define WS_SCHEMA_KERNEL_SASS_H

/* Of a function, or of one of these. */
#define WS_KERNEL_NO_SASS "Instructions of %s have no text: "
#define WS_KERNEL_ALL_FUNCTIONS "all kernels"
#define WS_KERNEL_FURTHER_FUNCTIONS "further kernels"

#endif
