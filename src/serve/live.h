/* live.h - reports that are being recorded grow on the page. */
#ifndef WS_SERVE_LIVE_H
#define WS_SERVE_LIVE_H

#include "serve/api.h"

/* Looks at the view's live reports again and again, until none is. Never NULL. */
struct ws_live *ws_live_new(struct ws_view *view);
/* Stop looking; NULL is fine. Call it before the reports are closed. */
void ws_live_free(struct ws_live *live);
/* Look at one now, and once: its recording has ended. */
void ws_live_look(struct ws_view *view, size_t report);

#endif
