/*
 * embed.c - a program that loads the interpreter while it runs, as programs with plug-ins in Python
 * do: embed LIBPYTHON ARGV0 [ARG...] is what the command ARGV0 ARG... is.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)
				 : NULL; /* global: extension modules need its symbols */
	int (*run)(int, char **) =
		library ? (int (*)(int, char **))dlsym(library, "Py_BytesMain") : NULL;

	if (!run) {
		fprintf(stderr, "embed: %s\n",
			argc > 2 ? dlerror() : "usage: embed LIBPYTHON ARGV0 [ARG...]");
		return 3;
	}
	return run(argc - 2, argv + 2);
}
