/* hotspot.c - see hotspot.h. */
#include "record/hotspot.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/ticks.h"
#include "record/process_memory.h"
#include "symbols/symtab.h"

enum { MOST_HEAPS = 8, MOST_ENTRIES = 65536, LONGEST_NAME = 1024 };
/* A step goes back by up to 254 segments, mostly of 128 bytes: blocks of 8 MB. What the target
 * writes there decides how many steps are made, each of which is a system call. */
enum { MOST_STEPS = 256 };

/* ---- the layout, as libjvm.so describes it ---- */

enum field {
	HEAPS,
	ARRAY_DATA,
	ARRAY_LENGTH,
	HEAP_MEMORY,
	HEAP_SEGMENTS,
	HEAP_LOG2,
	SPACE_LOW,
	SPACE_HIGH,
	BLOB_NAME,
	BLOB_FRAME,
	COMPILED_METHOD, /* before JDK 23 */
	NATIVE_METHOD,
	METHOD_CONST,
	CONST_POOL,
	CONST_NAME,
	POOL_CLASS,
	CLASS_NAME,
	SYMBOL_LENGTH,
	SYMBOL_BODY,
	FIELDS
};

static const struct {
	const char *type, *field;
} fields[FIELDS] = {
	[HEAPS] = {"CodeCache", "_heaps"},
	[ARRAY_DATA] = {"GrowableArray<int>", "_data"},
	[ARRAY_LENGTH] = {"GrowableArrayBase", "_len"},
	[HEAP_MEMORY] = {"CodeHeap", "_memory"},
	[HEAP_SEGMENTS] = {"CodeHeap", "_segmap"},
	[HEAP_LOG2] = {"CodeHeap", "_log2_segment_size"},
	[SPACE_LOW] = {"VirtualSpace", "_low"},
	[SPACE_HIGH] = {"VirtualSpace", "_high_boundary"},
	[BLOB_NAME] = {"CodeBlob", "_name"},
	[BLOB_FRAME] = {"CodeBlob", "_frame_size"},
	[COMPILED_METHOD] = {"CompiledMethod", "_method"},
	[NATIVE_METHOD] = {"nmethod", "_method"},
	[METHOD_CONST] = {"Method", "_constMethod"},
	[CONST_POOL] = {"ConstMethod", "_constants"},
	[CONST_NAME] = {"ConstMethod", "_name_index"},
	[POOL_CLASS] = {"ConstantPool", "_pool_holder"},
	[CLASS_NAME] = {"Klass", "_name"},
	[SYMBOL_LENGTH] = {"Symbol", "_length"},
	[SYMBOL_BODY] = {"Symbol", "_body"},
};

enum size { POOL_SIZE, BLOCK_SIZE, SIZES };
static const char *const sizes[SIZES] = {[POOL_SIZE] = "ConstantPool", [BLOCK_SIZE] = "HeapBlock"};

struct heap {
	uint64_t low, high, segments;
	uint32_t log2;
};

struct machine {
	struct machine *next;
	int pid;
	bool ready, refused; /* its heaps are known; it is no machine of Java, or an unknown one */
	uint64_t field[FIELDS]; /* offsets; of static fields the address */
	bool known[FIELDS];
	uint64_t size[SIZES];
	struct heap heaps[MOST_HEAPS];
	size_t heap_count;
	struct ws_map blocks;  /* beginnings of those that have been looked at */
	struct ws_map frames;  /* address: size of its frame, or what it is otherwise */
	uint64_t frames_at;    /* since when: code may be replaced by other code */
	struct ws_map methods; /* address: is it one that the interpreter runs? */
	size_t method_count;
	struct ws_text map;
};

struct ws_hotspot {
	struct machine *machines;
};

/* libjvm.so of a process, and where it is. */
struct library {
	int pid;
	struct ws_elf elf;
	uint64_t bias;
};

static bool read_memory(int pid, uint64_t from, void *to, size_t size)
{
	return from && ws_process_memory_read(pid, to, from, size) == (ssize_t)size;
}

static uint64_t read_word(int pid, uint64_t from)
{
	uint64_t word = 0;

	return read_memory(pid, from, &word, sizeof(word)) ? word : 0;
}

