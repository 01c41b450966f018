/*
 * bpf.h - programs for the kernel: the format of a compiled program, maps, and loading.
 *
 * No library and no description of the kernel's types is needed: the programs use only what is
 * stable, namely maps and helpers.
 */
#ifndef WS_RECORD_BPF_H
#define WS_RECORD_BPF_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- a compiled program (scripts/embed-bpf.py) ---- */

/* an instruction that loads 64 bits, which are filled in when the program is loaded */
struct ws_bpf_patch {
	uint32_t at, symbol;
};

struct ws_bpf_program {
	const char *name;      /* NULL ends an array */
	const uint64_t *words; /* instructions, as struct bpf_insn */
	uint32_t words_n;
	const struct ws_bpf_patch *patches;
	uint32_t patches_n;
};

struct ws_bpf_value {	/* of a symbol */
	uint64_t value; /* a number, or a map's descriptor */
	bool map;
};

/* ---- the kernel ---- */

/* All return a descriptor, or -errno. */
int ws_bpf_map_new(enum bpf_map_type type, uint32_t key, uint32_t value, uint32_t entries);
int ws_bpf_map_set(int fd, const void *key, const void *value);
int ws_bpf_map_get(int fd, const void *key, void *value);
int ws_bpf_map_take(int fd, const void *key);
/* A map with one value of `value` bytes. Programs cannot change it, and nobody can once it is
 * frozen. */
int ws_bpf_map_new_constant(uint32_t value);
int ws_bpf_map_freeze(int fd);
/* Inode and device of this process's pid namespace, in which a program must look ids up; 0: it is
 * the initial one, whose ids the kernel gives without a lookup. */
uint64_t ws_bpf_pid_namespace(uint64_t *device);
/* Attach a program of type RAW_TRACEPOINT to a tracepoint, for as long as the returned descriptor
 * is open. */
int ws_bpf_open_raw_tracepoint(const char *name, int program);
/* Run a program of type RAW_TRACEPOINT directly, without an event and without arguments. */
int ws_bpf_call(int fd);
/*
 * Load a program of a type, with the values of its symbols, by number. `log` (of `log_bytes`, may
 * be NULL) gets the kernel's message when it refuses. Only programs under the GPL may use the
 * helpers that read memory, so the instructions are licensed under either licence.
 */
int ws_bpf_load(const struct ws_bpf_program *program, enum bpf_prog_type type,
		const struct ws_bpf_value *values, char *log, size_t log_bytes);

#endif
