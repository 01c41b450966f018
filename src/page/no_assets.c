/* no_assets.c - in place of the page, when it could not be bundled. */
#include "page/page.h"

const struct ws_asset ws_assets[] = {{NULL, NULL, NULL, 0, NULL}};