static uint32_t read_half(int pid, uint64_t from)
{
	uint32_t half = 0;

	return read_memory(pid, from, &half, sizeof(half)) ? half : 0;
}

static bool find_library(int pid, char *library, uint64_t *start, uint64_t *offset)
{
	char path[64], line[PATH_MAX + 200];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps)) {
		unsigned long long from, at;
		char *name = strchr(line, '/');

		if (!name || sscanf(line, "%llx-%*x %*s %llx", &from, &at) != 2)
			continue;
		name[strcspn(name, "\n")] = 0;
		found = !strcmp(strrchr(name, '/'), "/libjvm.so");
		snprintf(library, PATH_MAX, "%s", name);
		*start = from;
		*offset = at;
	}
	if (maps)
		fclose(maps);
	return found;
}

static bool open_library(int pid, struct library *library)
{
	char name[PATH_MAX], path[PATH_MAX + 64];
	uint64_t start, offset, address;
	struct ws_err err;

	library->pid = pid;
	if (!find_library(pid, name, &start, &offset))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/root%s", pid, name);
	if (ws_elf_open(&library->elf, path, &err))
		return false;
	if (!library->elf.wide || !ws_elf_find_address(&library->elf, offset, &address)) {
		ws_elf_close(&library->elf);
		return false;
	}
	library->bias = start - (address & ~UINT64_C(4095));
	return true;
}

/* The value of an exported variable. */
static uint64_t read_exported(const struct library *library, const char *name)
{
	uint64_t at = ws_symtab_find_exported(&library->elf, name);

	return at ? read_word(library->pid, library->bias + at) : 0;
}

/* A text in the library's constants; NULL when it is none. */
static const char *get_text(const struct library *library, uint64_t address)
{
	uint64_t left = 0;
	const uint8_t *bytes =
		address < library->bias
			? NULL
			: ws_elf_get_loaded(&library->elf, address - library->bias, &left);

	return bytes && memchr(bytes, 0, left) ? (const char *)bytes : NULL;
}

static void note_field(struct machine *machine, const char *type, const char *name, bool is_static,
		       uint64_t offset, uint64_t address)
{
	for (size_t i = 0; i < FIELDS; i++)
		if (!strcmp(type, fields[i].type) && !strcmp(name, fields[i].field)) {
			machine->field[i] = is_static ? address : offset;
			machine->known[i] = true;
		}
}

/* An array of entries in the library; false where it is not there. Where `stride` is 0, none is. */
static bool read_entry(const struct library *library, uint64_t array, uint64_t stride, size_t i,
		       uint8_t *entry, size_t size)
{
	return array && stride >= 16 && stride <= size &&
	       read_memory(library->pid, array + i * stride, entry, stride);
}

static uint64_t get_word(const uint8_t *entry, uint64_t offset, size_t size)
{
	uint64_t word;

	if (offset + sizeof(word) > size)
		return 0;
	memcpy(&word, entry + offset, sizeof(word));
	return word;
}

static void read_fields(const struct library *library, struct machine *machine)
{
	uint64_t array = read_exported(library, "gHotSpotVMStructs"),
		 stride = read_exported(library, "gHotSpotVMStructEntryArrayStride"),
		 type_at = read_exported(library, "gHotSpotVMStructEntryTypeNameOffset"),
		 name_at = read_exported(library, "gHotSpotVMStructEntryFieldNameOffset"),
		 static_at = read_exported(library, "gHotSpotVMStructEntryIsStaticOffset"),
		 offset_at = read_exported(library, "gHotSpotVMStructEntryOffsetOffset"),
		 address_at = read_exported(library, "gHotSpotVMStructEntryAddressOffset");
	uint8_t entry[128];

	for (size_t i = 0; i < MOST_ENTRIES; i++) {
		const char *type, *name;

		if (!read_entry(library, array, stride, i, entry, sizeof(entry)))
			return;
		type = get_text(library, get_word(entry, type_at, sizeof(entry)));
		name = get_text(library, get_word(entry, name_at, sizeof(entry)));
		if (!type || !name)
			return;
		note_field(machine, type, name,
			   (uint32_t)get_word(entry, static_at, sizeof(entry)) != 0,
			   get_word(entry, offset_at, sizeof(entry)),
			   get_word(entry, address_at, sizeof(entry)));
	}
}

