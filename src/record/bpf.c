/* bpf.c - see bpf.h. */
#include "record/bpf.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- writing a program ---- */

static void put(struct ws_bpf *bpf, int code, int dst, int src, int off, int32_t imm)
{
	if (bpf->n < WS_BPF_MOST)
		bpf->insns[bpf->n] = (struct bpf_insn){.code = (uint8_t)code,
						       .dst_reg = dst & 15,
						       .src_reg = src & 15,
						       .off = (int16_t)off,
						       .imm = imm};
	bpf->n++;
}

void ws_bpf_op(struct ws_bpf *bpf, int op, int reg, int32_t value)
{
	put(bpf, BPF_ALU64 | op | BPF_K, reg, 0, 0, value);
}

void ws_bpf_op_reg(struct ws_bpf *bpf, int op, int reg, int from)
{
	put(bpf, BPF_ALU64 | op | BPF_X, reg, from, 0, 0);
}

void ws_bpf_set(struct ws_bpf *bpf, int reg, uint64_t value)
{
	put(bpf, BPF_LD | BPF_DW | BPF_IMM, reg, 0, 0, (int32_t)(uint32_t)value);
	put(bpf, 0, 0, 0, 0, (int32_t)(uint32_t)(value >> 32));
}

void ws_bpf_map(struct ws_bpf *bpf, int reg, int fd)
{
	put(bpf, BPF_LD | BPF_DW | BPF_IMM, reg, BPF_PSEUDO_MAP_FD, 0, fd);
	put(bpf, 0, 0, 0, 0, 0);
}

void ws_bpf_load(struct ws_bpf *bpf, int size, int reg, int base, int off)
{
	put(bpf, BPF_LDX | size | BPF_MEM, reg, base, off, 0);
}

void ws_bpf_store(struct ws_bpf *bpf, int size, int base, int off, int reg)
{
	put(bpf, BPF_STX | size | BPF_MEM, base, reg, off, 0);
}

void ws_bpf_store_value(struct ws_bpf *bpf, int size, int base, int off, int32_t value)
{
	put(bpf, BPF_ST | size | BPF_MEM, base, 0, off, value);
}

void ws_bpf_address(struct ws_bpf *bpf, int reg, int base, int off)
{
	ws_bpf_op_reg(bpf, BPF_MOV, reg, base);
	if (off)
		ws_bpf_op(bpf, BPF_ADD, reg, off);
}

void ws_bpf_call(struct ws_bpf *bpf, int helper)
{
	put(bpf, BPF_JMP | BPF_CALL, 0, 0, 0, helper);
}

void ws_bpf_return(struct ws_bpf *bpf, int32_t value)
{
	ws_bpf_op(bpf, BPF_MOV, 0, value);
	put(bpf, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

int ws_bpf_jump(struct ws_bpf *bpf, int op, int reg, int32_t value)
{
	put(bpf, BPF_JMP | op | BPF_K, op == BPF_JA ? 0 : reg, 0, 0, op == BPF_JA ? 0 : value);
	return bpf->n - 1;
}

int ws_bpf_jump_reg(struct ws_bpf *bpf, int op, int reg, int other)
{
	put(bpf, BPF_JMP | op | BPF_X, reg, other, 0, 0);
	return bpf->n - 1;
}

void ws_bpf_land(struct ws_bpf *bpf, int jump)
{
	if (jump < WS_BPF_MOST)
		bpf->insns[jump].off = (int16_t)(bpf->n - jump - 1);
}

void ws_bpf_back(struct ws_bpf *bpf, int to)
{
	put(bpf, BPF_JMP | BPF_JA, 0, 0, to - bpf->n - 1, 0);
}

/* ---- the kernel ---- */

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

int ws_bpf_map_take(int fd, const void *key)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)fd;
	attr.key = (uintptr_t)key;
	return call(BPF_MAP_DELETE_ELEM, &attr);
}

int ws_bpf_program(const struct ws_bpf *bpf, char *log, size_t log_bytes)
{
	union bpf_attr attr;
	int fd;

	if (bpf->n > WS_BPF_MOST)
		return -E2BIG;
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_PERF_EVENT;
	attr.insns = (uintptr_t)bpf->insns;
	attr.insn_cnt = (uint32_t)bpf->n;
	attr.license = (uintptr_t) "Dual BSD/GPL";
	memcpy(attr.prog_name, "warpsight", 9);
	fd = call(BPF_PROG_LOAD, &attr);
	if (fd >= 0 || !log)
		return fd;
	attr.log_buf = (uintptr_t)log;
	attr.log_size = (uint32_t)log_bytes;
	attr.log_level = 1;
	log[0] = 0;
	return call(BPF_PROG_LOAD, &attr);
}
