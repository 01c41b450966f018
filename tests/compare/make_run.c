/*
 * make_run.c - a report of a made-up training program, for tests of whole commands.
 *
 *   make_run FILE [seed=N] [steps=N] [unmarked=1] [noise=X] [kernel=N] [slower=X] [all=X]
 * [gpu=NAME] [step=FORMAT] [name=FORMAT] [without=1] [odd=1]
 */
#include <stdlib.h>

#include "made_run.h"

static const char *find_value(int argc, char **argv, const char *name)
{
	size_t length = strlen(name);

	for (int i = 2; i < argc; i++)
		if (!strncmp(argv[i], name, length) && argv[i][length] == '=')
			return argv[i] + length + 1;
	return NULL;
}

static double find_number(int argc, char **argv, const char *name, double fallback)
{
	const char *value = find_value(argc, argv, name);

	if (value)
		return strtod(value, NULL);
	return fallback;
}

int main(int argc, char **argv)
{
	struct made_run run = {0};
	struct ws_err err;

	if (argc < 2)
		return 2;
	run.seed = (uint64_t)find_number(argc, argv, "seed", 1);
	run.steps = (uint32_t)find_number(argc, argv, "steps", 100);
	run.unmarked = find_number(argc, argv, "unmarked", 0) > 0;
	run.noise = find_number(argc, argv, "noise", 1);
	run.kernel = (uint32_t)find_number(argc, argv, "kernel", 0);
	run.slower = find_number(argc, argv, "slower", 0);
	run.all_slower = find_number(argc, argv, "all", 0);
	run.gpu = find_value(argc, argv, "gpu");
	run.step_name = find_value(argc, argv, "step");
	run.kernel_name = find_value(argc, argv, "name");
	run.without_last = find_number(argc, argv, "without", 0) > 0;
	run.odd = find_number(argc, argv, "odd", 0) > 0;
	if (make_run(argv[1], &run, &err)) {
		ws_say("%s", err.msg);
		return 1;
	}
	return 0;
}
