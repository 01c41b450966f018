/*
 * loop_state.c - see loop_state.h.
 *
 * Which register is computed from which others makes a graph; what is carried from round to round
 * are its circles. Variables on the stack, where code that is not optimised keeps all of them,
 * count as registers.
 */
#include "analyze/loop_state.h"

#include "base/choose.h"
#include "base/compiler.h"

enum {
	REGISTERS = 16,
	SLOTS = 32,
	NODES = REGISTERS + SLOTS,
	STACK_REGISTER = 4,
	FRAME_REGISTER = 5,
	SECOND_ARGUMENT = 6, /* %rsi, as functions of the System V ABI take it */
	FIRST_ARGUMENT = 7
};

struct graph {
	bool changed[NODES];
	uint64_t handed; /* bits: to functions, as it is or with a number more */
	uint64_t
		uses[NODES]; /* bits: what it depends on, at the beginning of the round or before */
	uint64_t read;	     /* bits: whose value at the beginning of a round is looked at */
	bool sets[NODES];    /* some instruction gives it a value without looking at its last */
	bool computes[NODES]; /* some instruction does more than to copy or read one */
	bool reads[NODES];    /* some instruction reads it from memory */
	bool adds[NODES];     /* some instruction adds a register */
	/* What it holds is what another held at the beginning of the round, and a number more. */
	uint8_t base[NODES]; /* NODES: nothing is known */
	int64_t more[NODES];
	int32_t slots[SLOTS]; /* their distances on the stack */
	unsigned slot_count;
	bool overflows;
};

static bool is_slot(const struct ws_instruction *one)
{
	return one->memory && one->index == WS_NO_REGISTER &&
	       (one->base == STACK_REGISTER || one->base == FRAME_REGISTER);
}

static unsigned number_slot(struct graph *graph, const struct ws_instruction *one)
{
	unsigned i = 0;

	while (i < graph->slot_count && graph->slots[i] != one->distance)
		i++;
	graph->overflows |= i == SLOTS;
	if (i == SLOTS)
		return NODES - 1;
	if (i == graph->slot_count)
		graph->slots[graph->slot_count++] = one->distance;
	return REGISTERS + i;
}

static uint64_t get_uses(const struct graph *graph, uint8_t number)
{
	return number < REGISTERS ? graph->uses[number] : 0;
}

/* What the operands of an instruction depend on, besides what it changes. */
static uint64_t list_operands(struct graph *graph, const struct ws_instruction *one)
{
	uint64_t operands = get_uses(graph, one->source);

	if (is_slot(one))
		return operands | (one->writes ? 0 : graph->uses[number_slot(graph, one)]);
	return operands | get_uses(graph, one->base) | get_uses(graph, one->index);
}

static void add_form(struct graph *graph, unsigned node, const struct ws_instruction *one)
{
	unsigned from = NODES;
	int64_t more = 0;

	if (one->kind == WS_INSTRUCTION_STEP) {
		from = node;
		more = one->value;
	} else if (one->copies && one->source < REGISTERS) {
		from = one->source;
	} else if (one->copies && is_slot(one) && !one->writes) {
		from = number_slot(graph, one);
	} else if (one->sets && !one->memory && one->base < REGISTERS &&
		   one->index == WS_NO_REGISTER) {
		from = one->base; /* an address at it */
		more = one->distance;
	}
	if (from == NODES) {
		graph->base[node] = NODES;
		return;
	}
	graph->more[node] = graph->more[from] + more;
	graph->base[node] = graph->base[from];
}

/* `certain`: it is done in each round. */
static void add_change(struct graph *graph, unsigned node, const struct ws_instruction *one,
		       bool certain)
{
	uint64_t operands = list_operands(graph, one);

	if (one->kind == WS_INSTRUCTION_STEP_BY && one->source != one->target) {
		graph->adds[node] = true;
	} else if (one->kind != WS_INSTRUCTION_STEP) {
		graph->sets[node] |= one->sets;
		graph->computes[node] |= !one->sets;
		graph->reads[node] |= one->memory && !is_slot(one) && node < REGISTERS;
	}
	graph->computes[node] |= one->sets && !one->copies && !one->memory &&
				 (one->source < REGISTERS || one->index < REGISTERS);
	add_form(graph, node, one);
	if (!certain) {
		graph->base[node] = NODES;
		graph->computes[node] |= one->kind == WS_INSTRUCTION_STEP;
	}
	graph->changed[node] = true;
	graph->uses[node] = operands | (one->sets && certain ? 0 : graph->uses[node]);
}

