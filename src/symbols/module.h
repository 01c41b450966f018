/*
 * module.h - the files and other places that code comes from, each kept once however many processes
 * map it.
 *
 * A module is a file as it was when it was mapped: path, device and inode. It is opened when it is
 * first seen, so that a file that is deleted later can still be read, and only if it certainly is
 * the mapped file: it has the same inode, or the build id that the process has in its memory. A
 * file that was replaced is reached through /proc/PID/map_files where that is allowed; else the
 * module has no file and is marked, since a wrong name is worse than none.
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
	bool opened;	       /* `elf` is usable */
	bool has_fp, fp_known; /* its functions keep frame pointers; whether that is known yet */
	char *path;	       /* as the process saw it */
	char build_id[WS_BUILD_ID_TEXT];
	uint64_t size;		/* of the file, bytes; 0: not known */
	uint64_t device, inode; /* 0: not known */
	int pid; /* of WS_MODULE_JIT: whose code it is, by the number that the process itself sees,
		    which is in the name of its perf map */
	int key; /* the same process as seen from here */
	char *dump; /* of WS_MODULE_JIT: its jitdump file, where one was mapped; else NULL */
	struct ws_elf elf;
	struct ws_cfi *cfi; /* made when first needed; see cfi.h */
	bool cfi_tried;
	/* A file of split debugging information that was missing when symbols were looked up, and
	 * how many were; NULL and 0 for none. */
	char *split_file;
	uint64_t split_units;
	/* Most of the places looked up in it lie in code compiled without optimisation. */
	bool unoptimised;
	/* What ended the reading of its debugging information early ("found no memory"); NULL:
	 * nothing. */
	char *unread;
};

/* What the kernel says about a mapping. */
struct ws_mapped_file {
	uint64_t base, size, offset; /* offset in the file of `base` */
	/* "//anon", "[vdso]", "[stack]", or that of a file, with or without " (deleted)". */
	const char *path;
	uint64_t device;	 /* ws_make_device(major, minor); 0: not known */
	uint64_t inode;		 /* 0: not known */
	const uint8_t *build_id; /* in bytes; NULL when the kernel did not say it */
	size_t build_id_size;
};

static inline uint64_t ws_make_device(uint32_t major, uint32_t minor)
{
	return (uint64_t)major << 32 | minor;
}

struct ws_modules;

struct ws_modules *ws_modules_new(void);
void ws_modules_free(struct ws_modules *modules);

/* The module that process `pid` has mapped; the pid is as seen from here, 0 for a process that
 * cannot be asked. Never NULL. The registry owns it, as all modules. */
struct ws_module *ws_modules_find_mapped(struct ws_modules *modules, int pid,
					 const struct ws_mapped_file *what);
/* The kernel, [kernel.kallsyms], whose addresses are kept unchanged. */
struct ws_module *ws_modules_get_kernel(struct ws_modules *modules);
/*
 * A module of a report, always a new one. A file is opened if the one at `path` is the recorded one
 * by its build id, or by its size if it has none. The vDSO is opened if it has the build id of ours
 * and, as all that is not a file, only with `same_boot`.
 */
struct ws_module *ws_modules_add_recorded(struct ws_modules *modules, enum ws_module_kind kind,
					  const char *path, const char *build_id, uint64_t size,
					  bool same_boot);

/* The ELF address in the module of the byte at file offset `offset`; the offset itself where the
 * file is not known. */
uint64_t ws_module_get_address(const struct ws_module *module, uint64_t offset);

#endif
