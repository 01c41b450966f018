/*
 * http.c - the server: libmicrohttpd on 127.0.0.1, a thread for each connection, so that neither a
 * slow client nor a long answer keeps others waiting, and checks before anything else.
 *
 * Every address begins with a random token of 128 bits, which only the one who started the server
 * sees: other users of the machine cannot reach the report through the port. A request must name
 * this machine as its host, whatever the port (a tunnel changes it): a page elsewhere that has its
 * name resolve to 127.0.0.1 is refused. Nothing of an address is ever used as a path of a file.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "serve/api.h"
#include "serve/jobs.h"
#include "serve/mhd.h"
#include "serve/record.h"
#include "page/page.h"
#include "serve/serve.h"
#include "serve/upload.h"

enum {
	TOKEN = 32,
	MOST_CONNECTIONS = 128,
	PATIENCE_S = 60,
	MOST_UPLOADS = 8,
	FIRST_PORT = 8300,
	PORTS = 1000
};

struct server {
	struct ws_view view;
	char token[TOKEN + 1];
	int uploads; /* under way; atomic */
};

/* A POST from its head to its end. */
struct post {
	struct server *server;
	struct ws_upload *upload;
};

static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
			     "'self' data:; connect-src 'self'; "
			     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static ws_mhd_result respond_as(struct MHD_Connection *con, unsigned status, const char *type,
				bool packed, void *bytes, size_t n,
				enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *Response = ws_mhd.create_response_from_buffer(n, bytes, mode);
	ws_mhd_result rc;

	if (!Response) {
		if (mode == MHD_RESPMEM_MUST_FREE)
			free(bytes);
		return MHD_NO;
	}
	ws_mhd.add_response_header(Response, "Content-Type", type);
	ws_mhd.add_response_header(Response, "Content-Security-Policy", policy);
	ws_mhd.add_response_header(Response, "X-Content-Type-Options", "nosniff");
	ws_mhd.add_response_header(Response, "Referrer-Policy", "no-referrer");
	ws_mhd.add_response_header(Response, "Cross-Origin-Resource-Policy", "same-origin");
	ws_mhd.add_response_header(Response, "Cache-Control", "no-store");
	if (packed)
		ws_mhd.add_response_header(Response, "Content-Encoding", "gzip");
	rc = ws_mhd.queue_response(con, status, Response);
	ws_mhd.destroy_response(Response);
	return rc;
}

static ws_mhd_result send_response(struct MHD_Connection *con, unsigned status, const char *type,
				   void *bytes, size_t n, enum MHD_ResponseMemoryMode mode)
{
	return respond_as(con, status, type, false, bytes, n, mode);
}

static ws_mhd_result refuse_request(struct MHD_Connection *con, unsigned status,
				    const char *sentence)
{
	return send_response(con, status, "text/plain; charset=utf-8", (void *)sentence,
			     strlen(sentence), MHD_RESPMEM_PERSISTENT);
}

/* localhost, 127.0.0.1 or [::1], with or without a port. */
static bool host_is_local(const char *host)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

	for (size_t i = 0; host && i < WS_COUNT(names); i++) {
		size_t n = strlen(names[i]);

		if (!strncasecmp(host, names[i], n) &&
		    (!host[n] || (host[n] == ':' &&
				  strspn(host + n + 1, "0123456789") == strlen(host + n + 1))))
			return true;
	}
	return false;
}

/* What follows "/TOKEN/", or NULL; takes as long whatever differs. */
static const char *after_token(const struct server *server, const char *url)
{
	unsigned char differs = 0;

	if (strlen(url) < TOKEN + 2 || url[0] != '/' || url[TOKEN + 1] != '/')
		return NULL;
	for (int i = 0; i < TOKEN; i++)
		differs |= (unsigned char)(url[i + 1] ^ server->token[i]);
	return differs ? NULL : url + TOKEN + 2;
}

static const char *get_argument(void *ctx, const char *name)
{
	return ws_mhd.lookup_connection_value(ctx, MHD_GET_ARGUMENT_KIND, name);
}

/* Whether the browser closed the connection, or the server is about to end, which closes them all.
 */
