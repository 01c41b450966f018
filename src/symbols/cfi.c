/*
 * cfi.c - see cfi.h.
 *
 * An entry (FDE) is found, its common part (CIE) is read, and the instructions of both are run up
 * to the wanted address. Rows are not kept here: the unwinder keeps those that it uses.
 */
#include "symbols/cfi.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/sort.h"
#include "symbols/bytes.h"

#define PE_OMIT 0xff
#define DEEPEST 32		  /* nested DW_CFA_remember_state */
#define MOST_ENTRIES (8u << 20)	  /* in a file without a search table */
#define MOST_UNPACKED (64u << 20) /* bytes of a compressed section */

struct cfi_entry {
	uint64_t begin, end, at; /* at: offset in the section */
};

struct section {
	const uint8_t *data;
	uint64_t size, address;
	uint8_t *unpacked; /* what `data` points to where the file has it compressed; else NULL */
	bool debug;	   /* it is .debug_frame, which has other ids */
	struct cfi_entry *entries;
	size_t count, capacity;
};

struct ws_cfi {
	const struct ws_elf *elf;
	struct section eh, debug;
	/* The search table of .eh_frame_hdr, sorted pairs of 32-bit offsets; NULL: eh.entries is
	 * used instead. */
	const uint8_t *table;
	uint64_t table_count, table_address;
};

struct cie {
	struct ws_byte_reader code;
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_register;
	uint8_t pointers; /* encoding */
	bool augmented, signal;
};

struct fde {
	struct ws_byte_reader code;
	uint64_t begin, end;
	struct cie cie;
};

/* ---- pointers ---- */

/* An encoded pointer. `at` is the address of `base`, where the reader's bytes begin; `data` is what
 * pointers relative to data count from. */
static uint64_t read_pointer(struct ws_byte_reader *reader, uint8_t encoding, const uint8_t *base,
			     uint64_t at, uint64_t data)
{
	uint64_t here = at + (uint64_t)(reader->bytes - base), value;

	switch (encoding & 0x0f) {
	case 0x00: /* absptr */
	case 0x04: /* udata8 */
	case 0x0c: /* sdata8 */
		value = ws_read_uint(reader, 8);
		break;
	case 0x01:
		value = ws_read_uleb(reader);
		break;
	case 0x02:
		value = ws_read_uint(reader, 2);
		break;
	case 0x03:
		value = ws_read_uint(reader, 4);
		break;
	case 0x09:
		value = (uint64_t)ws_read_sleb(reader);
		break;
	case 0x0a:
		value = (uint64_t)(int64_t)(int16_t)ws_read_uint(reader, 2);
		break;
	case 0x0b:
		value = (uint64_t)(int64_t)(int32_t)ws_read_uint(reader, 4);
		break;
	default:
		reader->bad = true;
		return 0;
	}
	switch (encoding & 0x70) {
	case 0x00:
		return value;
	case 0x10: /* pcrel; a null pointer stays one */
		if (!value)
			return 0;
		return value + here;
	case 0x30: /* datarel */
		return value + data;
	default:
		reader->bad = true;
		return 0;
	}
}

/* ---- entries ---- */

/* The contents of the entry at `offset`; false at the end. *wide: it is in the 64-bit form. */
static bool read_entry(const struct section *section, uint64_t offset, struct ws_byte_reader *body,
		       bool *wide)
{
	struct ws_byte_reader reader = {section->data + offset, section->data + section->size,
					false};
	uint64_t length;

	if (offset >= section->size)
		return false;
	length = ws_read_uint(&reader, 4);
	*wide = length == 0xffffffff;
	if (*wide)
		length = ws_read_uint(&reader, 8);
	if (reader.bad || !length || length > (uint64_t)(reader.end - reader.bytes))
		return false;
	*body = (struct ws_byte_reader){reader.bytes, reader.bytes + length, false};
	return true;
}

static bool is_cie(const struct section *section, uint64_t id, bool wide)
{
	if (!section->debug)
		return id == 0;
	return id == (wide ? UINT64_MAX : UINT32_MAX);
}

