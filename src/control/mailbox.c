/* mailbox.c - see mailbox.h. A request lies on the stack of the thread that waits for it. */
#include "control/mailbox.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

struct waiter {
	struct waiter *next;
	const struct ws_control_request *request;
	struct ws_control_reply *reply;
	bool answered;
};

struct ws_mailbox {
	pthread_mutex_t lock;
	pthread_cond_t answered;
	struct waiter *first, **last; /* the first is the one being performed, if any */
	bool in_hand, closed;
	char closing[256]; /* the answer to every request after ws_mailbox_close */
	_Atomic uint32_t *sleeping;
	struct ws_control_status status;
};

struct ws_mailbox *ws_mailbox_new(void)
{
	struct ws_mailbox *mailbox = ws_calloc(1, sizeof(*mailbox));

	pthread_mutex_init(&mailbox->lock, NULL);
	pthread_cond_init(&mailbox->answered, NULL);
	mailbox->last = &mailbox->first;
	return mailbox;
}

void ws_mailbox_free(struct ws_mailbox *mailbox)
{
	if (!mailbox)
		return;
	pthread_cond_destroy(&mailbox->answered);
	pthread_mutex_destroy(&mailbox->lock);
	free(mailbox);
}

/* ---- any thread ---- */

static void refuse(struct ws_control_reply *reply, const char *message)
{
	*reply = (struct ws_control_reply){.done = false};
	snprintf(reply->message, sizeof(reply->message), "%s", message);
}

static void wake_loop(struct ws_mailbox *mailbox)
{
	if (mailbox->sleeping && atomic_exchange(mailbox->sleeping, 0))
		syscall(SYS_futex, mailbox->sleeping, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void ws_mailbox_request(struct ws_mailbox *mailbox, const struct ws_control_request *request,
			struct ws_control_reply *reply)
{
	struct waiter waiter = {.request = request, .reply = reply};

	pthread_mutex_lock(&mailbox->lock);
	if (mailbox->closed) {
		refuse(reply, mailbox->closing);
	} else {
		*mailbox->last = &waiter;
		mailbox->last = &waiter.next;
		wake_loop(mailbox);
		while (!waiter.answered)
			pthread_cond_wait(&mailbox->answered, &mailbox->lock);
	}
	pthread_mutex_unlock(&mailbox->lock);
}

void ws_mailbox_status(struct ws_mailbox *mailbox, struct ws_control_status *status)
{
	pthread_mutex_lock(&mailbox->lock);
	*status = mailbox->status;
	pthread_mutex_unlock(&mailbox->lock);
}

/* ---- the loop ---- */

void ws_mailbox_open(struct ws_mailbox *mailbox, _Atomic uint32_t *sleeping)
{
	pthread_mutex_lock(&mailbox->lock);
	mailbox->sleeping = sleeping;
	pthread_mutex_unlock(&mailbox->lock);
}

const struct ws_control_request *ws_mailbox_take(struct ws_mailbox *mailbox)
{
	const struct ws_control_request *request = NULL;

	pthread_mutex_lock(&mailbox->lock);
	if (!mailbox->in_hand && mailbox->first) {
		mailbox->in_hand = true;
		request = mailbox->first->request;
	}
	pthread_mutex_unlock(&mailbox->lock);
	return request;
}

static void answer_first(struct ws_mailbox *mailbox, const struct ws_control_reply *reply)
{
	struct waiter *waiter = mailbox->first;

	mailbox->first = waiter->next;
	if (!mailbox->first)
		mailbox->last = &mailbox->first;
	mailbox->in_hand = false;
	*waiter->reply = *reply;
	waiter->answered = true;
	pthread_cond_broadcast(&mailbox->answered);
}

void ws_mailbox_answer(struct ws_mailbox *mailbox, const struct ws_control_reply *reply)
{
	pthread_mutex_lock(&mailbox->lock);
	if (mailbox->in_hand)
		answer_first(mailbox, reply);
	pthread_mutex_unlock(&mailbox->lock);
}

bool ws_mailbox_has_request(struct ws_mailbox *mailbox)
{
	bool has;

	pthread_mutex_lock(&mailbox->lock);
	has = !mailbox->in_hand && mailbox->first;
	pthread_mutex_unlock(&mailbox->lock);
	return has;
}

void ws_mailbox_publish(struct ws_mailbox *mailbox, const struct ws_control_status *status)
{
	pthread_mutex_lock(&mailbox->lock);
	mailbox->status = *status;
	pthread_mutex_unlock(&mailbox->lock);
}

void ws_mailbox_close(struct ws_mailbox *mailbox, const char *message)
{
	struct ws_control_reply reply;

	refuse(&reply, message);
	pthread_mutex_lock(&mailbox->lock);
	mailbox->closed = true;
	mailbox->sleeping = NULL;
	snprintf(mailbox->closing, sizeof(mailbox->closing), "%s", message);
	while (mailbox->first)
		answer_first(mailbox, &reply);
	pthread_mutex_unlock(&mailbox->lock);
}
