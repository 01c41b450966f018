/*
 * perf_stack.c - from samples to call stacks: feeds the maps of processes from perf's records and
 * has samples unwound.
 *
 * The kernel's part of a stack is as the kernel walked it; the user's part is unwound here from the
 * copied bytes, or is the kernel's walk along frame pointers, or what the processor remembers of
 * branches, as --backtrace says.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "record/perf_private.h"
#include "record/python.h"

void ws_perf_found_maps(struct ws_perf *p, struct ws_perf_image *im, uint64_t time)
{
	ws_maps_scan(p->drain->ops.code->maps, (int)im->pid, 0, time);
}

void ws_perf_fork_maps(struct ws_perf *p, struct ws_perf_image *parent, struct ws_perf_image *im,
		       uint64_t time)
{
	ws_maps_fork(p->drain->ops.code->maps, (int)parent->pid, (int)im->pid, time);
}

void ws_perf_exec_maps(struct ws_perf *p, struct ws_perf_image *im, uint64_t time)
{
	ws_maps_exec(p->drain->ops.code->maps, (int)im->pid, time);
	im->bound = NULL;
}

void ws_perf_end_maps(struct ws_perf *p, struct ws_perf_image *im, uint64_t time)
{
	ws_maps_exit(p->drain->ops.code->maps, (int)im->pid, time);
}

void ws_perf_mapped(struct ws_perf *p, const struct ws_perf_rec *r)
{
	struct ws_perf_image *im =
		(struct ws_perf_image *)(uintptr_t)ws_map_get(&p->images, r->pid, NULL);
	const struct ws_perf_mmap *m = &r->mmap;
	struct ws_mapped what = {.base = m->addr,
				 .size = m->len,
				 .offset = m->offset,
				 .path = m->path,
				 .inode = m->inode,
				 .device = m->inode ? ws_device(m->major, m->minor) : 0,
				 .build_id = m->build_id,
				 .build_id_size = m->build_id_size};

	if (!im || !(m->prot & PROT_EXEC))
		return;
	if (im->exec && !im->exe && m->path[0] == '/' &&
	    m->path[1] != '/') /* the program is mapped first */
		im->exe = ws_strdup(m->path);
	ws_maps_add(p->drain->ops.code->maps, (int)r->pid, r->time, &what);
}

/* Addresses of the chain between the kernel's marker `context` and the next. */
static const uint64_t *part(const struct ws_perf_sample *s, uint64_t context, size_t *n)
{
	const uint64_t *v = NULL;

	*n = 0;
	for (uint64_t i = 0; i < s->chain_n; i++)
		if (s->chain[i] >= (uint64_t)PERF_CONTEXT_MAX) {
			if (v)
				break;
			if (s->chain[i] == context)
				v = s->chain + i + 1;
		} else if (v) {
			++*n;
		}
	return *n ? v : NULL;
}

static size_t kernel_frames(struct ws_perf *p, const struct ws_perf_rec *r, bool in_kernel,
			    bool deep, struct ws_caller *out)
{
	size_t n = 0;
	const uint64_t *v = deep ? part(&r->sample, (uint64_t)PERF_CONTEXT_KERNEL, &n) : NULL;

	if (!in_kernel)
		return 0;
	if (!v) {
		out[0] = ws_unwind_kernel(p->drain->ops.code->modules, r->sample.ip);
		return 1;
	}
	for (size_t i = 0; i < n; i++)
		out[i] = ws_unwind_kernel(
			p->drain->ops.code->modules,
			v[i] - (i > 0)); /* a caller's address is that behind its call */
	return n;
}

/* What the processor remembers of calls that have not returned: the first entry is the innermost
 * call. */
static size_t from_branches(struct ws_perf *p, struct ws_maps_process *maps,
			    const struct ws_perf_rec *r, uint64_t ip, struct ws_caller *out,
			    size_t most)
{
	uint64_t chain[64];
	size_t n = 0;

	chain[n++] = ip;
	for (uint64_t i = 0; i < r->sample.branch_n && n < WS_COUNT(chain); i++)
		if (r->sample.branches[i].from)
			chain[n++] =
				r->sample.branches[i].from + 1; /* as if it were a return address */
	return ws_unwind_chain(p->drain->ops.code->unwinder, maps, r->time, chain, n, WS_UNWIND_LBR,
			       out, most);
}