static void read_sizes(const struct library *library, struct machine *machine)
{
	uint64_t array = read_exported(library, "gHotSpotVMTypes"),
		 stride = read_exported(library, "gHotSpotVMTypeEntryArrayStride"),
		 name_at = read_exported(library, "gHotSpotVMTypeEntryTypeNameOffset"),
		 size_at = read_exported(library, "gHotSpotVMTypeEntrySizeOffset");
	uint8_t entry[128];

	for (size_t i = 0; i < MOST_ENTRIES; i++) {
		const char *name;

		if (!read_entry(library, array, stride, i, entry, sizeof(entry)))
			return;
		name = get_text(library, get_word(entry, name_at, sizeof(entry)));
		if (!name)
			return;
		for (size_t k = 0; k < SIZES; k++)
			if (!strcmp(name, sizes[k]))
				machine->size[k] = get_word(entry, size_at, sizeof(entry));
	}
}

static bool knows_layout(const struct machine *machine)
{
	for (size_t i = 0; i < FIELDS; i++)
		if (!machine->known[i] && i != COMPILED_METHOD && i != NATIVE_METHOD)
			return false;
	return (machine->known[COMPILED_METHOD] || machine->known[NATIVE_METHOD]) &&
	       machine->size[POOL_SIZE] && machine->size[BLOCK_SIZE];
}

/* ---- the code cache ---- */

/* Its heaps stay where they are from when the machine has started. */
static void read_heaps(struct machine *machine)
{
	const uint64_t *field = machine->field;
	int pid = machine->pid;
	uint64_t array = read_word(pid, field[HEAPS]), items;
	uint32_t count = array ? read_half(pid, array + field[ARRAY_LENGTH]) : 0;

	items = array ? read_word(pid, array + field[ARRAY_DATA]) : 0;
	machine->heap_count = 0;
	for (uint32_t i = 0; items && i < count && i < MOST_HEAPS; i++) {
		uint64_t heap = read_word(pid, items + i * sizeof(uint64_t)),
			 memory = heap + field[HEAP_MEMORY];
		struct heap *new = &machine->heaps[machine->heap_count];

		if (!heap)
			continue;
		new->low = read_word(pid, memory + field[SPACE_LOW]);
		new->high = read_word(pid, memory + field[SPACE_HIGH]);
		new->segments = read_word(pid, heap + field[HEAP_SEGMENTS] + field[SPACE_LOW]);
		new->log2 = read_half(pid, heap + field[HEAP_LOG2]);
		machine->heap_count += new->low &&new->segments &&new->log2 < 32;
	}
	machine->ready = machine->heap_count > 0;
}

static const struct heap *find_heap(const struct machine *machine, uint64_t address)
{
	for (size_t i = 0; i < machine->heap_count; i++)
		if (address >= machine->heaps[i].low && address < machine->heaps[i].high)
			return &machine->heaps[i];
	return NULL;
}

/* The beginning of the block that an address is in: each segment's byte says how far back its
 * block begins, or the next byte to look at; 255 for none. */
static uint64_t find_block(const struct machine *machine, const struct heap *heap, uint64_t address)
{
	uint64_t segment = (address - heap->low) >> heap->log2;

	for (unsigned step = 0; step < MOST_STEPS; step++) {
		uint8_t back;

		if (!read_memory(machine->pid, heap->segments + segment, &back, 1) || back == 255 ||
		    back > segment)
			return 0;
		if (!back)
			return heap->low + (segment << heap->log2);
		segment -= back;
	}
	return 0;
}

/* ---- names ---- */

/* A symbol, with the slashes of a class's name as dots. */
static bool put_symbol(const struct machine *machine, uint64_t symbol, struct ws_text *text)
{
	char name[LONGEST_NAME];
	uint16_t length;

	if (!read_memory(machine->pid, symbol + machine->field[SYMBOL_LENGTH], &length,
			 sizeof(length)) ||
	    !length || length >= sizeof(name) ||
	    !read_memory(machine->pid, symbol + machine->field[SYMBOL_BODY], name, length))
		return false;
	for (uint16_t i = 0; i < length; i++) {
		if (name[i] == '/')
			name[i] = '.';
		if ((unsigned char)name[i] <= ' ')
			return false;
	}
	ws_text_add(text, name, length);
	return true;
}

