/*
 * hotkey.c - see hotkey.h.
 *
 * libxcb is opened when it is needed; unlike libX11 it never ends the process, neither on an error
 * nor when the server goes away. Its few types that are needed are declared here, so that nothing
 * of X11 is needed to build.
 */
#include "record/hotkey.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "control/plan.h"

/* ---- the interface of libxcb ---- */

enum { KEY_PRESS = 2, KEY_RELEASE = 3, GRAB_ASYNC = 1, KEYSYM_F1 = 0xffbe };
/* Keys that are on as long as a light is: Caps Lock, Num Lock. With others held down it is another
 * key of a desktop or a program. */
enum { CAPS = 2, NUM = 16 };

typedef struct xcb_connection xcb_connection;

struct cookie {
	unsigned sequence;
};

struct setup { /* the beginning of xcb_setup_t */
	uint8_t status, pad;
	uint16_t major, minor, length;
	uint32_t release, id_base, id_mask, motion;
	uint16_t vendor, longest;
	uint8_t roots, formats, image_order, bit_order, line_unit, line_pad, first_key, last_key;
};

struct screens {
	const uint32_t *root; /* the first member of xcb_screen_t */
	int left, index;
};

struct mapping { /* xcb_get_keyboard_mapping_reply_t */
	uint8_t type, symbols_per_key;
	uint16_t sequence;
	uint32_t length;
	uint8_t pad[24];
};

struct event { /* the beginning of xcb_key_press_event_t */
	uint8_t type, key;
	uint16_t sequence;
	uint32_t time;
};

#define FUNCTIONS(X)                                                                             \
	X(xcb_connection *, connect, (const char *display, int *screen))                         \
	X(int, connection_has_error, (xcb_connection *))                                         \
	X(const struct setup *, get_setup, (xcb_connection *))                                   \
	X(struct screens, setup_roots_iterator, (const struct setup *))                          \
	X(void, screen_next, (struct screens *))                                                 \
	X(struct cookie, get_keyboard_mapping, (xcb_connection *, uint8_t first, uint8_t count)) \
	X(struct mapping *, get_keyboard_mapping_reply,                                          \
	  (xcb_connection *, struct cookie, void **error))                                       \
	X(uint32_t *, get_keyboard_mapping_keysyms, (const struct mapping *))                    \
	X(struct cookie, grab_key_checked,                                                       \
	  (xcb_connection *, uint8_t owner, uint32_t window, uint16_t modifiers, uint8_t key,    \
	   uint8_t pointer_mode, uint8_t keyboard_mode))                                         \
	X(void *, request_check, (xcb_connection *, struct cookie))                              \
	X(struct event *, poll_for_event, (xcb_connection *))                                    \
	X(void, disconnect, (xcb_connection *))

struct ws_hotkey {
	void *library;
	xcb_connection *connection;
	uint32_t released; /* when, by the server's clock */
	bool was_released;
#define X(type, name, arguments) type(*name) arguments;
	FUNCTIONS(X)
#undef X
};

#define INSTEAD                                                                        \
	"; without one, run the program with 'warpsight launch' and enter 'warpsight " \
	"start' and 'warpsight stop' in another terminal, or have the program call "   \
	"ws_start (-c program)"

static int bind_functions(struct ws_hotkey *hotkey, struct ws_err *err)
{
	static const struct {
		const char *name;
		size_t offset;
	} functions[] = {
#define X(type, name, arguments) {"xcb_" #name, offsetof(struct ws_hotkey, name)},
		FUNCTIONS(X)
#undef X
	};

	hotkey->library = dlopen("libxcb.so.1", RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; i < WS_COUNT(functions); i++) {
		void *function = hotkey->library ? dlsym(hotkey->library, functions[i].name) : NULL;

		if (!function)
			return ws_fail(err,
				       "--capture-range=hotkey needs libxcb.so.1, which cannot "
				       "be loaded" INSTEAD);
		memcpy((char *)hotkey + functions[i].offset, &function, sizeof(function));
	}
	return 0;
}

/* ---- taking the key ---- */

