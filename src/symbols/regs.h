/* regs.h - the registers of a stopped thread, by DWARF's numbers for this architecture, and how
 * perf delivers them. */
#ifndef WS_SYMBOLS_REGS_H
#define WS_SYMBOLS_REGS_H

#include <stdint.h>

#if defined(__x86_64__)
enum { WS_REG_FP = 6, WS_REG_SP = 7, WS_REG_IP = 16, WS_REG_RETURN = 16, WS_REGS = 17 };
/* The registers that perf is asked for in sample_regs_user, all but segments and flags; their
 * values come in the order of the bits. */
#define WS_PERF_REGS UINT64_C(0xff01ff)
#elif defined(__aarch64__)
enum { WS_REG_FP = 29, WS_REG_RETURN = 30, WS_REG_SP = 31, WS_REG_IP = 32, WS_REGS = 33 };
#define WS_PERF_REGS UINT64_C(0x1ffffffff)
#else
#error "warpsight unwinds on x86-64 and aarch64"
#endif

struct ws_regs {
	uint64_t values[WS_REGS];
	uint64_t known; /* bit i: r[i] is known */
};

/* Set the registers from those of a sample: `n` values in the order of the bits of `mask`, which
 * may be a subset of WS_PERF_REGS as long as it has ip and sp. */
void ws_regs_from_perf(struct ws_regs *regs, uint64_t mask, const uint64_t *values, uint32_t n);

#endif
