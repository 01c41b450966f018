/* page.h - the files of the page (viewer/), made part of the program by the build. */
#ifndef WS_PAGE_PAGE_H
#define WS_PAGE_PAGE_H

#include <stddef.h>

/* One file of the page. The list ends with one whose `bytes` are NULL. */
struct ws_asset {
	const char *name, *type;
	const unsigned char *bytes;
	size_t size;
	const unsigned char *packed; /* the same compressed by gzip, for slow links */
	size_t packed_size;
	const char *sha256; /* in base64, for content security policies */
};
extern const struct ws_asset ws_assets[];

#endif
