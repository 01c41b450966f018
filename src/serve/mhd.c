/* mhd.c - see mhd.h. The library stays open to the end. */
#include "serve/mhd.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/compiler.h"

struct ws_mhd ws_mhd;

/* It has had this interface since 2014. */
#define SONAME "libmicrohttpd.so.12"

static int find_all(void *library, struct ws_err *err)
{
	const struct {
		const char *name;
		void *to;
	} functions[] = {
		{"MHD_start_daemon", &ws_mhd.start_daemon},
		{"MHD_stop_daemon", &ws_mhd.stop_daemon},
		{"MHD_add_connection", &ws_mhd.add_connection},
		{"MHD_create_response_from_buffer", &ws_mhd.create_response_from_buffer},
		{"MHD_add_response_header", &ws_mhd.add_response_header},
		{"MHD_queue_response", &ws_mhd.queue_response},
		{"MHD_destroy_response", &ws_mhd.destroy_response},
		{"MHD_lookup_connection_value", &ws_mhd.lookup_connection_value},
		{"MHD_get_connection_values", &ws_mhd.get_connection_values},
		{"MHD_get_connection_info", &ws_mhd.get_connection_info},
	};

	for (size_t i = 0; i < WS_COUNT(functions); i++) {
		*(void **)functions[i].to = dlsym(library, functions[i].name);
		if (!*(void **)functions[i].to)
			return ws_fail(err,
				       "libmicrohttpd, which 'view' needs, lacks %s: install "
				       "another version of it",
				       functions[i].name);
	}
	return 0;
}

int ws_mhd_open(struct ws_err *err)
{
	void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return ws_fail(err,
			       "'view' needs the library libmicrohttpd, which is not there "
			       "(Debian's package libmicrohttpd12): %s",
			       dlerror());
	return find_all(library, err);
}
