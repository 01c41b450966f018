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

#define MOST_OPEN 7000 /* files: more are known but not looked into (each keeps a mapping) */
#define DELETED " (deleted)"

struct ws_modules {
	struct ws_module **v;
	size_t n, cap, open;
	struct ws_map by_identity; /* hash of kind, path, device, inode, pid -> number; collisions
				      are told apart by the fields */
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
	for (size_t i = 0; i < modules->n; i++) {
		ws_cfi_free(modules->v[i]->cfi);
		ws_elf_close(&modules->v[i]->elf);
		free(modules->v[i]->path);
		free(modules->v[i]->dump);
		free(modules->v[i]->split_file);
		free(modules->v[i]);
	}
	free(modules->v);
	ws_map_free(&modules->by_identity);
	free(modules);
}

static struct ws_module *add(struct ws_modules *modules, enum ws_module_kind kind, const char *path)
{
	struct ws_module *new = ws_calloc(1, sizeof(*new));

	ws_grow(modules->v, modules->cap, modules->n + 1);
	modules->v[modules->n++] = new;
	new->number = (uint32_t)modules->n;
	new->kind = kind;
	new->path = ws_strdup(path);
	return new;
}

/* ---- which file it is ---- */

/* The build id in the memory of the process: of the file that is really mapped. "" when it cannot
 * be read. */
static void build_id_in_memory(int pid, uint64_t base, uint64_t offset, char out[WS_BUILD_ID_TEXT])
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
	/* The header lies at the beginning of the file, which libraries map just below their code.
	 */
	if (pread(fd, first, most, (off_t)(base - offset)) == (ssize_t)most &&
	    !ws_elf_memory(&image, first, most, NULL))
		ws_elf_build_id(&image, out);
	free(first);
	close(fd);
}

static void told_build_id(const struct ws_mapped *what, char out[WS_BUILD_ID_TEXT])
{
	out[0] = 0;
	for (size_t i = 0; what->build_id && i < what->build_id_size && i < 64; i++)
		snprintf(out + 2 * i, 3, "%02x", what->build_id[i]);
}

static bool is_stripped(const struct ws_elf *elf)
{
	Elf64_Shdr section;

	for (uint32_t i = 1; i < elf->sections && ws_elf_section(elf, i, &section); i++)
		if (section.sh_type == SHT_SYMTAB)
			return false;
	return true;
}

/* Open the file at `path` into the module when it is the mapped one: by inode, else by build id.
 * `trusted`: it is by the way it is reached. */
static bool take_file(struct ws_module *module, const char *path, int pid,
		      const struct ws_mapped *what, bool trusted)
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
	ws_elf_build_id(&elf, have);
	told_build_id(what, want);
	same = trusted || (what->inode && what->inode == st.st_ino && !want[0]);
	if (!same) {
		if (!want[0])
			build_id_in_memory(pid, what->base, what->offset, want);
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

static void open_file(struct ws_module *module, int pid, const struct ws_mapped *what)
{
	char path[PATH_MAX + 64];

	if (pid > 0) {
		snprintf(path, sizeof(path), "/proc/%d/root%s", pid, module->path);
		if (!(module->flags & WS_MODULE_DELETED) &&
		    take_file(module, path, pid, what, false))
			return;
		snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", pid,
			 (unsigned long long)what->base,
			 (unsigned long long)(what->base + what->size));
		if (take_file(module, path, pid, what, true)) {
			module->flags =
				(uint8_t)((module->flags & ~WS_MODULE_CHANGED) | WS_MODULE_DELETED);
			return;
		}
		snprintf(path, sizeof(path), "/proc/%d/exe", pid);
		if (take_file(module, path, pid, what, false)) {
			module->flags =
				(uint8_t)((module->flags & ~WS_MODULE_CHANGED) | WS_MODULE_DELETED);
			return;
		}
	}
	/* The process may be gone already: its path as we see it. */
	if (!(module->flags & WS_MODULE_DELETED) &&
	    take_file(module, module->path, pid, what, false)) {
		module->flags &= (uint8_t)~WS_MODULE_CHANGED;
		return;
	}
	if (access(module->path, F_OK))
		module->flags |= WS_MODULE_MISSING;
}

