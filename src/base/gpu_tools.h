/*
 * gpu_tools.h - other tools that claim a program's CUDA work for themselves, recognised by what
 * they put into its environment.
 *
 * Only one tool at a time can profile, check or debug a program's CUDA work. Nsight Compute even
 * refuses to start a program whose CUDA_INJECTION64_PATH is set, and Nsight Systems ends in an
 * error when another tool answers its calls of CUPTI. Such a tool was there first, or is what the
 * user asked for last, so it gets the GPU and warpsight reports that.
 */
#ifndef WS_BASE_GPU_TOOLS_H
#define WS_BASE_GPU_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/compiler.h"

/* The name of the tool that started the program with this environment (ended by NULL, or NULL
 * itself); NULL if no such tool did. */
static inline const char *ws_find_gpu_tool(char *const *env)
{
	static const struct {
		const char *variable, *tool;
	} tools[] = {
		{"NV_COMPUTE_PROFILER_PERFWORKS_DIR=", "Nsight Compute"},
		{"NV_SANITIZER_INJECTION_PORT_BASE=", "Compute Sanitizer"},
		{"QUADD_INJECTION_CONFIG=", "Nsight Systems"},
	};

	for (; env && *env; env++)
		for (size_t i = 0; i < WS_COUNT(tools); i++)
			if (!strncmp(*env, tools[i].variable, strlen(tools[i].variable)))
				return tools[i].tool;
	return NULL;
}

/*
 * Whether this tool waits for ever for a program whose start by another program it could not watch.
 * (Seen with both tools on a GPU: a program that our recorder starts under them hangs before its
 * first CUDA call.)
 */
static inline bool ws_gpu_tool_must_start(const char *tool)
{
	return tool && strcmp(tool, "Nsight Systems") != 0;
}

/* Whether a program of this name (without folders) starts others only where CUDA_INJECTION64_PATH
 * is not set. */
static inline bool ws_wants_no_injection(const char *name)
{
	return !strcmp(name, "ncu") || !strcmp(name, "nv-nsight-cu-cli");
}

#endif
