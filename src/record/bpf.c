/* bpf.c - see bpf.h. */
#include "record/bpf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

static int call(int command, union bpf_attr *attr)
{
	int r = (int)syscall(SYS_bpf, command, attr, sizeof(*attr));

	return r < 0 ? -errno : r;
}

int ws_bpf_map_new(enum bpf_map_type type, uint32_t key, uint32_t value, uint32_t entries)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = type;
	attr.key_size = key;
	attr.value_size = value;
	attr.max_entries = entries;
	return call(BPF_MAP_CREATE, &attr);
}

int ws_bpf_map_set(int fd, const void *key, const void *value)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)fd;
	attr.key = (uintptr_t)key;
	attr.value = (uintptr_t)value;
	return call(BPF_MAP_UPDATE_ELEM, &attr);
}

int ws_bpf_map_get(int fd, const void *key, void *value)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)fd;
	attr.key = (uintptr_t)key;
	attr.value = (uintptr_t)value;
	return call(BPF_MAP_LOOKUP_ELEM, &attr);
}

int ws_bpf_map_new_constant(uint32_t value)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = 4;
	attr.value_size = value;
	attr.max_entries = 1;
	attr.map_flags = BPF_F_RDONLY_PROG;
	return call(BPF_MAP_CREATE, &attr);
}

int ws_bpf_map_freeze(int fd)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)fd;
	return call(BPF_MAP_FREEZE, &attr);
}

int ws_bpf_open_raw_tracepoint(const char *name, int program)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.raw_tracepoint.name = (uintptr_t)name;
	attr.raw_tracepoint.prog_fd = (uint32_t)program;
	return call(BPF_RAW_TRACEPOINT_OPEN, &attr);
}

int ws_bpf_call(int fd)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.test.prog_fd = (uint32_t)fd;
	return call(BPF_PROG_TEST_RUN, &attr);
}

int ws_bpf_map_take(int fd, const void *key)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)fd;
	attr.key = (uintptr_t)key;
	return call(BPF_MAP_DELETE_ELEM, &attr);
}

#define FIRST_PID_NS 0xeffffffcu /* inode of the initial namespace, which contains all others */

uint64_t ws_bpf_pid_namespace(uint64_t *device)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == FIRST_PID_NS)
		return 0;
	*device = st.st_dev;
	return st.st_ino;
}

/* The instructions of a program with the values of its symbols; owned by the caller. */
static struct bpf_insn *patch_program(const struct ws_bpf_program *program,
				      const struct ws_bpf_value *values)
{
	struct bpf_insn *insns = ws_calloc(program->words_n, sizeof(*insns));

	memcpy(insns, program->words, program->words_n * sizeof(*insns));
	for (uint32_t i = 0; i < program->patches_n; i++) {
		const struct ws_bpf_patch *patch = &program->patches[i];
		const struct ws_bpf_value *value = &values[patch->symbol];

		insns[patch->at].src_reg = value->map ? BPF_PSEUDO_MAP_FD : 0;
		insns[patch->at].imm = (int32_t)(uint32_t)value->value;
		insns[patch->at + 1].imm = (int32_t)(uint32_t)(value->value >> 32);
	}
	return insns;
}

int ws_bpf_load(const struct ws_bpf_program *program, enum bpf_prog_type type,
		const struct ws_bpf_value *values, char *log, size_t log_bytes)
{
	struct bpf_insn *insns = patch_program(program, values);
	union bpf_attr attr;
	int fd;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = type;
	attr.insns = (uintptr_t)insns;
	attr.insn_cnt = program->words_n;
	attr.license = (uintptr_t) "Dual BSD/GPL";
	memcpy(attr.prog_name, "warpsight", 9);
	fd = call(BPF_PROG_LOAD, &attr);
	if (fd < 0 && log) {
		attr.log_buf = (uintptr_t)log;
		attr.log_size = (uint32_t)log_bytes;
		attr.log_level = 1;
		log[0] = 0;
		fd = call(BPF_PROG_LOAD, &attr);
	}
	free(insns);
	return fd;
}
