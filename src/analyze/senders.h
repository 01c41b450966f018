/*
 * senders.h - which thread sent what another one waited for on a socket.
 *
 * The kernel delivers what goes over the loopback interface or a Unix socket while the sender is
 * still in its call, but for the former in a soft interrupt, so that no record of a wake-up names
 * the sender. A wait on a socket that ends while exactly one other recorded thread runs in a call
 * that sends is taken to have been ended by that thread.
 */
#ifndef WS_ANALYZE_SENDERS_H
#define WS_ANALYZE_SENDERS_H

#include "analyze/model.h"

/* Sets the `waker` of states of the model that wait on sockets and whose waker was not recorded.
 * The states of all threads must have been read. */
void ws_find_senders(struct ws_model *model);

#endif
