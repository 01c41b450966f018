/* module.c - see module.h. */
#include "symbols/module.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/map.h"
#include "base/mem.h"
#include "symbols/cfi.h"

#define MOST_OPEN 7000 /* files; further ones are not opened, since each keeps a mapping */
#define DELETED " (deleted)"

struct ws_modules {
	struct ws_module **items;
	size_t count, capacity, open;
	struct ws_map by_identity; /* hash of kind, path, device, inode, pid -> number; on a
				      collision, of the same + 1 and so on */
	struct ws_module *kernel, *vdso, *other_vdso;
};

struct ws_modules *ws_modules_new(void)
{
	return ws_calloc(1, sizeof(struct ws_modules));
}

void ws_modules_free(struct ws_modules *modules)
{
	if (!modules)
		return;
	for (size_t i = 0; i < modules->count; i++) {
		ws_cfi_free(modules->items[i]->cfi);
		ws_elf_close(&modules->items[i]->elf);
		free(modules->items[i]->path);
		free(modules->items[i]->dump);
		free(modules->items[i]->split_file);
		free(modules->items[i]->unread);
		free(modules->items[i]);
	}
	free(modules->items);
	ws_map_free(&modules->by_identity);
	free(modules);
}

static struct ws_module *add_module(struct ws_modules *modules, enum ws_module_kind kind,
				    const char *path)
{
	struct ws_module *new = ws_calloc(1, sizeof(*new));

	ws_grow(modules->items, modules->capacity, modules->count + 1);
	modules->items[modules->count++] = new;
	new->number = (uint32_t)modules->count;
	new->kind = kind;
	new->path = ws_strdup(path);
	return new;
}

/* ---- which file it is ---- */

/* The build id in the memory of the process, which is that of the file really mapped. "" when it
 * cannot be read. */
static void read_build_id_from_memory(int pid, uint64_t base, uint64_t offset,
				      char out[WS_BUILD_ID_TEXT])
{
	static const size_t most = 4096;
	char path[64];
	uint8_t *first;
	struct ws_elf image;
	int fd;

	out[0] = 0;
	if (pid <= 0 || offset > base)
		return;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	first = ws_calloc(1, most);
	/* The header is at the beginning of the file, which libraries map just below their code. */
	if (pread(fd, first, most, (off_t)(base - offset)) == (ssize_t)most &&
	    !ws_elf_open_memory(&image, first, most, NULL))
		ws_elf_get_build_id(&image, out);
	free(first);
	close(fd);
}

/* The build id as text; "" when the kernel did not say it. */
static void format_build_id(const struct ws_mapped_file *what, char out[WS_BUILD_ID_TEXT])
{
	out[0] = 0;
	for (size_t i = 0; what->build_id && i < what->build_id_size && i < 64; i++)
		snprintf(out + 2 * i, 3, "%02x", what->build_id[i]);
}

static bool is_stripped(const struct ws_elf *elf)
{
	Elf64_Shdr section;

	for (uint32_t i = 1; i < elf->sections && ws_elf_get_section(elf, i, &section); i++)
		if (section.sh_type == SHT_SYMTAB)
			return false;
	return true;
}

/* Open the file at `path` as the module's if it is the mapped one, by its inode or else its build
 * id. `trusted`: it certainly is, by the way it is reached. */
static bool open_matching_file(struct ws_module *module, const char *path, int pid,
			       const struct ws_mapped_file *what, bool trusted)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char have[WS_BUILD_ID_TEXT], want[WS_BUILD_ID_TEXT];
	struct ws_elf elf;
	struct stat st;
	bool same;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || ws_elf_open_fd(&elf, fd, NULL)) {
		close(fd);
		return false;
	}
	close(fd);
	ws_elf_get_build_id(&elf, have);
	format_build_id(what, want);
	same = trusted || (what->inode && what->inode == st.st_ino && !want[0]);
	if (!same) {
		if (!want[0])
			read_build_id_from_memory(pid, what->base, what->offset, want);
		same = (have[0] && !strcmp(have, want)) || (!what->inode && !want[0] && pid <= 0);
	}
	if (!same) {
		module->flags |= WS_MODULE_CHANGED;
		ws_elf_close(&elf);
		return false;
	}
	module->elf = elf;
	module->opened = true;
	module->size = (uint64_t)st.st_size;
	memcpy(module->build_id, have, sizeof(have));
	if (is_stripped(&module->elf))
		module->flags |= WS_MODULE_STRIPPED;
	return true;
}

