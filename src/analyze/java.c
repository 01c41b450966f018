/* java.c - see java.h. */
#include "analyze/java.h"

#include <string.h>

#include "analyze/code.h"
#include "analyze/facts.h"
#include "base/compiler.h"

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

uint32_t ws_find_java_main(const struct ws_model *model)
{
	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_thread_info *info = ws_find_thread(model->who, id);

		if (info->tid != info->pid && ws_is_java_main(model, id))
			return id;
	}
	return 0;
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

/* ---- costly methods ---- */

static const struct ws_java_cost costs[] = {
	{"which looks through a list item by item each time (a linear search)",
	 "A HashSet or HashMap (LinkedHashSet where the order matters) finds an item at once.",
	 {"java.util.ArrayList.contains*", "java.util.ArrayList.indexOf*",
	  "java.util.ArrayList.lastIndexOf*", "java.util.LinkedList.contains*",
	  "java.util.LinkedList.indexOf*", "java.util.AbstractCollection.contains*",
	  "java.util.Vector.contains*", "java.util.Vector.indexOf*",
	  "java.util.Arrays$ArrayList.contains*", "java.util.Arrays$ArrayList.indexOf*",
	  "java.util.concurrent.CopyOnWriteArrayList.indexOf*", NULL}},
	{"which goes along a linked list from one end to the item of that number each time",
	 "Use an ArrayList where items are read by number, or an iterator (for (T item : list)).",
	 {"java.util.LinkedList.get*", "java.util.LinkedList.node*", "java.util.LinkedList.set*",
	  "java.util.AbstractSequentialList.get*", NULL}},
	{"which moves all items behind it each time",
	 "Take items from the end, use an ArrayDeque for a queue, removeIf or a new list for what "
	 "is kept.",
	 {"java.util.ArrayList.remove*", "java.util.ArrayList.fastRemove*",
	  "java.util.Vector.remove*", "java.lang.StringBuilder.deleteCharAt*",
	  "java.lang.StringBuilder.insert*", "java.lang.AbstractStringBuilder.insert*",
	  "java.lang.AbstractStringBuilder.delete*", NULL}},
	{"which copies the whole array at each change",
	 "CopyOnWriteArrayList is for lists that hardly change: use ConcurrentLinkedQueue, a list "
	 "under a lock, or gather changes (addAll).",
	 {"java.util.concurrent.CopyOnWriteArrayList.add*",
	  "java.util.concurrent.CopyOnWriteArrayList.set*",
	  "java.util.concurrent.CopyOnWriteArrayList.remove*",
	  "java.util.concurrent.CopyOnWriteArraySet.add*", NULL}},
	{"which compiles a regular expression each time",
	 "Compile each Pattern once (static final) and use its matcher, or indexOf and "
	 "replace, which need none.",
	 {"java.util.regex.Pattern.compile*", "java.lang.String.split*",
	  "java.lang.String.matches*", "java.lang.String.replaceAll*",
	  "java.lang.String.replaceFirst*", NULL}},
	{"which takes longer to make than to use, if it is made for each text",
	 "Keep one DateTimeFormatter (static final, threads may share it), or one SimpleDateFormat "
	 "or NumberFormat for each thread: each new one reads its pattern and the words of the "
	 "language.",
	 {"java.text.SimpleDateFormat.*", "java.text.DateFormat.*", "java.text.DecimalFormat.*",
	  "java.text.NumberFormat.*", NULL}},
	{"by reflection, which looks up and checks each call",
	 "Look methods and fields up once, use a MethodHandle in a static final, an interface or a "
	 "lambda.",
	 {"java.lang.reflect.*", "java.lang.Class.getMethod*", "java.lang.Class.getDeclared*",
	  "java.lang.Class.getField*", "jdk.internal.reflect.*", NULL}},
	{"which makes an object for each number (boxing)",
	 "Use int and long, arrays of them and IntStream, instead of Integer, Long and collections "
	 "of these.",
	 {"java.lang.Integer.valueOf*", "java.lang.Long.valueOf*", "java.lang.Double.valueOf*",
	  NULL}},
	{"which searches the text each time",
	 "Search less: begin where the last search ended, cut the text once, keep the parts in a "
	 "HashMap.",
	 {"java.lang.String.indexOf*", "java.lang.String.contains*",
	  "java.lang.StringLatin1.indexOf*", NULL}},
};

const struct ws_java_cost *ws_find_java_cost(const char *method)
{
	for (size_t i = 0; i < WS_COUNT(costs); i++)
		if (ws_is_name_among(method, strlen(method), costs[i].names))
			return &costs[i];
	return NULL;
}