/* What is handed over, and what functions may change. */
static void add_call(struct graph *graph, bool certain)
{
	static const uint8_t lost[] = {1, 2, 6, 7, 8, 9, 10, 11, 0};
	uint64_t arguments = graph->uses[FIRST_ARGUMENT] | graph->uses[SECOND_ARGUMENT];

	graph->read |= arguments;
	for (unsigned node = SECOND_ARGUMENT; node <= FIRST_ARGUMENT; node++)
		graph->handed |= ws_bits_if(graph->base[node] < NODES, 1ull << graph->base[node]);
	for (size_t i = 0; i < WS_COUNT(lost); i++) {
		unsigned node = lost[i];

		graph->changed[node] = graph->sets[node] = graph->computes[node] = true;
		graph->base[node] = NODES;
		graph->uses[node] = (certain ? 0 : graph->uses[node]) | (node ? 0 : arguments);
	}
}

static void add_instruction(struct graph *graph, const struct ws_instruction *one, bool certain)
{
	bool only_compares = one->changed == WS_NO_REGISTER && !one->writes;

	graph->read |= list_operands(graph, one);
	if (only_compares || !one->sets || one->other != one->changed)
		graph->read |= get_uses(graph, one->other);
	if (one->writes && is_slot(one))
		add_change(graph, number_slot(graph, one), one, certain);
	if (one->changed < REGISTERS)
		add_change(graph, one->changed, one, certain);
	if (one->calls)
		add_call(graph, certain);
}

/* False for loops within the loop. */
static bool make_graph(const struct ws_instruction *code, size_t count, struct graph *graph)
{
	uint64_t skipped = 0; /* some rounds jump to here */

	for (unsigned node = 0; node < NODES; node++) {
		graph->uses[node] = 1ull << node;
		graph->base[node] = (uint8_t)node;
	}
	for (size_t i = 0; i < count; i++) {
		uint64_t target = (uint64_t)code[i].value;

		add_instruction(graph, &code[i], code[i].at >= skipped);
		if (code[i].kind != WS_INSTRUCTION_JUMP || i + 1 == count)
			continue;
		if (target >= code[0].at && target <= code[i].at)
			return false;
		if (target <= code[count - 1].at)
			skipped = ws_max(skipped, target);
	}
	for (unsigned middle = 0; middle < NODES; middle++) /* in the rounds before */
		for (unsigned node = 0; node < NODES; node++)
			if (graph->uses[node] >> middle & 1)
				graph->uses[node] |= graph->uses[middle];
	return true;
}

/* Its next value has to do with its last one, and something looks at it. */
static bool is_circle(const struct graph *graph, unsigned node)
{
	return graph->changed[node] && (graph->read >> node & 1) && (graph->uses[node] >> node & 1);
}

/* Goes on by the same way in each round, by a number or by a register that nothing changes. */
static bool is_moving(const struct graph *graph, unsigned node)
{
	if (graph->base[node] == node)
		return graph->more[node] != 0;
	if (!graph->adds[node] || graph->sets[node] || graph->computes[node])
		return false;
	for (unsigned other = 0; other < NODES; other++)
		if (other != node && (graph->uses[node] >> other & 1) && graph->changed[other])
			return false;
	return true;
}

/* Registers in a circle that only copies and reads: where the next item is. */
static bool is_following(const struct graph *graph, unsigned node)
{
	bool reads = false;

	if (!is_circle(graph, node))
		return false;
	for (unsigned other = 0; other < NODES; other++) {
		if (!(graph->uses[node] >> other & 1) || !(graph->uses[other] >> node & 1) ||
		    !graph->changed[other])
			continue;
		if (graph->computes[other] || graph->adds[other])
			return false;
		reads |= graph->reads[other];
	}
	return reads;
}

/* The register, or what it is computed from. */
static bool comes_from_following(const struct graph *graph, uint8_t number)
{
	for (unsigned node = 0; number < REGISTERS && node < NODES; node++)
		if ((graph->uses[number] >> node & 1) && is_following(graph, node))
			return true;
	return false;
}

static bool reads_memory(const struct ws_instruction *one)
{
	return one->memory && !one->writes && !is_slot(one);
}