static void read_augmentation(struct cie *cie, struct ws_byte_reader *reader, const char *letters,
			      const struct section *section)
{
	struct ws_byte_reader data = ws_read_block(reader);

	cie->augmented = true;
	for (letters++; *letters && !data.bad; letters++) {
		if (*letters == 'R')
			cie->pointers = (uint8_t)ws_read_uint(&data, 1);
		else if (*letters == 'S')
			cie->signal = true;
		else if (*letters == 'L')
			ws_read_uint(&data, 1);
		else if (*letters == 'P')
			read_pointer(&data, (uint8_t)ws_read_uint(&data, 1) & 0x7f, section->data,
				     section->address, 0);
		else if (*letters !=
			 'B') /* aarch64: return addresses are signed with the other key */
			return;
	}
}

static bool read_cie(const struct section *section, uint64_t offset, struct cie *cie)
{
	struct ws_byte_reader reader;
	const char *letters;
	uint8_t version;
	uint64_t id;
	bool wide;

	memset(cie, 0, sizeof(*cie));
	if (!read_entry(section, offset, &reader, &wide))
		return false;
	id = ws_read_uint(&reader, wide ? 8 : 4);
	version = (uint8_t)ws_read_uint(&reader, 1);
	if (!is_cie(section, id, wide) || (version != 1 && version != 3 && version != 4))
		return false;
	letters = ws_read_nul_text(&reader);
	if (version == 4 && (ws_read_uint(&reader, 1) != 8 ||
			     ws_read_uint(&reader, 1))) /* address size, segment size */
		return false;
	cie->code_align = ws_read_uleb(&reader);
	cie->data_align = ws_read_sleb(&reader);
	if (version == 1)
		cie->return_register = ws_read_uint(&reader, 1);
	else
		cie->return_register = ws_read_uleb(&reader);
	if (letters[0] == 'z')
		read_augmentation(cie, &reader, letters, section);
	else if (letters[0])
		return false;
	cie->code = reader;
	return !reader.bad && cie->return_register < WS_REGS;
}

static bool read_fde(const struct section *section, uint64_t offset, struct fde *fde)
{
	struct ws_byte_reader reader;
	const uint8_t *id_at;
	uint64_t id, from, cie_at;
	bool wide;

	if (!read_entry(section, offset, &reader, &wide))
		return false;
	id_at = reader.bytes;
	id = ws_read_uint(&reader, wide ? 8 : 4);
	if (reader.bad || is_cie(section, id, wide))
		return false;
	/* The id says where the CIE is: from the section's start, or back from here. */
	from = (uint64_t)(id_at - section->data);
	cie_at = id;
	if (!section->debug) {
		if (id > from)
			return false;
		cie_at = from - id;
	}
	if (cie_at >= section->size || !read_cie(section, cie_at, &fde->cie))
		return false;
	fde->begin = read_pointer(&reader, fde->cie.pointers, section->data, section->address, 0);
	fde->end = fde->begin + read_pointer(&reader, fde->cie.pointers & 0x0f, section->data,
					     section->address, 0);
	if (fde->cie.augmented)
		ws_skip_bytes(&reader, ws_read_uleb(&reader));
	fde->code = reader;
	return !reader.bad && fde->end > fde->begin;
}

/* ---- indexes ---- */

static int compare_begins(const void *first, const void *second)
{
	const struct cfi_entry *left = first, *right = second;

	return ws_compare(left->begin, right->begin);
}

static void index_section(struct section *section)
{
	struct ws_byte_reader body;
	uint64_t at = 0;
	struct fde fde;
	bool wide;

	while (at < section->size && section->count < MOST_ENTRIES) {
		if (!read_entry(section, at, &body, &wide)) {
			/* A zero ends the section, but linkers also leave some in the middle. */
			struct ws_byte_reader reader = {section->data + at,
							section->data + section->size, false};

			if (ws_read_uint(&reader, 4) || reader.bad)
				break;
			at += 4;
			continue;
		}
		if (read_fde(section, at, &fde) && fde.begin) {
			ws_grow(section->entries, section->capacity, section->count + 1);
			section->entries[section->count++] =
				(struct cfi_entry){fde.begin, fde.end, at};
		}
		at = (uint64_t)(body.end - section->data);
	}
	if (section->count)
		qsort(section->entries, section->count, sizeof(*section->entries), compare_begins);
}

/* Open a section. Go compresses its .debug_frame, which is the only call frame information it has.
 */
static void load_section(struct section *section, const struct ws_elf *elf, const char *name)
{
	Elf64_Shdr sh;

	if (ws_elf_find_section(elf, name, &sh) < 0)
		return;
	section->data = ws_elf_unpack(elf, &sh, MOST_UNPACKED, &section->size, &section->unpacked);
	section->address = sh.sh_addr;
}

