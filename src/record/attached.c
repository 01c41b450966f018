/* attached.c - see attached.h. */
#include "record/attached.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/ticks.h"

int ws_attached_begin(struct ws_attached *attached, const struct ws_record_opts *options,
		      struct ws_err *err)
{
	return ws_attach_look(options->attach, &attached->target, err);
}

/* Read a whole file of /proc/PID, NUL-terminated; owned by the caller. */
static void read_file(int pid, const char *name, struct ws_text *text)
{
	char path[64], buf[4096];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0)
		ws_text_add(text, buf, (size_t)n);
	if (fd >= 0)
		close(fd);
}

char **ws_attached_environment(const struct ws_attached *attached)
{
	struct ws_text text = {0};
	size_t count = 0, cap = 0;
	char **env = NULL;

	read_file(attached->target.pid, "environ", &text);
	for (size_t at = 0; at < text.len; at += strlen(text.text + at) + 1) {
		if (!strchr(text.text + at, '='))
			continue;
		ws_grow(env, cap, count + 2);
		env[count++] = ws_strdup(text.text + at);
	}
	ws_text_free(&text);
	if (!env)
		return ws_calloc(1, sizeof(*env));
	env[count] = NULL;
	return env;
}

char **ws_attached_command(int pid)
{
	struct ws_text text = {0};
	size_t count = 0;
	char **argv, *words;

	read_file(pid, "cmdline", &text);
	if (!text.len)
		ws_text_add(&text, "(not known)", sizeof("(not known)"));
	for (size_t at = 0; at < text.len; at += strlen(text.text + at) + 1)
		count++;
	argv = ws_malloc((count + 1) * sizeof(*argv) + text.len + 1);
	words = (char *)(argv + count + 1);
	memcpy(words, text.text, text.len + 1);
	for (size_t i = 0; i < count; i++, words += strlen(words) + 1)
		argv[i] = words;
	argv[count] = NULL;
	ws_text_free(&text);
	return argv;
}

static void write_diagnostic(struct ws_sink *sink, enum ws_severity severity, const char *text)
{
	ws_sink_diagnostic(sink, severity, "attach", 0, ws_read_raw_ns(), text);
}

/* Whether the process has mapped a file whose name begins with `name`. */
static bool has_mapped(int pid, const char *name)
{
	struct ws_text text = {0};
	bool found = false;

	read_file(pid, "maps", &text);
	for (const char *at = ws_text_or(text.text, ""); !found && (at = strchr(at, '/')); at++)
		found = !strncmp(at + 1, name, strlen(name));
	ws_text_free(&text);
	return found;
}

/* What the hooks would have recorded, in the words of --trace. */
static const char *name_hooks(const struct ws_record_opts *options, bool cuda, char buf[64])
{
	snprintf(buf, 64, "%s%s%s", options->nvtx ? ", NVTX" : "",
		 options->osrt ? ", the OS runtime" : "", cuda ? ", CUDA" : "");
	return buf + 2;
}

static void say_refused(const struct ws_record_opts *options, bool cuda, struct ws_sink *sink,
			const struct ws_err *why)
{
	char text[1400], names[64];

	snprintf(text, sizeof(text),
		 "Nothing of %s is recorded: %s. Samples and context switches are.",
		 name_hooks(options, cuda, names), why->msg);
	write_diagnostic(sink, WS_WARNING, text);
}

/* Report what is missing: events before the hooks were loaded, and what can only be seen from the
 * start. */
static void say_unseen(const struct ws_record_opts *options, const struct ws_late_state *state,
		       struct ws_sink *sink)
{
	char text[600];

