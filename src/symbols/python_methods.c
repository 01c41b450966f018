/*
 * python_methods.c - see python_methods.h.
 *
 * The data of the file are searched for the addresses at which the wanted functions begin. Each
 * place where one stands may lie in one or several structures of CPython; the tables among them are
 * known by who refers to their beginning. The layouts are those of CPython's stable and public
 * structures, the same in all versions of Python 3.
 */
#include "symbols/python_methods.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

enum {
	WORD = 8,
	MOST_NAME = 100,
	MOST_DATA = 64 << 20, /* bytes of data that are searched */
	METHOD_SIZE = 32,
	METHOD_FLAGS = 16, /* from the start of a PyMethodDef, after its name and function */
	ALL_FLAGS = 0x3ff,
	CALLED_FLAGS = 0x8d, /* with a tuple, nothing, one object, an array */
	TYPE_NAME = 24,	     /* from the start of a PyTypeObject */
	TYPE_SIZE = 32,
	TYPE_METHODS = 232,
	MODULE_NAME = 40, /* from the start of a PyModuleDef */
	MODULE_METHODS = 64,
	SPEC_SLOTS = 24,   /* from the start of a PyType_Spec, which begins with the name */
	SLOT_METHODS = 64, /* the number of a PyType_Slot */
	MOST_SLOTS = 100,
	MOST_METHODS = 500,
};

/* What types do for operators, by where it stands in their structures. */
struct python_slot {
	uint16_t table; /* from the start of a PyTypeObject: the pointer to the table; 0: itself */
	uint16_t offset;
	const char *name;
};

static const struct python_slot slots[] = {
	{104, 0, "__len__"},	  {104, 8, "__add__"},	    {104, 16, "__mul__"},
	{104, 24, "__getitem__"}, {104, 40, "__setitem__"}, {104, 56, "__contains__"},
	{104, 64, "__iadd__"},	  {112, 0, "__len__"},	    {112, 8, "__getitem__"},
	{112, 16, "__setitem__"}, {96, 0, "__add__"},	    {96, 8, "__sub__"},
	{96, 16, "__mul__"},	  {96, 24, "__mod__"},	    {96, 40, "__pow__"},
	{0, 88, "__repr__"},	  {0, 120, "__hash__"},	    {0, 136, "__str__"},
	{0, 200, "__eq__"},	  {0, 216, "__iter__"},	    {0, 224, "__next__"},
	{0, 296, "__init__"},	  {0, 312, "__new__"},
};

/* A place that names a wanted function, if something refers to the start of its table. */
struct method_candidate {
	uint64_t table, begin; /* of the table; of the function */
	const char *name;
	uint16_t type_offset; /* where a type refers to the table; 0: a table of methods */
};

/* The writable data of a file as they are once loaded. */
struct data_image {
	const struct ws_elf *elf;
	struct data_segment {
		uint64_t address, size;
		uint8_t *bytes;
	} segments[4];
	size_t count;
};

struct ws_python_methods {
	char **names;
	size_t count, cap;
	struct ws_map by_begin; /* the number of the name, less 1, by where the function begins */
};

/* ---- data ---- */

static uint8_t *find_data(const struct data_image *image, uint64_t address)
{
	for (size_t i = 0; i < image->count; i++) {
		const struct data_segment *segment = &image->segments[i];

		if (address >= segment->address && segment->size >= WORD &&
		    address - segment->address <= segment->size - WORD)
			return segment->bytes + (address - segment->address);
	}
	return NULL;
}

/* The word at an address; 0 outside of the data. */
static uint64_t read_word(const struct data_image *image, uint64_t address)
{
	const uint8_t *bytes = find_data(image, address);
	uint64_t word = 0;

	if (bytes)
		memcpy(&word, bytes, WORD);
	return word;
}

static void relocate(const struct data_image *image, const Elf64_Rela *entry)
{
	uint32_t type = ELF64_R_TYPE(entry->r_info);
	bool relative = image->elf->machine == EM_AARCH64 ? type == R_AARCH64_RELATIVE
							  : type == R_X86_64_RELATIVE;
	uint8_t *bytes = relative ? find_data(image, entry->r_offset) : NULL;

	if (bytes)
		memcpy(bytes, &entry->r_addend, WORD);
}

static void relocate_all(const struct data_image *image)
{
	Elf64_Shdr section;

	for (uint32_t i = 1; ws_elf_get_section(image->elf, i, &section); i++) {
		const uint8_t *bytes = NULL;

		if (section.sh_type == SHT_RELA)
			bytes = ws_elf_get_bytes(image->elf, &section);
		for (uint64_t k = 0; bytes && k < section.sh_size / sizeof(Elf64_Rela); k++) {
			Elf64_Rela entry;

			memcpy(&entry, bytes + k * sizeof(entry), sizeof(entry));
			relocate(image, &entry);
		}
	}
}

