/*
 * kernel_cubin.c - keeps the code of each module that is loaded in a file of the recorder's folder,
 * named by its checksum, by which CUPTI's samples refer to it. CUPTI shows the code during the
 * callback only, so this happens before it is known which functions will be measured.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "inject/bind.h"
#include "inject/kernel_source.h"

enum { CRCS_MOST = 1 << 14 };
#define BYTES_MOST (UINT64_C(1) << 30)

static uint64_t crcs[CRCS_MOST], kept_bytes;
static _Atomic uint32_t crc_count;
static _Atomic uint32_t cubin_lock;

static bool is_known(uint64_t crc)
{
	for (uint32_t i = 0; i < crc_count; i++)
		if (crcs[i] == crc)
			return true;
	return false;
}

uint64_t ws_kernel_find_crc(uint32_t lower)
{
	for (uint32_t i = 0; i < crc_count; i++)
		if ((uint32_t)crcs[i] == lower)
			return crcs[i];
	return lower;
}

static bool find_crc(const struct cupti_module *module, uint64_t *crc)
{
	static int (*get)(struct cupti_cubin_crc *);
	struct cupti_cubin_crc params = {.size = CUPTI_SIZE(cupti_cubin_crc, crc),
					 .bytes = module->bytes,
					 .cubin = module->cubin};
	void *function;

	if (!get) {
		function = ws_find_symbol_in(ws_cupti.lib, "cuptiGetCubinCrc");
		memcpy(&get, &function, sizeof(function));
	}
	if (!get || get(&params))
		return false;
	*crc = params.crc;
	return true;
}

static bool write_all(int fd, const char *bytes, size_t count)
{
	while (count) {
		long n = ws_raw_syscall(SYS_write, fd, (long)bytes, (long)count, 0, 0, 0);

		if (n <= 0 && n != -EINTR)
			return false;
		if (n > 0) {
			bytes += n;
			count -= (size_t)n;
		}
	}
	return true;
}

/* Under its name only when it is whole: another process may write the same code. */
static void write_cubin(const struct cupti_module *module, uint64_t crc)
{
	char path[PATH_MAX], part[PATH_MAX + 32];
	int fd;
	bool ok;

	snprintf(path, sizeof(path), "%s/%016llx.cubin", ws_kernel_settings.code_folder,
		 (unsigned long long)crc);
	snprintf(part, sizeof(part), "%s.%ld", path, ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0));
	fd = (int)ws_raw_syscall(SYS_openat, AT_FDCWD, (long)part, O_WRONLY | O_CREAT | O_CLOEXEC,
				 0600, 0, 0);
	if (fd < 0)
		return;
	ok = write_all(fd, module->cubin, module->bytes);
	ws_raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	if (ok)
		ws_raw_syscall(SYS_renameat2, AT_FDCWD, (long)part, AT_FDCWD, (long)path, 0, 0);
	else
		ws_raw_syscall(SYS_unlinkat, AT_FDCWD, (long)part, 0, 0, 0, 0);
}

void ws_kernel_keep_cubin(const struct cupti_module *module)
{
	uint64_t crc;

	if (!*ws_kernel_settings.code_folder || !module->cubin || !module->bytes ||
	    !find_crc(module, &crc))
		return;
	ws_kernel_lock(&cubin_lock);
	if (!is_known(crc) && crc_count < CRCS_MOST && kept_bytes + module->bytes <= BYTES_MOST) {
		crcs[crc_count] = crc;
		atomic_fetch_add(&crc_count, 1);
		kept_bytes += module->bytes;
		write_cubin(module, crc);
	}
	ws_kernel_unlock(&cubin_lock);
}
