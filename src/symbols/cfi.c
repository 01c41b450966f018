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
	struct entry *v;
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
static uint64_t take_pointer(struct ws_cursor *c, uint8_t encoding, const uint8_t *base,
			     uint64_t at, uint64_t data)
{
	uint64_t here = at + (uint64_t)(c->p - base), v;

	switch (encoding & 0x0f) {
	case 0x00: /* absptr */
	case 0x04: /* udata8 */
	case 0x0c: /* sdata8 */
		v = ws_take(c, 8);
		break;
	case 0x01:
		v = ws_take_uleb(c);
		break;
	case 0x02:
		v = ws_take(c, 2);
		break;
	case 0x03:
		v = ws_take(c, 4);
		break;
	case 0x09:
		v = (uint64_t)ws_take_sleb(c);
		break;
	case 0x0a:
		v = (uint64_t)(int64_t)(int16_t)ws_take(c, 2);
		break;
	case 0x0b:
		v = (uint64_t)(int64_t)(int32_t)ws_take(c, 4);
		break;
	default:
		c->bad = true;
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
		c->bad = true;
		return 0;
	}
}

/* ---- entries ---- */

/* Length and contents of the entry at `offset`; false at the end. `wide`: it is in the 64-bit form.
 */
static bool entry_at(const struct section *s, uint64_t offset, struct ws_cursor *body, bool *wide)
{
	struct ws_cursor c = {s->data + offset, s->data + s->size, false};
	uint64_t n;

	if (offset >= s->size)
		return false;
	n = ws_take(&c, 4);
	*wide = n == 0xffffffff;
	if (*wide)
		n = ws_take(&c, 8);
	if (c.bad || !n || n > (uint64_t)(c.end - c.p))
		return false;
	*body = (struct ws_cursor){c.p, c.p + n, false};
	return true;
}

static bool is_cie(const struct section *s, uint64_t id, bool wide)
{
	return s->debug ? id == (wide ? UINT64_MAX : 0xffffffff) : id == 0;
}

static void augmentation(struct cie *cie, struct ws_cursor *c, const char *letters,
			 const struct section *s)
{
	uint64_t n = ws_take_uleb(c);
	const uint8_t *p = ws_take_bytes(c, n);
	struct ws_cursor a = {p, p ? p + n : p, !p};

	cie->augmented = true;
	for (letters++; *letters && !a.bad; letters++) {
		if (*letters == 'R')
			cie->pointers = (uint8_t)ws_take(&a, 1);
		else if (*letters == 'S')
			cie->signal = true;
		else if (*letters == 'L')
			ws_take(&a, 1);
		else if (*letters == 'P')
			take_pointer(&a, (uint8_t)ws_take(&a, 1) & 0x7f, s->data, s->address, 0);
		else if (*letters != 'B') /* aarch64: the other key signs return addresses */
			return;
	}
}

static bool read_cie(const struct section *s, uint64_t offset, struct cie *cie)
{
	struct ws_cursor c;
	const char *letters;
	uint8_t version;
	uint64_t id;
	bool wide;

	memset(cie, 0, sizeof(*cie));
	if (!entry_at(s, offset, &c, &wide))
		return false;
	id = ws_take(&c, wide ? 8 : 4);
	version = (uint8_t)ws_take(&c, 1);
	if (!is_cie(s, id, wide) || (version != 1 && version != 3 && version != 4))
		return false;
	letters = ws_take_text(&c);
	if (version == 4 &&
	    (ws_take(&c, 1) != 8 || ws_take(&c, 1))) /* address size, segment size */
		return false;
	cie->code_align = ws_take_uleb(&c);
	cie->data_align = ws_take_sleb(&c);
	cie->return_register = version == 1 ? ws_take(&c, 1) : ws_take_uleb(&c);
	if (letters[0] == 'z')
		augmentation(cie, &c, letters, s);
	else if (letters[0])
		return false;
	cie->code = c;
	return !c.bad && cie->return_register < WS_REGS;
}

