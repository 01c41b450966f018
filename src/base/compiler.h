/*
 * compiler.h - the few compiler extensions that the rest of the code uses by name. Safe for the
 * hook side: macros only.
 */
#ifndef WS_BASE_COMPILER_H
#define WS_BASE_COMPILER_H

#define ws_likely(x) __builtin_expect(!!(x), 1)
#define ws_unlikely(x) __builtin_expect(!!(x), 0)
#define WS_EXPORT __attribute__((visibility("default")))
#define WS_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define WS_NOINLINE __attribute__((noinline, cold))
#define WS_APART __attribute__((noinline)) /* but often called */
#define WS_ALWAYS_INLINE inline __attribute__((always_inline))
#define WS_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define WS_ALIGN_UP(x, a) (((x) + (a)-1) & ~((a)-1))

/* For signal handlers in other people's programs. An emulator (qemu-user before 8) may enter them
 * with a stack that is not aligned to 16 bytes as the ABI requires. */
#if defined(__x86_64__)
#define WS_SIGNAL_ENTRY __attribute__((force_align_arg_pointer))
#else
#define WS_SIGNAL_ENTRY
#endif

/*
 * Begin to fetch the line of memory at `address`, so that a store into it soon finds it. On x86-64,
 * gcc would fetch it for reading only, unless told that the processor is a recent one; older ones
 * ignore the instruction. The address need not be valid.
 */
#define WS_CACHE_LINE 64
#if defined(__x86_64__)
#define ws_fetch_to_write(address) __asm__ volatile("prefetchw %0" ::"m"(*(const char *)(address)))
#else
#define ws_fetch_to_write(address) __builtin_prefetch(address, 1)
#endif

/* For functions that only prefetch: gcc treats a function without visible effects as dead code and
 * removes calls to it that it does not inline. */
#define ws_fetching inline __attribute__((always_inline))

#endif