/* The two ways on of a tree. */
static bool has_branches(const struct graph *graph, const struct ws_instruction *code, size_t count)
{
	const struct ws_instruction *first = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct ws_instruction *one = &code[i];

		if (one->changed >= REGISTERS || !reads_memory(one) ||
		    !is_following(graph, one->changed) || !comes_from_following(graph, one->base))
			continue;
		if (first && first->distance != one->distance)
			return true;
		first = one;
	}
	return false;
}

static unsigned count_exits(const struct ws_instruction *code, size_t count)
{
	uint64_t from = code[0].at, last = code[count - 1].at;
	unsigned exits = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t target = (uint64_t)code[i].value;

		if (code[i].kind == WS_INSTRUCTION_JUMP && code[i].conditional)
			exits += i + 1 == count || target < from || target > last;
	}
	return exits;
}

static bool computes_numbers(const struct ws_instruction *code, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (code[i].kind == WS_INSTRUCTION_FLOAT || code[i].kind == WS_INSTRUCTION_DIVISION)
			return true;
	return false;
}

/* Whether a register goes on by the same way, or is computed from some that do. */
static bool comes_from_moving(const struct graph *graph, uint8_t number)
{
	bool any = false;

	for (unsigned node = 0; number < REGISTERS && node < NODES; node++) {
		if (!(graph->uses[number] >> node & 1) || !graph->changed[node] || node == number)
			continue;
		if (!is_moving(graph, node))
			return false;
		any = true;
	}
	return any;
}

/* The ways to the items at which a loop reads memory. */
struct ways {
	bool follows, walks;
	int64_t step; /* bytes, where it walks by a number */
};

static struct ways find_ways(const struct graph *graph, const struct ws_instruction *code,
			     size_t count)
{
	struct ways ways = {0};

	for (size_t i = 0; i < count; i++) {
		uint8_t registers[] = {code[i].base, code[i].index};

		for (size_t k = 0; reads_memory(&code[i]) && k < WS_COUNT(registers); k++) {
			uint8_t number = registers[k];

			if (number >= REGISTERS)
				continue;
			ways.follows |= comes_from_following(graph, number);
			ways.walks |= comes_from_moving(graph, number);
			if (is_moving(graph, number) && graph->base[number] == number)
				ways.step = graph->more[number] * (k ? code[i].scale : 1);
		}
	}
	for (unsigned node = 0; node < NODES; node++) {
		if (!(graph->handed >> node & 1) || !graph->changed[node])
			continue;
		ways.follows |= is_following(graph, node);
		if (is_moving(graph, node) && graph->base[node] == node)
			ways.step = graph->more[node];
	}
	ways.step = ws_max(ways.step, -ways.step);
	return ways;
}

/* What steps by less than that goes along the characters of a text. */
static bool is_search(const struct graph *graph, const struct ws_instruction *code, size_t count,
		      struct ws_loop_state *state)
{
	const int64_t least_item = 4;
	struct ways ways = find_ways(graph, code, count);

	for (unsigned node = 0; node < NODES; node++)
		if (is_circle(graph, node) && !is_moving(graph, node) && !is_following(graph, node))
			return false;
	state->follows = ways.follows;
	if (ways.follows ? has_branches(graph, code, count)
			 : ways.step < least_item && (ways.step || !ways.walks))
		return false;
	return count_exits(code, count) >= 2;
}

void ws_find_loop_state(const struct ws_instruction *code, size_t count,
			struct ws_loop_state *state)
{
	struct graph graph = {0};
	bool writes = false, reads = false, carries = false;

	*state = (struct ws_loop_state){0};
	for (size_t i = 0; i < count; i++) {
		writes |= code[i].writes && !is_slot(&code[i]);
		state->calls |= code[i].calls;
		reads |= reads_memory(&code[i]) || code[i].calls;
		if (reads_memory(&code[i]) && code[i].relative)
			state->asked =
				code[i].at + code[i].length + (uint64_t)(int64_t)code[i].distance;
	}
	if (!count || writes || !reads || computes_numbers(code, count) ||
	    !make_graph(code, count, &graph) || graph.overflows)
		return;
	for (unsigned node = 0; node < NODES; node++)
		carries |= is_circle(&graph, node);
	state->only_asks = !carries && !state->calls;
	state->searches = is_search(&graph, code, count, state);
}
