/* rules.h - helpers for all rules. */
#ifndef WS_ANALYZE_RULES_H
#define WS_ANALYZE_RULES_H

#include <stdlib.h>
#include <string.h>

#include "analyze/analysis.h"
#include "analyze/estimate.h"
#include "analyze/finding.h"
#include "analyze/proofs.h"
#include "base/choose.h"
#include "base/mem.h"

#define RULE(name) extern const struct ws_rule ws_rule_##name;
#include "analyze/rules.def"

/* Reasons why a rule cannot judge, shared by many rules; NULL where there is none. */
const char *ws_need_cuda(const struct ws_analysis *analysis);
const char *ws_need_gpu_metrics(const struct ws_analysis *analysis);
const char *ws_need_scheduling(const struct ws_analysis *analysis);
const char *ws_need_samples(const struct ws_analysis *analysis);
const char *ws_need_kernel_samples(const struct ws_analysis *analysis);
/* The sum of the path's rows for which `wanted` holds, ns. */
uint64_t ws_sum_path_rows(const struct ws_analysis *analysis,
			  bool (*wanted)(const struct ws_analysis *analysis,
					 const struct ws_breakdown_row *row));
/* The longest of these rows, or NULL. */
const struct ws_breakdown_row *ws_find_path_row(const struct ws_analysis *analysis,
						bool (*wanted)(const struct ws_analysis *analysis,
							       const struct ws_breakdown_row *row));
/* Whether a function of CUDA (a string, with its version) has one of these names. */
bool ws_is_call_named(const struct ws_analysis *analysis, uint32_t call, const char *const *names);
/* Which of several lists, ended by NULL, names a function of CUDA: 1 for the first, 0 for none. The
 * answer is kept in `sorts`, which is the caller's to free: few functions are called very often. */
uint64_t ws_sort_call(const struct ws_analysis *analysis, struct ws_map *sorts, uint32_t call,
		      const char *const *const *lists);
/* Whether a place called a library's function that makes or destroys a handle or a plan, which
 * allocates, loads code and waits meanwhile. */
bool ws_is_library_setup(const struct ws_analysis *analysis, const struct ws_code_place *place);
/* "; in each step the CPU waits for the GPU at add (train.py:17)"; nothing where it does not. */
void ws_put_wait_of_steps(const struct ws_analysis *analysis, struct ws_text *text);
/* The part of the window on the path in calls of CUDA with these names, ns; names as for
 * ws_facts_sum_calls. */
uint64_t ws_sum_path_calls(const struct ws_analysis *analysis, const char *const *names);
/* The time on the path of kernels of this name, ns; the name as ws_report_string_key has it. */
uint64_t ws_sum_path_kernel(const struct ws_analysis *analysis, uint32_t name);
/* Whether a kernel is a vendor's or a framework's, judged by its names: the user does not choose
 * its shape. */
bool ws_is_library_kernel(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel);
/* " at load (train.py:31)", or nothing where the place is not known. */
void ws_put_at_place(const struct ws_analysis *analysis, const struct ws_code_place *place,
		     struct ws_text *text);

/* ", launched at step (train.py:31)" for a kernel, which is the finding's source line then; nothing
 * where no sample shows the place. */
void ws_put_launch(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel,
		   struct ws_finding *finding, struct ws_text *text);

/* Where the source of a kernel may be: the file that launches it, or else one of the user's that
 * the path goes through. Its path as the report has it; "" where none is known. `file` is its
 * number, for findings that point at a line of it. */
const char *ws_find_kernel_source(const struct ws_analysis *analysis,
				  const struct ws_kernel_fact *kernel, uint32_t *file);

/* Whether a place does what is done once, such as importing modules. */
bool ws_is_start_up(const struct ws_code_place *place);
/* Mark a finding about a program's start where GPUs worked for longer than that took. */
void ws_mark_start_up(const struct ws_analysis *analysis, struct ws_finding *finding);

/* Call `report` for each kernel of the program's own for which `wanted` holds, that takes more than
 * 20 us on average and a tenth of the path or more: `on_path` ns. */
void ws_report_long_kernels(const struct ws_analysis *analysis,
			    bool (*wanted)(const struct ws_kernel_fact *kernel),
			    void (*report)(const struct ws_analysis *analysis,
					   const struct ws_kernel_fact *kernel, uint64_t on_path,
					   struct ws_findings *findings),
			    struct ws_findings *findings);
/* The command that measures a kernel of the program with hardware counters, of a set that looks at
 * each line's accesses to memory. */
char *ws_kernel_command(const struct ws_analysis *analysis, const struct ws_kernel_fact *kernel);

