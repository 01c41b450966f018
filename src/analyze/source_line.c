/* source_line.c - see source_line.h. */
#include "analyze/source_line.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 16 << 20, SHOWN = 90 };

/* Opens a regular file that has not changed since; a pipe would wait for a writer. */
static FILE *open_source(const char *path, uint64_t until)
{
	int fd = *path == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	struct stat info;
	FILE *file = NULL;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_size <= MOST_BYTES &&
	    (uint64_t)info.st_mtime * 1000000000 <= until)
		file = fdopen(fd, "r");
	if (!file)
		close(fd);
	return file;
}

static bool put_trimmed(char *line, struct ws_text *text)
{
	size_t length;

	while (isspace((unsigned char)*line))
		line++;
	length = strlen(line);
	while (length && isspace((unsigned char)line[length - 1]))
		length--;
	if (!length)
		return false;
	for (size_t i = 0; i < length; i++)
		if (iscntrl((unsigned char)line[i]))
			line[i] = ' ';
	if (length <= SHOWN) {
		ws_text_add(text, line, length);
		return true;
	}
	length = SHOWN; /* not in the middle of a character of UTF-8 */
	while (length && ((unsigned char)line[length] & 0xc0) == 0x80)
		length--;
	ws_text_add(text, line, length);
	ws_text_puts(text, "...");
	return true;
}

bool ws_put_source_line(const char *path, uint32_t line, uint64_t until, struct ws_text *text)
{
	FILE *file = line ? open_source(path, until) : NULL;
	char *buffer = NULL;
	size_t capacity = 0;
	bool put = false;

	if (!file)
		return false;
	for (uint32_t i = 1; getline(&buffer, &capacity, file) >= 0; i++)
		if (i == line) {
			put = put_trimmed(buffer, text);
			break;
		}
	free(buffer);
	fclose(file);
	return put;
}
