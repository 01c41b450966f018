/*
 * hot_loop.c - see hot_loop.h.
 *
 * Addresses of samples are those where instructions begin, so that the code can be read from the
 * first of them on. The loop is the innermost one, from the target of a jump backwards to the jump,
 * that holds most samples. A sample stands at the instruction that waits, or just behind it.
 */
#include "analyze/hot_loop.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/instructions.h"
#include "analyze/written.h"
#include "base/choose.h"
#include "base/mem.h"
#include "symbols/module.h"

enum { REACH = 512, MOST_CODE = 128, CACHE_LINE = 64, STACK_REGISTER = 4, FRAME_REGISTER = 5 };
#define LEAST_IN_LOOP 0.5 /* of the samples */
#define LEAST_NEAR 0.25

struct loop_code {
	struct ws_instruction code[MOST_CODE];
	uint64_t ns[MOST_CODE];
	size_t count;
	uint64_t all; /* ns */
};

/* ---- the loop ---- */

static uint64_t sum_between(const struct ws_sampled_code *code, uint64_t from, uint64_t to)
{
	uint64_t sum = 0;

	for (uint64_t at = from; at < to && at < code->from + code->size; at++)
		sum += code->ns[at - code->from];
	return sum;
}

/* The smallest loop that holds most of the samples; false where there is none. */
static bool find_loop(const struct ws_sampled_code *code, uint64_t *from, uint64_t *to)
{
	uint64_t all = sum_between(code, code->from, code->from + code->size),
		 smallest = UINT64_MAX;
	size_t at = 0;

	while (at < code->size && !code->ns[at])
		at++;
	while (at < code->size && at < code->left) {
		struct ws_instruction one;
		uint64_t target, end;

		if (!ws_read_instruction(code->bytes + at, code->left - at, code->from + at, &one))
			break;
		at += one.length;
		target = (uint64_t)one.value;
		end = one.at + one.length;
		if (one.kind != WS_INSTRUCTION_JUMP || target > one.at || target < code->from ||
		    end - target >= smallest ||
		    (double)sum_between(code, target, end) < LEAST_IN_LOOP * (double)all)
			continue;
		smallest = end - target;
		*from = target;
		*to = end;
	}
	return smallest != UINT64_MAX;
}

static bool read_loop(const struct ws_sampled_code *code, struct loop_code *loop)
{
	uint64_t from, to;

	loop->count = 0;
	loop->all = 0;
	if (!find_loop(code, &from, &to))
		return false;
	while (from < to && loop->count < MOST_CODE) {
		struct ws_instruction *one = &loop->code[loop->count];

		if (!ws_read_instruction(code->bytes + (from - code->from),
					 code->left - (from - code->from), from, one))
			return false;
		loop->ns[loop->count] = sum_between(code, from, from + one->length);
		loop->all += loop->ns[loop->count++];
		from += one->length;
	}
	return loop->all > 0;
}

/* ---- what it does ---- */

/* The part of the samples at an instruction, and at the one or two behind it. */
static uint64_t sum_near(const struct loop_code *loop, size_t i, size_t behind)
{
	uint64_t sum = 0;

	for (size_t k = i; k <= i + behind; k++)
		sum += loop->ns[k % loop->count];
	return sum;
}

static bool is_stack(uint8_t number)
{
	return number == STACK_REGISTER || number == FRAME_REGISTER;
}

static double rate_kind(const struct loop_code *loop, enum ws_instruction_kind kind)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < loop->count; i++)
		if (loop->code[i].kind == kind ||
		    (i && loop->code[i - 1].kind == kind && loop->code[i].kind != kind))
			sum += loop->ns[i];
	return (double)sum / (double)loop->all;
}

static double rate_atomics(const struct loop_code *loop)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < loop->count; i++)
		if (loop->code[i].atomic || (i && loop->code[i - 1].atomic))
			sum += loop->ns[i];
	return (double)sum / (double)loop->all;
}

/* Whether what the instruction reads is the address of another read, and so on in a circle. */
static bool is_chase(const struct loop_code *loop, size_t i)
{
	const struct ws_instruction *one = &loop->code[i];

	if (one->kind != WS_INSTRUCTION_LOAD || one->base == STACK_REGISTER ||
	    one->base == WS_NO_REGISTER)
		return false;
	if (one->target == one->base)
		return true;
	for (size_t k = 0; k < loop->count; k++) {
		const struct ws_instruction *other = &loop->code[k];

		if (other->kind == WS_INSTRUCTION_LOAD && other->base == one->target &&
		    other->target == one->base)
			return true;
	}
	return false;
}

static double rate_chases(const struct loop_code *loop)
{
	uint64_t sum = 0;
	bool any = false;

	for (size_t i = 0; i < loop->count; i++)
		any |= is_chase(loop, i);
	if (!any)
		return 0;
	/* What else is read at the same address waits for the same line. */
	for (size_t i = 0; i < loop->count; i++)
		if (loop->code[i].memory || (i && loop->code[i - 1].memory))
			sum += loop->ns[i];
	return (double)sum / (double)loop->all;
}