static void load_data(const struct ws_elf *elf, struct data_image *image)
{
	Elf64_Phdr segment;
	uint64_t left = 0, all = 0;

	*image = (struct data_image){.elf = elf};
	for (uint32_t i = 0; ws_elf_get_segment(elf, i, &segment); i++) {
		const uint8_t *bytes;

		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_W) ||
		    image->count == WS_COUNT(image->segments))
			continue;
		bytes = ws_elf_get_loaded(elf, segment.p_vaddr, &left);
		all += left;
		if (!bytes || all > MOST_DATA)
			continue;
		image->segments[image->count] =
			(struct data_segment){segment.p_vaddr, left, ws_malloc(left + 1)};
		memcpy(image->segments[image->count++].bytes, bytes, left);
	}
	relocate_all(image);
}

static void free_data(struct data_image *image)
{
	for (size_t i = 0; i < image->count; i++)
		free(image->segments[i].bytes);
}

/* A name as Python has them, which stands at an address; NULL for anything else. */
static const char *read_name(const struct data_image *image, uint64_t address)
{
	uint64_t left = 0;
	const uint8_t *bytes = address ? ws_elf_get_loaded(image->elf, address, &left) : NULL;
	uint64_t length = 0;

	if (!bytes || (!isalpha(*bytes) && *bytes != '_'))
		return NULL;
	while (length < left && length < MOST_NAME &&
	       (isalnum(bytes[length]) || bytes[length] == '_' || bytes[length] == '.'))
		length++;
	if (length == left || bytes[length])
		return NULL;
	return (const char *)bytes;
}

