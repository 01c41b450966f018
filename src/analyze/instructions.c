/* instructions.c - see instructions.h. By the opcode maps of Intel's and AMD's manuals. */
#include "analyze/instructions.h"

#include <string.h>

#include "base/choose.h"

enum { MAP_ONE = 0, MAP_0F = 1, MAP_0F38 = 2, MAP_0F3A = 3 };
enum {
	LOCK = 0xf0,
	WORD = 0x66,
	REPEAT_NOT = 0xf2,
	REPEAT = 0xf3,
	ESCAPE = 0x0f,
	VEX_LONG = 0xc4,
	VEX_SHORT = 0xc5,
	EVEX = 0x62
};

struct reader {
	const uint8_t *start, *at, *end;
	uint8_t map, code;
	bool word, single, lock, wide, vector; /* vector: with a prefix of AVX */
	uint8_t repeat;			       /* the prefix 0xf2 or 0xf3, else 0 */
	uint8_t high_register, high_index, high_base;
	uint8_t modes, reg;
	bool has_modes;
};

static bool is_prefix(uint8_t byte)
{
	static const uint8_t prefixes[] = {LOCK, WORD, REPEAT_NOT, REPEAT, 0x26, 0x2e,
					   0x36, 0x3e, 0x64,	   0x65,   0x67};

	return memchr(prefixes, byte, sizeof(prefixes)) != NULL;
}

static void read_vector_prefix(struct reader *reader, unsigned length)
{
	const uint8_t *at = reader->at;
	uint8_t last = at[length - 1 - (*at == EVEX)];

	reader->vector = true;
	reader->high_register = (uint8_t)((~at[1] >> 7 & 1) << 3);
	reader->map = MAP_0F;
	if (*at != VEX_SHORT) {
		reader->high_index = (uint8_t)((~at[1] >> 6 & 1) << 3);
		reader->high_base = (uint8_t)((~at[1] >> 5 & 1) << 3);
		reader->map = at[1] & 3;
		reader->wide = at[2] >> 7;
	}
	reader->word = (last & 3) == 1;
	if ((last & 3) > 1)
		reader->repeat = (last & 3) == 2 ? REPEAT : REPEAT_NOT;
	reader->at += length;
}

/* Prefixes and the opcode. */
static bool read_code(struct reader *reader)
{
	for (; reader->at < reader->end && is_prefix(*reader->at); reader->at++) {
		reader->lock |= *reader->at == LOCK;
		reader->word |= *reader->at == WORD;
		if (*reader->at == REPEAT || *reader->at == REPEAT_NOT)
			reader->repeat = *reader->at;
	}
	if (reader->end - reader->at < 6)
		return false;
	if (*reader->at == VEX_SHORT)
		read_vector_prefix(reader, 2);
	else if (*reader->at == VEX_LONG)
		read_vector_prefix(reader, 3);
	else if (*reader->at == EVEX)
		read_vector_prefix(reader, 4);
	if (!reader->vector && (*reader->at & 0xf0) == 0x40) {
		uint8_t rex = *reader->at++;

		reader->wide = rex >> 3 & 1;
		reader->high_register = (uint8_t)((rex & 4) << 1);
		reader->high_index = (uint8_t)((rex & 2) << 2);
		reader->high_base = (uint8_t)((rex & 1) << 3);
	}
	if (!reader->vector && *reader->at == ESCAPE) {
		reader->map = MAP_0F;
		reader->at++;
		if (*reader->at == 0x38 || *reader->at == 0x3a)
			reader->map = *reader->at++ == 0x38 ? MAP_0F38 : MAP_0F3A;
	}
	reader->code = *reader->at++;
	return true;
}

static bool has_modes(uint8_t map, uint8_t code)
{
	if (map > MAP_0F)
		return true;
	if (map == MAP_0F)
		return !(code == 0x05 || (code >= 0x06 && code <= 0x0c) ||
			 (code >= 0x30 && code <= 0x37) || code == 0x77 || (code & 0xf0) == 0x80 ||
			 (code >= 0xa0 && code <= 0xa2) || (code >= 0xa8 && code <= 0xaa) ||
			 (code >= 0xc8 && code <= 0xcf));
	if (code < 0x40)
		return (code & 7) < 4;
	return code == 0x63 || code == 0x69 || code == 0x6b || (code >= 0x80 && code <= 0x8f) ||
	       code == 0xc0 || code == 0xc1 || code == 0xc6 || code == 0xc7 ||
	       (code >= 0xd0 && code <= 0xd3) || (code >= 0xd8 && code <= 0xdf) || code == 0xf6 ||
	       code == 0xf7 || code == 0xfe || code == 0xff;
}

