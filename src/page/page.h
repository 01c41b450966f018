/* page.h - the files of the page (viewer/), made part of the program by the build. */
#ifndef WS_PAGE_PAGE_H
#define WS_PAGE_PAGE_H

#include <stddef.h>

/* Files of the page, made part of the program by the build; `bytes` NULL past the last. */
struct ws_asset {
	const char *name, *type;
	const unsigned char *bytes;
	size_t size;
	const unsigned char *packed; /* the same by gzip, for links that are slow */
	size_t packed_size;
	const char *sha256; /* in base64, for content security policies */
};
extern const struct ws_asset ws_assets[];

#endif
