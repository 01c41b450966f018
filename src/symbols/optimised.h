/*
 * optimised.h - whether code was compiled with optimisation, as its debugging information shows.
 */
#ifndef WS_SYMBOLS_OPTIMISED_H
#define WS_SYMBOLS_OPTIMISED_H

#include <elfutils/libdw.h>

enum ws_optimised { WS_OPTIMISED_UNKNOWN, WS_OPTIMISED_NO, WS_OPTIMISED_YES };

/* What the compiler noted of its options for a compilation unit: GCC does, Clang only with
 * -grecord-command-line. */
enum ws_optimised ws_judge_unit(Dwarf_Die *unit);
/* What a function of Clang or of another compiler built on LLVM shows (Rust, Swift, Flang); unknown
 * without descriptions of its variables (-g1). */
enum ws_optimised ws_judge_function(Dwarf_Die *function);

#endif