/* "java.util.LinkedList.get". */
static bool put_method(const struct machine *machine, uint64_t method, struct ws_text *text)
{
	const uint64_t *field = machine->field;
	int pid = machine->pid;
	uint64_t constant = read_word(pid, method + field[METHOD_CONST]), pool, class, name;
	uint16_t index;

	if (!constant || !read_memory(pid, constant + field[CONST_NAME], &index, sizeof(index)))
		return false;
	pool = read_word(pid, constant + field[CONST_POOL]);
	class = pool ? read_word(pid, pool + field[POOL_CLASS]) : 0;
	if (!class)
		return false;
	name = read_word(pid, pool + machine->size[POOL_SIZE] + index * sizeof(uint64_t));
	if (!name || !put_symbol(machine, read_word(pid, class + field[CLASS_NAME]), text))
		return false;
	ws_text_puts(text, ".");
	return put_symbol(machine, name, text);
}

/* Of code that is no method: "Interpreter". */
static bool put_blob(char *name, struct ws_text *text)
{
	for (char *at = name; *at; at++)
		if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
			return false;
	ws_text_printf(text, strchr(name, '_') == name ? "RuntimeStub - %s" : "%s", name);
	return *name;
}

static bool put_name(const struct machine *machine, uint64_t block, struct ws_text *text)
{
	enum field method = machine->known[COMPILED_METHOD] ? COMPILED_METHOD : NATIVE_METHOD;
	uint64_t blob = block + machine->size[BLOCK_SIZE],
		 kind = read_word(machine->pid, blob + machine->field[BLOB_NAME]);
	char name[64] = "";

	if (!kind || !read_memory(machine->pid, kind, name, sizeof(name) - 1))
		return false;
	if (strcmp(name, "nmethod") && strcmp(name, "native nmethod"))
		return put_blob(name, text);
	return put_method(machine, read_word(machine->pid, blob + machine->field[method]), text);
}

static void look_at_address(struct machine *machine, uint64_t address)
{
	const struct heap *heap = find_heap(machine, address);
	uint64_t block = heap ? find_block(machine, heap, address) : 0;
	struct ws_text name = {0};
	uint32_t length; /* in segments */

	if (!block || ws_map_get(&machine->blocks, block, NULL))
		return;
	length = read_half(machine->pid, block);
	if (length && block + ((uint64_t)length << heap->log2) <= heap->high &&
	    put_name(machine, block, &name)) {
		ws_text_printf(&machine->map, "%llx %llx %s\n", (unsigned long long)block,
			       (unsigned long long)length << heap->log2, name.text);
		ws_map_set(&machine->blocks, block, 1);
	}
	ws_text_free(&name);
}

/* ---- frames ---- */

enum { FRAME_UNKNOWN, FRAME_INTERPRETED, LARGEST_FRAME = 1 << 20, MOST_METHODS = 1 << 16 };
/* What a method's address takes in the map of names: less than any method's description. */
#define METHOD_BYTES 8
#define FRAMES_KEPT_NS UINT64_C(1000000000)

static uint64_t read_frame(const struct machine *machine, uint64_t ip)
{
	const struct heap *heap = find_heap(machine, ip);
	uint64_t block = heap ? find_block(machine, heap, ip) : 0, size, kind;
	char name[16] = "";

	if (!block)
		return FRAME_UNKNOWN;
	block += machine->size[BLOCK_SIZE];
	size = (uint64_t)read_half(machine->pid, block + machine->field[BLOB_FRAME]) *
	       sizeof(uint64_t);
	if (size >= 2 * sizeof(uint64_t) && size <= LARGEST_FRAME)
		return size;
	kind = read_word(machine->pid, block + machine->field[BLOB_NAME]);
	if (read_memory(machine->pid, kind, name, sizeof(name) - 1) && !strcmp(name, "Interpreter"))
		return FRAME_INTERPRETED;
	return FRAME_UNKNOWN;
}