/* How far a register goes on in each round: 0 where it does not, or by no known way. Where another
 * register is added, *by_register. */
static int64_t find_step(const struct loop_code *loop, uint8_t number, bool *by_register)
{
	int64_t step = 0;

	*by_register = false;
	for (size_t i = 0; i < loop->count; i++) {
		const struct ws_instruction *one = &loop->code[i];

		if (one->kind == WS_INSTRUCTION_STEP && one->target == number)
			step += one->value;
		else if (one->kind == WS_INSTRUCTION_STEP_BY && one->target == number &&
			 one->source != number)
			*by_register = true;
		else if (one->changed == number)
			return 0;
	}
	for (size_t i = 0; *by_register && i < loop->count; i++) {
		const struct ws_instruction *one = &loop->code[i], *adds = NULL;

		for (size_t k = 0; k < loop->count; k++)
			if (loop->code[k].kind == WS_INSTRUCTION_STEP_BY &&
			    loop->code[k].target == number)
				adds = &loop->code[k];
		if (adds && one->changed == adds->source)
			*by_register = false; /* it adds what it has computed: no fixed step */
	}
	return step;
}

/* The bytes of memory that the loop uses at one register in a round, in whole cache lines. */
static int64_t count_used(const struct loop_code *loop, uint8_t number)
{
	int64_t lines[MOST_CODE], count = 0;

	for (size_t i = 0; i < loop->count; i++) {
		int64_t line = loop->code[i].distance / CACHE_LINE, k = 0;

		if (!loop->code[i].memory ||
		    (loop->code[i].base != number && loop->code[i].index != number))
			continue;
		while (k < count && lines[k] != line)
			k++;
		if (k == count)
			lines[count++] = line;
	}
	return count * CACHE_LINE;
}

static double rate_strides(const struct loop_code *loop, int64_t *found)
{
	double most = 0;

	for (size_t i = 0; i < loop->count; i++) {
		const struct ws_instruction *one = &loop->code[i];
		uint8_t registers[] = {one->base, one->index};

		for (size_t k = 0; one->memory && k < WS_COUNT(registers); k++) {
			bool by_register;
			int64_t step;
			double share = (double)sum_near(loop, i, 2) / (double)loop->all;

			if (registers[k] == WS_NO_REGISTER || registers[k] == STACK_REGISTER)
				continue;
			step = find_step(loop, registers[k], &by_register);
			if (k)
				step *= one->scale;
			if (step < 0)
				step = -step;
			if ((!by_register &&
			     (step < 2 * CACHE_LINE || step <= count_used(loop, registers[k]))) ||
			    share <= most)
				continue;
			most = share;
			*found = by_register ? 0 : step;
		}
	}
	return most;
}

/* Reads and writes at an address that does not change. */
static double rate_places(const struct loop_code *loop)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < loop->count; i++) {
		const struct ws_instruction *one = &loop->code[i];
		bool changed = false;

		if (!one->writes || one->base == WS_NO_REGISTER || is_stack(one->base) ||
		    one->index != WS_NO_REGISTER)
			continue;
		for (size_t k = 0; k < loop->count; k++)
			changed |= loop->code[k].changed == one->base;
		if (!changed)
			sum += sum_near(loop, i, 1);
	}
	return (double)ws_min(sum, loop->all) / (double)loop->all;
}

bool ws_judge_loop(const struct ws_sampled_code *code, struct ws_hot_loop *found)
{
	static const double least[] = {
		[WS_LOOP_ATOMIC] = LEAST_NEAR, [WS_LOOP_CHASE] = 0.4, [WS_LOOP_STRIDE] = LEAST_NEAR,
		[WS_LOOP_DIVISION] = 0.4,      [WS_LOOP_PLACE] = 0.3, [WS_LOOP_FLOAT] = 0.4};
	struct loop_code loop;
	double shares[WS_COUNT(least)];

	*found = (struct ws_hot_loop){0};
	if (!read_loop(code, &loop))
		return false;
	found->bytes =
		loop.code[loop.count - 1].at + loop.code[loop.count - 1].length - loop.code[0].at;
	for (size_t i = 0; i < loop.count; i++)
		found->writes |= loop.code[i].writes && !loop.code[i].exchanges &&
				 !is_stack(loop.code[i].base);
	ws_find_loop_state(loop.code, loop.count, &found->state);
	shares[WS_LOOP_ATOMIC] = rate_atomics(&loop);
	shares[WS_LOOP_CHASE] = rate_chases(&loop);
	shares[WS_LOOP_STRIDE] = rate_strides(&loop, &found->step);
	shares[WS_LOOP_DIVISION] = rate_kind(&loop, WS_INSTRUCTION_DIVISION);
	shares[WS_LOOP_PLACE] = rate_places(&loop);
	shares[WS_LOOP_FLOAT] = rate_kind(&loop, WS_INSTRUCTION_FLOAT);
	for (size_t i = 1; i < WS_COUNT(least) && !found->kind; i++)
		if (shares[i] >= least[i]) {
			found->kind = (enum ws_loop_kind)i;
			found->share = ws_min(shares[i], 1.0);
		}
	return true;
}

