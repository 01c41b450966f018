/*
 * written.c - see written.h.
 *
 * Where instructions begin is not known: each byte is tried. What looks like a write by chance
 * would hardly have the address of a variable. Compilers also load an address into a register
 * before a loop: that counts where nothing in the stretch looks as if it changed the register.
 */
#include "analyze/written.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "symbols/demangle.h"
#include "symbols/symtab.h"

enum {
	LOCK = 0xf0,
	WORD_PREFIX = 0x66,
	DOUBLE = 0xf2,
	SINGLE = 0xf3,
	REX = 0x40,
	TWO_BYTES = 0x0f
};

/* What an instruction looks like whose operand lies in memory. */
struct write_code {
	uint8_t code, immediate; /* bytes after the address */
	uint8_t digits;		 /* bits: which values of the register field write */
	bool atomic;		 /* always */
};

static const struct write_code codes[] = {
	{0x00, 0, 0xff, false}, {0x01, 0, 0xff, false}, {0x08, 0, 0xff, false},
	{0x09, 0, 0xff, false}, {0x10, 0, 0xff, false}, {0x11, 0, 0xff, false},
	{0x18, 0, 0xff, false}, {0x19, 0, 0xff, false}, {0x20, 0, 0xff, false},
	{0x21, 0, 0xff, false}, {0x28, 0, 0xff, false}, {0x29, 0, 0xff, false},
	{0x30, 0, 0xff, false}, {0x31, 0, 0xff, false}, {0x80, 1, 0x7f, false},
	{0x81, 4, 0x7f, false}, {0x83, 1, 0x7f, false}, {0x86, 0, 0xff, true},
	{0x87, 0, 0xff, true},	{0x88, 0, 0xff, false}, {0x89, 0, 0xff, false},
	{0xc6, 1, 0x01, false}, {0xc7, 4, 0x01, false}, {0xf6, 0, 0x0c, false},
	{0xf7, 0, 0x0c, false}, {0xfe, 0, 0x03, false}, {0xff, 0, 0x03, false},
};

/* The same after the byte that announces a second one: exchanges, and stores of vectors. */
static const struct write_code long_codes[] = {
	{0xb0, 0, 0xff, false}, {0xb1, 0, 0xff, false}, {0xc0, 0, 0xff, false},
	{0xc1, 0, 0xff, false}, {0x11, 0, 0xff, false}, {0x29, 0, 0xff, false},
	{0x7f, 0, 0xff, false}, {0xd6, 0, 0xff, false},
};

static const struct write_code *find_code(const struct write_code *list, size_t count, uint8_t code)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].code == code)
			return &list[i];
	return NULL;
}

/* Whether an address holds variables: memory that stays writable. */
static bool is_variable(const struct ws_elf *elf, uint64_t address)
{
	Elf64_Phdr segment;
	bool writable = false;

	for (uint32_t i = 0; ws_elf_get_segment(elf, i, &segment); i++) {
		bool inside =
			address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_memsz;

		if (inside && segment.p_type == PT_GNU_RELRO)
			return false;
		writable |= inside && segment.p_type == PT_LOAD && (segment.p_flags & PF_W);
	}
	return writable;
}

/* Reads a write at the beginning of `bytes`, of which there are 16. */
static bool read_write(const uint8_t *bytes, uint64_t address, struct ws_written *written)
{
	const struct write_code *code;
	const uint8_t *at = bytes;
	bool lock = *at == LOCK, word;
	int32_t distance;
	uint8_t immediate;

	at += lock;
	word = *at == WORD_PREFIX;
	at += word || *at == DOUBLE || *at == SINGLE;
	at += (*at & 0xf0) == REX;
	if (*at == TWO_BYTES)
		code = find_code(long_codes, WS_COUNT(long_codes), *++at);
	else
		code = find_code(codes, WS_COUNT(codes), *at);
	at++;
	/* An operand relative to the next instruction. */
	if (!code || (*at & 0xc7) != 0x05 || !(code->digits >> (*at >> 3 & 7) & 1))
		return false;
	memcpy(&distance, at + 1, sizeof(distance));
	immediate = code->immediate;
	if (word && immediate == 4)
		immediate = 2;
	at += 1 + sizeof(distance) + immediate;
	written->from = address;
	written->to = address + (uint64_t)(at - bytes);
	written->target = written->to + (uint64_t)(int64_t)distance;
	written->atomic = lock || code->atomic;
	return true;
}

/* ---- by a register that holds an address ---- */

enum { LOAD_ADDRESS = 0x8d, LOAD_BYTES = 7, REGISTERS = 16, STACK_REGISTER = 4 };

/* `lea distance(%rip), %register`: the register, and what it holds from then on. */
static bool read_address(const uint8_t *bytes, uint64_t address, unsigned *number, uint64_t *value)
{
	int32_t distance;

	if ((bytes[0] & 0xf8) != 0x48 || bytes[1] != LOAD_ADDRESS || (bytes[2] & 0xc7) != 0x05)
		return false;
	memcpy(&distance, bytes + 3, sizeof(distance));
	*number = (bytes[2] >> 3 & 7) | (bytes[0] & 4) << 1;
	*value = address + LOAD_BYTES + (uint64_t)(int64_t)distance;
	return true;
}

