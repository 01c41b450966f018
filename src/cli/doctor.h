/*
 * doctor.h - what `warpsight doctor` and `warpsight status -e` share.
 */
#ifndef WS_CLI_DOCTOR_H
#define WS_CLI_DOCTOR_H

#include <stdbool.h>

/* Run all checks and print them to standard output. Returns the exit status: WS_EXIT_FAIL when
 * something that recording needs is missing. */
int ws_show_doctor(bool json);

#endif
