/* operand.c - see operand.h. */
#include "query/operand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

/* A folder or a program: `profile -o app ./app` leaves the program `app` beside app.wsrep. */
static bool is_no_report(const char *path)
{
	struct stat status;
	char magic[4];
	FILE *file = NULL;
	bool program = false;

	if (stat(path, &status) || S_ISDIR(status.st_mode))
		return true;
	if (S_ISREG(status.st_mode))
		file = fopen(path, "re");
	if (file) {
		program = fread(magic, 1, 4, file) == 4 &&
			  (!memcmp(magic, "\177ELF", 4) || !memcmp(magic, "#!", 2));
		fclose(file);
	}
	return program;
}

char *ws_find_operand_report(const char *path)
{
	char *with_suffix;

	if (!is_no_report(path))
		return ws_strdup(path);
	with_suffix = ws_format("%s.wsrep", path);
	if (!access(with_suffix, F_OK))
		return with_suffix;
	free(with_suffix);
	return ws_strdup(path);
}

struct ws_report *ws_open_operand_report(const char *path)
{
	char *file = ws_find_operand_report(path);
	struct ws_err err;
	struct ws_report *report = ws_report_open(file, &err);

	free(file);
	if (!report) {
		ws_say("%s", err.msg);
		return NULL;
	}
	for (size_t i = 0; ws_report_get_damage(report, i); i++)
		ws_warn("%s: %s", ws_report_path(report), ws_report_get_damage(report, i));
	return report;
}
