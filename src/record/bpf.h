/*
 * bpf.h - small programs for the kernel, made at run time: an assembler, maps, and loading.
 *
 * No compiler and no library is needed for it, and no description of the kernel's types: the
 * programs use only what is stable, maps and helpers. Registers are numbered as the kernel does: 0
 * takes results, 1 to 5 are arguments and lost in calls, 6 to 9 are kept, 10 is the end of the
 * stack of 512 bytes.
 */
#ifndef WS_RECORD_BPF_H
#define WS_RECORD_BPF_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- writing a program ---- */

#define WS_BPF_MOST 1024
struct ws_bpf {
	struct bpf_insn insns[WS_BPF_MOST];
	int n; /* more than WS_BPF_MOST: it was too long, and is refused when it is loaded */
};

enum { WS_BPF_8 = BPF_B, WS_BPF_32 = BPF_W, WS_BPF_64 = BPF_DW }; /* sizes */

/* Operations are BPF_MOV, BPF_ADD, ... on 64 bits. */
void ws_bpf_op(struct ws_bpf *bpf, int op, int reg, int32_t value);
void ws_bpf_op_reg(struct ws_bpf *bpf, int op, int reg, int from);
void ws_bpf_set(struct ws_bpf *bpf, int reg, uint64_t value); /* any 64 bits */
void ws_bpf_map(struct ws_bpf *bpf, int reg, int fd);
void ws_bpf_load(struct ws_bpf *bpf, int size, int reg, int base, int off);
void ws_bpf_store(struct ws_bpf *bpf, int size, int base, int off, int reg);
void ws_bpf_store_value(struct ws_bpf *bpf, int size, int base, int off, int32_t value);
/* reg = base + off */
void ws_bpf_address(struct ws_bpf *bpf, int reg, int base, int off);
void ws_bpf_call(struct ws_bpf *bpf, int helper);
void ws_bpf_return(struct ws_bpf *bpf, int32_t value);

/* Jump ahead when `reg op value` (BPF_JEQ, ...), to where ws_bpf_land is given the result. BPF_JA
 * jumps always. */
int ws_bpf_jump(struct ws_bpf *bpf, int op, int reg, int32_t value);
int ws_bpf_jump_reg(struct ws_bpf *bpf, int op, int reg, int other);
void ws_bpf_land(struct ws_bpf *bpf, int jump);
/* Jump back to instruction number `to`. */
void ws_bpf_back(struct ws_bpf *bpf, int to);

/* ---- the kernel ---- */

/* All give a descriptor, or -errno. */
int ws_bpf_map_new(enum bpf_map_type type, uint32_t key, uint32_t value, uint32_t entries);
int ws_bpf_map_set(int fd, const void *key, const void *value);
int ws_bpf_map_take(int fd, const void *key);
/*
 * Load a program of type PERF_EVENT. `log` (may be NULL, of `log_bytes`) gets what the kernel says
 * when it refuses. The helpers that read memory are for programs under the GPL only, so the
 * instructions are given under either licence.
 */
int ws_bpf_program(const struct ws_bpf *bpf, char *log, size_t log_bytes);

#endif