/* ---- of a thread ---- */

/* The address with most samples; 0 for none. */
static uint64_t find_hottest(const struct ws_model *model, const struct ws_usage_row *row)
{
	const struct ws_model_thread *thread = &model->threads[row->thread];
	const struct ws_samples *samples = &model->samples;
	uint64_t size = ws_min(row->highest - row->lowest + 1, (uint64_t)1 << 20), hottest = 0;
	uint64_t *sums = ws_calloc(size, sizeof(*sums));

	for (size_t i = thread->first_sample; i < thread->end_sample; i++) {
		const struct ws_frame_info *frame =
			ws_stacks_get_frame(model->stacks, samples->frame[i]);
		uint64_t at = frame->address - row->lowest;

		if (frame->module != row->module || frame->address < row->lowest || at >= size)
			continue;
		sums[at] += ws_samples_get_time(samples, i);
		if (sums[at] > sums[hottest])
			hottest = at;
	}
	if (!sums[hottest])
		hottest = 0;
	else
		hottest += row->lowest;
	free(sums);
	return hottest;
}

static void count_samples(const struct ws_model *model, const struct ws_usage_row *row,
			  uint64_t from, uint64_t *ns)
{
	const struct ws_model_thread *thread = &model->threads[row->thread];
	const struct ws_samples *samples = &model->samples;

	for (size_t i = thread->first_sample; i < thread->end_sample; i++) {
		const struct ws_frame_info *frame =
			ws_stacks_get_frame(model->stacks, samples->frame[i]);

		if (frame->module == row->module && frame->address >= from &&
		    frame->address - from < 2 * REACH)
			ns[frame->address - from] += ws_samples_get_time(samples, i);
	}
}

/* Where the code begins of which an address is a part, but no more than REACH before it. */
static uint64_t find_beginning(const struct ws_elf *elf, uint64_t address)
{
	Elf64_Phdr segment;

	for (uint32_t i = 0; ws_elf_get_segment(elf, i, &segment); i++)
		if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
		    address - segment.p_vaddr < segment.p_filesz)
			return ws_max((uint64_t)segment.p_vaddr,
				      address - ws_min(address, (uint64_t)REACH));
	return address;
}

/* The file that the row's code is in, to be freed with ws_modules_free; NULL where it is not here,
 * or for another processor. */
static struct ws_modules *open_file(const struct ws_model *model, const struct ws_usage_row *row,
				    const struct ws_elf **elf)
{
	const struct ws_module_info *info = ws_stacks_get_module(model->stacks, row->module);
	struct ws_modules *modules;
	const struct ws_module *module;

	if (!row->module || info->kind != WS_MODULE_FILE)
		return NULL;
	modules = ws_modules_new();
	module = ws_modules_add_recorded(modules, WS_MODULE_FILE, info->path, info->build_id,
					 info->size, false);
	*elf = &module->elf;
	if (module->opened && module->elf.machine == EM_X86_64 && module->elf.wide)
		return modules;
	ws_modules_free(modules);
	return NULL;
}

bool ws_look_at_loop(const struct ws_model *model, const struct ws_usage_row *row,
		     struct ws_hot_loop *loop)
{
	uint64_t hottest = row->module ? find_hottest(model, row) : 0, ns[2 * REACH] = {0},
		 left = 0;
	struct ws_sampled_code code = {.ns = ns, .size = WS_COUNT(ns)};
	const struct ws_elf *elf;
	struct ws_modules *modules = hottest ? open_file(model, row, &elf) : NULL;
	bool found;

	*loop = (struct ws_hot_loop){0};
	if (!modules)
		return false;
	code.from = find_beginning(elf, hottest);
	count_samples(model, row, code.from, ns);
	code.bytes = ws_elf_get_loaded(elf, code.from, &left);
	code.left = left;
	found = code.bytes && ws_judge_loop(&code, loop);
	ws_modules_free(modules);
	return found;
}

bool ws_put_asked_variable(const struct ws_model *model, const struct ws_usage_row *row,
			   const struct ws_hot_loop *loop, struct ws_text *text)
{
	const struct ws_elf *elf;
	struct ws_modules *modules = loop->state.asked ? open_file(model, row, &elf) : NULL;
	bool put = modules && ws_put_variable(elf, loop->state.asked, text);

	if (modules)
		ws_modules_free(modules);
	return put;
}
