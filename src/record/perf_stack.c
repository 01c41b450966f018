/*
 * perf_stack.c - turns samples into call stacks: updates the maps of processes from perf's records
 * and has samples unwound.
 *
 * The kernel's part of a stack is used as the kernel walked it. The user's part is unwound here
 * from the copied bytes, or is the kernel's walk along frame pointers, or comes from the branches
 * that the processor remembers, as --backtrace says.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "record/perf_private.h"
#include "record/python.h"

void ws_perf_found_maps(struct ws_perf *perf, struct ws_perf_image *im, uint64_t time)
{
	ws_maps_scan(perf->drain->ops.code->maps, (int)im->pid, 0, time);
}

void ws_perf_fork_maps(struct ws_perf *perf, struct ws_perf_image *parent, struct ws_perf_image *im,
		       uint64_t time)
{
	ws_maps_record_fork(perf->drain->ops.code->maps, (int)parent->pid, (int)im->pid, time);
}

void ws_perf_exec_maps(struct ws_perf *perf, struct ws_perf_image *im, uint64_t time)
{
	ws_maps_record_exec(perf->drain->ops.code->maps, (int)im->pid, time);
	im->bound = NULL;
}

void ws_perf_end_maps(struct ws_perf *perf, struct ws_perf_image *im, uint64_t time)
{
	ws_maps_record_exit(perf->drain->ops.code->maps, (int)im->pid, time);
}

void ws_perf_mapped(struct ws_perf *perf, const struct ws_perf_rec *record)
{
	struct ws_perf_image *im =
		(struct ws_perf_image *)(uintptr_t)ws_map_get(&perf->images, record->pid, NULL);
	const struct ws_perf_mmap *mmap = &record->mmap;
	struct ws_mapped_file what = {
		.base = mmap->addr,
		.size = mmap->len,
		.offset = mmap->offset,
		.path = mmap->path,
		.inode = mmap->inode,
		.device = mmap->inode ? ws_make_device(mmap->major, mmap->minor) : 0,
		.build_id = mmap->build_id,
		.build_id_size = mmap->build_id_size};

	if (!im || !(mmap->prot & PROT_EXEC))
		return;
	if (im->exec && !im->exe && mmap->path[0] == '/' &&
	    mmap->path[1] != '/') /* the program is mapped first */
		im->exe = ws_strdup(mmap->path);
	ws_maps_add_mapping(perf->drain->ops.code->maps, (int)record->pid, record->time, &what);
}

/* Addresses of the chain between the kernel's marker `context` and the next. */
static const uint64_t *part(const struct ws_perf_sample *sample, uint64_t context, size_t *n)
{
	const uint64_t *values = NULL;

	*n = 0;
	for (uint64_t i = 0; i < sample->chain_n; i++)
		if (sample->chain[i] >= (uint64_t)PERF_CONTEXT_MAX) {
			if (values)
				break;
			if (sample->chain[i] == context)
				values = sample->chain + i + 1;
		} else if (values) {
			++*n;
		}
	return *n ? values : NULL;
}

static size_t kernel_frames(struct ws_perf *perf, const struct ws_perf_rec *record, bool in_kernel,
			    bool deep, struct ws_unwound_frame *out)
{
	size_t n = 0;
	const uint64_t *values =
		deep ? part(&record->sample, (uint64_t)PERF_CONTEXT_KERNEL, &n) : NULL;

	if (!in_kernel)
		return 0;
	if (!values) {
		out[0] = ws_unwind_kernel(perf->drain->ops.code->modules, record->sample.ip);
		return 1;
	}
	for (size_t i = 0; i < n; i++)
		out[i] = ws_unwind_kernel(
			perf->drain->ops.code->modules,
			values[i] - (i > 0)); /* a caller's address is the one after its call */
	return n;
}

/* The processor remembers calls that have not returned: the first entry is the innermost call. */
static size_t from_branches(struct ws_perf *perf, struct ws_maps_process *maps,
			    const struct ws_perf_rec *record, uint64_t ip,
			    struct ws_unwound_frame *out, size_t most)
{
	uint64_t chain[64];
	size_t n = 0;

	chain[n++] = ip;
	for (uint64_t i = 0; i < record->sample.branch_n && n < WS_COUNT(chain); i++)
		if (record->sample.branches[i].from)
			chain[n++] = record->sample.branches[i].from +
				     1; /* as if it were a return address */
	return ws_unwind_chain(
		perf->drain->ops.code->unwinder,
		&(struct ws_unwind_chain){maps, record->time, chain, n, WS_UNWIND_LBR}, out, most);
}

