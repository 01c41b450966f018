/*
 * cfi.c - see cfi.h.
 *
 * An entry (FDE) is found, its common part (CIE) is read, and the instructions of both are run up
 * to the address asked for. Rows are not kept here: the unwinder keeps those that it meets.
 */
#include "symbols/cfi.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/sort.h"
#include "symbols/bytes.h"

#define PE_OMIT 0xff
#define DEEPEST 32		  /* DW_CFA_remember_state inside each other */
#define MOST_ENTRIES (8u << 20)	  /* of a file without a table */
#define MOST_UNPACKED (64u << 20) /* bytes of a compressed section */

struct entry {
	uint64_t begin, end, at; /* at: offset in the section */
};

struct section {
	const uint8_t *data;
	uint64_t size, address;
	uint8_t *unpacked; /* what `data` is, where the file has it compressed; else NULL */
	bool debug;	   /* .debug_frame: other ids, no augmentation data */
	struct entry *entries;
	size_t n, cap;
};

struct ws_cfi {
	const struct ws_elf *elf;
	struct section eh, debug;
	const uint8_t
		*table; /* of .eh_frame_hdr: pairs of 32-bit offsets, sorted; NULL: eh.v is used */
	uint64_t table_n, table_address;
};

struct cie {
	struct ws_cursor code;
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_register;
	uint8_t pointers; /* encoding */
	bool augmented, signal;
};

struct fde {
	struct ws_cursor code;
	uint64_t begin, end;
	struct cie cie;
};

/* ---- pointers ---- */

/* An encoded pointer; `at` is the address of the cursor's first byte `base`. */
static uint64_t take_pointer(struct ws_cursor *cursor, uint8_t encoding, const uint8_t *base,
			     uint64_t at, uint64_t data)
{
	uint64_t here = at + (uint64_t)(cursor->bytes - base), v;

	switch (encoding & 0x0f) {
	case 0x00: /* absptr */
	case 0x04: /* udata8 */
	case 0x0c: /* sdata8 */
		v = ws_take(cursor, 8);
		break;
	case 0x01:
		v = ws_take_uleb(cursor);
		break;
	case 0x02:
		v = ws_take(cursor, 2);
		break;
	case 0x03:
		v = ws_take(cursor, 4);
		break;
	case 0x09:
		v = (uint64_t)ws_take_sleb(cursor);
		break;
	case 0x0a:
		v = (uint64_t)(int64_t)(int16_t)ws_take(cursor, 2);
		break;
	case 0x0b:
		v = (uint64_t)(int64_t)(int32_t)ws_take(cursor, 4);
		break;
	default:
		cursor->bad = true;
		return 0;
	}
	switch (encoding & 0x70) {
	case 0x00:
		return v;
	case 0x10: /* pcrel */
		return v ? v + here : 0;
	case 0x30: /* datarel */
		return v + data;
	default:
		cursor->bad = true;
		return 0;
	}
}

/* ---- entries ---- */

/* Length and contents of the entry at `offset`; false at the end. `wide`: it is in the 64-bit form.
 */
static bool entry_at(const struct section *section, uint64_t offset, struct ws_cursor *body,
		     bool *wide)
{
	struct ws_cursor cursor = {section->data + offset, section->data + section->size, false};
	uint64_t n;

	if (offset >= section->size)
		return false;
	n = ws_take(&cursor, 4);
	*wide = n == 0xffffffff;
	if (*wide)
		n = ws_take(&cursor, 8);
	if (cursor.bad || !n || n > (uint64_t)(cursor.end - cursor.bytes))
		return false;
	*body = (struct ws_cursor){cursor.bytes, cursor.bytes + n, false};
	return true;
}

static bool is_cie(const struct section *section, uint64_t id, bool wide)
{
	return section->debug ? id == (wide ? UINT64_MAX : 0xffffffff) : id == 0;
}

