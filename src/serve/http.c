/*
 * http.c - the server: libmicrohttpd on 127.0.0.1, a thread for each connection, so that neither a
 * slow client nor a long answer keeps others waiting, and checks before anything else.
 *
 * Connections come through the gate (gate.c), which lets through those of the user who started the
 * server that show the token in their first line. Every address begins with it, 128 random bits. A
 * request must name this machine as its host, whatever the port (a tunnel changes it): a page
 * elsewhere that has its name resolve to 127.0.0.1 is refused. Nothing of an address is ever used
 * as a path of a file.
 */
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "serve/api.h"
#include "serve/browser.h"
#include "serve/gate.h"
#include "serve/jobs.h"
#include "serve/mhd.h"
#include "serve/record.h"
#include "page/page.h"
#include "serve/serve.h"
#include "serve/upload.h"

enum {
	TOKEN = WS_GATE_WORD,
	CODE_S = 120, /* a browser may take long to start */
	MOST_CONNECTIONS = 256,
	BEGIN_S = 1, /* how long the library may take to begin with a connection */
	PATIENCE_S = 60,
	MOST_UPLOADS = 8,
	FIRST_PORT = 8300,
	PORTS = 1000
};

struct server {
	struct ws_view view;
	char token[TOKEN + 1];
	char code[TOKEN +
		  1]; /* stands for the token once, in the address that a browser is given */
	time_t code_until;
	bool code_used;	 /* atomic */
	int uploads;	 /* under way; atomic */
	int connections; /* of those who have shown the token; atomic */
	int most_connections;
	sem_t begun; /* the library has begun with a connection that it was given */
	struct ws_gate_use use;
	struct ws_gate *gate;
	struct MHD_Daemon *daemon;
};

/* A POST from its head to its end. */
struct post {
	struct server *server;
	struct ws_upload *upload;
};

static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
			     "'self' data:; connect-src 'self'; "
			     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/* What is sent. */
struct body {
	const char *type;
	bool packed; /* compressed by gzip */
	void *bytes;
	size_t n;
	enum MHD_ResponseMemoryMode mode;
};

static ws_mhd_result send_body(struct MHD_Connection *con, unsigned status, const struct body *body)
{
	struct MHD_Response *Response =
		ws_mhd.create_response_from_buffer(body->n, body->bytes, body->mode);
	ws_mhd_result rc;

	if (!Response) {
		if (body->mode == MHD_RESPMEM_MUST_FREE)
			free(body->bytes);
		return MHD_NO;
	}
	ws_mhd.add_response_header(Response, "Content-Type", body->type);
	ws_mhd.add_response_header(Response, "Content-Security-Policy", policy);
	ws_mhd.add_response_header(Response, "X-Content-Type-Options", "nosniff");
	ws_mhd.add_response_header(Response, "Referrer-Policy", "no-referrer");
	ws_mhd.add_response_header(Response, "Cross-Origin-Resource-Policy", "same-origin");
	ws_mhd.add_response_header(Response, "Cache-Control", "no-store");
	if (body->packed)
		ws_mhd.add_response_header(Response, "Content-Encoding", "gzip");
	rc = ws_mhd.queue_response(con, status, Response);
	ws_mhd.destroy_response(Response);
	return rc;
}

