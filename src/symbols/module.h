/*
 * module.h - the files and other places that code comes from, each known once however many
 * processes map it.
 *
 * A module is a file as it was when it was mapped: path, device and inode. It is opened when it is
 * first seen, so that what is deleted later can still be read, and only when it is the mapped file
 * for certain: the same inode, or the build id that the process has in its memory. A file that was
 * replaced is reached through /proc/PID/map_files where that is allowed; else the module stays
 * without a file and is marked, for a wrong name is worse than none.
 */
#ifndef WS_SYMBOLS_MODULE_H
#define WS_SYMBOLS_MODULE_H

#include "schema/schema.h"
#include "symbols/elf.h"

struct ws_cfi;

struct ws_module {
	uint32_t number; /* from 1, among the modules of its registry */
	enum ws_module_kind kind;
	uint8_t flags;	       /* enum ws_module_flags */
	bool opened;	       /* elf is usable */
	bool has_fp, fp_known; /* its functions keep frame pointers; known once it was looked at */
	char *path;	       /* as the process saw it */
	char build_id[WS_BUILD_ID_TEXT];
	uint64_t size;		/* of the file, bytes; 0: not known */
	uint64_t device, inode; /* 0: not known */
	int pid; /* of WS_MODULE_JIT: whose code it is; the number that the process itself sees, by
		    which its perf map is named */
	int key; /* the same as seen from here */
	char *dump; /* of WS_MODULE_JIT: its jitdump file, where one was mapped; else NULL */
	struct ws_elf elf;
	struct ws_cfi *cfi; /* made when first needed; see cfi.h */
	bool cfi_tried;
	char *split_file; /* when symbols were looked up, a file of split debugging information that
			     was not there, */
	uint64_t split_units; /* and how many are missing; NULL and 0 for none */
};

/* What the kernel says of a mapping. */
struct ws_mapped {
	uint64_t base, size, offset; /* offset in the file of `base` */
	const char *
		path; /* "//anon", "[vdso]", "[stack]", or a file's, with or without " (deleted)" */
	uint64_t device;	 /* ws_device(major, minor); 0: not known */
	uint64_t inode;		 /* 0: not known */
	const uint8_t *build_id; /* in bytes, when the kernel told it, else NULL */
	size_t build_id_size;
};

static inline uint64_t ws_device(uint32_t major, uint32_t minor)
{
	return (uint64_t)major << 32 | minor;
}

struct ws_modules;

struct ws_modules *ws_modules_new(void);
void ws_modules_free(struct ws_modules *modules);

/* The module that process `pid` (as seen from here; 0: not a process that can be asked) has mapped
 * so. NULL for what can hold no code of a name: never. */
struct ws_module *ws_modules_mapped(struct ws_modules *modules, int pid,
				    const struct ws_mapped *what);
/* The kernel, [kernel.kallsyms]: its addresses are kept as they are. */
struct ws_module *ws_modules_kernel(struct ws_modules *modules);
/*
 * A module of a report. A file is opened when the one at `path` is the recorded one by its build
 * id, or by its size where it has none; the vDSO when its build id is that of ours and, as all that
 * is not a file, only with `same_boot`. Always a new one.
 */
struct ws_module *ws_modules_recorded(struct ws_modules *modules, enum ws_module_kind kind,
				      const char *path, const char *build_id, uint64_t size,
				      bool same_boot);

/* The address in the module's own counting (ELF) of the byte at file offset `offset`; the offset
 * itself where the file is not known. */
uint64_t ws_module_address(const struct ws_module *module, uint64_t offset);

#endif
