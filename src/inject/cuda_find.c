/*
 * cuda_find.c - finds a libcupti that fits the driver and opens it.
 *
 * A libcupti that the program has already mapped is preferred, because a second copy in one process
 * receives nothing. Next come the folders where toolkits and Python wheels keep theirs: those near
 * this program's own CUDA libraries, then the system's. The driver refuses a libcupti whose major
 * version is newer than its own, so such a version is not tried.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/bind.h"
#include "base/choose.h"
#include "inject/cuda.h"
#include "schema/schema.h"

enum { OLDEST = 12, NEWEST = 19, PATH_ROOM = 512 };

static void *(*open_lib)(const char *, int);
static int (*close_lib)(void *);

struct search {
	void *lib;
	uint32_t driver_major; /* 0: not known */
	uint32_t version;
	char path[PATH_ROOM];
	bool found_newer;  /* found one that is too new for the driver */
	bool found_older;  /* found one that is older than what we can read */
	bool unfit_mapped; /* and the program uses it */
};

static uint32_t read_major_version(uint32_t version)
{
	return version >= CUPTI_13_0 ? version / 10000 : version >= CUPTI_12_0 ? 12 : 11;
}

static uint32_t driver_version(void)
{
	void *cuda = open_lib("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	int (*get)(int *) = cuda ? ws_cuda_find_symbol(cuda, "cuDriverGetVersion") : NULL;
	int v = 0;

	if (get)
		get(&v);
	if (cuda)
		close_lib(cuda);
	return (uint32_t)v;
}

/* Take `lib` if its version suits; otherwise close it. */
static bool try_library(struct search *search, void *lib, const char *path)
{
	int (*get)(uint32_t *) = lib ? ws_cuda_find_symbol(lib, "cuptiGetVersion") : NULL;
	uint32_t v = 0;

	if (!lib)
		return false;
	if (!get || get(&v) || v < CUPTI_12_0 ||
	    (search->driver_major && read_major_version(v) > search->driver_major)) {
		search->found_newer |=
			search->driver_major && read_major_version(v) > search->driver_major;
		search->found_older |= v && v < CUPTI_12_0;
		close_lib(lib);
		return false;
	}
	search->lib = lib;
	search->version = v;
	strncpy(search->path, path, sizeof(search->path) - 1);
	return true;
}

static bool try_library_file(struct search *search, const char *path)
{
	if (ws_raw_syscall(SYS_faccessat, AT_FDCWD, (long)path, R_OK, 0, 0, 0))
		return false;
	return try_library(search, open_lib(path, RTLD_NOW | RTLD_LOCAL), path);
}

/* libcupti.so.13, .12 in folder/sub, the driver's major version first. */
static bool try_library_folder(struct search *search, const char *folder, size_t len,
			       const char *sub)
{
	char path[PATH_ROOM];
	size_t sub_len = strlen(sub);
	uint32_t most = search->driver_major ? search->driver_major : NEWEST;

	if (!len || len + sub_len + 24 > sizeof(path))
		return false;
	for (uint32_t major = ws_min(most, NEWEST); major >= OLDEST; major--) {
		memcpy(path, folder, len);
		memcpy(path + len, sub, sub_len);
		strcpy(path + len + sub_len, "/libcupti.so.XX");
		path[len + sub_len + 13] = (char)('0' + major / 10);
		path[len + sub_len + 14] = (char)('0' + major % 10);
		if (try_library_file(search, path))
			return true;
	}
	return false;
}

#if defined(__x86_64__)
#define TARGET "/targets/x86_64-linux/lib"
#else
#define TARGET "/targets/sbsa-linux/lib"
#endif
static const char *const toolkit_folders[] = {"/extras/CUPTI/lib64", "/lib64", TARGET, "/lib"};

static bool try_toolkit_folders(struct search *search, const char *root)
{
	for (size_t i = 0; root && i < WS_COUNT(toolkit_folders); i++)
		if (try_library_folder(search, root, strlen(root), toolkit_folders[i]))
			return true;
	return false;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int find_mapped_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;
	void *lib;

	(void)size;
	if (!info->dlpi_name || strncmp(base_name(info->dlpi_name), "libcupti.so", 11))
		return 0;
	lib = open_lib(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
	if (try_library(search, lib, info->dlpi_name))
		return 1;
	search->unfit_mapped |= lib != NULL;
	return 0;
}

/* Wheels: .../site-packages/nvidia/cuda_runtime/lib/libcudart.so.12, .../nvidia/cu13/lib/...,
 * .../torch/lib/libtorch_cuda.so */
static int find_library_beside(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char *const libs[] = {"libcudart", "libtorch", "libcublas", "libcudnn",
					   "libnvrtc",	"libjax",   "xla_cuda",	 "libtensorflow"};
	static const char *const up[] = {"",
					 "/../../cuda_cupti/lib",
					 "/../../nvidia/cu13/lib",
					 "/../../nvidia/cuda_cupti/lib",
					 "/../nvidia/cu13/lib",
					 "/../nvidia/cuda_cupti/lib"};
	struct search *search = arg;
	const char *base;

	(void)size;
	if (!info->dlpi_name || !*info->dlpi_name)
		return 0;
	base = base_name(info->dlpi_name);
	for (size_t i = 0; i < WS_COUNT(libs); i++)
		if (!strncmp(base, libs[i], strlen(libs[i])))
			for (size_t u = 0; u < WS_COUNT(up); u++)
				if (try_library_folder(search, info->dlpi_name,
						       (size_t)(base - info->dlpi_name - 1), up[u]))
					return 1;
	return 0;
}

static bool find_system_library(struct search *search)
{
	char root[] = "/usr/local/cuda-13.0", name[] = "libcupti.so.13";

	if (try_toolkit_folders(search, "/usr/local/cuda") ||
	    try_toolkit_folders(search, "/opt/cuda"))
		return true;
	for (int major = 13; major >= OLDEST; major--)
		for (char minor = '9'; minor >= '0'; minor--) {
			root[16] = (char)('0' + major % 10);
			root[18] = minor;
			if (try_toolkit_folders(search, root))
				return true;
		}
	for (uint32_t major = search->driver_major ? search->driver_major : 13; major >= OLDEST;
	     major--) {
		name[13] = (char)('0' + major % 10);
		if (try_library(search, open_lib(name, RTLD_NOW | RTLD_LOCAL), name))
			return true;
	}
	return false;
}

static bool find_cupti(struct search *search_s)
{
	const char *home = getenv("CUDA_HOME"), *path = getenv("CUDA_PATH");

	if (dl_iterate_phdr(find_mapped_library, search_s))
		return true;
	/* With two versions in one process, the program's profiler would use one of them to read
	 * records made by the other. */
	if (search_s->unfit_mapped)
		return false;
	return try_toolkit_folders(search_s, home) || try_toolkit_folders(search_s, path) ||
	       dl_iterate_phdr(find_library_beside, search_s) || find_system_library(search_s);
}

static bool bind_functions(struct search *search)
{
	static const struct {
		const char *name;
		size_t offset;
		bool needed;
	} functions[] = {
#define X(needed, name, args) {"cupti" #name, offsetof(struct ws_cupti, name), needed},
		WS_CUPTI_FUNCTIONS(X)
#undef X
	};

	for (size_t i = 0; i < WS_COUNT(functions); i++) {
		void *f = ws_cuda_find_symbol(search->lib, functions[i].name);

		if (!f && functions[i].needed) {
			ws_cuda_report(WS_ERROR, "CUDA is not recorded: the CUPTI library ",
				       search->path, " lacks functions.");
			return false;
		}
		memcpy((char *)&ws_cupti + functions[i].offset, &f, sizeof(f));
	}
	return true;
}

static bool bind_loader(void)
{
	open_lib = ws_find_symbol("dlopen");
	close_lib = ws_find_symbol("dlclose");
	return open_lib && close_lib;
}

static int take_mapped_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	void **lib = arg;

	(void)size;
	if (info->dlpi_name && !strncmp(base_name(info->dlpi_name), "libcupti.so", 11))
		*lib = open_lib(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
	return *lib != NULL;
}

void *ws_cuda_find_real(const char *name)
{
	void *lib = ws_cupti.lib;

	if (!bind_loader())
		return NULL;
	if (!lib)
		dl_iterate_phdr(take_mapped_library, &lib);
	return lib ? ws_cuda_find_symbol(lib, name) : NULL;
}

bool ws_cuda_find_cupti(void)
{
	struct search search_s = {0};

	if (!bind_loader())
		return false;
	ws_cupti.driver = driver_version();
	search_s.driver_major = ws_cupti.driver / 1000;
	if (!find_cupti(&search_s)) {
		ws_cuda_report(
			WS_WARNING,
			search_s.found_older && !search_s.found_newer
				? "CUDA is not recorded: the CUPTI library found is older than "
				  "that of CUDA 12. Install one of "
				  "CUDA 12 or later that fits "
				  "the driver; a program that brings its own (PyTorch) must be "
				  "of CUDA 12 or later itself."
			: search_s.found_newer
				? "CUDA is not recorded: the CUPTI library found is newer than "
				  "the driver. Install one "
				  "that fits the driver, or a "
				  "newer driver; CUDA_HOME says which toolkit to take it from."
				: "CUDA is not recorded: there is no CUPTI library "
				  "(libcupti.so). Install the CUDA "
				  "toolkit's CUPTI or the Python package "
				  "nvidia-cuda-cupti, or set CUDA_HOME to a toolkit.",
			"", "");
		return false;
	}
	if (!bind_functions(&search_s))
		return false;
	ws_cupti.lib = search_s.lib;
	ws_cupti.version = search_s.version;
	strcpy(ws_cupti.path, search_s.path);
	return true;
}