/* Find the search table, if it has the form that linkers write; and through it .eh_frame, in files
 * without section headers. */
static void load_search_table(struct ws_cfi *cfi)
{
	Elf64_Phdr ph;
	uint32_t i = 0;
	uint64_t left, frames, count = 0;
	const uint8_t *bytes;
	struct ws_byte_reader reader;
	uint8_t head[4];

	while (ws_elf_get_segment(cfi->elf, i, &ph) && ph.p_type != PT_GNU_EH_FRAME)
		i++;
	if (!ws_elf_get_segment(cfi->elf, i, &ph))
		return;
	bytes = ws_elf_get_loaded(cfi->elf, ph.p_vaddr, &left);
	if (!bytes)
		return;
	reader = (struct ws_byte_reader){bytes, bytes + left, false};
	for (i = 0; i < 4; i++)
		head[i] = (uint8_t)ws_read_uint(&reader, 1);
	if (reader.bad || head[0] != 1)
		return;
	frames = read_pointer(&reader, head[1], bytes, ph.p_vaddr, ph.p_vaddr);
	if (head[2] != PE_OMIT)
		count = read_pointer(&reader, head[2], bytes, ph.p_vaddr, ph.p_vaddr);
	if (reader.bad)
		return;
	if (!cfi->eh.data) {
		cfi->eh.data = ws_elf_get_loaded(cfi->elf, frames, &cfi->eh.size);
		cfi->eh.address = frames;
	}
	if (head[3] == 0x3b && count && count <= (uint64_t)(reader.end - reader.bytes) / 8) {
		cfi->table = reader.bytes;
		cfi->table_count = count;
		cfi->table_address = ph.p_vaddr;
	}
}

struct ws_cfi *ws_cfi_new(const struct ws_elf *elf)
{
	struct ws_cfi *cfi;

	if (!elf->wide)
		return NULL;
	cfi = ws_calloc(1, sizeof(*cfi));
	cfi->elf = elf;
	load_section(&cfi->eh, elf, ".eh_frame");
	load_section(&cfi->debug, elf, ".debug_frame");
	cfi->debug.debug = true;
	load_search_table(cfi);
	if (cfi->eh.data && !cfi->table)
		index_section(&cfi->eh);
	if (cfi->debug.data)
		index_section(&cfi->debug);
	if (!cfi->table && !cfi->eh.count && !cfi->debug.count) {
		ws_cfi_free(cfi);
		return NULL;
	}
	return cfi;
}

void ws_cfi_free(struct ws_cfi *cfi)
{
	if (!cfi)
		return;
	free(cfi->eh.entries);
	free(cfi->debug.entries);
	free(cfi->eh.unpacked);
	free(cfi->debug.unpacked);
	free(cfi);
}

static uint64_t get_table_begin(const struct ws_cfi *cfi, uint64_t index)
{
	int32_t offset;

	memcpy(&offset, cfi->table + index * 8, 4);
	return cfi->table_address + (uint64_t)(int64_t)offset;
}

/* Read the last entry that begins at or below `address`. */
static bool find_in_table(const struct ws_cfi *cfi, uint64_t address, struct fde *fde)
{
	uint64_t low;
	int32_t offset;

	low = ws_bisect(cfi->table_count, mid, get_table_begin(cfi, mid) <= address);
	if (!low)
		return false;
	memcpy(&offset, cfi->table + (low - 1) * 8 + 4, 4);
	offset = (int32_t)(cfi->table_address + (uint64_t)(int64_t)offset - cfi->eh.address);
	return offset >= 0 && read_fde(&cfi->eh, (uint64_t)offset, fde);
}

/* Read the entry that holds `address`. */
static bool find_in_index(const struct section *section, uint64_t address, struct fde *fde)
{
	size_t low = ws_bisect(section->count, mid, section->entries[mid].begin <= address);

	return low && address < section->entries[low - 1].end &&
	       read_fde(section, section->entries[low - 1].at, fde);
}

/* ---- instructions ---- */

struct cfi_machine {
	struct ws_cfi_row row, initial, remembered[DEEPEST];
	unsigned depth;
	uint64_t at; /* the address from which the row holds */
	const struct fde *fde;
	bool bad;
};