static void augmentation(struct cie *cie, struct ws_cursor *cursor, const char *letters,
			 const struct section *section)
{
	uint64_t n = ws_take_uleb(cursor);
	const uint8_t *bytes = ws_take_bytes(cursor, n);
	struct ws_cursor cursor_a = {bytes, bytes ? bytes + n : bytes, !bytes};

	cie->augmented = true;
	for (letters++; *letters && !cursor_a.bad; letters++) {
		if (*letters == 'R')
			cie->pointers = (uint8_t)ws_take(&cursor_a, 1);
		else if (*letters == 'S')
			cie->signal = true;
		else if (*letters == 'L')
			ws_take(&cursor_a, 1);
		else if (*letters == 'P')
			take_pointer(&cursor_a, (uint8_t)ws_take(&cursor_a, 1) & 0x7f,
				     section->data, section->address, 0);
		else if (*letters != 'B') /* aarch64: the other key signs return addresses */
			return;
	}
}

static bool read_cie(const struct section *section, uint64_t offset, struct cie *cie)
{
	struct ws_cursor cursor;
	const char *letters;
	uint8_t version;
	uint64_t id;
	bool wide;

	memset(cie, 0, sizeof(*cie));
	if (!entry_at(section, offset, &cursor, &wide))
		return false;
	id = ws_take(&cursor, wide ? 8 : 4);
	version = (uint8_t)ws_take(&cursor, 1);
	if (!is_cie(section, id, wide) || (version != 1 && version != 3 && version != 4))
		return false;
	letters = ws_take_text(&cursor);
	if (version == 4 &&
	    (ws_take(&cursor, 1) != 8 || ws_take(&cursor, 1))) /* address size, segment size */
		return false;
	cie->code_align = ws_take_uleb(&cursor);
	cie->data_align = ws_take_sleb(&cursor);
	cie->return_register = version == 1 ? ws_take(&cursor, 1) : ws_take_uleb(&cursor);
	if (letters[0] == 'z')
		augmentation(cie, &cursor, letters, section);
	else if (letters[0])
		return false;
	cie->code = cursor;
	return !cursor.bad && cie->return_register < WS_REGS;
}

static bool read_fde(const struct section *section, uint64_t offset, struct fde *fde)
{
	struct ws_cursor cursor;
	const uint8_t *id_at;
	uint64_t id, from;
	bool wide;

	if (!entry_at(section, offset, &cursor, &wide))
		return false;
	id_at = cursor.bytes;
	id = ws_take(&cursor, wide ? 8 : 4);
	if (cursor.bad || is_cie(section, id, wide))
		return false;
	from = (uint64_t)(id_at - section->data);
	if (section->debug ? id >= section->size : id > from)
		return false;
	if (!read_cie(section, section->debug ? id : from - id, &fde->cie))
		return false;
	fde->begin = take_pointer(&cursor, fde->cie.pointers, section->data, section->address, 0);
	fde->end = fde->begin + take_pointer(&cursor, fde->cie.pointers & 0x0f, section->data,
					     section->address, 0);
	if (fde->cie.augmented)
		ws_take_bytes(&cursor, ws_take_uleb(&cursor));
	fde->code = cursor;
	return !cursor.bad && fde->end > fde->begin;
}

/* ---- indexes ---- */

static int by_begin(const void *first, const void *second)
{
	const struct entry *left = first, *right = second;

	return ws_compare(left->begin, right->begin);
}

static void make_index(struct section *section)
{
	struct ws_cursor body;
	uint64_t at = 0;
	struct fde fde;
	bool wide;

	while (at < section->size && section->n < MOST_ENTRIES) {
		if (!entry_at(section, at, &body, &wide)) {
			/* A zero ends the section, but linkers leave some in the middle. */
			struct ws_cursor cursor = {section->data + at,
						   section->data + section->size, false};

			if (ws_take(&cursor, 4) || cursor.bad)
				break;
			at += 4;
			continue;
		}
		if (read_fde(section, at, &fde) && fde.begin) {
			ws_grow(section->entries, section->cap, section->n + 1);
			section->entries[section->n++] = (struct entry){fde.begin, fde.end, at};
		}
		at = (uint64_t)(body.end - section->data);
	}
	if (section->n)
		qsort(section->entries, section->n, sizeof(*section->entries), by_begin);
}

