/* arena_name.c - see arena_name.h. This also runs inside the target, so it uses no library function
 * that could be replaced there, and no errno. */
#include "ring/arena_name.h"

#include <stddef.h>
#include <string.h>

/* Digits up to the end or a dash, which is skipped. */
static bool read_number(const char **at, uint32_t *number)
{
	uint64_t n = 0;
	const char *digit = *at;

	for (; *digit >= '0' && *digit <= '9' && n <= UINT32_MAX; digit++)
		n = n * 10 + (uint64_t)(*digit - '0');
	if (digit == *at || n > UINT32_MAX || (*digit && *digit != '-'))
		return false;
	*number = (uint32_t)n;
	*at = digit + (*digit == '-');
	return true;
}

static bool is_hexadecimal(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool ws_read_arena_name(const char *path, struct ws_arena_name *name)
{
	const char *at = path;

	for (const char *c = path; *c; c++)
		if (*c == '/')
			at = c + 1;
	if (strncmp(at, WS_ARENA_PREFIX, sizeof(WS_ARENA_PREFIX) - 1))
		return false;
	at += sizeof(WS_ARENA_PREFIX) - 1;
	if (!read_number(&at, &name->uid) || !read_number(&at, &name->pid))
		return false;
	name->random = at;
	for (int i = 0; i < WS_ARENA_RANDOM; i++)
		if (!is_hexadecimal(*at++))
			return false;
	name->sealed = *at == '-';
	if (!name->sealed)
		return !*at;
	at++;
	return read_number(&at, &name->fd) && read_number(&at, &name->filters) && !*at;
}

static char *add_text(char *to, const char *text)
{
	while (*text)
		*to++ = *text++;
	*to = 0;
	return to;
}

static char *add_number(char *to, uint32_t number)
{
	char digits[11];
	size_t i = sizeof(digits) - 1;

	digits[i] = 0;
	do
		digits[--i] = (char)('0' + number % 10);
	while (number /= 10);
	return add_text(to, digits + i);
}

void ws_write_arena_link(const struct ws_arena_name *name, char link[WS_ARENA_LINK],
			 char target[WS_ARENA_LINK])
{
	char *to = add_number(add_text(link, "/proc/"), name->pid);

	add_number(add_text(to, "/fd/"), name->fd);
	to = add_text(target, "/memfd:" WS_ARENA_PREFIX);
	memcpy(to, name->random, WS_ARENA_RANDOM);
	add_text(to + WS_ARENA_RANDOM, " (deleted)");
}