/* Bytes of the operand that is part of the instruction, of one-byte opcodes. */
static unsigned size_immediate(const struct reader *reader)
{
	uint8_t code = reader->code;
	unsigned full = reader->word ? 2 : 4;

	if (code < 0x40)
		return (code & 7) == 4 ? 1 : (code & 7) == 5 ? full : 0;
	if ((code & 0xf0) == 0x70 || (code & 0xfc) == 0xe0 || (code & 0xf8) == 0xb0)
		return 1;
	if ((code & 0xf8) == 0xb8)
		return reader->wide ? 8 : full;
	if ((code & 0xfc) == 0xa0)
		return 8;
	switch (code) {
	case 0x68:
	case 0x69:
	case 0x81:
	case 0xa9:
	case 0xc7:
		return full;
	case 0xe8:
	case 0xe9:
		return 4;
	case 0x6a:
	case 0x6b:
	case 0x80:
	case 0x83:
	case 0xa8:
	case 0xc0:
	case 0xc1:
	case 0xc6:
	case 0xcd:
	case 0xeb:
		return 1;
	case 0xc2:
	case 0xca:
		return 2;
	case 0xc8:
		return 3;
	case 0xf6:
		return (reader->reg & 7) < 2 ? 1 : 0;
	case 0xf7:
		return (reader->reg & 7) < 2 ? full : 0;
	default:
		return 0;
	}
}

static unsigned size_long_immediate(const struct reader *reader)
{
	static const uint8_t bytes[] = {0x70, 0x71, 0x72, 0x73, 0xa4, 0xac,
					0xba, 0xc2, 0xc4, 0xc5, 0xc6};

	if (reader->map == MAP_0F3A)
		return 1;
	if (reader->map != MAP_0F)
		return 0;
	if ((reader->code & 0xf0) == 0x80)
		return 4;
	return memchr(bytes, reader->code, sizeof(bytes)) ? 1 : 0;
}

/* The operand in memory. */
static void read_operand(struct reader *reader, struct ws_instruction *out)
{
	uint8_t mode = reader->modes >> 6, low = reader->modes & 7;

	out->memory = true;
	out->base = low | reader->high_base;
	if (low == 4) {
		uint8_t sib = *reader->at++;

		out->base = (sib & 7) | reader->high_base;
		out->index = (sib >> 3 & 7) | reader->high_index;
		out->scale = (uint8_t)(1 << (sib >> 6));
		if (out->index == 4)
			out->index = WS_NO_REGISTER;
		low = sib & 7;
	}
	if (!mode && low == 5) { /* an address, alone or relative to the next instruction */
		out->base = WS_NO_REGISTER;
		out->relative = (reader->modes & 7) == 5;
		mode = 2;
	}
	if (mode == 1) {
		out->distance = (int8_t)*reader->at++;
	} else if (mode == 2) {
		memcpy(&out->distance, reader->at, sizeof(out->distance));
		reader->at += sizeof(out->distance);
	}
}

static int64_t read_signed(const uint8_t *at, unsigned size)
{
	int32_t four = 0;
	int16_t two = 0;

	if (size == 1)
		return (int8_t)*at;
	if (size == 2) {
		memcpy(&two, at, sizeof(two));
		return two;
	}
	memcpy(&four, at, sizeof(four));
	return four;
}

/* ---- what it does ---- */

static void describe_step(const struct reader *reader, const uint8_t *immediate, unsigned size,
			  struct ws_instruction *out)
{
	uint8_t reg = reader->reg, other = (reader->modes & 7) | reader->high_base;

	switch (reader->code) {
	case 0x81:
	case 0x83:
		if ((reg & 7) != 0 && (reg & 7) != 5)
			return;
		out->kind = WS_INSTRUCTION_STEP;
		if (!out->memory)
			out->target = other;
		out->value = read_signed(immediate, size);
		if ((reg & 7) == 5)
			out->value = -out->value;
		return;
	case 0xff:
		if ((reg & 7) > 1)
			return;
		out->kind = WS_INSTRUCTION_STEP;
		if (!out->memory)
			out->target = other;
		out->value = reg & 7 ? -1 : 1;
		return;
	case 0x05:
		out->kind = WS_INSTRUCTION_STEP;
		out->target = 0;
		out->value = read_signed(immediate, size);
		return;
	case 0x01:
	case 0x03:
		if (out->memory)
			return;
		out->kind = WS_INSTRUCTION_STEP_BY;
		out->target = reader->code == 0x01 ? other : reg;
		out->source = reader->code == 0x01 ? reg : other;
		return;
	case 0x8d:
		if (out->base == reg && out->index == WS_NO_REGISTER) {
			out->kind = WS_INSTRUCTION_STEP;
			out->target = reg;
			out->value = out->distance;
		}
		out->memory = false; /* only an address */
		return;
	default:
		return;
	}
}