	write_diagnostic(sink, WS_INFO,
			 "The recording was attached to a program that ran already: calls, ranges "
			 "and work that "
			 "began before are not in it.");
	if (options->nvtx && state->nvtx_modules) {
		snprintf(text, sizeof(text),
			 "NVTX: %u of %u libraries that use it are recorded%s. Domains and "
			 "registered strings that were made before are not known: their events "
			 "are in the default domain, or without a text.",
			 state->nvtx_attached, state->nvtx_modules,
			 state->nvtx_foreign ? "; another tool has the others" : "");
		write_diagnostic(sink,
				 state->nvtx_attached < state->nvtx_modules ? WS_WARNING : WS_INFO,
				 text);
	} else if (options->nvtx) {
		write_diagnostic(sink, WS_INFO,
				 "NVTX: nothing that the program has loaded uses it.");
	}
	if (options->osrt) {
		snprintf(text, sizeof(text),
			 "OS runtime: the calls that go through %u places of the program and its "
			 "libraries are recorded; calls of libraries that are loaded later are "
			 "not.",
			 state->slots);
		write_diagnostic(sink, state->slots ? WS_INFO : WS_WARNING, text);
	}
}

static void say_no_python(const struct ws_attached *attached, const struct ws_record_opts *options,
			  struct ws_sink *sink)
{
	char text[400];

	if (!options->python.sampling || !attached->no_python ||
	    !(has_mapped(attached->target.pid, "libpython") ||
	      has_mapped(attached->target.pid, "python")))
		return;
	snprintf(text, sizeof(text),
		 "Stacks of CPU samples have no frames of Python, only its interpreter's own "
		 "functions: the process was attached to, so they could only be read by a program "
		 "in the kernel (%s; see 'warpsight doctor').",
		 attached->no_python);
	write_diagnostic(sink, WS_INFO, text);
}

/* What is loaded: the CUDA hook only into a process that uses CUDA. */
static void list_libraries(struct ws_text *list, const char *libraries, const char *cuda_library)
{
	ws_text_add(list, libraries, strlen(libraries));
	if (*cuda_library)
		ws_text_add(list, ":", 1);
	ws_text_add(list, cuda_library, strlen(cuda_library) + 1);
}

/* If it works, the hook itself reports when it has begun. */
static void say_no_cuda(const struct ws_late_state *state, struct ws_sink *sink)
{
	if (state->cuda)
		write_diagnostic(
			sink, WS_WARNING,
			"CUDA is not recorded: no thread could be started in the process.");
	else
		write_diagnostic(sink, WS_WARNING,
				 "CUDA is not recorded: the process could not load "
				 "libwarpsight-cuda.so.");
}

void ws_attached_load(struct ws_attached *attached, const struct ws_record_opts *options,
		      const char *libraries, const char *cuda_library, const char *session,
		      struct ws_sink *sink)
{
	struct ws_late_state state;
	struct ws_err err = {""};

	bool cuda = options->cuda && has_mapped(attached->target.pid, "libcuda.so");
	struct ws_text list = {0};
	int failed;

	if (options->cuda && !cuda)
		write_diagnostic(sink, WS_INFO,
				 "CUDA: the program had not loaded NVIDIA's driver when it was "
				 "attached to; what it does with CUDA later is not recorded.");
	if (options->openmp || options->openacc || options->malloc)
		write_diagnostic(sink, WS_WARNING,
				 "OpenMP, OpenACC and allocations of memory are not recorded of a "
				 "process that was attached to: 'warpsight profile APP' records "
				 "them from the program's start.");
	say_no_python(attached, options, sink);
	if (!options->nvtx && !options->osrt && !cuda)
		return;
	list_libraries(&list, libraries, cuda ? cuda_library : "");
	failed = ws_attach_load(&attached->target, list.text, session, &state, &err);
	ws_text_free(&list);
	if (failed) {
		say_refused(options, cuda, sink, &err);
		return;
	}
	attached->loaded = true;
	say_unseen(options, &state, sink);
	if (cuda && state.cuda != 1)
		say_no_cuda(&state, sink);
}

void ws_attached_unload(struct ws_attached *attached, const char *libraries, struct ws_sink *sink)
{
	char text[1400];
	struct ws_err err = {""};

	if (!attached->loaded || ws_attach_has_ended(&attached->target))
		return;
	attached->loaded = false;
	if (!ws_attach_unload(&attached->target, libraries, &err))
		return;
	snprintf(text, sizeof(text),
		 "The hooks stay in process %d, idle, because they could not be taken out of its "
		 "way: %s.",
		 attached->target.pid, err.msg);
	write_diagnostic(sink, WS_INFO, text);
}

void ws_attached_end(struct ws_attached *attached)
{
	ws_attach_close(&attached->target);
}