/* The method that an interpreter's frame has there, named in the map; 0 where it is none. */
static uint64_t read_interpreted(struct machine *machine, uint64_t method)
{
	struct ws_text name = {0};
	bool known, good;

	if (!method || method % sizeof(uint64_t) || find_heap(machine, method))
		return 0;
	good = ws_map_get(&machine->methods, method, &known);
	if (!known && machine->method_count++ < MOST_METHODS) {
		good = put_method(machine, method, &name);
		if (good)
			ws_text_printf(&machine->map, "%llx %x %s\n", (unsigned long long)method,
				       (unsigned)METHOD_BYTES, name.text);
		ws_map_set(&machine->methods, method, good);
		ws_text_free(&name);
	}
	return good ? method : 0;
}

static struct machine *find_machine(struct ws_hotspot *hotspot, int pid);

bool ws_hotspot_read_frame(void *hotspot, const struct ws_module *module, uint64_t ip,
			   uint64_t word, struct ws_generated_frame *frame)
{
	struct machine *machine = module->key ? find_machine(hotspot, module->key) : NULL;
	uint64_t kept, now;
	bool known;

	if (!machine || machine->refused)
		return false;
	if (!machine->ready)
		read_heaps(machine);
	if (!machine->ready)
		return false;
	kept = ws_map_get(&machine->frames, ip, &known);
	if (!known) {
		now = ws_read_raw_ns();
		if (now - machine->frames_at > FRAMES_KEPT_NS) {
			ws_map_free(&machine->frames);
			machine->frames_at = now;
		}
		kept = read_frame(machine, ip);
		ws_map_set(&machine->frames, ip, kept);
	}
	frame->interpreted = kept == FRAME_INTERPRETED;
	frame->size = (uint32_t)kept;
	frame->method = frame->interpreted ? read_interpreted(machine, word) : 0;
	return kept != FRAME_UNKNOWN;
}

/* ---- processes ---- */

static struct machine *find_machine(struct ws_hotspot *hotspot, int pid)
{
	struct machine *machine = hotspot->machines;
	struct library library;

	while (machine && machine->pid != pid)
		machine = machine->next;
	if (machine)
		return machine;
	machine = ws_calloc(1, sizeof(*machine));
	machine->pid = pid;
	machine->next = hotspot->machines;
	hotspot->machines = machine;
	machine->refused = true;
	if (open_library(pid, &library)) {
		read_fields(&library, machine);
		read_sizes(&library, machine);
		machine->refused = !knows_layout(machine);
		ws_elf_close(&library.elf);
	}
	return machine;
}

uint32_t ws_hotspot_look(struct ws_hotspot *hotspot, const struct ws_stackset *stacks,
			 uint32_t seen)
{
	uint32_t count = ws_stackset_frames(stacks);

	for (uint32_t i = seen + 1; i <= count; i++) {
		const struct ws_stackset_frame *frame = ws_stackset_frame_at(stacks, i);
		struct machine *machine;

		if (frame->kind != WS_FRAME_JIT || !frame->module || !frame->module->key)
			continue;
		machine = find_machine(hotspot, frame->module->key);
		if (machine->refused)
			continue;
		if (!machine->ready)
			read_heaps(machine);
		look_at_address(machine, frame->address);
	}
	return count;
}

const char *ws_hotspot_get_map(void *hotspot, int pid)
{
	const struct machine *machine = ((const struct ws_hotspot *)hotspot)->machines;

	while (machine && machine->pid != pid)
		machine = machine->next;
	return machine ? machine->map.text : NULL;
}

struct ws_hotspot *ws_hotspot_new(void)
{
	return ws_calloc(1, sizeof(struct ws_hotspot));
}

void ws_hotspot_free(struct ws_hotspot *hotspot)
{
	while (hotspot && hotspot->machines) {
		struct machine *machine = hotspot->machines;

		hotspot->machines = machine->next;
		ws_map_free(&machine->blocks);
		ws_map_free(&machine->frames);
		ws_map_free(&machine->methods);
		ws_text_free(&machine->map);
		free(machine);
	}
	free(hotspot);
}