static bool read_fde(const struct section *s, uint64_t offset, struct fde *f)
{
	struct ws_cursor c;
	const uint8_t *id_at;
	uint64_t id, from;
	bool wide;

	if (!entry_at(s, offset, &c, &wide))
		return false;
	id_at = c.p;
	id = ws_take(&c, wide ? 8 : 4);
	if (c.bad || is_cie(s, id, wide))
		return false;
	from = (uint64_t)(id_at - s->data);
	if (s->debug ? id >= s->size : id > from)
		return false;
	if (!read_cie(s, s->debug ? id : from - id, &f->cie))
		return false;
	f->begin = take_pointer(&c, f->cie.pointers, s->data, s->address, 0);
	f->end = f->begin + take_pointer(&c, f->cie.pointers & 0x0f, s->data, s->address, 0);
	if (f->cie.augmented)
		ws_take_bytes(&c, ws_take_uleb(&c));
	f->code = c;
	return !c.bad && f->end > f->begin;
}

/* ---- indexes ---- */

static int by_begin(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void make_index(struct section *s)
{
	struct ws_cursor body;
	uint64_t at = 0;
	struct fde f;
	bool wide;

	while (at < s->size && s->n < MOST_ENTRIES) {
		if (!entry_at(s, at, &body, &wide)) {
			/* A zero ends the section, but linkers leave some in the middle. */
			struct ws_cursor c = {s->data + at, s->data + s->size, false};

			if (ws_take(&c, 4) || c.bad)
				break;
			at += 4;
			continue;
		}
		if (read_fde(s, at, &f) && f.begin) {
			ws_grow(s->v, s->cap, s->n + 1);
			s->v[s->n++] = (struct entry){f.begin, f.end, at};
		}
		at = (uint64_t)(body.end - s->data);
	}
	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), by_begin);
}

/* Go compresses its .debug_frame, the only call frame information that it has. */
static void use_section(struct section *s, const struct ws_elf *elf, const char *name)
{
	Elf64_Shdr sh;

	if (ws_elf_find(elf, name, &sh) < 0)
		return;
	s->data = ws_elf_unpacked(elf, &sh, MOST_UNPACKED, &s->size, &s->unpacked);
	s->address = sh.sh_addr;
}

/* The search table, when it has the form that linkers write. Gives .eh_frame too, for files without
 * section headers. */
static void use_table(struct ws_cfi *c)
{
	Elf64_Phdr ph;
	uint32_t i = 0;
	uint64_t left, frames, count;
	const uint8_t *p;
	struct ws_cursor k;
	uint8_t head[4];

	while (ws_elf_segment(c->elf, i, &ph) && ph.p_type != PT_GNU_EH_FRAME)
		i++;
	if (!ws_elf_segment(c->elf, i, &ph))
		return;
	p = ws_elf_loaded(c->elf, ph.p_vaddr, &left);
	if (!p)
		return;
	k = (struct ws_cursor){p, p + left, false};
	for (i = 0; i < 4; i++)
		head[i] = (uint8_t)ws_take(&k, 1);
	if (k.bad || head[0] != 1)
		return;
	frames = take_pointer(&k, head[1], p, ph.p_vaddr, ph.p_vaddr);
	count = head[2] == PE_OMIT ? 0 : take_pointer(&k, head[2], p, ph.p_vaddr, ph.p_vaddr);
	if (k.bad)
		return;
	if (!c->eh.data) {
		c->eh.data = ws_elf_loaded(c->elf, frames, &c->eh.size);
		c->eh.address = frames;
	}
	if (head[3] == 0x3b && count && count <= (uint64_t)(k.end - k.p) / 8) {
		c->table = k.p;
		c->table_n = count;
		c->table_address = ph.p_vaddr;
	}
}

struct ws_cfi *ws_cfi_new(const struct ws_elf *elf)
{
	struct ws_cfi *c;

