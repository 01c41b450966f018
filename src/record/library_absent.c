/*
 * library_absent.c - why no call of a library that should be traced was recorded: the library was
 * not loaded, or it is part of the program. Calls within one file are bound when it is linked, so
 * no wrapper can intercept them.
 */
#include <stdio.h>
#include <string.h>

#include "base/nvtx_libraries.h"
#include "record/drain.h"
#include "record/libraries.h"
#include "record/proc.h"
#include "symbols/symtab.h"

static uint64_t hash_text(const char *text)
{
	uint64_t hash = 14695981039346656037u; /* FNV-1a */

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211u;
	return hash;
}

/* A program that is run again and again is examined once. */
static bool was_looked_into(struct ws_drain *drain, const char *exe)
{
	uint64_t hash = hash_text(exe);

	if (ws_map_get(&drain->looked_into, hash, NULL))
		return true;
	ws_map_set(&drain->looked_into, hash, 1);
	return false;
}

static void add_function(void *context, unsigned library, const char *name)
{
	uint64_t hash = hash_text(name);

	ws_map_set(context, hash, ws_map_get(context, hash, NULL) | UINT64_C(1) << library);
}

/* The bits of the libraries of which the file defines any function: of an archive, only those that
 * the program needs are linked into it. */
static uint64_t find_inside(const struct ws_elf *elf, uint64_t libraries)
{
	struct ws_map functions = {0};
	struct ws_symbol_table table;
	uint64_t found = 0;
	Elf64_Sym symbol;

	if (!ws_symtab_open(elf, false, &table))
		return 0;
	ws_library_walk_functions(add_function, &functions);
	for (uint64_t i = 0; i < table.count; i++) {
		const char *name = ws_symtab_get(&table, i, &symbol);

		if (name && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
			found |= ws_map_get(&functions, hash_text(name), NULL);
	}
	ws_map_free(&functions);
	return found & libraries;
}

void ws_library_note_process_end(struct ws_stream *stream)
{
	struct ws_drain *drain = stream->proc->drain;
	uint64_t unseen = drain->ops.libraries & ~ws_library_seen(stream->proc), inside;
	const char *exe = stream->proc->exe;
	struct ws_elf elf;
	struct ws_err err;

	if (!unseen || !exe || !*exe || was_looked_into(drain, exe) || ws_elf_open(&elf, exe, &err))
		return;
	inside = find_inside(&elf, unseen);
	ws_elf_close(&elf);
	for (unsigned k = 0; k < WS_LIBRARIES; k++)
		if (inside >> k & 1)
			ws_stream_diagnostic(
				stream, WS_WARNING, "libraries",
				"%s is linked into %s statically: its calls are not seen. Link the "
				"program to the shared library to have them traced.",
				ws_library_title(k), exe);
	stream->sink->libraries_seen |= inside;
}

void ws_library_say_absent(struct ws_sink *sink, uint64_t libraries, bool attached)
{
	char text[512];

	for (unsigned k = 0; k < WS_LIBRARIES; k++) {
		if (!((libraries & ~sink->libraries_seen) >> k & 1))
			continue;
		if (attached)
			snprintf(text, sizeof(text),
				 "No call of %s was recorded: libraries are traced only in "
				 "programs that warpsight starts.",
				 ws_library_title(k));
		else
			snprintf(text, sizeof(text),
				 "No call of %s was recorded: no program has called a shared "
				 "library of it (%.300s).",
				 ws_library_title(k), ws_library_files(k));
		ws_sink_diagnostic(sink, WS_WARNING, "libraries", 0, ws_read_raw_ns(), text);
	}
}

static bool is_word(void *context, const char *trace)
{
	return !strcmp(context, trace);
}

static bool is_wrapped(const struct ws_nvtx_library *library)
{
	return ws_find_traced_libraries(is_word, (void *)library->word) != 0;
}

void ws_library_say_silent(struct ws_sink *sink, const char *trace)
{
	char text[256];

	for (size_t i = 0; trace && i < WS_COUNT(ws_nvtx_libraries); i++) {
		const struct ws_nvtx_library *library = &ws_nvtx_libraries[i];

		if (!ws_get_nvtx_level(library, trace) || is_wrapped(library) ||
		    sink->announced >> i & 1)
			continue;
		snprintf(text, sizeof(text),
			 "No call of %s was recorded: no program has announced one by NVTX.",
			 library->domain);
		ws_sink_diagnostic(sink, WS_WARNING, "libraries", 0, ws_read_raw_ns(), text);
	}
}
