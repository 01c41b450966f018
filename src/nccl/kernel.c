/*
 * kernel.c - what the names of NCCL's kernels say: ncclDevKernel_AllReduce_Sum_f32_RING_LL(...),
 * ncclDevKernel_SendRecv, ncclSymkDevKernel_..., in older versions ncclKernel_... and
 * ncclAllReduceRingLLKernel_sum_f32.
 *
 * NCCL compiles kernels for a few combinations and uses them for similar ones too: of the name,
 * only the operation and the element type hold for everything that a kernel does, and unsigned
 * types stand for signed ones. Algorithm, protocol and reduction are not read from the name.
 */
#include <stdio.h>
#include <string.h>

#include "nccl/nccl.h"

static const char *const names[WS_NCCL_OPERATIONS] = {
	[WS_NCCL_NONE] = "",
	[WS_NCCL_ALL_REDUCE] = "AllReduce",
	[WS_NCCL_ALL_GATHER] = "AllGather",
	[WS_NCCL_REDUCE_SCATTER] = "ReduceScatter",
	[WS_NCCL_BROADCAST] = "Broadcast",
	[WS_NCCL_REDUCE] = "Reduce",
	[WS_NCCL_ALL_TO_ALL] = "AlltoAll",
	[WS_NCCL_GATHER] = "Gather",
	[WS_NCCL_SCATTER] = "Scatter",
	[WS_NCCL_SEND] = "Send",
	[WS_NCCL_RECV] = "Recv",
};

const char *ws_nccl_name_operation(enum ws_nccl_operation operation)
{
	return operation < WS_NCCL_OPERATIONS ? names[operation] : "";
}

enum ws_nccl_operation ws_nccl_find_operation(const char *name, size_t length)
{
	for (unsigned i = WS_NCCL_NONE + 1; i < WS_NCCL_OPERATIONS; i++)
		if (strlen(names[i]) == length && !memcmp(names[i], name, length))
			return (enum ws_nccl_operation)i;
	return WS_NCCL_NONE;
}

/* When one word contains another, the longer comes first. */
static enum ws_nccl_operation find_operation(const char *name)
{
	static const struct {
		const char *word;
		enum ws_nccl_operation operation;
	} words[] = {
		{"AllReduce", WS_NCCL_ALL_REDUCE},
		{"AllGather", WS_NCCL_ALL_GATHER},
		{"ReduceScatter", WS_NCCL_REDUCE_SCATTER},
		{"Broadcast", WS_NCCL_BROADCAST},
		{"SendRecv", WS_NCCL_SEND},
		{"Reduce", WS_NCCL_REDUCE},
	};

	for (size_t i = 0; i < WS_COUNT(words); i++)
		if (strstr(name, words[i].word))
			return words[i].operation;
	return WS_NCCL_NONE;
}

/* Whether the name has a word, between underscores: a plain search would find "f16" in "bf16". */
static bool has_word(const char *name, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = strstr(name, word); at; at = strstr(at + 1, word))
		if (at > name && at[-1] == '_' && strchr("_(<", at[length]))
			return true;
	return false;
}

static const char *find_type(const char *name)
{
	static const char *const types[][2] = {
		{"bf16", "BFloat16"},
		{"bfloat16", "BFloat16"},
		{"f16", "Half"},
		{"half", "Half"},
		{"f32", "Float"},
		{"float", "Float"},
		{"f64", "Double"},
		{"double", "Double"},
		{"i8", "Char"},
		{"int8_t", "Char"},
		{"u8", "Byte"},
		{"uint8_t", "Byte"},
		{"i32", "Int"},
		{"int32_t", "Int"},
		{"u32", "Int"},
		{"uint32_t", "Int"},
		{"i64", "Long"},
		{"int64_t", "Long"},
		{"u64", "Long"},
		{"uint64_t", "Long"},
		{"f8e4m3", "Float8_e4m3fn"},
		{"f8e5m2", "Float8_e5m2"},
	};

	for (size_t i = 0; i < WS_COUNT(types); i++)
		if (has_word(name, types[i][0]))
			return types[i][1];
	return NULL;
}

struct ws_nccl_kernel_name ws_nccl_read_kernel_name(const char *name)
{
	struct ws_nccl_kernel_name read = {
		.is_nccl = !strncmp(name, "nccl", 4) || strstr(name, "ncclKernel") ||
			   strstr(name, "ncclDevKernel"),
	};

	if (!read.is_nccl)
		return read;
	read.operation = (uint8_t)find_operation(name);
	read.type = find_type(name);
	return read;
}

void ws_nccl_write_label(char *label, size_t room, const char *name, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double size = (double)bytes;
	size_t unit = 0;

	while (size >= 1024 && unit + 1 < WS_COUNT(units)) {
		size /= 1024;
		unit++;
	}
	/* Write three significant digits, without trailing zeros after the point. */
	snprintf(label, room, "%s %.*g %s", name, size >= 1000 ? 4 : 3, size, units[unit]);
}