/* A register's rule; NULL for those that are not kept. */
static struct ws_cfi_rule *find_rule(struct cfi_machine *machine, uint64_t reg)
{
	return reg < WS_REGS ? &machine->row.reg[reg] : NULL;
}

static void set_rule(struct cfi_machine *machine, uint64_t reg, uint8_t kind, int64_t offset)
{
	if (reg < WS_REGS) /* others, such as vector registers, are not needed to find a caller */
		machine->row.reg[reg] = (struct ws_cfi_rule){.kind = kind, .offset = offset};
}

static void set_expression(struct cfi_machine *machine, struct ws_byte_reader *reader,
			   struct ws_cfi_rule *rule, uint8_t kind)
{
	uint64_t length = ws_read_uleb(reader);
	const uint8_t *bytes = ws_skip_bytes(reader, length);

	if (!bytes || length > 4096) {
		machine->bad = true;
		return;
	}
	if (rule)
		*rule = (struct ws_cfi_rule){.kind = kind, .size = (uint16_t)length, .code = bytes};
}

static void set_cfa(struct cfi_machine *machine, uint64_t reg, int64_t offset)
{
	if (reg >= WS_REGS) {
		machine->bad = true;
		return;
	}
	machine->row.cfa_kind = WS_CFI_VALUE;
	machine->row.cfa_register = (uint8_t)reg;
	machine->row.cfa.offset = offset;
}

static int64_t scale_offset(const struct cfi_machine *machine, uint64_t factor)
{
	return (int64_t)(factor * (uint64_t)machine->fde->cie.data_align);
}

/* Instructions about the address of the frame: DW_CFA_def_cfa and those whose names begin so. */
static void define_frame(struct cfi_machine *machine, struct ws_byte_reader *reader, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case 0x0c: /* def_cfa */
		reg = ws_read_uleb(reader);
		set_cfa(machine, reg, (int64_t)ws_read_uleb(reader));
		break;
	case 0x0d: /* _register */
		set_cfa(machine, ws_read_uleb(reader), machine->row.cfa.offset);
		break;
	case 0x0e: /* _offset */
		machine->row.cfa.offset = (int64_t)ws_read_uleb(reader);
		break;
	case 0x0f: /* _expression */
		set_expression(machine, reader, &machine->row.cfa, WS_CFI_VALUE_EXPRESSION);
		machine->row.cfa_kind = WS_CFI_VALUE_EXPRESSION;
		break;
	case 0x12: /* def_cfa_sf */
		reg = ws_read_uleb(reader);
		set_cfa(machine, reg, scale_offset(machine, (uint64_t)ws_read_sleb(reader)));
		break;
	case 0x13: /* _offset_sf */
		machine->row.cfa.offset = scale_offset(machine, (uint64_t)ws_read_sleb(reader));
		break;
	}
}

/* Instructions about where a register was saved. */
static void define_register(struct cfi_machine *machine, struct ws_byte_reader *reader, uint8_t op)
{
	uint64_t reg = ws_read_uleb(reader);

	switch (op) {
	case 0x05: /* offset_extended */
		set_rule(machine, reg, WS_CFI_OFFSET, scale_offset(machine, ws_read_uleb(reader)));
		break;
	case 0x06: /* restore_extended */
		if (reg < WS_REGS)
			machine->row.reg[reg] = machine->initial.reg[reg];
		break;
	case 0x07: /* undefined */
		set_rule(machine, reg, WS_CFI_UNDEFINED, 0);
		break;
	case 0x08: /* same_value */
		set_rule(machine, reg, WS_CFI_SAME, 0);
		break;
	case 0x09: /* register */
		set_rule(machine, reg, WS_CFI_REGISTER, (int64_t)ws_read_uleb(reader));
		break;
	case 0x10: /* expression */
		set_expression(machine, reader, find_rule(machine, reg), WS_CFI_EXPRESSION);
		break;
	case 0x16: /* val_expression */
		set_expression(machine, reader, find_rule(machine, reg), WS_CFI_VALUE_EXPRESSION);
		break;
	case 0x11: /* offset_extended_sf */
		set_rule(machine, reg, WS_CFI_OFFSET,
			 scale_offset(machine, (uint64_t)ws_read_sleb(reader)));
		break;
	case 0x14: /* val_offset */
		set_rule(machine, reg, WS_CFI_VALUE, scale_offset(machine, ws_read_uleb(reader)));
		break;
	case 0x15: /* val_offset_sf */
		set_rule(machine, reg, WS_CFI_VALUE,
			 scale_offset(machine, (uint64_t)ws_read_sleb(reader)));
		break;
	case 0x2f: /* GNU_negative_offset_extended */
		set_rule(machine, reg, WS_CFI_OFFSET,
			 scale_offset(machine, 0 - ws_read_uleb(reader)));
		break;
	}
}