static void open_module_file(struct ws_module *module, int pid, const struct ws_mapped_file *what)
{
	char path[PATH_MAX + 64];

	if (pid > 0) {
		snprintf(path, sizeof(path), "/proc/%d/root%s", pid, module->path);
		if (!(module->flags & WS_MODULE_DELETED) &&
		    open_matching_file(module, path, pid, what, false))
			return;
		snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", pid,
			 (unsigned long long)what->base,
			 (unsigned long long)(what->base + what->size));
		if (open_matching_file(module, path, pid, what, true)) {
			module->flags =
				(uint8_t)((module->flags & ~WS_MODULE_CHANGED) | WS_MODULE_DELETED);
			return;
		}
		snprintf(path, sizeof(path), "/proc/%d/exe", pid);
		if (open_matching_file(module, path, pid, what, false)) {
			module->flags =
				(uint8_t)((module->flags & ~WS_MODULE_CHANGED) | WS_MODULE_DELETED);
			return;
		}
	}
	/* The process may be gone already: try the path as it is here. */
	if (!(module->flags & WS_MODULE_DELETED) &&
	    open_matching_file(module, module->path, pid, what, false)) {
		module->flags &= (uint8_t)~WS_MODULE_CHANGED;
		return;
	}
	if (access(module->path, F_OK))
		module->flags |= WS_MODULE_MISSING;
}

/* ---- finding modules ---- */

static uint64_t hash_identity(enum ws_module_kind kind, const char *path, size_t length,
			      uint64_t device, uint64_t inode, int pid)
{
	uint64_t seed[4] = {kind, device, inode, (uint64_t)pid};

	return XXH3_64bits_withSeed(path, length, XXH3_64bits(seed, sizeof(seed)));
}

static struct ws_module *find_file_module(struct ws_modules *modules, int pid,
					  const struct ws_mapped_file *what)
{
	size_t length = strlen(what->path), cut = strlen(DELETED);
	bool deleted = length > cut && !strcmp(what->path + length - cut, DELETED);
	struct ws_module *new;
	uint64_t key;
	bool found;

	if (deleted)
		length -= cut;
	for (key = hash_identity(WS_MODULE_FILE, what->path, length, what->device, what->inode, 0);;
	     key++) {
		uint64_t number = ws_map_get(&modules->by_identity, key, &found);
		struct ws_module *old;

		if (!found)
			break;
		old = modules->items[number - 1];
		if (old->kind == WS_MODULE_FILE && old->inode == what->inode &&
		    old->device == what->device && strlen(old->path) == length &&
		    !memcmp(old->path, what->path, length))
			return old;
	}
	new = add_module(modules, WS_MODULE_FILE, what->path);
	new->path[length] = 0;
	new->device = what->device;
	new->inode = what->inode;
	if (deleted)
		new->flags = WS_MODULE_DELETED;
	format_build_id(what, new->build_id);
	ws_map_set(&modules->by_identity, key, new->number);
	if (modules->open < MOST_OPEN) {
		open_module_file(new, pid, what);
		modules->open += new->opened;
	}
	return new;
}

/* Bytes of our own vDSO's mapping, section headers included; 0 when it cannot be found. */
static size_t measure_own_vdso(uint64_t image)
{
	unsigned long long from, to;
	char line[512];
	size_t size = 0;
	FILE *file = fopen("/proc/self/maps", "re");

	while (file && !size && fgets(line, sizeof(line), file))
		if (sscanf(line, "%llx-%llx", &from, &to) == 2 && from == image)
			size = (size_t)(to - from);
	if (file)
		fclose(file);
	return size;
}

/* The vDSO of `size` bytes, 0 if that is not known. All 64-bit processes of a kernel have the same
 * image, which is also ours. 32-bit ones have a smaller one, which is not read. */
static struct ws_module *find_vdso_module(struct ws_modules *modules, uint64_t size)
{
	uint64_t image = getauxval(AT_SYSINFO_EHDR);
	bool ours;

	if (!modules->vdso) {
		size_t own = 0;

		if (image)
			own = measure_own_vdso(image);
		modules->vdso = add_module(modules, WS_MODULE_VDSO, "[vdso]");
		modules->vdso->opened = own && !ws_elf_open_memory(&modules->vdso->elf,
								   (const void *)image, own, NULL);
		if (modules->vdso->opened)
			ws_elf_get_build_id(&modules->vdso->elf, modules->vdso->build_id);
		modules->vdso->size = own;
	}
	ours = !size || size == modules->vdso->size;
	if (!ours && !modules->other_vdso)
		modules->other_vdso = add_module(modules, WS_MODULE_VDSO, "[vdso32]");
	return ours ? modules->vdso : modules->other_vdso;
}

struct ws_module *ws_modules_get_kernel(struct ws_modules *modules)
{
	if (!modules->kernel)
		modules->kernel = add_module(modules, WS_MODULE_KERNEL, "[kernel.kallsyms]");
	return modules->kernel;
}

