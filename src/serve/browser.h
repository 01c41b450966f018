/* browser.h - starting the desktop's browser. */
#ifndef WS_SERVE_BROWSER_H
#define WS_SERVE_BROWSER_H

#include <stdbool.h>

/* Whether there is a desktop. */
bool ws_browser_is_there(void);
/* Start it at this address, which all users of the machine can then read in its command line. Does
 * not wait for it, and says nothing where there is none. */
void ws_browser_open(const char *address);

#endif
