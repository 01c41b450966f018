/*
 * test_mailbox.c - commands of several threads and a loop that performs them: each is performed
 * once and answered with what became of it, also when the loop ends, and a sleeping loop is woken.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/mailbox.h"

enum { CLIENTS = 8, COMMANDS = 200 };

static struct ws_mailbox *mailbox;
static _Atomic uint32_t sleeping;
static _Atomic unsigned performed, answered, refused;

static void *send_commands(void *arg)
{
	for (int i = 0; i < COMMANDS; i++) {
		char name[32];
		struct ws_control_request request = {.kind = WS_CONTROL_START, .output = name};
		struct ws_control_reply reply;
		struct ws_control_status status;

		snprintf(name, sizeof(name), "%d-%d", (int)(intptr_t)arg, i);
		ws_mailbox_request(mailbox, &request, &reply);
		ws_mailbox_status(mailbox, &status);
		if (reply.done && !strcmp(reply.report, name))
			answered++;
		else if (!reply.done && !strcmp(reply.message, "it is over"))
			refused++;
	}
	return NULL;
}

/* As the recorder's loop: sleeps until it is woken, for a minute at most. */
static void perform(unsigned most)
{
	struct timespec minute = {60, 0};

	while (atomic_load(&performed) < most) {
		const struct ws_control_request *request = ws_mailbox_take(mailbox);
		struct ws_control_reply reply = {.done = true};
		struct ws_control_status status = {.collections = performed};

		if (!request) {
			atomic_store(&sleeping, 1);
			if (!ws_mailbox_has_request(mailbox))
				syscall(SYS_futex, &sleeping, FUTEX_WAIT, 1, &minute, NULL, 0);
			atomic_store(&sleeping, 0);
			continue;
		}
		assert_null(ws_mailbox_take(mailbox)); /* one at a time */
		performed++;
		snprintf(reply.report, sizeof(reply.report), "%s", request->output);
		ws_mailbox_publish(mailbox, &status);
		ws_mailbox_answer(mailbox, &reply);
	}
}

static void many_clients(void **state)
{
	pthread_t thread[CLIENTS];
	unsigned most = CLIENTS * COMMANDS * 3 / 4;

	(void)state;
	mailbox = ws_mailbox_new();
	ws_mailbox_open(mailbox, &sleeping);
	for (int i = 0; i < CLIENTS; i++)
		assert_int_equal(
			pthread_create(&thread[i], NULL, send_commands, (void *)(intptr_t)i), 0);
	perform(most);
	ws_mailbox_close(mailbox, "it is over");
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(answered, most);
	assert_int_equal(refused, CLIENTS * COMMANDS - most);
	ws_mailbox_free(mailbox);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(many_clients)};

	return cmocka_run_group_tests_name("control-mailbox", tests, NULL, NULL);
}
