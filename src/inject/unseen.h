/* unseen.h - hides the sampler's signal from a program that waits for signals: see unseen.c. */
#ifndef WS_INJECT_UNSEEN_H
#define WS_INJECT_UNSEEN_H

#include <signal.h>
#include <stdbool.h>

/* Whether a SIGURG was sent for the sampler. Defined by each library that unseen.c is part of. */
bool ws_is_own_signal(const siginfo_t *info);

#endif
