/* java.c - see java.h. */
#include "analyze/java.h"

#include <string.h>

#include "analyze/code.h"
#include "analyze/facts.h"

bool ws_is_java(const struct ws_model *model)
{
	const char *exe = ws_find_process(model->who, model->process)->exe,
		   *slash = strrchr(exe, '/');

	return !strcmp(slash ? slash + 1 : exe, "java");
}

/* Names as the system keeps them: the first 15 characters. */
bool ws_is_java_helper(const struct ws_model *model, uint32_t thread)
{
	static const char *const names[] = {"GC Thread#*",	"G1 *",
					    "C1 CompilerThre*", "C2 CompilerThre*",
					    "VM Thread",	"VM Periodic Tas",
					    "Sweeper thread",	"Service Thread",
					    "Signal Dispatch",	"Finalizer",
					    "Reference Handl",	"Common-Cleaner",
					    "Monitor Deflati",	"Notification Th",
					    "Attach Listener",	"JVMCI*",
					    "ZWorker*",		"ZDriver*",
					    "Shenandoah*",	"ParGC Thread*",
					    "Parallel GC*",	NULL};
	const struct ws_thread_info *info = ws_find_thread(model->who, thread);

	return info->process == model->process && ws_is_java(model) &&
	       ws_is_name_among(info->name, strlen(info->name), names);
}

bool ws_is_java_main(const struct ws_model *model, uint32_t thread)
{
	const struct ws_thread_info *info = ws_find_thread(model->who, thread);

	return info->process == model->process && ws_is_java(model) && !strcmp(info->name, "java");
}

enum ws_java_wait ws_classify_java_wait(const struct ws_model *model, uint32_t stack)
{
	static const char *const monitors[] = {"ObjectMonitor::enter*", "ObjectMonitor::Enter*",
					       "ObjectMonitor::Reenter*", NULL},
				 *const parks[] = {"Unsafe_Park*", "Parker::park*", NULL};
	uint32_t frames[WS_CODE_DEEPEST];
	size_t count = ws_stacks_list_frames(model->stacks, 0, stack, frames, WS_CODE_DEEPEST);

	for (size_t i = 0; i < count; i++) {
		const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frames[i]);
		const struct ws_function *function = ws_stacks_get_function(
			model->stacks, ws_stacks_get_places(model->stacks, info)->function);

		if (ws_is_name_among(function->name, function->len, monitors))
			return WS_JAVA_MONITOR;
		if (ws_is_name_among(function->name, function->len, parks))
			return WS_JAVA_PARKED;
	}
	return WS_JAVA_OTHER_WAIT;
}