/* The pid that the process itself sees, which is the last of NSpid; `pid` when that is not known.
 */
static int read_own_pid(int pid)
{
	char path[64], line[256];
	int own = pid;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "NSpid:", 6)) {
			char *tab = strrchr(line, '\t');

			if (tab && atoi(tab + 1) > 0)
				own = atoi(tab + 1);
			break;
		}
	if (file)
		fclose(file);
	return own;
}

/* The code that `pid` generates. Each process has its own module, since its addresses mean nothing
 * in another. */
static struct ws_module *find_jit_module(struct ws_modules *modules, int pid)
{
	uint64_t key = hash_identity(WS_MODULE_JIT, "", 0, 0, 0, pid);
	struct ws_module *new;
	char name[64];
	bool found;

	for (;; key++) {
		uint64_t number = ws_map_get(&modules->by_identity, key, &found);

		if (!found)
			break;
		if (modules->items[number - 1]->kind == WS_MODULE_JIT &&
		    modules->items[number - 1]->key == pid)
			return modules->items[number - 1];
	}
	snprintf(name, sizeof(name), "/tmp/perf-%d.map", read_own_pid(pid));
	new = add_module(modules, WS_MODULE_JIT, name);
	new->pid = read_own_pid(pid);
	new->key = pid;
	ws_map_set(&modules->by_identity, key, new->number);
	return new;
}

static void open_recorded_file(struct ws_module *module)
{
	char have[WS_BUILD_ID_TEXT];
	struct ws_elf elf;
	bool same;

	if (ws_elf_open(&elf, module->path, NULL)) {
		module->flags |= WS_MODULE_MISSING;
		return;
	}
	ws_elf_get_build_id(&elf, have);
	if (module->build_id[0])
		same = !strcmp(have, module->build_id);
	else
		same = !have[0] && elf.size == module->size;
	if (!same) {
		module->flags |= WS_MODULE_CHANGED;
		ws_elf_close(&elf);
		return;
	}
	module->elf = elf;
	module->opened = true;
}

struct ws_module *ws_modules_add_recorded(struct ws_modules *modules, enum ws_module_kind kind,
					  const char *path, const char *build_id, uint64_t size,
					  bool same_boot)
{
	struct ws_module *new, *ours;
	unsigned pid;

	new = add_module(modules, kind, path);
	new->size = size;
	snprintf(new->build_id, sizeof(new->build_id), "%s", build_id);
	if (kind == WS_MODULE_FILE) {
		open_recorded_file(new);
	} else if (kind == WS_MODULE_VDSO && same_boot) {
		ours = find_vdso_module(modules, 0);
		if (ours->opened && build_id[0] && !strcmp(ours->build_id, build_id))
			new->opened = !ws_elf_open_memory(&new->elf, ours->elf.data, ours->elf.size,
							  NULL);
	} else if (kind == WS_MODULE_JIT && sscanf(path, "/tmp/perf-%u.map", &pid) == 1 &&
		   pid <= INT_MAX) {
		new->pid = (int)pid;
	}
	return new;
}

static bool is_jitdump(const char *path)
{
	const char *name = strrchr(path, '/');
	size_t length;

	if (!name)
		return false;
	length = strlen(name);
	return length > 10 && !strncmp(name, "/jit-", 5) && !strcmp(name + length - 5, ".dump");
}

struct ws_module *ws_modules_find_mapped(struct ws_modules *modules, int pid,
					 const struct ws_mapped_file *what)
{
	if (!strcmp(what->path, "[vdso]"))
		return find_vdso_module(modules, what->size);
	/* Generators map their jitdump as executable to show profilers where it is. */
	if (is_jitdump(what->path)) {
		struct ws_module *jit = find_jit_module(modules, pid);

		if (!jit->dump)
			jit->dump = ws_strdup(what->path);
		return jit;
	}
	/* Generated code is in memory of no file, or of files that exist only to be mapped: memfd,
	 * shared memory, /dev/zero. */
	if (what->path[0] != '/' || what->path[1] == '/' || !strncmp(what->path, "/memfd:", 7) ||
	    !strncmp(what->path, "/dev/", 5) || !strncmp(what->path, "/SYSV", 5) ||
	    !strncmp(what->path, "/anon_hugepage", 14))
		return find_jit_module(modules, pid);
	return find_file_module(modules, pid, what);
}

uint64_t ws_module_get_address(const struct ws_module *module, uint64_t offset)
{
	uint64_t address;

	if (!module->opened || !ws_elf_find_address(&module->elf, offset, &address))
		return offset;
	return address;
}
