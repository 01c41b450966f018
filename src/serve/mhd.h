/*
 * mhd.h - libmicrohttpd, opened by the one command that needs it: linked, it and the libraries for
 * encryption behind it (of which nothing is used) would be loaded and set up by every command, a
 * millisecond each time.
 */
#ifndef WS_SERVE_MHD_H
#define WS_SERVE_MHD_H

#include <microhttpd.h>

#include "base/err.h"

#if MHD_VERSION < 0x00097002
typedef int ws_mhd_result;
#else
typedef enum MHD_Result ws_mhd_result;
#endif

/* Functions as the library has them. */
struct ws_mhd {
	__typeof__(&MHD_start_daemon) start_daemon;
	__typeof__(&MHD_stop_daemon) stop_daemon;
	__typeof__(&MHD_add_connection) add_connection;
	__typeof__(&MHD_create_response_from_buffer) create_response_from_buffer;
	__typeof__(&MHD_add_response_header) add_response_header;
	__typeof__(&MHD_queue_response) queue_response;
	__typeof__(&MHD_destroy_response) destroy_response;
	__typeof__(&MHD_lookup_connection_value) lookup_connection_value;
	__typeof__(&MHD_get_connection_values) get_connection_values;
	__typeof__(&MHD_get_connection_info) get_connection_info;
};
extern struct ws_mhd ws_mhd;

/* Open it; -1 with a message that says how to get it. */
int ws_mhd_open(struct ws_err *err);

#endif