static bool is_gone(void *ctx)
{
	const union MHD_ConnectionInfo *info =
		ws_mhd.get_connection_info(ctx, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct pollfd socket = {.events = POLLRDHUP};

	if (!info)
		return false;
	socket.fd = info->connect_fd;
	return poll(&socket, 1, 0) > 0 && socket.revents;
}

static ws_mhd_result answer_asset(struct MHD_Connection *con, const struct ws_asset *asset)
{
	const char *accepted =
		ws_mhd.lookup_connection_value(con, MHD_HEADER_KIND, "Accept-Encoding");
	bool packed = accepted && strstr(accepted, "gzip");

	return respond_as(con, 200, asset->type, packed,
			  (void *)(packed ? asset->packed : asset->bytes),
			  packed ? asset->packed_size : asset->size, MHD_RESPMEM_PERSISTENT);
}

static ws_mhd_result answer_api(struct server *server, struct MHD_Connection *con, const char *path)
{
	struct ws_params params = {get_argument, con, is_gone};
	struct ws_answer answer = {.type = "text/plain"};
	int status = ws_api(&server->view, path, &params, &answer);

	if (!answer.body.text)
		ws_text_puts(&answer.body, "");
	return send_response(con, (unsigned)status, answer.type, answer.body.text, answer.body.len,
			     MHD_RESPMEM_MUST_FREE);
}

/* ---- what changes something: POST ---- */

/*
 * The token alone does not do for these: the page that asks must be ours. A browser says in Origin
 * whose script it is that asks, and that is the address it is talking to, whatever port a tunnel
 * gave it.
 */
static bool origin_is_own(struct MHD_Connection *con)
{
	const char *host = ws_mhd.lookup_connection_value(con, MHD_HEADER_KIND, "Host");
	const char *origin = ws_mhd.lookup_connection_value(con, MHD_HEADER_KIND, "Origin");
	const char *site = ws_mhd.lookup_connection_value(con, MHD_HEADER_KIND, "Sec-Fetch-Site");

	return host && origin && !strncmp(origin, "http://", 7) && !strcasecmp(origin + 7, host) &&
	       (!site || !strcmp(site, "same-origin"));
}

static ws_mhd_result answer_sentence(struct MHD_Connection *con, unsigned status,
				     const char *sentence)
{
	return send_response(con, status, "text/plain; charset=utf-8", (void *)sentence,
			     strlen(sentence), MHD_RESPMEM_MUST_COPY);
}

/* What the user chose, not what the page did, was wrong: as in ws_api. */
static ws_mhd_result say_error(struct MHD_Connection *con, const char *sentence)
{
	struct ws_text text = {0};

	ws_text_puts(&text, "{");
	ws_put_json_string(&text, "error", sentence);
	ws_text_puts(&text, "}");
	return send_response(con, 200, "application/json", text.text, text.len,
			     MHD_RESPMEM_MUST_FREE);
}

static ws_mhd_result begin_upload(struct server *server, struct MHD_Connection *con,
				  struct post *post)
{
	const char *length = ws_mhd.lookup_connection_value(con, MHD_HEADER_KIND, "Content-Length");
	struct ws_err err = {.msg = ""};
	uint64_t bytes = length ? strtoull(length, NULL, 10) : 0;

	if (__atomic_add_fetch(&server->uploads, 1, __ATOMIC_RELAXED) > MOST_UPLOADS)
		ws_fail(&err, "%d files are on their way already; wait for these",
			(int)MOST_UPLOADS);
	else
		post->upload = ws_upload_new(get_argument(con, "name"), bytes, &err);
	if (post->upload)
		return MHD_YES;
	__atomic_sub_fetch(&server->uploads, 1, __ATOMIC_RELAXED);
	return answer_sentence(con, bytes > WS_UPLOAD_MOST ? 413 : 400, err.msg);
}

static ws_mhd_result end_upload(struct server *server, struct MHD_Connection *con,
				struct post *post)
{
	struct ws_text text = {0};
	struct ws_err err = {.msg = ""};
	bool foreign;
	int number = ws_upload_finish(post->upload, &server->view, &foreign, &err);

	if (number >= 0 && foreign) {
		number = ws_jobs_add(server->view.jobs, post->upload, &err);
		post->upload = NULL;
		__atomic_sub_fetch(&server->uploads, 1, __ATOMIC_RELAXED);
	}
	if (number < 0)
		return say_error(con, err.msg);
	ws_text_printf(&text, "{\"%s\":%d}", foreign ? "job" : "report", number);
	return send_response(con, 200, "application/json", text.text, text.len,
			     MHD_RESPMEM_MUST_FREE);
}

static ws_mhd_result end_record(struct server *server, struct MHD_Connection *con, bool start)
{
	struct ws_params params = {.get = get_argument, .ctx = con};
	struct ws_err err = {.msg = ""};

	if (start ? ws_recorder_start(server->view.rec, &params, &err)
		  : ws_recorder_stop(server->view.rec, &err))
		return say_error(con, err.msg);
	return answer_sentence(con, 200, "{}");
}

static ws_mhd_result end_cancel(struct server *server, struct MHD_Connection *con)
{
	struct ws_params params = {.get = get_argument, .ctx = con};
	struct ws_err err = {.msg = ""};

	return ws_jobs_cancel(server->view.jobs, &params, &err) ? say_error(con, err.msg)
								: answer_sentence(con, 200, "{}");
}

/* The library calls this for the head, then for each block of the body, then once more. */
static ws_mhd_result receive_post(struct server *server, struct MHD_Connection *con,
				  const char *path, const char *bytes, size_t *n, void **request)
{
	struct post *post_p = *request;
	bool upload = !strcmp(path, "api/add"), cancel = !strcmp(path, "api/cancel"),
	     start = !strcmp(path, "api/record/start");

	if (!post_p) {
		if (!upload && !cancel &&
		    !((start || !strcmp(path, "api/record/stop")) && server->view.rec))
			return refuse_request(con, 405, "Only GET.\n");
		if (!origin_is_own(con))
			return refuse_request(con, 403, "Only the page itself may ask for this.\n");
		*request = post_p = ws_calloc(1, sizeof(*post_p));
		post_p->server = server;
		return upload ? begin_upload(server, con, post_p) : MHD_YES;
	}
	if (*n) {
		if (post_p->upload)
			ws_upload_write(post_p->upload, bytes, *n);
		*n = 0;
		return MHD_YES;
	}
	return upload	? end_upload(server, con, post_p)
	       : cancel ? end_cancel(server, con)
			: end_record(server, con, start);
}

/* Stands for a request that has nothing but its headers. */
static char bare_request;

/* A request is over, answered or broken off. */
static void end_request(void *ctx, struct MHD_Connection *con, void **request,
			enum MHD_RequestTerminationCode why)
{
	struct post *post = *request;

	(void)ctx;
	(void)con;
	(void)why;
	if (!post || *request == &bare_request)
		return;
	if (post->upload)
		__atomic_sub_fetch(&post->server->uploads, 1, __ATOMIC_RELAXED);
	ws_upload_free(post->upload);
	free(post);
	*request = NULL;
}

static ws_mhd_result answer_request(void *ctx, struct MHD_Connection *con, const char *url,
				    const char *method, const char *version, const char *upload,
				    size_t *upload_size, void **request)
{
	struct server *server = ctx;
	const char *path;

	(void)version;
	if (*upload_size && (!*request || *request == &bare_request)) {
		*upload_size = 0;
		return MHD_YES;
	}
	/* Who answers at the first call, before the request is known to be whole, has the
	 * connection closed: each question of the page would then cost the opening of a new one,
	 * one more round trip. */
	if (!*request && strcmp(method, "POST")) {
		*request = &bare_request;
		return MHD_YES;
	}
	if (!host_is_local(ws_mhd.lookup_connection_value(con, MHD_HEADER_KIND, "Host")))
		return refuse_request(con, 403, "This server answers only to localhost.\n");
	path = after_token(server, url);
	if (!path)
		return refuse_request(
			con, 403,
			"The address lacks its token: use the whole address that warpsight "
			"view printed.\n");
	if (!strcmp(method, "POST"))
		return receive_post(server, con, path, upload, upload_size, request);
	if (strcmp(method, "GET") && strcmp(method, "HEAD"))
		return refuse_request(con, 405, "Only GET.\n");
	if (!strncmp(path, "api/", 4))
		return answer_api(server, con, path + 4);
	if (!*path)
		path = "index.html";
	for (const struct ws_asset *asset = ws_assets; asset->bytes; asset++)
		if (!strcmp(asset->name, path))
			return answer_asset(con, asset);
	return refuse_request(con, 404, "There is nothing here.\n");
}

/* ---- starting ---- */

static int make_token(char *token, struct ws_err *err)
{
	unsigned char bytes[TOKEN / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return ws_fail_errno(err, "cannot get random numbers for the address");
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(token + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static struct MHD_Daemon *listen_on(struct server *server, int port, int *got, struct ws_err *err)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const union MHD_DaemonInfo *info;
	struct MHD_Daemon *Daemon;

	errno = 0;
	Daemon = ws_mhd.start_daemon(
		MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION,
		(uint16_t)port, NULL, NULL, answer_request, server, MHD_OPTION_SOCK_ADDR,
		(struct sockaddr *)&address, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)MOST_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)PATIENCE_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)65536, MHD_OPTION_NOTIFY_COMPLETED,
		end_request, NULL, MHD_OPTION_END);
	if (!Daemon) {
		if (port)
			ws_fail(err,
				"cannot listen on port %d of 127.0.0.1%s; --port chooses another",
				port, errno == EADDRINUSE ? ": it is in use" : "");
		else
			ws_fail(err, "cannot listen on 127.0.0.1");
		return NULL;
	}
	info = ws_mhd.get_daemon_info(Daemon, MHD_DAEMON_INFO_BIND_PORT);
	*got = info ? info->port : port;
	return Daemon;
}

