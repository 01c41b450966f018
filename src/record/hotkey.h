/*
 * hotkey.h - a key of an X11 display that begins and ends collections (--capture-range=hotkey).
 *
 * The recorder asks the X server for the key (a passive grab), so that it works whichever window
 * has the focus, and no program sees it. Keys of a terminal are not read: they are the program's.
 */
#ifndef WS_RECORD_HOTKEY_H
#define WS_RECORD_HOTKEY_H

#include <stdbool.h>

#include "base/err.h"

struct ws_hotkey;

/* Take the key `name` (F1 to F12) of the display that DISPLAY names. NULL with a message that says
 * what can be used instead. */
struct ws_hotkey *ws_hotkey_open(const char *name, struct ws_err *err);
void ws_hotkey_close(struct ws_hotkey *hotkey); /* NULL does nothing */
/* How often the key has been pressed since this was last called; a key that is held down counts
 * once. *lost is set when the display is gone. Does not wait. */
unsigned ws_hotkey_count_presses(struct ws_hotkey *hotkey, bool *lost);

#endif