/* Instructions whose number is in the low six bits. */
static void run_extended(struct cfi_machine *machine, struct ws_byte_reader *reader, uint8_t op,
			 uint64_t *advance)
{
	switch (op) {
	case 0x00: /* nop */
	case 0x2d: /* aarch64: return addresses are signed from here on; it is masked anyway */
		break;
	case 0x01: /* set_loc */
		*advance = ws_read_uint(reader, 8) - machine->at;
		break;
	case 0x02 ... 0x04: /* advance_loc */
		*advance = ws_read_uint(reader, 1u << (op - 2)) * machine->fde->cie.code_align;
		break;
	case 0x05 ... 0x09:
	case 0x10:
	case 0x11:
	case 0x14 ... 0x16:
	case 0x2f:
		define_register(machine, reader, op);
		break;
	case 0x0a: /* remember_state */
		if (machine->depth < DEEPEST)
			machine->remembered[machine->depth] = machine->row;
		machine->bad |= machine->depth++ >= DEEPEST;
		break;
	case 0x0b: /* restore_state */
		if (machine->depth)
			machine->row = machine->remembered[--machine->depth];
		else
			machine->bad = true;
		break;
	case 0x0c ... 0x0f:
	case 0x12:
	case 0x13:
		define_frame(machine, reader, op);
		break;
	case 0x2e: /* GNU_args_size */
		ws_read_uleb(reader);
		break;
	default:
		machine->bad = true;
	}
}

/* Run instructions until the row of `address` is complete. */
static void run_instructions(struct cfi_machine *machine, struct ws_byte_reader reader,
			     uint64_t address)
{
	while (reader.bytes < reader.end && !reader.bad && !machine->bad) {
		uint8_t op = (uint8_t)ws_read_uint(&reader, 1), low = op & 0x3f;
		uint64_t advance = 0;

		if (op >> 6 == 1)
			advance = low * machine->fde->cie.code_align;
		else if (op >> 6 == 2)
			set_rule(machine, low, WS_CFI_OFFSET,
				 scale_offset(machine, ws_read_uleb(&reader)));
		else if (op >> 6 == 3 && low < WS_REGS)
			machine->row.reg[low] = machine->initial.reg[low];
		else if (op >> 6 == 0)
			run_extended(machine, &reader, op, &advance);
		if (advance && address - machine->at < advance)
			break;
		machine->at += advance;
	}
	machine->bad |= reader.bad;
}

/* Find an entry that holds `address`; *debug: it is from .debug_frame. */
static bool find_entry(const struct ws_cfi *cfi, uint64_t address, struct fde *fde, bool *debug)
{
	bool found;

	*debug = false;
	if (cfi->table)
		found = find_in_table(cfi, address, fde);
	else
		found = find_in_index(&cfi->eh, address, fde);
	if (found && address >= fde->begin && address < fde->end)
		return true;
	*debug = true;
	return find_in_index(&cfi->debug, address, fde) && address >= fde->begin &&
	       address < fde->end;
}

bool ws_cfi_find(struct ws_cfi *cfi, uint64_t address, struct ws_cfi_row *row)
{
	struct cfi_machine machine;
	struct fde fde;
	bool debug;

	if (!find_entry(cfi, address, &fde, &debug))
		return false;
	memset(&machine.row, 0, sizeof(machine.row));
	machine.depth = 0;
	machine.bad = false;
	machine.fde = &fde;
	machine.at = fde.begin;
	machine.initial = machine.row;
	run_instructions(&machine, fde.cie.code, UINT64_MAX);
	machine.at = fde.begin;
	machine.initial = machine.row;
	run_instructions(&machine, fde.code, address);
	if (machine.bad || !machine.row.cfa_kind)
		return false;
	*row = machine.row;
	row->signal = fde.cie.signal;
	row->debug = debug;
	row->begin = fde.begin;
	row->return_register = (uint16_t)fde.cie.return_register;
	return true;
}

