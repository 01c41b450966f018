/*
 * reseal.h - put all checksums and the index of a changed report right again, so that a test
 * reaches what lies behind them.
 */
#ifndef WS_TEST_RESEAL_H
#define WS_TEST_RESEAL_H

#include <stddef.h>
#include <stdint.h>

void reseal(uint8_t *bytes, size_t n);

#endif