static size_t user_frames(struct ws_perf *p, struct ws_maps_process *maps,
			  const struct ws_perf_event *ev, const struct ws_perf_rec *r,
			  bool in_kernel, bool deep, struct ws_caller *out, size_t most,
			  unsigned *flags)
{
	const struct ws_perf_sample *s = &r->sample;
	struct ws_stop stop = {
		.maps = maps, .time = r->time, .stack = s->stack, .stack_size = s->stack_size};

	stop.chain = part(s, (uint64_t)PERF_CONTEXT_USER, &stop.chain_n);
	if (deep && s->regs && p->o.backtrace != WS_BACKTRACE_FP) {
		ws_regs_from_perf(&stop.regs, ev->attr.sample_regs_user, s->regs, ev->regs);
		stop.stack_at = stop.regs.r[WS_REG_SP];
		if (s->branch_n)
			return from_branches(p, maps, r, stop.regs.r[WS_REG_IP], out, most);
		return ws_unwind(p->drain->ops.code->unwinder, &stop,
				 p->o.backtrace == WS_BACKTRACE_DWARF ? WS_MODE_DWARF
								      : WS_MODE_AUTO,
				 out, most, flags);
	}
	if (deep && stop.chain)
		return ws_unwind_chain(p->drain->ops.code->unwinder, maps, r->time, stop.chain,
				       stop.chain_n, WS_UNWIND_FP, out, most);
	return in_kernel ? 0
			 : ws_unwind_chain(p->drain->ops.code->unwinder, maps, r->time, &s->ip, 1,
					   WS_UNWIND_UNKNOWN, out, most);
}

void ws_perf_stack(struct ws_perf *p, struct ws_perf_thread *t, const struct ws_perf_event *ev,
		   const struct ws_perf_rec *r, const struct ws_py_stack *python,
		   struct ws_row_sample *row)
{
	static struct ws_caller places[WS_UNWIND_DEEPEST + 256];
	struct ws_perf_image *im = t->image;
	struct ws_maps_process *maps = ws_maps_of(p->drain->ops.code->maps, (int)im->pid);
	struct ws_stackset *st = ws_stackset_of(im->sink);
	bool in_kernel = (r->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	bool deep = ws_perf_wants_stack(p, t->samples++);
	unsigned flags = 0;
	size_t n;

	if (maps && maps != im->bound) {
		ws_stackset_bind(st, maps, im->id);
		im->bound = maps;
	}
	if (r->sample.chain_n > 256)
		deep = false; /* no kernel walks so far */
	n = kernel_frames(p, r, in_kernel, deep, places);
	if (maps)
		n += user_frames(p, maps, ev, r, in_kernel, deep, places + n, WS_UNWIND_DEEPEST,
				 &flags);
	row->flags |= in_kernel ? WS_SAMPLE_KERNEL : 0;
	if (python && (deep || p->o.backtrace == WS_BACKTRACE_NONE)) {
		bool cut = flags != 0 || !deep || p->o.backtrace == WS_BACKTRACE_FP ||
			   p->o.backtrace == WS_BACKTRACE_LBR;

		row->callers = ws_python_merge(st, places, n, python, cut, &row->frame);
		/* A native stack that was cut short is whole again when Python's is. */
		row->flags |= (uint8_t)((ws_python_frames(python) ? 0 : flags) |
					(ws_python_is_truncated(python) ? WS_SAMPLE_TRUNCATED : 0));
		return;
	}
	row->callers = in_kernel && deep
			       ? ws_python_attach(p->drain->python, im->sink, row->thread, r->time,
						  places, n, flags != 0, &row->frame, &row->flags)
			       : ws_stackset_places(st, places, n, &row->frame);
	row->flags |= (uint8_t)flags;
}
