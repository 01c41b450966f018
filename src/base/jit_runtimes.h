/*
 * jit_runtimes.h - runtimes that generate code, recognised by the files that their processes run:
 * how each can be made to publish the names of its functions (in /tmp/perf-PID.map), and which
 * environment variable asks for it.
 */
#ifndef WS_BASE_JIT_RUNTIMES_H
#define WS_BASE_JIT_RUNTIMES_H

#include <stddef.h>
#include <string.h>

#include "base/compiler.h"

struct ws_jit_runtime {
	const char *word, *name; /* the word in --jit-names; the name in messages */
	const char *files[3];	 /* prefixes of the names of its files */
	const char *variable, *value;
	const char *advice; /* what makes it publish names, as a clause for messages */
};

/*
 * DumpPerfMapAtExit is a diagnostic option in JDK 17 and unknown before: the first two keep a JVM
 * that does not know it from refusing to start.
 */
static const struct ws_jit_runtime ws_jit_runtimes[] = {
	{"java",
	 "Java",
	 {"libjvm.so", "java"},
	 "JAVA_TOOL_OPTIONS",
	 "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit "
	 "-XX:+PreserveFramePointer",
	 "'java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit' (JDK 17 and later) gives "
	 "names, -XX:+PreserveFramePointer whole stacks"},
	{"node",
	 "Node.js",
	 {"node", "libnode.so"},
	 "NODE_OPTIONS",
	 "--perf-basic-prof",
	 "'node --perf-basic-prof' gives names"},
};

static inline const struct ws_jit_runtime *ws_find_jit_runtime_by_word(const char *word)
{
	for (size_t i = 0; i < WS_COUNT(ws_jit_runtimes); i++)
		if (!strcmp(ws_jit_runtimes[i].word, word))
			return &ws_jit_runtimes[i];
	return NULL;
}

/* The runtime that a file belongs to; NULL for other files. */
static inline const struct ws_jit_runtime *ws_find_jit_runtime(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash)
		path = slash + 1;
	for (size_t i = 0; i < WS_COUNT(ws_jit_runtimes); i++)
		for (const char *const *file = ws_jit_runtimes[i].files; *file; file++) {
			size_t length = strlen(*file);

			/* "node", "node20" and "libjvm.so" match, longer words do not */
			if (!strncmp(path, *file, length) &&
			    strspn(path + length, ".0123456789") == strlen(path + length))
				return &ws_jit_runtimes[i];
		}
	return NULL;
}

#endif
