/* upload.h - a file that the browser sends becomes a report of the page. */
#ifndef WS_SERVE_UPLOAD_H
#define WS_SERVE_UPLOAD_H

#include "serve/api.h"

/* Bytes that one file may have. */
#define WS_UPLOAD_MOST (UINT64_C(4) << 30)

struct ws_upload;

/*
 * Begin a file. `name` is what the browser calls it, untrusted, and shown; `bytes` is how many will
 * come, 0 when that is not known. NULL with a sentence.
 */
struct ws_upload *ws_upload_new(const char *name, uint64_t bytes, struct ws_err *err);
/* Adds the next bytes. Errors are reported by ws_upload_finish. */
void ws_upload_write(struct ws_upload *upload, const char *at, size_t n);
/*
 * All has come. A report is opened and added to the page: returns its number, or -1 with a
 * sentence. *foreign: it is a trace of another tool, to be imported.
 */
int ws_upload_finish(struct ws_upload *upload, struct ws_view *view, bool *foreign,
		     struct ws_err *err);
/* What an import has written to ws_upload_report_path becomes a report of the page; as above. */
int ws_upload_open_imported(struct ws_upload *upload, struct ws_view *view, struct ws_err *err);
const char *ws_upload_name(const struct ws_upload *upload);
const char *ws_upload_path(const struct ws_upload *upload);
const char *ws_upload_report_path(const struct ws_upload *upload);
/* Messages name the file as the user knows it. */
void ws_upload_hide_path(const struct ws_upload *upload, struct ws_err *err);
/* Removes what is left of the temporary file; `u` may be NULL. */
void ws_upload_free(struct ws_upload *upload);

#endif
