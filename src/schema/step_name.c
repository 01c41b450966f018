/* step_name.c - see step_name.h. A part of the hooks, too. */
#include "schema/step_name.h"

#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

size_t ws_step_stem(const char *text, size_t len)
{
	size_t length = len;

	while (length && is_digit(text[length - 1]))
		length--;
	if (length == len)
		return len;
	while (length && strchr(" _#:=-.", text[length - 1]))
		length--;
	return length;
}

bool ws_is_step_name(const char *text, size_t len, const char *name)
{
	static const char *const known[] = {"step",	     "iteration",   "iter",
					    "train step",    "train_step",  "training step",
					    "training_step", "profilerstep"};
	size_t length = ws_step_stem(text, len);

	if (name)
		return (len == strlen(name) && !memcmp(text, name, len)) ||
		       (length == strlen(name) && length && !memcmp(text, name, length));
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (length == strlen(known[i]) && !strncasecmp(text, known[i], length))
			return true;
	return false;
}

bool ws_read_step_number(const char *text, size_t len, uint32_t *number)
{
	size_t at = len;
	uint64_t value = 0;

	while (at && is_digit(text[at - 1]))
		at--;
	if (at == len || len - at > 10)
		return false;
	for (; at < len; at++)
		value = value * 10 + (uint64_t)(text[at] - '0');
	*number = (uint32_t)value;
	return value <= UINT32_MAX;
}