/* ---- finding modules ---- */

static uint64_t identity(enum ws_module_kind kind, const char *path, size_t len, uint64_t device,
			 uint64_t inode, int pid)
{
	uint64_t seed[4] = {kind, device, inode, (uint64_t)pid};

	return XXH3_64bits_withSeed(path, len, XXH3_64bits(seed, sizeof(seed)));
}

static struct ws_module *file_module(struct ws_modules *modules, int pid,
				     const struct ws_mapped *what)
{
	size_t len = strlen(what->path), cut = strlen(DELETED);
	bool deleted = len > cut && !strcmp(what->path + len - cut, DELETED);
	struct ws_module *new;
	uint64_t key;
	bool found;

	len -= deleted ? cut : 0;
	for (key = identity(WS_MODULE_FILE, what->path, len, what->device, what->inode, 0);;
	     key++) {
		uint64_t number = ws_map_get(&modules->by_identity, key, &found);
		struct ws_module *old = found ? modules->v[number - 1] : NULL;

		if (!found)
			break;
		if (old->kind == WS_MODULE_FILE && old->inode == what->inode &&
		    old->device == what->device && strlen(old->path) == len &&
		    !memcmp(old->path, what->path, len))
			return old;
	}
	new = add(modules, WS_MODULE_FILE, what->path);
	new->path[len] = 0;
	new->device = what->device;
	new->inode = what->inode;
	new->flags = deleted ? WS_MODULE_DELETED : 0;
	told_build_id(what, new->build_id);
	ws_map_set(&modules->by_identity, key, new->number);
	if (modules->open < MOST_OPEN) {
		open_file(new, pid, what);
		modules->open += new->opened;
	}
	return new;
}

/* Bytes of our own vDSO's mapping, section headers included; 0 when it is not to be found. */
static size_t own_vdso_size(uint64_t image)
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

/* One image serves all 64-bit processes of a kernel: ours is theirs. A 32-bit one has another,
 * which is smaller, and is left unread. */
static struct ws_module *vdso_module(struct ws_modules *modules, uint64_t size)
{
	uint64_t image = getauxval(AT_SYSINFO_EHDR);
	bool ours;

	if (!modules->vdso) {
		size_t own = image ? own_vdso_size(image) : 0;

		modules->vdso = add(modules, WS_MODULE_VDSO, "[vdso]");
		modules->vdso->opened =
			own && !ws_elf_memory(&modules->vdso->elf, (const void *)image, own, NULL);
		if (modules->vdso->opened)
			ws_elf_build_id(&modules->vdso->elf, modules->vdso->build_id);
		modules->vdso->size = own;
	}
	ours = !size || size == modules->vdso->size;
	if (!ours && !modules->other_vdso)
		modules->other_vdso = add(modules, WS_MODULE_VDSO, "[vdso32]");
	return ours ? modules->vdso : modules->other_vdso;
}

struct ws_module *ws_modules_kernel(struct ws_modules *modules)
{
	if (!modules->kernel)
		modules->kernel = add(modules, WS_MODULE_KERNEL, "[kernel.kallsyms]");
	return modules->kernel;
}

/* The pid that the process sees itself: the last of NSpid. Ours when that cannot be told. */
static int own_pid(int pid)
{
	char path[64], line[256];
	int own = pid;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "NSpid:", 6)) {
			char *tab = strrchr(line, '\t');

			own = tab && atoi(tab + 1) > 0 ? atoi(tab + 1) : pid;
			break;
		}
	if (file)
		fclose(file);
	return own;
}