/* Read entry number `i`, of the search table if there is one. */
static bool read_numbered_entry(const struct ws_cfi *cfi, const struct section *section,
				uint64_t index, struct fde *fde)
{
	if (cfi->table)
		return find_in_table(cfi, get_table_begin(cfi, index), fde);
	return read_fde(section, section->entries[index].at, fde);
}

bool ws_cfi_keeps_fp(struct ws_cfi *cfi)
{
	const struct section *section = cfi->eh.count ? &cfi->eh : &cfi->debug;
	uint64_t count = cfi->table ? cfi->table_count : section->count, step = count / 48 + 1;
	unsigned with = 0, without = 0;
	struct ws_cfi_row row;
	struct fde fde;

	for (uint64_t i = 0; i < count; i += step) {
		if (!read_numbered_entry(cfi, section, i, &fde) || fde.end - fde.begin < 48)
			continue;
		if (!ws_cfi_find(cfi, fde.begin + (fde.end - fde.begin) / 2, &row) || row.signal ||
		    row.cfa_kind != WS_CFI_VALUE)
			continue;
		if (row.cfa_register == WS_REG_FP)
			with++;
		else
			without++;
	}
	return with > 4 * without;
}

/* ---- expressions ---- */

#define STACK 64

struct expression_stack {
	uint64_t values[STACK];
	unsigned depth;
	bool bad;
};

static void push_value(struct expression_stack *evaluation, uint64_t value)
{
	if (evaluation->depth < STACK)
		evaluation->values[evaluation->depth++] = value;
	else
		evaluation->bad = true;
}

static uint64_t pop_value(struct expression_stack *evaluation)
{
	if (evaluation->depth)
		return evaluation->values[--evaluation->depth];
	evaluation->bad = true;
	return 0;
}

/* Value number `i` from the top. */
static uint64_t peek_value(struct expression_stack *evaluation, uint64_t index)
{
	if (index < evaluation->depth)
		return evaluation->values[evaluation->depth - 1 - index];
	evaluation->bad = true;
	return 0;
}

static void apply_binary(struct expression_stack *evaluation, uint8_t op)
{
	uint64_t right = pop_value(evaluation), left = pop_value(evaluation), result = 0;

	switch (op) {
	case 0x1a:
		result = left & right;
		break;
	case 0x1b:
		if (right && !(left == (UINT64_C(1) << 63) && right == UINT64_MAX))
			result = (uint64_t)((int64_t)left / (int64_t)right);
		else
			evaluation->bad = true;
		break;
	case 0x1c:
		result = left - right;
		break;
	case 0x1d:
		if (right)
			result = left % right;
		else
			evaluation->bad = true;
		break;
	case 0x1e:
		result = left * right;
		break;
	case 0x21:
		result = left | right;
		break;
	case 0x22:
		result = left + right;
		break;
	case 0x24:
		if (right < 64)
			result = left << right;
		break;
	case 0x25:
		if (right < 64)
			result = left >> right;
		break;
	case 0x26:
		result = (uint64_t)((int64_t)left >> ws_min(right, 63));
		break;
	case 0x27:
		result = left ^ right;
		break;
	case 0x29:
		result = left == right;
		break;
	case 0x2a:
		result = (int64_t)left >= (int64_t)right;
		break;
	case 0x2b:
		result = (int64_t)left > (int64_t)right;
		break;
	case 0x2c:
		result = (int64_t)left <= (int64_t)right;
		break;
	case 0x2d:
		result = (int64_t)left < (int64_t)right;
		break;
	case 0x2e:
		result = left != right;
		break;
	default:
		evaluation->bad = true;
	}
	push_value(evaluation, result);
}

static void push_register(struct expression_stack *evaluation, const struct ws_regs *regs,
			  uint64_t reg, int64_t offset)
{
	if (reg < WS_REGS && (regs->known >> reg & 1))
		push_value(evaluation, regs->values[reg] + (uint64_t)offset);
	else
		evaluation->bad = true;
}