static void find_changed(const struct reader *reader, struct ws_instruction *out)
{
	static const uint8_t kept[] = {0x38, 0x39, 0x3a, 0x3b, 0x84, 0x85, 0xd8,
				       0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf};
	uint8_t code = reader->code, other = (reader->modes & 7) | reader->high_base;

	if (reader->map != MAP_ONE) {
		/* Conditional moves, widening, bits, multiplication, numbers from vectors. */
		if (!reader->vector && reader->map == MAP_0F &&
		    ((code & 0xf0) == 0x40 || code == 0xaf || (code >= 0xb6 && code <= 0xbf) ||
		     code == 0x2c || code == 0x2d || code == 0x50 || code == 0xd7))
			out->changed = reader->reg;
		return;
	}
	if ((code & 0xf8) == 0xb8 || (code & 0xf8) == 0x58)
		out->changed = (code & 7) | reader->high_base;
	if (!reader->has_modes || memchr(kept, code, sizeof(kept)))
		return;
	if ((code < 0x40 && (code & 2)) || code == 0x63 || code == 0x69 || code == 0x6b ||
	    code == 0x8a || code == 0x8b || code == 0x8d)
		out->changed = reader->reg;
	else if (!out->memory && !((code & 0xfe) == 0xf6 && (reader->reg & 7) < 2) &&
		 !((code == 0x80 || code == 0x81 || code == 0x83) && (reader->reg & 7) == 7))
		out->changed = other;
}

/* Which register it computes with, besides those of an address. */
static uint8_t find_source(const struct reader *reader, const struct ws_instruction *out)
{
	uint8_t code = reader->code,
		other = out->memory ? WS_NO_REGISTER : (reader->modes & 7) | reader->high_base;

	if (!reader->has_modes || reader->vector)
		return WS_NO_REGISTER;
	if (reader->map == MAP_0F)
		return (code & 0xf0) == 0x40 || code == 0xaf || (code >= 0xb6 && code <= 0xbf)
			       ? other
			       : WS_NO_REGISTER;
	if (reader->map != MAP_ONE)
		return WS_NO_REGISTER;
	if (code < 0x40)
		return code & 2 ? other : reader->reg;
	if (code == 0x88 || code == 0x89)
		return reader->reg;
	if (code == 0x84 || code == 0x85)
		return reader->reg;
	return code == 0x63 || code == 0x69 || code == 0x6b || code == 0x8a || code == 0x8b
		       ? other
		       : WS_NO_REGISTER;
}

/* `xor` or `sub` of a register and itself. */
static bool is_zeroing(const struct reader *reader, const struct ws_instruction *out)
{
	return reader->map == MAP_ONE &&
	       ((reader->code & 0xfc) == 0x28 || (reader->code & 0xfc) == 0x30) && !out->memory &&
	       out->source == out->changed;
}

/* Whether the result comes from the operands alone: copies, addresses, widening. */
static bool is_setting(const struct reader *reader)
{
	uint8_t code = reader->code;

	if (reader->map == MAP_0F && !reader->vector)
		return code == 0xb6 || code == 0xb7 || code == 0xbe || code == 0xbf;
	if (reader->map != MAP_ONE)
		return false;
	return code == 0x63 || code == 0x69 || code == 0x6b || code == 0x89 || code == 0x8b ||
	       code == 0x8d || code == 0xc7 || (code & 0xf8) == 0xb8;
}

static bool is_storing(const struct reader *reader)
{
	uint8_t code = reader->code, digit = reader->reg & 7;

	if (reader->map == MAP_0F)
		return code == 0x11 || code == 0x13 || code == 0x17 || code == 0x29 ||
		       code == 0x2b || code == 0x7f || code == 0xd6 || code == 0xe7 ||
		       (code == 0x7e && reader->repeat != REPEAT) || (code & 0xf0) == 0x90 ||
		       (code & 0xfe) == 0xb0 || (code & 0xfe) == 0xc0;
	if (reader->map != MAP_ONE)
		return false;
	if (code < 0x38)
		return !(code & 2);
	return ((code == 0x80 || code == 0x81 || code == 0x83) && digit != 7) ||
	       (code & 0xfe) == 0x86 || (code & 0xfe) == 0x88 || (code & 0xfe) == 0xc6 ||
	       (code & 0xfe) == 0xc0 || (code & 0xfc) == 0xd0 ||
	       ((code & 0xfe) == 0xf6 && (digit == 2 || digit == 3)) ||
	       ((code & 0xfe) == 0xfe && digit < 2);
}

