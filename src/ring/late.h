/*
 * late.h - the interface between hooks and recorder for `profile --attach`, which loads the hooks
 * into a running program. There the recorder calls ws_late_attach and ws_late_detach, which
 * libwarpsight-hooks.so exports, and reads ws_late_state from the program's memory.
 */
#ifndef WS_RING_LATE_H
#define WS_RING_LATE_H

#include <stdint.h>

/* The result of attaching. */
struct ws_late_state {
	uint32_t version;	/* WS_LATE_VERSION */
	uint32_t calls;		/* calls of ws_late_attach and ws_late_detach that have returned */
	int32_t result;		/* enum ws_late_result of the last call */
	uint32_t libraries;	/* requested libraries that were opened: one bit each, in order */
	uint32_t nvtx_modules;	/* that NVTX was found in, */
	uint32_t nvtx_attached; /* and that record now */
	uint32_t nvtx_foreign;	/* and that another tool has */
	uint32_t slots;		/* addresses of functions that lead to ours */
	uint32_t slots_refused; /* and that could not be changed */
	uint32_t cuda;		/* 1: a thread was started that turns CUPTI on; 2: could not be */
};
#define WS_LATE_VERSION 1

enum ws_late_result {
	WS_LATE_OK = 0,
	WS_LATE_BUSY = 1,   /* another recorder has the process */
	WS_LATE_FAILED = 2, /* the session's memory cannot be mapped */
};

#endif
