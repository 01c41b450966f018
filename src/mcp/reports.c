/* reports.c - which reports are open, and which may be. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mcp/server.h"

int ws_mcp_add_root(struct ws_mcp_server *server, const char *folder, struct ws_err *err)
{
	char *real = realpath(folder, NULL);

	if (!real)
		return ws_fail_errno(err, "%s", folder);
	ws_grow(server->roots, server->root_cap, server->root_count + 1);
	server->roots[server->root_count++] = real;
	return 0;
}

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	if (!strcmp(folder, "/"))
		return true;
	return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static bool is_allowed(const struct ws_mcp_server *server, const char *real)
{
	for (size_t i = 0; i < server->root_count; i++)
		if (is_below(real, server->roots[i]))
			return true;
	return !server->root_count;
}

/* Only regular files: opening a pipe would wait for a writer. */
static int check_file(const struct ws_mcp_server *server, const char *path, const char *real,
		      struct ws_err *err)
{
	struct stat status;

	if (!is_allowed(server, real))
		return ws_fail(err, "%s is outside of the folders that --root allows", path);
	if (stat(real, &status))
		return ws_fail_errno(err, "%s", path);
	if (!S_ISREG(status.st_mode))
		return ws_fail(err, "%s is not a file", path);
	return 0;
}

static struct ws_mcp_report *find_open(struct ws_mcp_server *server, const char *real)
{
	for (size_t i = 0; i < WS_MCP_MOST_REPORTS; i++)
		if (server->reports[i].report && !strcmp(server->reports[i].path, real))
			return &server->reports[i];
	return NULL;
}

static struct ws_mcp_report *find_place(struct ws_mcp_server *server)
{
	for (size_t i = 0; i < WS_MCP_MOST_REPORTS; i++)
		if (!server->reports[i].report)
			return &server->reports[i];
	return NULL;
}

static struct ws_mcp_report *open_real(struct ws_mcp_server *server, const char *path, char *real,
				       struct ws_err *err)
{
	struct ws_mcp_report *place = find_open(server, real);

	if (place)
		return place;
	if (check_file(server, path, real, err))
		return NULL;
	place = find_place(server);
	if (!place) {
		ws_fail(err, "%d reports are open; close one first", (int)WS_MCP_MOST_REPORTS);
		return NULL;
	}
	if (server->imports)
		place->report = ws_report_open(real, err);
	else
		place->report = ws_report_open_plain(real, err);
	if (!place->report)
		return NULL;
	place->path = ws_strdup(real);
	place->number = ++server->opened;
	return place;
}

struct ws_mcp_report *ws_mcp_open_report(struct ws_mcp_server *server, const char *path,
					 struct ws_err *err)
{
	char *real = realpath(path, NULL);
	struct ws_mcp_report *report;

	if (!real) {
		ws_fail_errno(err, "%s", path);
		return NULL;
	}
	report = open_real(server, path, real, err);
	free(real);
	return report;
}

void ws_mcp_close_report(struct ws_mcp_report *report)
{
	ws_report_close(report->report);
	free(report->path);
	memset(report, 0, sizeof(*report));
}

void ws_mcp_free(struct ws_mcp_server *server)
{
	for (size_t i = 0; i < WS_MCP_MOST_REPORTS; i++)
		if (server->reports[i].report)
			ws_mcp_close_report(&server->reports[i]);
	for (size_t i = 0; i < server->root_count; i++)
		free(server->roots[i]);
	free(server->roots);
	memset(server, 0, sizeof(*server));
}