static void apply_stack_op(struct expression_stack *evaluation, struct ws_byte_reader *reader,
			   uint8_t op)
{
	uint64_t first, second, third;

	switch (op) {
	case 0x12: /* dup */
		push_value(evaluation, peek_value(evaluation, 0));
		break;
	case 0x13: /* drop */
		pop_value(evaluation);
		break;
	case 0x14: /* over */
		push_value(evaluation, peek_value(evaluation, 1));
		break;
	case 0x15:
		push_value(evaluation, peek_value(evaluation, ws_read_uint(reader, 1)));
		break;
	case 0x16: /* swap */
		first = pop_value(evaluation), second = pop_value(evaluation);
		push_value(evaluation, first), push_value(evaluation, second);
		break;
	case 0x17: /* rot */
		first = pop_value(evaluation), second = pop_value(evaluation),
		third = pop_value(evaluation);
		push_value(evaluation, first), push_value(evaluation, third),
			push_value(evaluation, second);
		break;
	case 0x19: /* abs */
		first = pop_value(evaluation);
		if ((int64_t)first < 0)
			first = 0 - first;
		push_value(evaluation, first);
		break;
	case 0x1f: /* neg */
		push_value(evaluation, 0 - pop_value(evaluation));
		break;
	case 0x20: /* not */
		push_value(evaluation, ~pop_value(evaluation));
		break;
	default: /* 0x23, plus_uconst */
		first = pop_value(evaluation);
		push_value(evaluation, first + ws_read_uleb(reader));
	}
}

/* The constant that follows an instruction from 0x08 to 0x11. */
static uint64_t read_constant(struct ws_byte_reader *reader, uint8_t op)
{
	static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8};
	unsigned size;
	uint64_t value;

	if (op == 0x10)
		return ws_read_uleb(reader);
	if (op == 0x11)
		return (uint64_t)ws_read_sleb(reader);
	size = sizes[op - 0x08];
	value = ws_read_uint(reader, size);
	/* Odd ones are signed. */
	if ((op & 1) && size < 8 && (value >> (8 * size - 1) & 1))
		value |= ~UINT64_C(0) << (8 * size);
	return value;
}

bool ws_cfi_evaluate(const uint8_t *code, size_t size, const struct ws_cfi_thread *thread,
		     const uint64_t *first, uint64_t *result)
{
	struct ws_byte_reader reader = {code, code + size, false};
	struct expression_stack evaluation = {.depth = 0};
	unsigned steps = 0;

	if (first)
		push_value(&evaluation, *first);
	while (reader.bytes < reader.end && !reader.bad && !evaluation.bad && steps++ < 1000) {
		uint8_t op = (uint8_t)ws_read_uint(&reader, 1);
		uint64_t word;

		if (op == 0x03) { /* addr */
			push_value(&evaluation, ws_read_uint(&reader, 8));
		} else if (op == 0x06 || op == 0x94) { /* deref, deref_size */
			unsigned bytes = 8;

			if (op == 0x94)
				bytes = (unsigned)ws_read_uint(&reader, 1);
			if (!bytes || bytes > 8 ||
			    !thread->read(thread->ctx, pop_value(&evaluation), bytes, &word))
				return false;
			push_value(&evaluation, word);
		} else if (op >= 0x08 && op <= 0x11) {
			push_value(&evaluation, read_constant(&reader, op));
		} else if ((op >= 0x12 && op <= 0x17) || op == 0x19 || op == 0x1f || op == 0x20 ||
			   op == 0x23) {
			apply_stack_op(&evaluation, &reader, op);
		} else if ((op >= 0x1a && op <= 0x2e) && op != 0x28) {
			apply_binary(&evaluation, op);
		} else if (op == 0x28 || op == 0x2f) { /* bra, skip */
			int16_t by = (int16_t)ws_read_uint(&reader, 2);

			if (op == 0x28 && !pop_value(&evaluation))
				continue;
			if (by < code - reader.bytes || by > reader.end - reader.bytes)
				return false;
			reader.bytes += by;
		} else if (op >= 0x30 && op <= 0x4f) { /* lit */
			push_value(&evaluation, op - 0x30u);
		} else if (op >= 0x70 && op <= 0x8f) { /* breg */
			push_register(&evaluation, thread->regs, op - 0x70u, ws_read_sleb(&reader));
		} else if (op == 0x92) { /* bregx */
			uint64_t reg = ws_read_uleb(&reader);

			push_register(&evaluation, thread->regs, reg, ws_read_sleb(&reader));
		} else if (op != 0x96) { /* nop */
			return false;
		}
	}
	*result = 0;
	if (!evaluation.depth)
		return false;
	*result = evaluation.values[evaluation.depth - 1];
	return !reader.bad && !evaluation.bad && reader.bytes >= reader.end;
}