static bool is_code(const struct ws_elf *elf, uint64_t address)
{
	Elf64_Phdr segment;

	for (uint32_t i = 0; ws_elf_get_segment(elf, i, &segment); i++)
		if (segment.p_type == PT_LOAD && segment.p_flags & PF_X &&
		    address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
			return true;
	return false;
}

static bool is_method(const struct data_image *image, uint64_t at)
{
	uint64_t flags = read_word(image, at + METHOD_FLAGS);

	return flags & CALLED_FLAGS && !(flags & ~(uint64_t)ALL_FLAGS) &&
	       is_code(image->elf, read_word(image, at + WORD)) &&
	       read_name(image, read_word(image, at));
}

static bool is_type(const struct data_image *image, uint64_t at)
{
	const uint64_t most = 1 << 20;
	uint64_t size = read_word(image, at + TYPE_SIZE);

	const char *name = read_name(image, read_word(image, at + TYPE_NAME));

	return name && size && size < most && strncmp(name, "__", 2) != 0;
}

/* ---- names ---- */

static void add_name(struct ws_python_methods *methods, uint64_t begin, const char *owner,
		     const char *name)
{
	bool found;

	ws_map_get(&methods->by_begin, begin, &found);
	if (found)
		return;
	ws_grow(methods->names, methods->cap, methods->count + 1);
	if (!owner || !strcmp(owner, "builtins"))
		methods->names[methods->count++] = ws_strdup(name);
	else
		methods->names[methods->count++] = ws_format("%s.%s", owner, name);
	ws_map_set(&methods->by_begin, begin, methods->count);
}

struct method_search {
	struct data_image image;
	struct ws_map wanted; /* where functions begin */
	struct method_candidate *candidates;
	size_t count, cap;
	struct ws_map tables; /* the first candidate, plus 1, by table */
	struct ws_python_methods *methods;
};

static void add_candidate(struct method_search *search, struct method_candidate candidate)
{
	ws_grow(search->candidates, search->cap, search->count + 1);
	search->candidates[search->count++] = candidate;
}

/* A wanted function stands at `at`: in which structures may that be? */
static void look_at_place(struct method_search *search, uint64_t at, uint64_t begin)
{
	const struct data_image *image = &search->image;
	uint64_t first = at - WORD;

	if (is_method(image, first)) {
		const char *name = read_name(image, read_word(image, first));

		/* Its table begins here or before; what stands before the table may be a method,
		 * too. */
		for (int i = 0; i < MOST_METHODS && is_method(image, first); i++) {
			add_candidate(search, (struct method_candidate){first, begin, name, 0});
			first -= METHOD_SIZE;
		}
		return;
	}
	for (size_t i = 0; i < WS_COUNT(slots); i++) {
		uint64_t type = at - slots[i].offset;

		if (slots[i].table)
			add_candidate(search, (struct method_candidate){type, begin, slots[i].name,
									slots[i].table});
		else if (is_type(image, type))
			add_name(search->methods, begin,
				 read_name(image, read_word(image, type + TYPE_NAME)),
				 slots[i].name);
	}
}

/* Call `visit` for each word of the data that is a key of `words`, with its address. */
static void visit_words(struct method_search *search, const struct ws_map *words,
			void (*visit)(struct method_search *search, uint64_t at, uint64_t word))
{
	for (size_t i = 0; i < search->image.count; i++) {
		const struct data_segment *segment = &search->image.segments[i];

		for (uint64_t at = 0; at + WORD <= segment->size; at += WORD) {
			uint64_t word = read_word(&search->image, segment->address + at);
			bool found = false;

			if (word)
				ws_map_get(words, word, &found);
			if (found)
				visit(search, segment->address + at, word);
		}
	}
}

/* The name in the specification of a type among whose slots one refers to methods at `at`: the
 * specification refers to the first slot. */
static const char *find_spec_name(const struct method_search *search, uint64_t at)
{
	const struct data_image *image = &search->image;
	const uint64_t slot = 2 * (uint64_t)WORD;
	uint64_t last = at - WORD, first = last;

	for (int i = 0; i < MOST_SLOTS; i++) {
		uint64_t number = read_word(image, first - slot);

		if (!number || number >= MOST_SLOTS)
			break;
		first -= slot;
	}
	for (size_t i = 0; i < image->count; i++) {
		const struct data_segment *segment = &image->segments[i];

		for (uint64_t word = 0; word + WORD <= segment->size; word += WORD) {
			uint64_t place = segment->address + word, to = read_word(image, place);

			if (to >= first && to <= last && !((last - to) % slot) &&
			    read_name(image, read_word(image, place - SPEC_SLOTS)))
				return read_name(image, read_word(image, place - SPEC_SLOTS));
		}
	}
	return NULL;
}

/* The module or type whose structure refers to the table of a candidate at `at`; NULL: none. */
static const char *find_owner(const struct method_search *search, uint64_t at, uint16_t type_offset)
{
	const struct data_image *image = &search->image;
	uint64_t type = at - TYPE_METHODS, module = at - MODULE_METHODS;
	const char *name;

	if (type_offset)
		type = at - type_offset;
	if (is_type(image, type))
		return read_name(image, read_word(image, type + TYPE_NAME));
	if (type_offset)
		return NULL;
	name = read_name(image, read_word(image, module + MODULE_NAME));
	if (!name && read_word(image, at - WORD) == SLOT_METHODS)
		name = find_spec_name(search, at);
	return name;
}

/* `at` refers to what may be the table of candidates. */
static void check_reference(struct method_search *search, uint64_t at, uint64_t table)
{
	for (size_t i = 0; i < search->count; i++) {
		const struct method_candidate *candidate = &search->candidates[i];
		const char *owner = NULL;

		if (candidate->table == table)
			owner = find_owner(search, at, candidate->type_offset);
		if (owner)
			add_name(search->methods, candidate->begin, owner, candidate->name);
	}
}

static void find_owners(struct method_search *search)
{
	for (size_t i = 0; i < search->count; i++)
		ws_map_set(&search->tables, search->candidates[i].table, 1);
	visit_words(search, &search->tables, check_reference);
	/* Methods that belong to nothing known keep their own names. */
	for (size_t i = 0; i < search->count; i++)
		if (!search->candidates[i].type_offset)
			add_name(search->methods, search->candidates[i].begin, NULL,
				 search->candidates[i].name);
}

/* ---- functions that methods end in ---- */

/* Where a function of a few instructions on x86-64 jumps to at its end; 0: it does not. */
static uint64_t find_jump(const struct ws_elf *elf, uint64_t begin)
{
	enum { NEAR_JUMP = 0xe9, SHORT_JUMP = 0xeb, FEW_BYTES = 16, NEAR = 5, SHORT = 2 };
	uint64_t left = 0;
	const uint8_t *code = ws_elf_get_loaded(elf, begin, &left);

	if (!code || elf->machine != EM_X86_64)
		return 0;
	for (uint64_t i = 0; i < FEW_BYTES && i + NEAR <= left; i++) {
		int32_t distance;

		memcpy(&distance, code + i + 1, sizeof(distance));
		if (code[i] == NEAR_JUMP)
			return begin + i + NEAR + (uint64_t)(int64_t)distance;
		if (code[i] == SHORT_JUMP)
			return begin + i + SHORT + (uint64_t)(int64_t)(int8_t)code[i + 1];
	}
	return 0;
}

/* What several methods end in has the names of two: "max_min". */
static void name_target(struct method_search *search, size_t known, uint64_t target,
			const char *name)
{
	struct ws_python_methods *methods = search->methods;
	bool found;
	uint64_t number = ws_map_get(&methods->by_begin, target, &found);

	if (!found) {
		add_name(methods, target, NULL, name);
	} else if (number > known && !strchr(methods->names[number - 1], '_')) {
		char *first = methods->names[number - 1];

		methods->names[number - 1] = ws_format("%s_%s", first, name);
		free(first);
	}
}

/* PyDict_Update, too, only jumps to what does its work. */
static void name_export_targets(struct method_search *search)
{
	enum { FEW_BYTES = 16 };
	const struct ws_elf *elf = search->image.elf;
	Elf64_Shdr section, texts;
	const uint8_t *symbols, *names;

	if (ws_elf_find_section(elf, ".dynsym", &section) < 0 ||
	    ws_elf_find_section(elf, ".dynstr", &texts) < 0)
		return;
	symbols = ws_elf_get_bytes(elf, &section);
	names = ws_elf_get_bytes(elf, &texts);
	for (uint64_t i = 0; symbols && names && i < section.sh_size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym symbol;
		bool wanted = false;
		uint64_t target;

		memcpy(&symbol, symbols + i * sizeof(symbol), sizeof(symbol));
		if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !symbol.st_value ||
		    symbol.st_size > FEW_BYTES || symbol.st_name >= texts.sh_size)
			continue;
		target = find_jump(elf, symbol.st_value);
		if (target)
			ws_map_get(&search->wanted, target, &wanted);
		if (wanted && memchr(names + symbol.st_name, '\0', texts.sh_size - symbol.st_name))
			add_name(search->methods, target, NULL,
				 (const char *)names + symbol.st_name);
	}
}

