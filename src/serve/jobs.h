/*
 * jobs.h - traces of other tools that the page sent are imported by a child process each, one after
 * the other: the page stays usable meanwhile, shows how far each is, and can cancel it; a hostile
 * trace may harm an importer but not the server.
 */
#ifndef WS_SERVE_JOBS_H
#define WS_SERVE_JOBS_H

#include "serve/upload.h"

struct ws_jobs;

struct ws_jobs *ws_jobs_new(struct ws_view *view);
/* Cancels what is under way. */
void ws_jobs_free(struct ws_jobs *jobs);
/* Import the contents of an upload, which the job then owns, even on failure. Returns its number,
 * or -1 with a sentence. */
int ws_jobs_add(struct ws_jobs *jobs, struct ws_upload *upload, struct ws_err *err);
/* -1 with a sentence when it is not under way. */
int ws_jobs_cancel(struct ws_jobs *jobs, const struct ws_params *params, struct ws_err *err);
/* "jobs":[{"id","name","state","done","all","report","error"}]: those under way and those that
 * ended. */
void ws_jobs_put(struct ws_jobs *jobs, struct ws_text *text);

#endif
