/* linked.c - see linked.h. */
#include "record/linked.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/libraries.h"
#include "record/vulkan_loader.h"
#include "symbols/elf.h"

enum { MOST_FILES = 256 };

struct search {
	uint64_t wanted, found; /* libraries: bits */
	/* Files that are needed; those from `next` on are still to be looked into. */
	char needed[MOST_FILES][NAME_MAX + 1];
	unsigned next, end;
};

/* Whether the name of a file begins like one of those in the list "libA.so, libB.so". */
static bool is_listed(const char *list, const char *name)
{
	while (*list) {
		size_t n = strcspn(list, ",");

		if (!strncmp(list, name, n))
			return true;
		list += n;
		list += strspn(list, ", ");
	}
	return false;
}

static bool is_known(struct search *search, const char *name)
{
	for (unsigned i = 0; i < search->end; i++)
		if (!strcmp(search->needed[i], name))
			return true;
	return false;
}

static void note_needed(struct search *search, const char *name)
{
	for (unsigned i = 0; i < WS_LIBRARIES; i++)
		if (search->wanted >> i & 1 && is_listed(ws_library_files(i), name))
			search->found |= UINT64_C(1) << i;
	if (search->end < MOST_FILES && strlen(name) <= NAME_MAX && !strchr(name, '/') &&
	    !is_known(search, name))
		strcpy(search->needed[search->end++], name);
}

/* The file's dynamic section; its number of entries in *count. NULL when it has none. */
static const Elf64_Dyn *find_dynamic(const struct ws_elf *elf, uint64_t *count)
{
	Elf64_Phdr segment;

	for (uint32_t i = 0; ws_elf_get_segment(elf, i, &segment); i++) {
		if (segment.p_type != PT_DYNAMIC || segment.p_offset % sizeof(uint64_t) ||
		    segment.p_offset > elf->size || segment.p_filesz > elf->size - segment.p_offset)
			continue;
		*count = segment.p_filesz / sizeof(Elf64_Dyn);
		return (const void *)(elf->data + segment.p_offset);
	}
	return NULL;
}

static void read_needed(struct search *search, const struct ws_elf *elf)
{
	const uint8_t *texts = NULL;
	uint64_t count = 0, left = 0;
	const Elf64_Dyn *dynamic = elf->wide ? find_dynamic(elf, &count) : NULL;

	for (uint64_t i = 0; dynamic && i < count; i++)
		if (dynamic[i].d_tag == DT_STRTAB)
			texts = ws_elf_get_loaded(elf, dynamic[i].d_un.d_ptr, &left);
	for (uint64_t i = 0; texts && i < count && dynamic[i].d_tag != DT_NULL; i++) {
		uint64_t at = dynamic[i].d_un.d_val;

		if (dynamic[i].d_tag == DT_NEEDED && at < left && memchr(texts + at, 0, left - at))
			note_needed(search, (const char *)texts + at);
	}
}

static void look_into(struct search *search, const char *path)
{
	struct ws_elf elf;
	struct ws_err err;

	if (ws_elf_open(&elf, path, &err))
		return;
	read_needed(search, &elf);
	ws_elf_close(&elf);
}

/* The path of a program, in PATH_MAX bytes; false when it is not found. */
static bool find_program(const char *name, char *out)
{
	const char *folder = getenv("PATH");

	if (strchr(name, '/'))
		return snprintf(out, PATH_MAX, "%s", name) < PATH_MAX;
	while (folder && *folder) {
		size_t n = strcspn(folder, ":");

		if (snprintf(out, PATH_MAX, "%.*s/%s", (int)n, folder, name) < PATH_MAX &&
		    !access(out, X_OK))
			return true;
		folder += n;
		folder += *folder == ':';
	}
	return false;
}

uint64_t ws_find_linked_libraries(const char *program, uint64_t libraries)
{
	struct search search = {.wanted = libraries};
	char path[PATH_MAX];

	if (!libraries || !program || !find_program(program, path))
		return 0;
	look_into(&search, path);
	while (search.next < search.end && search.found != search.wanted)
		if (ws_find_installed_library(search.needed[search.next++], path))
			look_into(&search, path);
	return search.found;
}