	if (!elf->wide)
		return NULL;
	c = ws_calloc(1, sizeof(*c));
	c->elf = elf;
	use_section(&c->eh, elf, ".eh_frame");
	use_section(&c->debug, elf, ".debug_frame");
	c->debug.debug = true;
	use_table(c);
	if (c->eh.data && !c->table)
		make_index(&c->eh);
	if (c->debug.data)
		make_index(&c->debug);
	if (!c->table && !c->eh.n && !c->debug.n) {
		ws_cfi_free(c);
		return NULL;
	}
	return c;
}

void ws_cfi_free(struct ws_cfi *c)
{
	if (!c)
		return;
	free(c->eh.v);
	free(c->debug.v);
	free(c->eh.unpacked);
	free(c->debug.unpacked);
	free(c);
}

static uint64_t table_begin(const struct ws_cfi *c, uint64_t i)
{
	int32_t v;

	memcpy(&v, c->table + i * 8, 4);
	return c->table_address + (uint64_t)(int64_t)v;
}

/* The last entry that begins at or below `address`. */
static bool by_table(const struct ws_cfi *c, uint64_t address, struct fde *f)
{
	uint64_t low;
	int32_t v;

	low = ws_bisect(c->table_n, mid, table_begin(c, mid) <= address);
	if (!low)
		return false;
	memcpy(&v, c->table + (low - 1) * 8 + 4, 4);
	v = (int32_t)(c->table_address + (uint64_t)(int64_t)v - c->eh.address);
	return v >= 0 && read_fde(&c->eh, (uint64_t)v, f);
}

static bool by_index(const struct section *s, uint64_t address, struct fde *f)
{
	size_t low = ws_bisect(s->n, mid, s->v[mid].begin <= address);

	return low && address < s->v[low - 1].end && read_fde(s, s->v[low - 1].at, f);
}

/* ---- instructions ---- */

struct machine {
	struct ws_cfi_row row, initial, kept[DEEPEST];
	unsigned depth;
	uint64_t at; /* the address the row holds from */
	const struct fde *f;
	bool bad;
};

static void set_rule(struct machine *m, uint64_t reg, uint8_t kind, int64_t offset)
{
	if (reg < WS_REGS) /* others, such as vector registers, lead to no caller */
		m->row.reg[reg] = (struct ws_cfi_rule){.kind = kind, .offset = offset};
}

static void set_expression(struct machine *m, struct ws_cursor *c, struct ws_cfi_rule *rule,
			   uint8_t kind)
{
	uint64_t n = ws_take_uleb(c);
	const uint8_t *p = ws_take_bytes(c, n);

	if (!p || n > 4096) {
		m->bad = true;
		return;
	}
	if (rule)
		*rule = (struct ws_cfi_rule){.kind = kind, .size = (uint16_t)n, .code = p};
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	if (reg >= WS_REGS) {
		m->bad = true;
		return;
	}
	m->row.cfa_kind = WS_CFI_VALUE;
	m->row.cfa_register = (uint8_t)reg;
	m->row.cfa.offset = offset;
}

static int64_t scaled(const struct machine *m, uint64_t factor)
{
	return (int64_t)(factor * (uint64_t)m->f->cie.data_align);
}

/* Instructions about the address of the frame: def_cfa and what begins like it. */
static void define_frame(struct machine *m, struct ws_cursor *c, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case 0x0c: /* def_cfa */
		reg = ws_take_uleb(c);
		set_cfa(m, reg, (int64_t)ws_take_uleb(c));
		break;
	case 0x0d: /* _register */
		set_cfa(m, ws_take_uleb(c), m->row.cfa.offset);
		break;
	case 0x0e: /* _offset */
		m->row.cfa.offset = (int64_t)ws_take_uleb(c);
		break;
	case 0x0f: /* _expression */
		set_expression(m, c, &m->row.cfa, WS_CFI_VALUE_EXPRESSION);
		m->row.cfa_kind = WS_CFI_VALUE_EXPRESSION;
		break;
	case 0x12: /* def_cfa_sf */
		reg = ws_take_uleb(c);
		set_cfa(m, reg, scaled(m, (uint64_t)ws_take_sleb(c)));
		break;
	case 0x13: /* _offset_sf */
		m->row.cfa.offset = scaled(m, (uint64_t)ws_take_sleb(c));
		break;
	}
}

