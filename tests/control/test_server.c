/*
 * test_server.c - the socket of a session: who may connect, what may be sent, what killed recorders
 * leave behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/client.h"
#include "control/folder.h"
#include "control/server.h"
#include "text/json_write.h"

static char runtime[] = "/tmp/warpsight-sockets-XXXXXX";

/* Answers with what was asked, and how often anything was. */
static void answer(void *ctx, const struct ws_message *request, struct ws_text *out)
{
	_Atomic int *count = ctx;

	ws_message_put_flag(out, "done", true);
	ws_put_json_string(out, "echo", ws_or(ws_message_text(request, "do"), "(none)"));
	ws_put_json_int(out, "number", ws_message_number(request, "number", -1) + 1);
	ws_put_json_int(out, "count", atomic_fetch_add(count, 1) + 1);
}

static _Atomic int answered;

static struct ws_server *start_server(const char *name)
{
	struct ws_server *server = NULL;
	struct ws_err err = {""};

	atomic_store(&answered, 0);
	if (ws_server_start(&server, name, answer, &answered, &err))
		fail_msg("%s", err.msg);
	return server;
}

static void ask_session(const char *name, const char *what, struct ws_message *reply)
{
	struct ws_text request = {0};
	struct ws_err err = {""};

	ws_put_json_string(&request, "do", what);
	ws_put_json_int(&request, "number", 41);
	if (ws_session_ask(name, &request, reply, &err))
		fail_msg("%s", err.msg);
	ws_text_free(&request);
}

static size_t count_files(void)
{
	char command[200];
	size_t n = 0;
	FILE *lines;

	snprintf(command, sizeof(command), "ls -A %s/warpsight", runtime);
	lines = popen(command, "r");
	for (int c; (c = getc(lines)) != EOF;)
		n += c == '\n';
	pclose(lines);
	return n;
}

static void questions_are_answered(void **state)
{
	static const char *const names[] = {
		"a",
		"[default]",
		"with blanks and 'quotes' \"$(x)\"",
		"größe 測試",
		"%s%n",
		"0123456789012345678901234567890123456789012345678901234567890123"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct ws_server *server = start_server(names[i]);
		struct ws_session_names list;
		struct ws_message reply;

		ask_session(names[i], "hello \n\"\\ \xff\xfe there", &reply);
		assert_string_equal(ws_message_text(&reply, "do") ? "?" : "", "");
		assert_non_null(strstr(ws_message_text(&reply, "echo"), "hello \n\"\\ "));
		assert_int_equal(ws_message_number(&reply, "number", 0), 42);
		assert_true(ws_message_flag(&reply, "done"));
		ws_message_free(&reply);
		ws_session_list(&list);
		assert_int_equal(list.count, 1);
		assert_string_equal(list.names[0], names[i]);
		ws_session_free_list(&list);
		ws_server_end(server);
		assert_false(ws_session_exists(names[i]));
		assert_int_equal(count_files(), 0);
	}
}

static void names_are_checked(void **state)
{
	static const char *const bad[] = {
		"",	".",
		"..",	"a/b",
		"-x",	"\n",
		"a\tb", "\x7f",
		"\xff", "01234567890123456789012345678901234567890123456789012345678901234"};
	struct ws_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		err.msg[0] = 0;
		assert_int_equal(ws_session_check_name(bad[i], &err), -1);
		assert_true(*err.msg);
	}
	assert_int_equal(ws_session_check_name("[default]", &err), 0);
}

static void a_name_is_taken_once(void **state)
{
	struct ws_server *server = start_server("one"), *second = NULL;
	struct ws_err err = {""};

	(void)state;
	assert_int_equal(ws_server_start(&second, "one", answer, &answered, &err), -1);
	assert_non_null(strstr(err.msg, "already"));
	ws_server_hide(server);
	second = start_server("one");
	ws_server_end(server); /* does not remove what is not its own */
	assert_true(ws_session_exists("one"));
	ws_server_end(second);
	assert_false(ws_session_exists("one"));
}

/* A recorder that is killed cannot remove its socket: who comes next does. */
static void dead_sockets_go(void **state)
{
	struct ws_session_names list;
	struct ws_server *server;
	int ready[2];

	(void)state;
	for (int round = 0; round < 2; round++) {
		pid_t child;
		char byte;

		assert_int_equal(pipe(ready), 0);
		child = fork();
		if (!child) {
			start_server("dead");
			(void)!write(ready[1], "", 1);
			for (;;)
				pause();
		}
		close(ready[1]);
		assert_int_equal(read(ready[0], &byte, 1), 1);
		assert_true(ws_session_exists("dead"));
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		close(ready[0]);
		assert_int_equal(count_files(), 1);
		assert_false(ws_session_exists("dead"));
		if (round) {
			server = start_server("dead");
			assert_true(ws_session_exists("dead"));
			ws_server_end(server);
		} else {
			ws_session_list(&list);
			assert_int_equal(list.count, 0);
			ws_session_free_list(&list);
		}
		assert_int_equal(count_files(), 0);
	}
}

/* ---- hostile ---- */

static int connect_raw(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/warpsight/%s.sock", runtime, name);
	if (connect(fd, (void *)&address, sizeof(address))) {
		close(fd);
		return -1;
	}
	return fd;
}

