/*
 * readable.h - whether memory that the program names may be read.
 *
 * A program may pass a bad pointer to the kernel and gets EFAULT. A hook that looks at the argument
 * first must not fault in its place, so the kernel is asked by a system call that always fails for
 * another reason once it has read its argument. That costs a ninth of having the kernel copy
 * (process_vm_readv), needs no descriptor, and a sandbox that allows signals allows it. Where it is
 * forbidden, everything counts as readable.
 */
#ifndef WS_INJECT_READABLE_H
#define WS_INJECT_READABLE_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "inject/rt.h"

#define WS_PAGE_BITS 12 /* of the smallest pages */

/* Whether the page that holds the address may be read. */
static inline bool ws_is_page_readable(uintptr_t address)
{
	uintptr_t page = address >> WS_PAGE_BITS << WS_PAGE_BITS;

	if (!page) /* the call treats a null pointer as no argument and would say yes */
		return false;
	return ws_raw_syscall(SYS_rt_sigprocmask, -1, (long)page, 0, 8, 0, 0) != -EFAULT;
}

/* Whether the byte may be read. `known`: the number of the page that was asked for last, or 0. */
static inline bool ws_is_readable(uintptr_t address, uintptr_t *known)
{
	if (*known && *known == address >> WS_PAGE_BITS)
		return true;
	if (!ws_is_page_readable(address))
		return false;
	*known = address >> WS_PAGE_BITS;
	return true;
}

/* Whether a text may be read up to its end. `known` as above. */
static inline bool ws_is_text_readable(const char *text, uintptr_t *known)
{
	for (uintptr_t at = (uintptr_t)text;; at = ((at >> WS_PAGE_BITS) + 1) << WS_PAGE_BITS) {
		size_t rest =
			((size_t)1 << WS_PAGE_BITS) - (at & (((size_t)1 << WS_PAGE_BITS) - 1));

		if (!ws_is_readable(at, known))
			return false;
		if (memchr((const void *)at, 0, rest))
			return true;
	}
}

/* Whether the list of an environment's texts, up to its NULL, and the texts themselves may be read.
 * As for the kernel, a null list counts as empty. */
static inline bool ws_are_texts_readable(char *const *list)
{
	uintptr_t texts = 0, pointers = 0;

	for (; list; list++) {
		/* A pointer that is not aligned may lie in two pages. */
		if (!ws_is_readable((uintptr_t)list, &pointers) ||
		    !ws_is_readable((uintptr_t)list + sizeof(*list) - 1, &pointers))
			return false;
		if (!*list)
			break;
		if (!ws_is_text_readable(*list, &texts))
			return false;
	}
	return true;
}

#endif