/* Instructions about where one register was saved. */
static void define_register(struct machine *m, struct ws_cursor *c, uint8_t op)
{
	uint64_t reg = ws_take_uleb(c);

	switch (op) {
	case 0x05: /* offset_extended */
		set_rule(m, reg, WS_CFI_OFFSET, scaled(m, ws_take_uleb(c)));
		break;
	case 0x06: /* restore_extended */
		if (reg < WS_REGS)
			m->row.reg[reg] = m->initial.reg[reg];
		break;
	case 0x07: /* undefined */
		set_rule(m, reg, WS_CFI_UNDEFINED, 0);
		break;
	case 0x08: /* same_value */
		set_rule(m, reg, WS_CFI_SAME, 0);
		break;
	case 0x09: /* register */
		set_rule(m, reg, WS_CFI_REGISTER, (int64_t)ws_take_uleb(c));
		break;
	case 0x10: /* expression, val_expression */
	case 0x16:
		set_expression(m, c, reg < WS_REGS ? &m->row.reg[reg] : NULL,
			       op == 0x10 ? WS_CFI_EXPRESSION : WS_CFI_VALUE_EXPRESSION);
		break;
	case 0x11: /* offset_extended_sf */
		set_rule(m, reg, WS_CFI_OFFSET, scaled(m, (uint64_t)ws_take_sleb(c)));
		break;
	case 0x14: /* val_offset, val_offset_sf */
	case 0x15:
		set_rule(m, reg, WS_CFI_VALUE,
			 scaled(m, op == 0x14 ? ws_take_uleb(c) : (uint64_t)ws_take_sleb(c)));
		break;
	case 0x2f: /* GNU_negative_offset_extended */
		set_rule(m, reg, WS_CFI_OFFSET, scaled(m, 0 - ws_take_uleb(c)));
		break;
	}
}

/* The instructions whose numbers lie in the low six bits. */
static void extended(struct machine *m, struct ws_cursor *c, uint8_t op, uint64_t *advance)
{
	switch (op) {
	case 0x00: /* nop */
	case 0x2d: /* aarch64: return addresses are signed from here on; the signature is masked
		      away in any case */
		break;
	case 0x01: /* set_loc */
		*advance = ws_take(c, 8) - m->at;
		break;
	case 0x02 ... 0x04: /* advance_loc */
		*advance = ws_take(c, 1u << (op - 2)) * m->f->cie.code_align;
		break;
	case 0x05 ... 0x09:
	case 0x10:
	case 0x11:
	case 0x14 ... 0x16:
	case 0x2f:
		define_register(m, c, op);
		break;
	case 0x0a: /* remember_state */
		if (m->depth < DEEPEST)
			m->kept[m->depth] = m->row;
		m->bad |= m->depth++ >= DEEPEST;
		break;
	case 0x0b: /* restore_state */
		if (m->depth)
			m->row = m->kept[--m->depth];
		else
			m->bad = true;
		break;
	case 0x0c ... 0x0f:
	case 0x12:
	case 0x13:
		define_frame(m, c, op);
		break;
	case 0x2e: /* GNU_args_size */
		ws_take_uleb(c);
		break;
	default:
		m->bad = true;
	}
}