static void send_raw(const char *bytes, size_t n, const char *expected)
{
	struct ws_message reply;
	struct ws_err err = {""};
	int fd = connect_raw("hostile");

	assert_true(fd >= 0);
	assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
	shutdown(fd, SHUT_WR);
	assert_int_equal(ws_message_receive(fd, &reply, &err), 0);
	assert_false(ws_message_flag(&reply, "done"));
	if (!strstr(ws_message_text(&reply, "message"), expected))
		fail_msg("'%s' is not about '%s'", ws_message_text(&reply, "message"), expected);
	ws_message_free(&reply);
	close(fd);
}

static void broken_requests_are_refused(void **state)
{
	struct ws_server *server = start_server("hostile");
	struct ws_message reply;

	(void)state;
	send_raw("", 0, "closed");
	send_raw("\x02\0", 2, "closed");
	send_raw("\x05\0\0\0{}", 6, "closed");
	send_raw("\xff\xff\xff\xff", 4, "too long");
	send_raw("\x01\0\x01\0", 4, "too long");
	send_raw("\0\0\0\0", 4, "not a JSON object");
	send_raw("\x02\0\0\0[]", 6, "not a JSON object");
	send_raw("\x04\0\0\0{}{}", 8, "not a JSON object");
	send_raw("\x08\0\0\0{\"a\":{}}", 12, "neither");
	assert_int_equal(atomic_load(&answered), 0);
	ask_session("hostile", "still there", &reply);
	ws_message_free(&reply);
	ws_server_end(server);
}

/* Silent connections do not keep a place for ever and delay nobody. */
static void silent_connections_wait_alone(void **state)
{
	struct ws_server *server = start_server("hostile");
	struct ws_message reply;
	int fds[20];

	(void)state;
	for (int i = 0; i < 20; i++)
		assert_true((fds[i] = connect_raw("hostile")) >= 0);
	for (int i = 0; i < 50; i++) {
		ask_session("hostile", "now", &reply);
		assert_true(ws_message_flag(&reply, "done"));
		ws_message_free(&reply);
	}
	for (int i = 0; i < 20; i++)
		close(fds[i]);
	ws_server_end(server);
}

static void *ask_often(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++) {
		struct ws_message reply;

		ask_session("busy", "again", &reply);
		assert_true(ws_message_flag(&reply, "done"));
		ws_message_free(&reply);
	}
	return NULL;
}

static void several_ask_at_once(void **state)
{
	struct ws_server *server = start_server("busy");
	pthread_t threads[8];

	(void)state;
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, NULL), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&answered), 800);
	ws_server_end(server);
}

/* Where the folder's rights do not keep another user out, the socket does. */
static void other_users_are_refused(void **state)
{
	struct ws_server *server;
	char path[100];
	int status;
	pid_t child;

	(void)state;
	if (geteuid())
		skip();
	server = start_server("hostile");
	assert_int_equal(chmod(runtime, 0755), 0);
	snprintf(path, sizeof(path), "%s/warpsight", runtime);
	assert_int_equal(chmod(path, 0755), 0);
	strcat(path, "/hostile.sock");
	assert_int_equal(chmod(path, 0777), 0);
	child = fork();
	if (!child) {
		struct ws_message reply = {0};
		struct ws_err err;
		int fd;

		if (setgid(65534) || setuid(65534))
			_exit(1);
		fd = connect_raw("hostile");
		if (fd < 0)
			_exit(2);
		if (ws_message_receive(fd, &reply, &err))
			_exit(3);
		if (!strstr(ws_message_text(&reply, "message"), "another user"))
			_exit(4);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(atomic_load(&answered), 0);
	ws_server_end(server);
	chmod(runtime, 0700);
}

/* A folder that others prepared is not used. */
static void foreign_folders_are_refused(void **state)
{
	char path[100], old[100], link[100];
	struct ws_server *server = NULL;
	struct ws_err err = {""};

	(void)state;
	snprintf(path, sizeof(path), "%s/warpsight", runtime);
	snprintf(old, sizeof(old), "%s/elsewhere", runtime);
	snprintf(link, sizeof(link), "/tmp/warpsight-%u", (unsigned)geteuid());
	assert_int_equal(rename(path, old), 0);
	assert_int_equal(symlink("elsewhere", path), 0);
	/* The other place is taken then: what is looked at is that nothing is put behind the link.
	 */
	if (!ws_server_start(&server, "x", answer, &answered, &err)) {
		assert_int_equal(access(link, F_OK), 0);
		ws_server_end(server);
	}
	strcat(old, "/x.sock");
	assert_int_equal(access(old, F_OK), -1);
	old[strlen(old) - strlen("/x.sock")] = 0;
	unlink(path);
	assert_int_equal(rename(old, path), 0);
	assert_int_equal(chmod(path, 0777), 0); /* ours, but open: closed before it is used */
	server = start_server("x");
	{
		struct stat st;

		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0700);
	}
	ws_server_end(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: the thread sanitizer follows no fork of several threads. */
		cmocka_unit_test(dead_sockets_go),
		cmocka_unit_test(questions_are_answered),
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(a_name_is_taken_once),
		cmocka_unit_test(broken_requests_are_refused),
		cmocka_unit_test(silent_connections_wait_alone),
		cmocka_unit_test(several_ask_at_once),
		cmocka_unit_test(other_users_are_refused),
		cmocka_unit_test(foreign_folders_are_refused),
	};
	char command[100];
	int rc;

	if (!mkdtemp(runtime))
		return 1;
	setenv("XDG_RUNTIME_DIR", runtime, 1);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", runtime);
	return rc | system(command);
}
