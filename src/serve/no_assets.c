/* no_assets.c - in place of the page, when it could not be bundled. */
#include "serve/serve.h"

const struct ws_asset ws_assets[] = {{NULL, NULL, NULL, 0, NULL}};