static void describe_arithmetic(const struct reader *reader, struct ws_instruction *out)
{
	uint8_t code = reader->code;

	if (reader->map == MAP_ONE && (code & 0xfe) == 0xf6 && (reader->reg & 7) >= 6)
		out->kind = WS_INSTRUCTION_DIVISION;
	if (reader->map == MAP_0F && (code == 0x5e || code == 0x51))
		out->kind = WS_INSTRUCTION_DIVISION;
	else if (reader->map == MAP_0F && reader->repeat &&
		 (code == 0x58 || code == 0x59 || code == 0x5c))
		out->kind = WS_INSTRUCTION_FLOAT;
	else if (reader->map == MAP_0F38 && reader->vector && (code & 0x8f) >= 0x88 &&
		 code >= 0x98 && code <= 0xbf && (code & 1))
		out->kind = WS_INSTRUCTION_FLOAT; /* multiplies and adds */
}

static void describe(const struct reader *reader, const uint8_t *immediate, unsigned size,
		     struct ws_instruction *out)
{
	uint8_t code = reader->code;

	find_changed(reader, out);
	out->source = find_source(reader, out);
	if (reader->has_modes && reader->map == MAP_ONE && !out->memory)
		out->other = (reader->modes & 7) | reader->high_base;
	out->sets = is_setting(reader);
	out->copies = out->sets &&
		      (reader->map == MAP_0F || code == 0x63 || code == 0x89 || code == 0x8b);
	if (is_zeroing(reader, out)) {
		out->sets = true;
		out->source = out->other = WS_NO_REGISTER;
	}
	out->calls = (reader->map == MAP_ONE &&
		      (code == 0xe8 || (code == 0xff && (reader->reg & 7) == 2))) ||
		     (reader->map == MAP_0F && !reader->vector && code == 0x05);
	describe_arithmetic(reader, out);
	if (out->memory) {
		out->writes = is_storing(reader);
		out->atomic =
			reader->lock || (reader->map == MAP_ONE && (code == 0x86 || code == 0x87));
	}
	out->exchanges = out->memory &&
			 ((reader->map == MAP_ONE && (code & 0xfe) == 0x86) ||
			  (reader->map == MAP_0F && !reader->vector && (code & 0xfe) == 0xb0));
	if (reader->map == MAP_ONE && code == 0x8b && out->memory) {
		out->kind = WS_INSTRUCTION_LOAD;
		out->target = reader->reg;
	} else if (reader->map == MAP_ONE && !reader->lock) {
		describe_step(reader, immediate, size, out);
	}
	if ((reader->map == MAP_ONE && ((code & 0xf0) == 0x70 || code == 0xeb || code == 0xe9)) ||
	    (reader->map == MAP_0F && !reader->vector && (code & 0xf0) == 0x80)) {
		out->kind = WS_INSTRUCTION_JUMP;
		out->conditional = reader->map == MAP_0F || (code & 0xf0) == 0x70;
		out->value = (int64_t)(out->at + out->length) + read_signed(immediate, size);
	}
}

bool ws_read_instruction(const uint8_t *bytes, size_t left, uint64_t at, struct ws_instruction *out)
{
	enum { LONGEST = 15, SPARE = 16 };
	uint8_t last[LONGEST + SPARE] = {0}; /* of a file's code, with nothing behind it */
	struct reader reader;
	const uint8_t *immediate;
	unsigned size;

	*out = (struct ws_instruction){.at = at,
				       .base = WS_NO_REGISTER,
				       .index = WS_NO_REGISTER,
				       .source = WS_NO_REGISTER,
				       .target = WS_NO_REGISTER,
				       .other = WS_NO_REGISTER,
				       .changed = WS_NO_REGISTER};
	if (left < sizeof(last))
		bytes = memcpy(last, bytes, left);
	reader = (struct reader){
		.start = bytes, .at = bytes, .end = bytes + ws_max(left, sizeof(last))};
	if (!read_code(&reader))
		return false;
	reader.has_modes = has_modes(reader.map, reader.code);
	if (reader.has_modes) {
		reader.modes = *reader.at++;
		reader.reg = (reader.modes >> 3 & 7) | reader.high_register;
		if (reader.modes < 0xc0)
			read_operand(&reader, out);
	}
	immediate = reader.at;
	size = reader.map == MAP_ONE ? size_immediate(&reader) : size_long_immediate(&reader);
	out->length = (uint8_t)(immediate + size - bytes);
	describe(&reader, immediate, size, out);
	return out->length <= ws_min(left, (size_t)LONGEST);
}