/* Code that `pid` generates. One for each process: its addresses mean nothing in another. */
static struct ws_module *jit_module(struct ws_modules *modules, int pid)
{
	uint64_t key = identity(WS_MODULE_JIT, "", 0, 0, 0, pid);
	struct ws_module *new;
	char name[64];
	bool found;

	for (;; key++) {
		uint64_t number = ws_map_get(&modules->by_identity, key, &found);

		if (!found)
			break;
		if (modules->v[number - 1]->kind == WS_MODULE_JIT &&
		    modules->v[number - 1]->key == pid)
			return modules->v[number - 1];
	}
	snprintf(name, sizeof(name), "/tmp/perf-%d.map", own_pid(pid));
	new = add(modules, WS_MODULE_JIT, name);
	new->pid = own_pid(pid);
	new->key = pid;
	ws_map_set(&modules->by_identity, key, new->number);
	return new;
}

static void open_recorded(struct ws_module *module)
{
	char have[WS_BUILD_ID_TEXT];
	struct ws_elf elf;

	if (ws_elf_open(&elf, module->path, NULL)) {
		module->flags |= WS_MODULE_MISSING;
		return;
	}
	ws_elf_build_id(&elf, have);
	if (module->build_id[0] ? strcmp(have, module->build_id) != 0
				: have[0] || elf.size != module->size) {
		module->flags |= WS_MODULE_CHANGED;
		ws_elf_close(&elf);
		return;
	}
	module->elf = elf;
	module->opened = true;
}

struct ws_module *ws_modules_recorded(struct ws_modules *modules, enum ws_module_kind kind,
				      const char *path, const char *build_id, uint64_t size,
				      bool same_boot)
{
	struct ws_module *new, *ours;
	unsigned pid;

	new = add(modules, kind, path);
	new->size = size;
	snprintf(new->build_id, sizeof(new->build_id), "%s", build_id);
	if (kind == WS_MODULE_FILE) {
		open_recorded(new);
	} else if (kind == WS_MODULE_VDSO && same_boot) {
		ours = vdso_module(modules, 0);
		if (ours->opened && build_id[0] && !strcmp(ours->build_id, build_id))
			new->opened =
				!ws_elf_memory(&new->elf, ours->elf.data, ours->elf.size, NULL);
	} else if (kind == WS_MODULE_JIT && sscanf(path, "/tmp/perf-%u.map", &pid) == 1 &&
		   pid <= INT_MAX) {
		new->pid = (int)pid;
	}
	return new;
}

static bool is_dump(const char *path)
{
	const char *name = strrchr(path, '/');
	size_t n = name ? strlen(name) : 0;

	return n > 10 && !strncmp(name, "/jit-", 5) && !strcmp(name + n - 5, ".dump");
}

struct ws_module *ws_modules_mapped(struct ws_modules *modules, int pid,
				    const struct ws_mapped *what)
{
	if (!strcmp(what->path, "[vdso]"))
		return vdso_module(modules, what->size);
	if (is_dump(what->path)) { /* generators map their jitdump executable to show it to
				      profilers */
		struct ws_module *jit = jit_module(modules, pid);

		if (!jit->dump)
			jit->dump = ws_strdup(what->path);
		return jit;
	}
	/* Generated code lies in memory of no file, or of files that exist to be mapped: memfd,
	 * shared memory, /dev/zero. */
	if (what->path[0] != '/' || what->path[1] == '/' || !strncmp(what->path, "/memfd:", 7) ||
	    !strncmp(what->path, "/dev/", 5) || !strncmp(what->path, "/SYSV", 5) ||
	    !strncmp(what->path, "/anon_hugepage", 14))
		return jit_module(modules, pid);
	return file_module(modules, pid, what);
}

uint64_t ws_module_address(const struct ws_module *module, uint64_t offset)
{
	uint64_t address;

	return module->opened && ws_elf_address(&module->elf, offset, &address) ? address : offset;
}