/* Run until the row of `address` is there. */
static void execute(struct machine *m, struct ws_cursor c, uint64_t address)
{
	while (c.p < c.end && !c.bad && !m->bad) {
		uint8_t op = (uint8_t)ws_take(&c, 1), low = op & 0x3f;
		uint64_t advance = 0;

		if (op >> 6 == 1)
			advance = low * m->f->cie.code_align;
		else if (op >> 6 == 2)
			set_rule(m, low, WS_CFI_OFFSET, scaled(m, ws_take_uleb(&c)));
		else if (op >> 6 == 3 && low < WS_REGS)
			m->row.reg[low] = m->initial.reg[low];
		else if (op >> 6 == 0)
			extended(m, &c, op, &advance);
		if (advance && address - m->at < advance)
			break;
		m->at += advance;
	}
	m->bad |= c.bad;
}

bool ws_cfi_find(struct ws_cfi *c, uint64_t address, struct ws_cfi_row *row)
{
	struct machine m;
	struct fde f;
	bool debug = false;

	if (!(c->table ? by_table(c, address, &f) : by_index(&c->eh, address, &f)) ||
	    address < f.begin || address >= f.end) {
		debug = true;
		if (!by_index(&c->debug, address, &f) || address < f.begin || address >= f.end)
			return false;
	}
	memset(&m.row, 0, sizeof(m.row));
	m.depth = 0;
	m.bad = false;
	m.f = &f;
	m.at = f.begin;
	m.initial = m.row;
	execute(&m, f.cie.code, UINT64_MAX);
	m.at = f.begin;
	m.initial = m.row;
	execute(&m, f.code, address);
	if (m.bad || !m.row.cfa_kind)
		return false;
	*row = m.row;
	row->signal = f.cie.signal;
	row->debug = debug;
	row->begin = f.begin;
	row->return_register = (uint16_t)f.cie.return_register;
	return true;
}