/* Whether an instruction seems to change a register, given its low three bits: rather too often. */
static bool may_change(const uint8_t *bytes, unsigned low)
{
	static const uint8_t to_operand[] = {0x01, 0x09, 0x11, 0x19, 0x21, 0x29, 0x31, 0x81, 0x83,
					     0x87, 0x89, 0xc1, 0xc7, 0xd1, 0xd3, 0xf7, 0xff},
			     to_register[] = {0x03, 0x0b, 0x13, 0x1b, 0x23, 0x2b,	 0x33,
					      0x63, 0x69, 0x6b, 0x87, 0x8b, LOAD_ADDRESS};
	uint8_t modes = bytes[1];

	if (memchr(to_operand, bytes[0], sizeof(to_operand)) && modes >= 0xc0 && (modes & 7) == low)
		return true;
	if (memchr(to_register, bytes[0], sizeof(to_register)) && (modes >> 3 & 7) == low)
		return true;
	/* Conditional moves, widening, counting bits. */
	return bytes[0] == TWO_BYTES && (bytes[2] >> 3 & 7) == low &&
	       ((modes & 0xf0) == 0x40 || modes == 0xaf || (modes >= 0xb6 && modes <= 0xbf));
}

/* Whether only the `lea` at `load` changes the register. */
static bool is_kept(const uint8_t *bytes, uint64_t size, uint64_t load, unsigned number)
{
	for (uint64_t i = 0; i < size; i++) {
		uint64_t value;
		unsigned other;

		if (read_address(bytes + i, 0, &other, &value)) {
			if (i != load && other == number)
				return false;
			i += LOAD_BYTES - 1; /* the distance may look like anything */
		} else if (may_change(bytes + i, number & 7)) {
			return false;
		}
	}
	return true;
}

/* A write to memory at a register, with a distance of a byte or four or none. */
static bool read_relative_write(const uint8_t *bytes, uint64_t address, unsigned number,
				uint64_t value, struct ws_written *written)
{
	const struct write_code *code;
	const uint8_t *at = bytes;
	bool lock = *at == LOCK;
	unsigned high = 0;
	int32_t distance = 0;

	at += lock;
	if ((*at & 0xf0) == REX)
		high = (*at++ & 1u) << 3;
	code = find_code(codes, WS_COUNT(codes), *at++);
	if (!code || *at >= 0xc0 || ((*at & 7u) | high) != number ||
	    !(code->digits >> (*at >> 3 & 7) & 1))
		return false;
	switch (*at++ >> 6) {
	case 0:
		break;
	case 1:
		distance = (int8_t)*at++;
		break;
	default:
		memcpy(&distance, at, sizeof(distance));
		at += sizeof(distance);
	}
	written->from = address;
	written->to = address + (uint64_t)(at - bytes) + code->immediate;
	written->target = value + (uint64_t)(int64_t)distance;
	written->atomic = lock || code->atomic;
	return true;
}

/* Writes by registers that a `lea` in the stretch has given the address of a variable. */
static size_t find_by_registers(const struct ws_elf *elf, const uint8_t *bytes, uint64_t from,
				uint64_t size, struct ws_written *out, size_t most)
{
	size_t count = 0;

	for (uint64_t load = 0; load < size; load++) {
		uint64_t value;
		unsigned number;

		/* Operands at the registers 4 and 5 and their likes look different. */
		if (!read_address(bytes + load, from + load, &number, &value) ||
		    (number & 6) == STACK_REGISTER || !is_variable(elf, value) ||
		    !is_kept(bytes, size, load, number))
			continue;
		for (uint64_t i = load + LOAD_BYTES; i < size && count < most; i++)
			if (read_relative_write(bytes + i, from + i, number, value, &out[count]) &&
			    is_variable(elf, out[count].target))
				i = out[count++].to - from - 1;
	}
	return count;
}

/* ---- all ---- */

size_t ws_find_written(const struct ws_elf *elf, uint64_t from, uint64_t to, struct ws_written *out,
		       size_t most)
{
	enum { LONGEST = 16 };
	uint64_t left = 0;
	const uint8_t *bytes = ws_elf_get_loaded(elf, from, &left);
	size_t count = 0;

	if (!bytes || elf->machine != EM_X86_64 || !elf->wide)
		return 0;
	for (uint64_t i = 0; i + LONGEST <= left && from + i < to && count < most; i++) {
		struct ws_written written;

		if (!read_write(bytes + i, from + i, &written) || !is_variable(elf, written.target))
			continue;
		out[count++] = written;
		i = written.to - from - 1; /* without its first prefix it looks like another one */
	}
	if (left > LONGEST)
		count += find_by_registers(elf, bytes, from, ws_min(to - from, left - LONGEST),
					   out + count, most - count);
	return count;
}

bool ws_put_variable(const struct ws_elf *elf, uint64_t address, struct ws_text *text)
{
	struct ws_symbol_table table;

	if (!ws_symtab_open(elf, false, &table))
		return false;
	for (uint64_t i = 0; i < table.count; i++) {
		Elf64_Sym symbol;
		const char *name = ws_symtab_get(&table, i, &symbol);
		char *plain;

		if (!name || !*name || ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT ||
		    address < symbol.st_value || address - symbol.st_value >= symbol.st_size)
			continue;
		plain = ws_demangle(name);
		ws_text_puts(text, plain);
		free(plain);
		if (address > symbol.st_value)
			ws_text_printf(text, "+%llu",
				       (unsigned long long)(address - symbol.st_value));
		return true;
	}
	return false;
}