/* The key with this symbol; 0 when the keyboard has none. */
static uint8_t find_key(const struct ws_hotkey *hotkey, uint32_t symbol)
{
	const struct setup *setup = hotkey->get_setup(hotkey->connection);
	uint8_t count = (uint8_t)(setup->last_key - setup->first_key + 1), key = 0;
	struct cookie asked =
		hotkey->get_keyboard_mapping(hotkey->connection, setup->first_key, count);
	struct mapping *mapping =
		hotkey->get_keyboard_mapping_reply(hotkey->connection, asked, NULL);
	const uint32_t *symbols;

	if (!mapping)
		return 0;
	symbols = hotkey->get_keyboard_mapping_keysyms(mapping);
	for (unsigned i = 0; !key && i < (unsigned)count * mapping->symbols_per_key; i++)
		if (symbols[i] == symbol)
			key = (uint8_t)(setup->first_key + i / mapping->symbols_per_key);
	free(mapping);
	return key;
}

static int grab_on(const struct ws_hotkey *hotkey, uint32_t root, uint8_t key)
{
	static const uint16_t lights[] = {0, CAPS, NUM, CAPS | NUM};

	for (size_t i = 0; i < WS_COUNT(lights); i++) {
		struct cookie cookie = hotkey->grab_key_checked(
			hotkey->connection, 0, root, lights[i], key, GRAB_ASYNC, GRAB_ASYNC);
		void *error = hotkey->request_check(hotkey->connection, cookie);

		free(error);
		if (error)
			return -1;
	}
	return 0;
}

static int grab_key(const struct ws_hotkey *hotkey, const char *name, struct ws_err *err)
{
	const struct setup *setup = hotkey->get_setup(hotkey->connection);
	uint8_t key = find_key(hotkey, KEYSYM_F1 + (uint32_t)ws_plan_read_key(name) - 1);

	if (!key)
		return ws_fail(err,
			       "--hotkey-capture: the keyboard of the display %s has no key %s",
			       getenv("DISPLAY"), name);
	for (struct screens screens = hotkey->setup_roots_iterator(setup); screens.left > 0;
	     hotkey->screen_next(&screens))
		if (grab_on(hotkey, *screens.root, key))
			return ws_fail(err,
				       "--hotkey-capture: another program has the key %s of the "
				       "display %s: choose another one of F1 to F12",
				       name, getenv("DISPLAY"));
	return 0;
}

static int connect_display(struct ws_hotkey *hotkey, struct ws_err *err)
{
	const char *display = getenv("DISPLAY");

	if (!display || !*display)
		return ws_fail(err,
			       "--capture-range=hotkey needs an X11 display, and DISPLAY is not "
			       "set: the keys of a terminal are the program's, and are not "
			       "read" INSTEAD);
	if (bind_functions(hotkey, err))
		return -1;
	hotkey->connection = hotkey->connect(NULL, NULL);
	if (hotkey->connection_has_error(hotkey->connection))
		return ws_fail(err,
			       "--capture-range=hotkey: the display %s cannot be opened" INSTEAD,
			       display);
	return 0;
}

struct ws_hotkey *ws_hotkey_open(const char *name, struct ws_err *err)
{
	struct ws_hotkey *hotkey = ws_calloc(1, sizeof(*hotkey));

	if (!connect_display(hotkey, err) && !grab_key(hotkey, name, err))
		return hotkey;
	ws_hotkey_close(hotkey);
	return NULL;
}

void ws_hotkey_close(struct ws_hotkey *hotkey)
{
	if (!hotkey)
		return;
	if (hotkey->connection)
		hotkey->disconnect(hotkey->connection);
	free(hotkey); /* the library stays: it may have registered exit handlers */
}

/* ---- presses ---- */

unsigned ws_hotkey_count_presses(struct ws_hotkey *hotkey, bool *lost)
{
	unsigned presses = 0;
	struct event *event;

	while ((event = hotkey->poll_for_event(hotkey->connection))) {
		uint8_t type = event->type & 0x7f;

		/* A key that is held down is released and pressed again at the same moment. */
		if (type == KEY_PRESS && !(hotkey->was_released && hotkey->released == event->time))
			presses++;
		hotkey->was_released = type == KEY_RELEASE;
		hotkey->released = event->time;
		free(event);
	}
	*lost = hotkey->connection_has_error(hotkey->connection) != 0;
	return presses;
}