bool ws_cfi_keeps_fp(struct ws_cfi *c)
{
	const struct section *s = c->eh.n ? &c->eh : &c->debug;
	uint64_t n = c->table ? c->table_n : s->n, step = n / 48 + 1;
	unsigned with = 0, without = 0;
	struct ws_cfi_row row;
	struct fde f;

	for (uint64_t i = 0; i < n; i += step) {
		if (!(c->table ? by_table(c, table_begin(c, i), &f)
			       : read_fde(s, s->v[i].at, &f)) ||
		    f.end - f.begin < 48)
			continue;
		if (!ws_cfi_find(c, f.begin + (f.end - f.begin) / 2, &row) || row.signal ||
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

static void push(struct evaluation *s, uint64_t v)
{
	if (s->n < STACK)
		s->v[s->n++] = v;
	else
		s->bad = true;
}

static uint64_t pop(struct evaluation *s)
{
	if (s->n)
		return s->v[--s->n];
	s->bad = true;
	return 0;
}

static uint64_t pick(struct evaluation *s, uint64_t i)
{
	if (i < s->n)
		return s->v[s->n - 1 - i];
	s->bad = true;
	return 0;
}

static void binary(struct evaluation *s, uint8_t op)
{
	uint64_t b = pop(s), a = pop(s), v = 0;

	switch (op) {
	case 0x1a:
		v = a & b;
		break;
	case 0x1b:
		if (b && !(a == (UINT64_C(1) << 63) && b == UINT64_MAX))
			v = (uint64_t)((int64_t)a / (int64_t)b);
		else
			s->bad = true;
		break;
	case 0x1c:
		v = a - b;
		break;
	case 0x1d:
		if (b)
			v = a % b;
		else
			s->bad = true;
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
		s->bad = true;
	}
	push(s, v);
}

static void push_register(struct evaluation *s, const struct ws_regs *regs, uint64_t reg,
			  int64_t offset)
{
	if (reg < WS_REGS && (regs->known >> reg & 1))
		push(s, regs->r[reg] + (uint64_t)offset);
	else
		s->bad = true;
}

static void shuffle(struct evaluation *s, struct ws_cursor *c, uint8_t op)
{
	uint64_t x, y, z;

	switch (op) {
	case 0x12: /* dup */
		push(s, pick(s, 0));
		break;
	case 0x13: /* drop */
		pop(s);
		break;
	case 0x14: /* over */
		push(s, pick(s, 1));
		break;
	case 0x15:
		push(s, pick(s, ws_take(c, 1)));
		break;
	case 0x16: /* swap */
		x = pop(s), y = pop(s);
		push(s, x), push(s, y);
		break;
	case 0x17: /* rot */
		x = pop(s), y = pop(s), z = pop(s);
		push(s, x), push(s, z), push(s, y);
		break;
	case 0x19: /* abs */
		x = pop(s);
		push(s, (int64_t)x < 0 ? 0 - x : x);
		break;
	case 0x1f: /* neg */
		push(s, 0 - pop(s));
		break;
	case 0x20: /* not */
		push(s, ~pop(s));
		break;
	default: /* 0x23, plus_uconst */
		x = pop(s);
		push(s, x + ws_take_uleb(c));
	}
}

/* Constants that follow the instruction: 0x08 to 0x11. */
static uint64_t constant(struct ws_cursor *c, uint8_t op)
{
	static const uint8_t size[] = {1, 1, 2, 2, 4, 4, 8, 8};
	unsigned n;
	uint64_t v;

	if (op == 0x10)
		return ws_take_uleb(c);
	if (op == 0x11)
		return (uint64_t)ws_take_sleb(c);
	n = size[op - 0x08];
	v = ws_take(c, n);
	if ((op & 1) && n < 8 && (v >> (8 * n - 1) & 1))
		v |= ~UINT64_C(0) << (8 * n);
	return v;
}

bool ws_cfi_evaluate(const uint8_t *code, size_t size, const struct ws_regs *regs, bool pushed,
		     uint64_t first,
		     bool (*read)(void *ctx, uint64_t address, unsigned bytes, uint64_t *value),
		     void *ctx, uint64_t *result)
{
	struct ws_cursor c = {code, code + size, false};
	struct evaluation s = {.n = 0};
	unsigned steps = 0;

	if (pushed)
		push(&s, first);
	while (c.p < c.end && !c.bad && !s.bad && steps++ < 1000) {
		uint8_t op = (uint8_t)ws_take(&c, 1);
		uint64_t v;

		if (op == 0x03) { /* addr */
			push(&s, ws_take(&c, 8));
		} else if (op == 0x06 || op == 0x94) { /* deref, deref_size */
			unsigned n = op == 0x06 ? 8 : (unsigned)ws_take(&c, 1);

			if (!n || n > 8 || !read(ctx, pop(&s), n, &v))
				return false;
			push(&s, v);
		} else if (op >= 0x08 && op <= 0x11) {
			push(&s, constant(&c, op));
		} else if ((op >= 0x12 && op <= 0x17) || op == 0x19 || op == 0x1f || op == 0x20 ||
			   op == 0x23) {
			shuffle(&s, &c, op);
		} else if ((op >= 0x1a && op <= 0x2e) && op != 0x28) {
			binary(&s, op);
		} else if (op == 0x28 || op == 0x2f) { /* bra, skip */
			int16_t by = (int16_t)ws_take(&c, 2);

			if (op == 0x28 && !pop(&s))
				continue;
			if (by < code - c.p || by > c.end - c.p)
				return false;
			c.p += by;
		} else if (op >= 0x30 && op <= 0x4f) { /* lit */
			push(&s, op - 0x30u);
		} else if (op >= 0x70 && op <= 0x8f) { /* breg */
			push_register(&s, regs, op - 0x70u, ws_take_sleb(&c));
		} else if (op == 0x92) { /* bregx */
			uint64_t reg = ws_take_uleb(&c);

			push_register(&s, regs, reg, ws_take_sleb(&c));
		} else if (op != 0x96) { /* nop */
			return false;
		}
	}
	*result = s.n ? s.v[s.n - 1] : 0;
	return !c.bad && !s.bad && s.n && c.p >= c.end;
}
