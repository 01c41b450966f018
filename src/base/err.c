/* err.c - see err.h. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int ws_fail(struct ws_err *err, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return -1;
}

int ws_fail_errno(struct ws_err *err, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;
	size_t length;
	if (!err)
		return -1;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	length = strlen(err->msg);
	snprintf(err->msg + length, sizeof(err->msg) - length, ": %s", strerror(saved));
	errno = saved;
	return -1;
}

static void print_message(const char *prefix, const char *fmt, va_list ap)
{
	int saved = errno;
	char line[2048];

	vsnprintf(line, sizeof(line), fmt, ap);
	fprintf(stderr, "warpsight: %s%s\n", prefix, line);
	errno = saved;
}

void ws_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_message("", fmt, ap);
	va_end(ap);
}

void ws_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_message("warning: ", fmt, ap);
	va_end(ap);
}