static ws_mhd_result send_response(struct MHD_Connection *con, unsigned status, const char *type,
				   void *bytes, size_t n, enum MHD_ResponseMemoryMode mode)
{
	struct body body = {.type = type, .bytes = bytes, .n = n, .mode = mode};

	return send_body(con, status, &body);
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

/* Compares in constant time, wherever the first difference is. */
static bool is_word(const char *secret, const char *word)
{
	unsigned char differs = 0;

	for (int i = 0; i < TOKEN; i++)
		differs |= (unsigned char)(word[i] ^ secret[i]);
	return !differs;
}

/* What follows "/WORD/", or NULL. */
static const char *after_word(const char *secret, const char *url)
{
	if (strlen(url) < TOKEN + 2 || url[0] != '/' || url[TOKEN + 1] != '/')
		return NULL;
	return is_word(secret, url + 1) ? url + TOKEN + 2 : NULL;
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
	struct body body = {.type = asset->type,
			    .packed = packed,
			    .bytes = (void *)asset->bytes,
			    .n = asset->size,
			    .mode = MHD_RESPMEM_PERSISTENT};

	if (packed) {
		body.bytes = (void *)asset->packed;
		body.n = asset->packed_size;
	}
	return send_body(con, 200, &body);
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
 * The token alone is not enough for these: the request must come from our page. A browser gives the
 * origin of the requesting script in Origin, which must be the address it is talking to, whatever
 * port a tunnel gave it.
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

/* The user's choice was wrong, not the page's request: as in ws_api. */
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

/* The code of the address that a browser was started with becomes the page's address, once. */
static ws_mhd_result exchange_code(struct server *server, struct MHD_Connection *con)
{
	struct MHD_Response *Response;
	char location[TOKEN + 3];
	ws_mhd_result rc;

	if (time(NULL) > server->code_until ||
	    __atomic_exchange_n(&server->code_used, true, __ATOMIC_RELAXED))
		return refuse_request(con, 410,
				      "This address was good for one use, and for two minutes: use "
				      "the address that warpsight view printed.\n");
	snprintf(location, sizeof(location), "/%s/", server->token);
	Response = ws_mhd.create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	if (!Response)
		return MHD_NO;
	ws_mhd.add_response_header(Response, "Location", location);
	ws_mhd.add_response_header(Response, "Referrer-Policy", "no-referrer");
	ws_mhd.add_response_header(Response, "Cache-Control", "no-store");
	rc = ws_mhd.queue_response(con, 303, Response);
	ws_mhd.destroy_response(Response);
	return rc;
}

/* Stands for a request that has nothing but its headers. */
static char bare_request;

/* Called when a request is over, whether answered or broken off. */
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
	/* Answering at the first call, before the request is known to be whole, makes the library
	 * close the connection: each request of the page would then have to open a new one, one
	 * more round trip. */
	if (!*request && strcmp(method, "POST")) {
		*request = &bare_request;
		return MHD_YES;
	}
	if (!host_is_local(ws_mhd.lookup_connection_value(con, MHD_HEADER_KIND, "Host")))
		return refuse_request(con, 403, "This server answers only to localhost.\n");
	path = after_word(server->code, url);
	if (path && !*path && !strcmp(method, "GET"))
		return exchange_code(server, con);
	path = after_word(server->token, url);
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

static int make_secret(char *token, struct ws_err *err)
{
	unsigned char bytes[TOKEN / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return ws_fail_errno(err, "cannot get random numbers for the address");
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(token + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static bool knows_word(void *ctx, const char *word)
{
	const struct server *server = ctx;

	return is_word(server->token, word) || (*server->code && is_word(server->code, word));
}

/* Wait until the library has begun with the connection that it was given, and has counted it. */
static void await_begin(struct server *server)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += BEGIN_S;
	while (sem_timedwait(&server->begun, &until) && errno == EINTR)
		;
}

/* The library would keep those that are too many waiting, the page of the owner among them. They
 * are given to it one by one, because it counts them in a thread of its own, and stops for ever
 * where its own limit is reached. */
static bool take_connection(void *ctx, int fd, const struct sockaddr_in *address)
{
	struct server *server = ctx;

	if (__atomic_load_n(&server->connections, __ATOMIC_RELAXED) >= server->most_connections)
		return false;
	while (!sem_trywait(&server->begun)) /* of one that took longer */
		;
	/* It closes the connection where it cannot take it. */
	if (ws_mhd.add_connection(server->daemon, fd, (const struct sockaddr *)address,
				  sizeof(*address)) == MHD_YES)
		await_begin(server);
	return true;
}

static void count_connection(void *ctx, struct MHD_Connection *con, void **socket_context,
			     enum MHD_ConnectionNotificationCode code)
{
	struct server *server = ctx;
	bool begins = code == MHD_CONNECTION_NOTIFY_STARTED;

	(void)con;
	(void)socket_context;
	__atomic_add_fetch(&server->connections, begins ? 1 : -1, __ATOMIC_RELAXED);
	if (begins)
		sem_post(&server->begun);
}

/* The library has no socket of its own to listen on: the gate gives it connections. Its limit is
 * never reached: it counts those that were closed until it has cleared them up, at most as many as
 * were open. */
static int start_daemon(struct server *server, struct ws_err *err)
{
	sem_init(&server->begun, 0, 0);
	server->daemon = ws_mhd.start_daemon(
		MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
			MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC,
		0, NULL, NULL, answer_request, server, MHD_OPTION_CONNECTION_LIMIT,
		4u * MOST_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)PATIENCE_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)65536, MHD_OPTION_NOTIFY_COMPLETED,
		end_request, NULL, MHD_OPTION_NOTIFY_CONNECTION, count_connection, server,
		MHD_OPTION_END);
	return server->daemon ? 0 : ws_fail(err, "cannot start the server of libmicrohttpd");
}

/* Use the same port for the same files if it is free, because browsers store a page's data by
 * port. */
static struct ws_gate *open_gate(const struct server *server, int port, struct ws_err *err)
{
	uint64_t h = 0;
	struct ws_gate *gate;

	if (port)
		return ws_gate_open(port, err);
	for (size_t i = 0; i < server->view.n; i++)
		h = h * 31 +
		    XXH3_64bits(server->view.reports[i].path, strlen(server->view.reports[i].path));
	gate = ws_gate_open(FIRST_PORT + (int)(h % PORTS), err);
	return gate ? gate : ws_gate_open(0, err);
}

static int start_serving(struct server *server, int port, struct ws_err *err)
{
	server->most_connections = (int)ws_share_of_descriptors(MOST_CONNECTIONS);
	server->use = (struct ws_gate_use){server, knows_word, take_connection};
	server->gate = open_gate(server, port, err);
	if (!server->gate || start_daemon(server, err) < 0)
		return -1;
	return ws_gate_start(server->gate, &server->use, err);
}

static void stop_serving(struct server *server)
{
	ws_gate_close(server->gate);
	if (server->daemon)
		ws_mhd.stop_daemon(server->daemon);
}

/*
 * Other users see the command lines of the browser and of what starts it. These get an address that
 * is good for one request. The gate refuses even that to others; where the kernel does not say
 * whose connections are whose, there is no such address and no browser is started.
 */
static void open_browser(struct server *server)
{
	char address[100];

	if (!ws_browser_is_there())
		return;
	if (!ws_gate_knows_users(server->gate)) {
		fprintf(stderr, "warpsight: the browser is not started: the kernel does not say "
				"here which user a connection is from, and the address would be "
				"in the browser's command line\n");
		return;
	}
	snprintf(address, sizeof(address), "http://127.0.0.1:%d/%s/", ws_gate_port(server->gate),
		 server->code);
	ws_browser_open(address);
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

/* Fails when the address could not be shown to anyone. */
static int print_address(const struct ws_serve_request *request, struct server *server,
			 struct ws_err *err)
{
	int port = ws_gate_port(server->gate);

	printf("http://127.0.0.1:%d/%s/\n", port, server->token);
	if (request->remote_hint || (getenv("SSH_CONNECTION") && isatty(STDOUT_FILENO)))
		print_hint(port, server->token);
	if (isatty(STDOUT_FILENO))
		printf("Ctrl+C ends it.\n");
	if (fflush(stdout) && !request->open)
		return ws_fail_errno(err, "cannot tell the address of the page");
	if (request->open)
		open_browser(server);
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
	sigaddset(&set, SIGXFSZ); /* of a file beyond RLIMIT_FSIZE: writing fails instead */
	pthread_sigmask(SIG_BLOCK, &set, old);
}

int ws_view_serve(const struct ws_serve_request *request, struct ws_err *err)
{
	struct server server = {0};
	sigset_t old;
	int rc = -1;

	if (!ws_assets[0].bytes)
		return ws_fail(err,
			       "this warpsight was built without its page: esbuild was missing");
	if (ws_mhd_open(err) < 0)
		return -1;
	block_signals(&old);
	if (ws_view_open(&server.view, request->files, request->n, NULL, err) < 0)
		goto out;
	if (make_secret(server.token, err) < 0 ||
	    (request->open && ws_browser_is_there() && make_secret(server.code, err) < 0))
		goto close;
	server.code_until = time(NULL) + CODE_S;
	server.view.uploads = true;
	server.view.jobs = ws_jobs_new(&server.view);
	server.view.rec = request->record ? ws_recorder_new(&server.view, request->record) : NULL;
	rc = start_serving(&server, request->port, err);
	if (!rc)
		rc = print_address(request, &server, err);
	if (!rc)
		wait_for_signal();
	stop_serving(&server);
close:
	ws_jobs_free(server.view.jobs);
	ws_recorder_free(server.view.rec);
	ws_view_close(&server.view);
out:
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}