/* The source line that a finding is about, for formats that have a field for it. */
void ws_point_at(struct ws_finding *finding, const struct ws_code_place *place);

/* Whether a row of the path waits for what another process prints, or for its start. */
bool ws_is_wait_for_output(const struct ws_analysis *analysis, const struct ws_breakdown_row *row);
/* Whether a process is a shell, or an interpreter such as Perl's, that runs a script, and not one
 * of the system's. */
bool ws_runs_users_script(const struct ws_model *model, uint32_t process);
/* Whether such a script started a process, such as find, xargs or sleep. */
bool ws_is_tool_of_script(const struct ws_model *model, uint32_t process);
/* Append the beginning of a command line, on one line. */
void ws_put_command(const char *command, struct ws_text *text);

/* Where the waits of a row are those of the only worker thread of a program whose main thread waits
 * for it, the finding says so: more workers would wait side by side. */
void ws_say_lone_worker(const struct ws_analysis *analysis, const struct ws_breakdown_row *row,
			struct ws_finding *finding);
/* The same where the main thread of Python asks several workers for one result at a time. */
void ws_say_results_in_turn(const struct ws_analysis *analysis, uint32_t thread,
			    struct ws_finding *finding);

/* Append the line of the user's script that started a process: ", gzip at line 8: gzip ...". */
void ws_put_line_of_start(const struct ws_model *model, const struct ws_process_info *child,
			  struct ws_text *text);
/* Append to the title where the user's script starts the process of a thread. */
void ws_put_starting_line(const struct ws_analysis *analysis, uint32_t thread,
			  struct ws_finding *finding);
/* Whether a thread is of an interpreter whose script script-work has explained. */
bool ws_does_script_work(const struct ws_analysis *analysis, uint32_t thread,
			 const struct ws_findings *findings);
/* Whether it is of such an interpreter at all. Its other threads, as node's compiler and collector
 * of garbage, have no part of the script's work. */
bool ws_is_interpreters_thread(const struct ws_analysis *analysis, uint32_t thread);
/* "python3 1234": a thread's name and number. */
void ws_put_thread(const struct ws_analysis *analysis, uint32_t thread, struct ws_text *text);
/* Whether a finding can be a fault: system programs do what they are for, so it needs user code or
 * a user's program. Others get a note at most. A place of the user's is the finding's source line,
 * where it has none yet. */
void ws_limit_to_users(const struct ws_analysis *analysis, struct ws_finding *finding,
		       const struct ws_code_place *place);
/* The same for time on cores; what an event loop does for itself, below the user's code that runs
 * it, is no fault of that code. */
void ws_limit_to_asked(const struct ws_analysis *analysis, struct ws_finding *finding,
		       const struct ws_code_place *place);
/* Whether an event loop works for itself, below the user's code that runs it. */
bool ws_is_loops_own(const struct ws_analysis *analysis, const struct ws_code_place *place);
/* Whether it was found that this call (poll, select) goes through many descriptors. */
bool ws_have_many_descriptors(const struct ws_findings *findings, const char *call);
/* Where the explained thread waits longest in all, as its states hold even where the path went on
 * through what it waited for. */
struct ws_code_place ws_find_wait_place(const struct ws_analysis *analysis);
/* Where a task of an event loop computes, the finding says that all others wait meanwhile. */
void ws_say_blocked_loop(const struct ws_analysis *analysis, const struct ws_code_place *place,
			 struct ws_finding *finding);
/* Of Python: ", in 2 nested loops", or ", called in a loop at fill (invoice.py:14)". */
struct ws_loops_said {
	const char *advice; /* "" for none */
	bool searches;	    /* for one item after the other, among many */
};
struct ws_loops_said ws_put_loops(const struct ws_analysis *analysis,
				  const struct ws_code_place *code, struct ws_text *text);
/* Of a function that calls itself, with an advice on it; false for others. */
bool ws_say_recursion(const struct ws_analysis *analysis, const struct ws_code_place *code,
		      struct ws_finding *finding);
/* Where the loop of a function looks for an item, one after the other, the finding says so; false
 * where it does not, or cannot be looked at. */
bool ws_say_search(const struct ws_analysis *analysis, uint32_t function,
		   struct ws_finding *finding);
/*
 * Rows of usage of some kinds (bits by enum ws_usage_kind) with the same call and function, summed
 * up over threads; `thread` is the one with the most time. They are sorted by time, or by time on
 * the path, most first.
 */
struct ws_usage_total {
	struct ws_usage_row row;
	uint64_t threads;
};
size_t ws_total_usage(const struct ws_analysis *analysis, uint32_t kinds,
		      struct ws_usage_total *totals, size_t most);

#endif