/* Go compresses its .debug_frame, the only call frame information that it has. */
static void use_section(struct section *section, const struct ws_elf *elf, const char *name)
{
	Elf64_Shdr sh;

	if (ws_elf_find(elf, name, &sh) < 0)
		return;
	section->data =
		ws_elf_unpacked(elf, &sh, MOST_UNPACKED, &section->size, &section->unpacked);
	section->address = sh.sh_addr;
}

/* The search table, when it has the form that linkers write. Gives .eh_frame too, for files without
 * section headers. */
static void use_table(struct ws_cfi *cfi)
{
	Elf64_Phdr ph;
	uint32_t i = 0;
	uint64_t left, frames, count;
	const uint8_t *bytes;
	struct ws_cursor cursor;
	uint8_t head[4];

	while (ws_elf_segment(cfi->elf, i, &ph) && ph.p_type != PT_GNU_EH_FRAME)
		i++;
	if (!ws_elf_segment(cfi->elf, i, &ph))
		return;
	bytes = ws_elf_loaded(cfi->elf, ph.p_vaddr, &left);
	if (!bytes)
		return;
	cursor = (struct ws_cursor){bytes, bytes + left, false};
	for (i = 0; i < 4; i++)
		head[i] = (uint8_t)ws_take(&cursor, 1);
	if (cursor.bad || head[0] != 1)
		return;
	frames = take_pointer(&cursor, head[1], bytes, ph.p_vaddr, ph.p_vaddr);
	count = head[2] == PE_OMIT ? 0
				   : take_pointer(&cursor, head[2], bytes, ph.p_vaddr, ph.p_vaddr);
	if (cursor.bad)
		return;
	if (!cfi->eh.data) {
		cfi->eh.data = ws_elf_loaded(cfi->elf, frames, &cfi->eh.size);
		cfi->eh.address = frames;
	}
	if (head[3] == 0x3b && count && count <= (uint64_t)(cursor.end - cursor.bytes) / 8) {
		cfi->table = cursor.bytes;
		cfi->table_n = count;
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
	use_section(&cfi->eh, elf, ".eh_frame");
	use_section(&cfi->debug, elf, ".debug_frame");
	cfi->debug.debug = true;
	use_table(cfi);
	if (cfi->eh.data && !cfi->table)
		make_index(&cfi->eh);
	if (cfi->debug.data)
		make_index(&cfi->debug);
	if (!cfi->table && !cfi->eh.n && !cfi->debug.n) {
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

static uint64_t table_begin(const struct ws_cfi *cfi, uint64_t i)
{
	int32_t v;

	memcpy(&v, cfi->table + i * 8, 4);
	return cfi->table_address + (uint64_t)(int64_t)v;
}

/* The last entry that begins at or below `address`. */
static bool by_table(const struct ws_cfi *cfi, uint64_t address, struct fde *fde)
{
	uint64_t low;
	int32_t v;

	low = ws_bisect(cfi->table_n, mid, table_begin(cfi, mid) <= address);
	if (!low)
		return false;
	memcpy(&v, cfi->table + (low - 1) * 8 + 4, 4);
	v = (int32_t)(cfi->table_address + (uint64_t)(int64_t)v - cfi->eh.address);
	return v >= 0 && read_fde(&cfi->eh, (uint64_t)v, fde);
}

static bool by_index(const struct section *section, uint64_t address, struct fde *fde)
{
	size_t low = ws_bisect(section->n, mid, section->entries[mid].begin <= address);

	return low && address < section->entries[low - 1].end &&
	       read_fde(section, section->entries[low - 1].at, fde);
}

/* ---- instructions ---- */

struct machine {
	struct ws_cfi_row row, initial, kept[DEEPEST];
	unsigned depth;
	uint64_t at; /* the address the row holds from */
	const struct fde *fde;
	bool bad;
};

static void set_rule(struct machine *machine, uint64_t reg, uint8_t kind, int64_t offset)
{
	if (reg < WS_REGS) /* others, such as vector registers, lead to no caller */
		machine->row.reg[reg] = (struct ws_cfi_rule){.kind = kind, .offset = offset};
}

static void set_expression(struct machine *machine, struct ws_cursor *cursor,
			   struct ws_cfi_rule *rule, uint8_t kind)
{
	uint64_t n = ws_take_uleb(cursor);
	const uint8_t *bytes = ws_take_bytes(cursor, n);

	if (!bytes || n > 4096) {
		machine->bad = true;
		return;
	}
	if (rule)
		*rule = (struct ws_cfi_rule){.kind = kind, .size = (uint16_t)n, .code = bytes};
}

static void set_cfa(struct machine *machine, uint64_t reg, int64_t offset)
{
	if (reg >= WS_REGS) {
		machine->bad = true;
		return;
	}
	machine->row.cfa_kind = WS_CFI_VALUE;
	machine->row.cfa_register = (uint8_t)reg;
	machine->row.cfa.offset = offset;
}

static int64_t scaled(const struct machine *machine, uint64_t factor)
{
	return (int64_t)(factor * (uint64_t)machine->fde->cie.data_align);
}

/* Instructions about the address of the frame: def_cfa and what begins like it. */
static void define_frame(struct machine *machine, struct ws_cursor *cursor, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case 0x0c: /* def_cfa */
		reg = ws_take_uleb(cursor);
		set_cfa(machine, reg, (int64_t)ws_take_uleb(cursor));
		break;
	case 0x0d: /* _register */
		set_cfa(machine, ws_take_uleb(cursor), machine->row.cfa.offset);
		break;
	case 0x0e: /* _offset */
		machine->row.cfa.offset = (int64_t)ws_take_uleb(cursor);
		break;
	case 0x0f: /* _expression */
		set_expression(machine, cursor, &machine->row.cfa, WS_CFI_VALUE_EXPRESSION);
		machine->row.cfa_kind = WS_CFI_VALUE_EXPRESSION;
		break;
	case 0x12: /* def_cfa_sf */
		reg = ws_take_uleb(cursor);
		set_cfa(machine, reg, scaled(machine, (uint64_t)ws_take_sleb(cursor)));
		break;
	case 0x13: /* _offset_sf */
		machine->row.cfa.offset = scaled(machine, (uint64_t)ws_take_sleb(cursor));
		break;
	}
}

/* Instructions about where one register was saved. */
static void define_register(struct machine *machine, struct ws_cursor *cursor, uint8_t op)
{
	uint64_t reg = ws_take_uleb(cursor);

	switch (op) {
	case 0x05: /* offset_extended */
		set_rule(machine, reg, WS_CFI_OFFSET, scaled(machine, ws_take_uleb(cursor)));
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
		set_rule(machine, reg, WS_CFI_REGISTER, (int64_t)ws_take_uleb(cursor));
		break;
	case 0x10: /* expression, val_expression */
	case 0x16:
		set_expression(machine, cursor, reg < WS_REGS ? &machine->row.reg[reg] : NULL,
			       op == 0x10 ? WS_CFI_EXPRESSION : WS_CFI_VALUE_EXPRESSION);
		break;
	case 0x11: /* offset_extended_sf */
		set_rule(machine, reg, WS_CFI_OFFSET,
			 scaled(machine, (uint64_t)ws_take_sleb(cursor)));
		break;
	case 0x14: /* val_offset, val_offset_sf */
	case 0x15:
		set_rule(machine, reg, WS_CFI_VALUE,
			 scaled(machine, op == 0x14 ? ws_take_uleb(cursor)
						    : (uint64_t)ws_take_sleb(cursor)));
		break;
	case 0x2f: /* GNU_negative_offset_extended */
		set_rule(machine, reg, WS_CFI_OFFSET, scaled(machine, 0 - ws_take_uleb(cursor)));
		break;
	}
}

/* The instructions whose numbers lie in the low six bits. */
static void extended(struct machine *machine, struct ws_cursor *cursor, uint8_t op,
		     uint64_t *advance)
{
	switch (op) {
	case 0x00: /* nop */
	case 0x2d: /* aarch64: return addresses are signed from here on; the signature is masked
		      away in any case */
		break;
	case 0x01: /* set_loc */
		*advance = ws_take(cursor, 8) - machine->at;
		break;
	case 0x02 ... 0x04: /* advance_loc */
		*advance = ws_take(cursor, 1u << (op - 2)) * machine->fde->cie.code_align;
		break;
	case 0x05 ... 0x09:
	case 0x10:
	case 0x11:
	case 0x14 ... 0x16:
	case 0x2f:
		define_register(machine, cursor, op);
		break;
	case 0x0a: /* remember_state */
		if (machine->depth < DEEPEST)
			machine->kept[machine->depth] = machine->row;
		machine->bad |= machine->depth++ >= DEEPEST;
		break;
	case 0x0b: /* restore_state */
		if (machine->depth)
			machine->row = machine->kept[--machine->depth];
		else
			machine->bad = true;
		break;
	case 0x0c ... 0x0f:
	case 0x12:
	case 0x13:
		define_frame(machine, cursor, op);
		break;
	case 0x2e: /* GNU_args_size */
		ws_take_uleb(cursor);
		break;
	default:
		machine->bad = true;
	}
}

/* Run until the row of `address` is there. */
static void execute(struct machine *machine, struct ws_cursor cursor, uint64_t address)
{
	while (cursor.bytes < cursor.end && !cursor.bad && !machine->bad) {
		uint8_t op = (uint8_t)ws_take(&cursor, 1), low = op & 0x3f;
		uint64_t advance = 0;

		if (op >> 6 == 1)
			advance = low * machine->fde->cie.code_align;
		else if (op >> 6 == 2)
			set_rule(machine, low, WS_CFI_OFFSET,
				 scaled(machine, ws_take_uleb(&cursor)));
		else if (op >> 6 == 3 && low < WS_REGS)
			machine->row.reg[low] = machine->initial.reg[low];
		else if (op >> 6 == 0)
			extended(machine, &cursor, op, &advance);
		if (advance && address - machine->at < advance)
			break;
		machine->at += advance;
	}
	machine->bad |= cursor.bad;
}

bool ws_cfi_find(struct ws_cfi *cfi, uint64_t address, struct ws_cfi_row *row)
{
	struct machine machine;
	struct fde fde;
	bool debug = false;

	if (!(cfi->table ? by_table(cfi, address, &fde) : by_index(&cfi->eh, address, &fde)) ||
	    address < fde.begin || address >= fde.end) {
		debug = true;
		if (!by_index(&cfi->debug, address, &fde) || address < fde.begin ||
		    address >= fde.end)
			return false;
	}
	memset(&machine.row, 0, sizeof(machine.row));
	machine.depth = 0;
	machine.bad = false;
	machine.fde = &fde;
	machine.at = fde.begin;
	machine.initial = machine.row;
	execute(&machine, fde.cie.code, UINT64_MAX);
	machine.at = fde.begin;
	machine.initial = machine.row;
	execute(&machine, fde.code, address);
	if (machine.bad || !machine.row.cfa_kind)
		return false;
	*row = machine.row;
	row->signal = fde.cie.signal;
	row->debug = debug;
	row->begin = fde.begin;
	row->return_register = (uint16_t)fde.cie.return_register;
	return true;
}

bool ws_cfi_keeps_fp(struct ws_cfi *cfi)
{
	const struct section *section = cfi->eh.n ? &cfi->eh : &cfi->debug;
	uint64_t n = cfi->table ? cfi->table_n : section->n, step = n / 48 + 1;
	unsigned with = 0, without = 0;
	struct ws_cfi_row row;
	struct fde fde;

	for (uint64_t i = 0; i < n; i += step) {
		if (!(cfi->table ? by_table(cfi, table_begin(cfi, i), &fde)
				 : read_fde(section, section->entries[i].at, &fde)) ||
		    fde.end - fde.begin < 48)
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

struct evaluation {
	uint64_t v[STACK];
	unsigned n;
	bool bad;
};

static void push(struct evaluation *evaluation, uint64_t v)
{
	if (evaluation->n < STACK)
		evaluation->v[evaluation->n++] = v;
	else
		evaluation->bad = true;
}

static uint64_t pop(struct evaluation *evaluation)
{
	if (evaluation->n)
		return evaluation->v[--evaluation->n];
	evaluation->bad = true;
	return 0;
}

static uint64_t pick(struct evaluation *evaluation, uint64_t i)
{
	if (i < evaluation->n)
		return evaluation->v[evaluation->n - 1 - i];
	evaluation->bad = true;
	return 0;
}

static void binary(struct evaluation *evaluation, uint8_t op)
{
	uint64_t b = pop(evaluation), a = pop(evaluation), v = 0;

	switch (op) {
	case 0x1a:
		v = a & b;
		break;
	case 0x1b:
		if (b && !(a == (UINT64_C(1) << 63) && b == UINT64_MAX))
			v = (uint64_t)((int64_t)a / (int64_t)b);
		else
			evaluation->bad = true;
		break;
	case 0x1c:
		v = a - b;
		break;
	case 0x1d:
		if (b)
			v = a % b;
		else
			evaluation->bad = true;
		break;
	case 0x1e:
		v = a * b;
		break;
	case 0x21:
		v = a | b;
		break;
	case 0x22:
		v = a + b;
		break;
	case 0x24:
		v = b < 64 ? a << b : 0;
		break;
	case 0x25:
		v = b < 64 ? a >> b : 0;
		break;
	case 0x26:
		v = (uint64_t)((int64_t)a >> (b < 64 ? b : 63));
		break;
	case 0x27:
		v = a ^ b;
		break;
	case 0x29:
		v = a == b;
		break;
	case 0x2a:
		v = (int64_t)a >= (int64_t)b;
		break;
	case 0x2b:
		v = (int64_t)a > (int64_t)b;
		break;
	case 0x2c:
		v = (int64_t)a <= (int64_t)b;
		break;
	case 0x2d:
		v = (int64_t)a < (int64_t)b;
		break;
	case 0x2e:
		v = a != b;
		break;
	default:
		evaluation->bad = true;
	}
	push(evaluation, v);
}

static void push_register(struct evaluation *evaluation, const struct ws_regs *regs, uint64_t reg,
			  int64_t offset)
{
	if (reg < WS_REGS && (regs->known >> reg & 1))
		push(evaluation, regs->r[reg] + (uint64_t)offset);
	else
		evaluation->bad = true;
}

static void shuffle(struct evaluation *evaluation, struct ws_cursor *cursor, uint8_t op)
{
	uint64_t x, y, z;

	switch (op) {
	case 0x12: /* dup */
		push(evaluation, pick(evaluation, 0));
		break;
	case 0x13: /* drop */
		pop(evaluation);
		break;
	case 0x14: /* over */
		push(evaluation, pick(evaluation, 1));
		break;
	case 0x15:
		push(evaluation, pick(evaluation, ws_take(cursor, 1)));
		break;
	case 0x16: /* swap */
		x = pop(evaluation), y = pop(evaluation);
		push(evaluation, x), push(evaluation, y);
		break;
	case 0x17: /* rot */
		x = pop(evaluation), y = pop(evaluation), z = pop(evaluation);
		push(evaluation, x), push(evaluation, z), push(evaluation, y);
		break;
	case 0x19: /* abs */
		x = pop(evaluation);
		push(evaluation, (int64_t)x < 0 ? 0 - x : x);
		break;
	case 0x1f: /* neg */
		push(evaluation, 0 - pop(evaluation));
		break;
	case 0x20: /* not */
		push(evaluation, ~pop(evaluation));
		break;
	default: /* 0x23, plus_uconst */
		x = pop(evaluation);
		push(evaluation, x + ws_take_uleb(cursor));
	}
}

/* Constants that follow the instruction: 0x08 to 0x11. */
static uint64_t constant(struct ws_cursor *cursor, uint8_t op)
{
	static const uint8_t size[] = {1, 1, 2, 2, 4, 4, 8, 8};
	unsigned n;
	uint64_t v;

	if (op == 0x10)
		return ws_take_uleb(cursor);
	if (op == 0x11)
		return (uint64_t)ws_take_sleb(cursor);
	n = size[op - 0x08];
	v = ws_take(cursor, n);
	if ((op & 1) && n < 8 && (v >> (8 * n - 1) & 1))
		v |= ~UINT64_C(0) << (8 * n);
	return v;
}

bool ws_cfi_evaluate(const uint8_t *code, size_t size, const struct ws_regs *regs, bool pushed,
		     uint64_t first,
		     bool (*read)(void *ctx, uint64_t address, unsigned bytes, uint64_t *value),
		     void *ctx, uint64_t *result)
{
	struct ws_cursor cursor = {code, code + size, false};
	struct evaluation evaluation = {.n = 0};
	unsigned steps = 0;

	if (pushed)
		push(&evaluation, first);
	while (cursor.bytes < cursor.end && !cursor.bad && !evaluation.bad && steps++ < 1000) {
		uint8_t op = (uint8_t)ws_take(&cursor, 1);
		uint64_t v;

		if (op == 0x03) { /* addr */
			push(&evaluation, ws_take(&cursor, 8));
		} else if (op == 0x06 || op == 0x94) { /* deref, deref_size */
			unsigned n = op == 0x06 ? 8 : (unsigned)ws_take(&cursor, 1);

			if (!n || n > 8 || !read(ctx, pop(&evaluation), n, &v))
				return false;
			push(&evaluation, v);
		} else if (op >= 0x08 && op <= 0x11) {
			push(&evaluation, constant(&cursor, op));
		} else if ((op >= 0x12 && op <= 0x17) || op == 0x19 || op == 0x1f || op == 0x20 ||
			   op == 0x23) {
			shuffle(&evaluation, &cursor, op);
		} else if ((op >= 0x1a && op <= 0x2e) && op != 0x28) {
			binary(&evaluation, op);
		} else if (op == 0x28 || op == 0x2f) { /* bra, skip */
			int16_t by = (int16_t)ws_take(&cursor, 2);

			if (op == 0x28 && !pop(&evaluation))
				continue;
			if (by < code - cursor.bytes || by > cursor.end - cursor.bytes)
				return false;
			cursor.bytes += by;
		} else if (op >= 0x30 && op <= 0x4f) { /* lit */
			push(&evaluation, op - 0x30u);
		} else if (op >= 0x70 && op <= 0x8f) { /* breg */
			push_register(&evaluation, regs, op - 0x70u, ws_take_sleb(&cursor));
		} else if (op == 0x92) { /* bregx */
			uint64_t reg = ws_take_uleb(&cursor);

			push_register(&evaluation, regs, reg, ws_take_sleb(&cursor));
		} else if (op != 0x96) { /* nop */
			return false;
		}
	}
	*result = evaluation.n ? evaluation.v[evaluation.n - 1] : 0;
	return !cursor.bad && !evaluation.bad && evaluation.n && cursor.bytes >= cursor.end;
}