/* The same port for the same files where it is free: what a browser keeps about a page, it keeps by
 * port. */
static struct MHD_Daemon *listen_anywhere(struct server *server, int *got, struct ws_err *err)
{
	uint64_t h = 0;
	struct MHD_Daemon *Daemon;

	for (size_t i = 0; i < server->view.n; i++)
		h = h * 31 +
		    XXH3_64bits(server->view.reports[i].path, strlen(server->view.reports[i].path));
	Daemon = listen_on(server, FIRST_PORT + (int)(h % PORTS), got, err);
	return Daemon ? Daemon : listen_on(server, 0, got, err);
}

static void open_browser(const char *address)
{
	pid_t pid;

	if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY"))
		return;
	pid = fork();
	if (!pid) {
		if (fork())
			_exit(0);
		setsid();
		if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
			_exit(1);
		execlp("xdg-open", "xdg-open", address, (char *)NULL);
		_exit(1);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void print_hint(int port, const char *token)
{
	char host[256] = "HOST";

	gethostname(host, sizeof(host) - 1);
	printf("From another machine:\n"
	       "    ssh -L %d:127.0.0.1:%d %s\n"
	       "and open there http://127.0.0.1:%d/%s/\n",
	       port, port, host, port, token);
}

/* Fails when nobody learns the address. */
static int print_address(const struct ws_serve_request *request, const struct server *server,
			 int port, struct ws_err *err)
{
	char address[100];

	snprintf(address, sizeof(address), "http://127.0.0.1:%d/%s/", port, server->token);
	printf("%s\n", address);
	if (request->remote_hint || (getenv("SSH_CONNECTION") && isatty(STDOUT_FILENO)))
		print_hint(port, server->token);
	if (isatty(STDOUT_FILENO))
		printf("Ctrl+C ends it.\n");
	if (fflush(stdout) && !request->open)
		return ws_fail_errno(err, "cannot tell the address of the page");
	if (request->open)
		open_browser(address);
	return 0;
}

static void wait_for_signal(void)
{
	sigset_t set;
	int got;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigwait(&set, &got);
}

/* The signals that end the server are waited for by the main thread alone; threads inherit the
 * mask. */
static void block_signals(sigset_t *old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, old);
}

int ws_view_serve(const struct ws_serve_request *request, struct ws_err *err)
{
	struct server server = {0};
	struct MHD_Daemon *Daemon;
	sigset_t old;
	int port, rc = -1;

	if (!ws_assets[0].bytes)
		return ws_fail(err,
			       "this warpsight was built without its page: esbuild was missing");
	if (ws_mhd_open(err) < 0)
		return -1;
	block_signals(&old);
	if (ws_view_open(&server.view, request->files, request->n, NULL, err) < 0)
		goto out;
	if (make_token(server.token, err) < 0)
		goto close;
	server.view.uploads = true;
	server.view.jobs = ws_jobs_new(&server.view);
	server.view.rec = request->record ? ws_recorder_new(&server.view, request->record) : NULL;
	Daemon = request->port ? listen_on(&server, request->port, &port, err)
			       : listen_anywhere(&server, &port, err);
	if (!Daemon)
		goto close;
	rc = print_address(request, &server, port, err);
	if (!rc)
		wait_for_signal();
	ws_mhd.stop_daemon(Daemon);
close:
	ws_jobs_free(server.view.jobs);
	ws_recorder_free(server.view.rec);
	ws_view_close(&server.view);
out:
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}