/* min and max are a few instructions, which jump to the function that does their work: on stacks it
 * stands alone. */
static void name_jump_targets(struct method_search *search)
{
	const struct data_image *image = &search->image;
	size_t known = search->methods->count;

	for (size_t i = 0; i < image->count; i++) {
		const struct data_segment *segment = &image->segments[i];

		for (uint64_t at = 0; at + METHOD_SIZE <= segment->size; at += WORD) {
			uint64_t method = segment->address + at, target;
			bool wanted = false;

			if (!is_method(image, method))
				continue;
			target = find_jump(image->elf, read_word(image, method + WORD));
			if (target)
				ws_map_get(&search->wanted, target, &wanted);
			if (wanted)
				name_target(search, known, target,
					    read_name(image, read_word(image, method)));
		}
	}
}

/* ---- the file ---- */

/* Whether a file makes modules of Python: it refers to such a function of the interpreter, or has
 * it. */
static bool is_of_python(const struct ws_elf *elf)
{
	static const char sign[] = "PyModule";
	Elf64_Shdr section;
	const uint8_t *texts = NULL;

	if (elf->wide && (elf->machine == EM_X86_64 || elf->machine == EM_AARCH64) &&
	    ws_elf_find_section(elf, ".dynstr", &section) >= 0)
		texts = ws_elf_get_bytes(elf, &section);
	return texts && memmem(texts, section.sh_size, sign, sizeof(sign) - 1);
}

/* Where the function of an address begins; 0: not known. */
static uint64_t find_begin(struct ws_cfi *cfi, uint64_t address)
{
	struct ws_cfi_row row;

	return ws_cfi_find(cfi, address, &row) ? row.begin : 0;
}

struct ws_python_methods *ws_python_methods_find(const struct ws_elf *elf, struct ws_cfi *cfi,
						 const uint64_t *address, size_t n,
						 struct ws_symbol_hit *hit)
{
	struct method_search search = {.methods = NULL};

	if (!cfi || !is_of_python(elf))
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!hit[i].name)
			ws_map_set(&search.wanted, find_begin(cfi, address[i]), 1);
	if (!search.wanted.count)
		return NULL;
	search.methods = ws_calloc(1, sizeof(*search.methods));
	load_data(elf, &search.image);
	visit_words(&search, &search.wanted, look_at_place);
	find_owners(&search);
	name_jump_targets(&search);
	name_export_targets(&search);
	for (size_t i = 0; i < n; i++) {
		uint64_t begin = hit[i].name ? 0 : find_begin(cfi, address[i]);
		uint64_t number = begin ? ws_map_get(&search.methods->by_begin, begin, NULL) : 0;

		if (number)
			hit[i] = (struct ws_symbol_hit){.name = search.methods->names[number - 1],
							.value = begin};
	}
	free_data(&search.image);
	free(search.candidates);
	ws_map_free(&search.wanted);
	ws_map_free(&search.tables);
	return search.methods;
}

void ws_python_methods_free(struct ws_python_methods *methods)
{
	if (!methods)
		return;
	for (size_t i = 0; i < methods->count; i++)
		free(methods->names[i]);
	free(methods->names);
	ws_map_free(&methods->by_begin);
	free(methods);
}