struct taken { /* a sample */
	const struct ws_perf_event *ev;
	const struct ws_perf_rec *record;
	bool in_kernel, deep; /* deep: its whole stack is wanted */
};

/* The frames in user space, at most WS_UNWIND_DEEPEST. */
static size_t user_frames(struct ws_perf *perf, struct ws_maps_process *maps,
			  const struct taken *taken, struct ws_unwound_frame *out, unsigned *flags)
{
	const struct ws_perf_event *ev = taken->ev;
	const struct ws_perf_rec *record = taken->record;
	const struct ws_perf_sample *sample = &record->sample;
	const size_t most = WS_UNWIND_DEEPEST;
	struct ws_stopped_thread stop = {.maps = maps,
					 .time = record->time,
					 .stack = sample->stack,
					 .stack_size = sample->stack_size};
	struct ws_unwind_chain chain = {maps, record->time, &sample->ip, 1, WS_UNWIND_UNKNOWN};

	stop.chain = part(sample, (uint64_t)PERF_CONTEXT_USER, &stop.chain_count);
	if (taken->deep && sample->regs && perf->options.backtrace != WS_BACKTRACE_FP) {
		ws_regs_from_perf(&stop.regs, ev->attr.sample_regs_user, sample->regs, ev->regs);
		stop.stack_at = stop.regs.values[WS_REG_SP];
		if (sample->branch_n)
			return from_branches(perf, maps, record, stop.regs.values[WS_REG_IP], out,
					     most);
		return ws_unwind_stack(perf->drain->ops.code->unwinder, &stop,
				       perf->options.backtrace == WS_BACKTRACE_DWARF ? WS_MODE_DWARF
										     : WS_MODE_AUTO,
				       out, most, flags);
	}
	if (taken->deep && stop.chain)
		chain = (struct ws_unwind_chain){maps, record->time, stop.chain, stop.chain_count,
						 WS_UNWIND_FP};
	else if (taken->in_kernel)
		return 0;
	return ws_unwind_chain(perf->drain->ops.code->unwinder, &chain, out, most);
}

void ws_perf_stack(struct ws_perf *perf, struct ws_perf_thread *thread,
		   const struct ws_perf_event *ev, const struct ws_perf_rec *record,
		   const struct ws_py_stack *python, struct ws_row_sample *row)
{
	static struct ws_unwound_frame places[WS_UNWIND_DEEPEST + 256];
	struct ws_perf_image *im = thread->image;
	struct ws_maps_process *maps =
		ws_maps_find_process(perf->drain->ops.code->maps, (int)im->pid);
	struct ws_stackset *st = ws_stackset_of(im->sink);
	bool in_kernel = (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	bool deep = ws_perf_wants_stack(perf, thread->samples++);
	unsigned flags = 0;
	size_t n;

	if (maps && maps != im->bound) {
		ws_stackset_bind(st, maps, im->id);
		im->bound = maps;
	}
	if (record->sample.chain_n > 256)
		deep = false; /* no kernel walks that far */
	n = kernel_frames(perf, record, in_kernel, deep, places);
	if (maps)
		n += user_frames(perf, maps, &(struct taken){ev, record, in_kernel, deep},
				 places + n, &flags);
	row->flags |= in_kernel ? WS_SAMPLE_KERNEL : 0;
	if (python && (deep || perf->options.backtrace == WS_BACKTRACE_NONE)) {
		bool cut = flags != 0 || !deep || perf->options.backtrace == WS_BACKTRACE_FP ||
			   perf->options.backtrace == WS_BACKTRACE_LBR;

		row->callers = ws_python_merge(st, places, n, python, cut, &row->frame);
		/* A native stack that was cut short is complete again when Python's is. */
		row->flags |= (uint8_t)((ws_python_frames(python) ? 0 : flags) |
					(ws_python_is_truncated(python) ? WS_SAMPLE_TRUNCATED : 0));
		return;
	}
	if (in_kernel && deep)
		row->callers = ws_python_attach(perf->drain->python,
						&(struct ws_python_sampled){.sink = im->sink,
									    .thread = row->thread,
									    .time = record->time,
									    .places = places,
									    .n = n,
									    .cut = flags != 0},
						&row->frame, &row->flags);
	else
		row->callers = ws_stackset_places(st, places, n, &row->frame);
	row->flags |= (uint8_t)flags;
}
