/*
 * main.c - find the command, parse its options, run it, and make sure that what was printed has
 * been written.
 *
 * Nothing here touches the standard streams or signals: `profile` passes them to the target as they
 * came. Standard streams that are closed are replaced by descriptors that fail and close on exec,
 * so that no report is opened as descriptor 1 and then printed into, and the target still finds
 * them closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/paths.h"
#include "cli/text.h"
#include "import/import.h"
#include "store/store.h"
#include "text/output_file.h"

#define STACK_LITTLE ((size_t)1 << 20)

int ws_refuse_unknown_command(const char *word);

static void hold_closed_streams(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			/* The lowest free number is fd; opened in the wrong direction, so that
			 * using it fails as it would have. */
			(void)!open("/dev/null", (fd ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
}

/*
 * Writes what is left of the output and returns the final exit status. A reader that went away is
 * not worth a message, nor is a failure that the command has reported.
 */
static int write_rest_of_output(int status)
{
	int error;

	errno = 0;
	if (!(fflush(stdout) | ferror(stdout)) || ws_is_output_over())
		return status;
	error = errno;
	if (!error && status) /* it failed while the command ran, which has said so */
		return status;
	if (!error)
		error = ws_find_output_error();
	if (error == EPIPE)
		return WS_EXIT_PIPE_CLOSED;
	if (!error)
		error = EIO;
	ws_say("cannot write to standard output: %s", strerror(error));
	return ws_max(status, (int)WS_EXIT_FAIL);
}

static int show_help(const struct ws_command *command)
{
	struct ws_text out = {0};

	if (command)
		ws_add_command_help(&out, command, ws_get_output_width());
	else
		ws_add_overview_help(&out, ws_get_output_width());
	fwrite(out.text, 1, out.len, stdout);
	ws_text_free(&out);
	return WS_EXIT_OK;
}

static int run_command(const struct ws_command *command, int argc, char **argv)
{
	void *values = ws_calloc(1, command->opts_size);
	struct ws_err err;
	int first, status, rc = ws_opts_parse(command, argc, argv, values, &first, &err);

	if (rc < 0) {
		ws_say("%s: %s", command->name, err.msg);
		status = WS_EXIT_USAGE;
	} else if (rc > 0) {
		status = show_help(command);
	} else {
		status = command->run(values, argc - first, argv + first);
	}
	ws_opts_free(command, values);
	free(values);
	return status;
}

static int reject_unknown_option(const char *word)
{
	static const char *const names[] = {"--help", "--version"};
	struct ws_nearest near = {.word = word};

	for (size_t i = 0; i < WS_COUNT(names); i++)
		ws_try_name(&near, names[i], strlen(names[i]));
	if (ws_has_near_name(&near))
		ws_say("unknown option %s; did you mean %s?", word, near.best);
	else
		ws_say("unknown option %s: options come after the command, as in 'warpsight "
		       "profile %s ...'",
		       word, word);
	return WS_EXIT_USAGE;
}

static int dispatch_command(int argc, char **argv)
{
	const char *word = "--help";
	const struct ws_command *command;

	if (argc > 1)
		word = argv[1];
	if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
		if (argc > 2)
			return run_command(ws_find_command("help"), argc - 2, argv + 2);
		return show_help(NULL);
	}
	if (!strcmp(word, "--version") || !strcmp(word, "-v") || !strcmp(word, "-V"))
		command = ws_find_command("version");
	else if (word[0] == '-')
		return reject_unknown_option(word);
	else
		command = ws_find_command(word);
	if (!command)
		return ws_refuse_unknown_command(word);
	return run_command(command, argc - 2, argv + 2);
}

/* Allocates nothing. Two threads that get here at once both end the program. */
static void fail_out_of_memory(void)
{
	static const char message[] = "warpsight: out of memory\n";

	(void)!write(STDERR_FILENO, message, sizeof(message) - 1);
	ws_cleanup_remove_all();
	_exit(WS_EXIT_FAIL);
}

/* Where address space is scarce (ulimit -v), stacks of threads must not take most of it. */
static void shrink_stacks(void)
{
	pthread_attr_t attributes;

	if (ws_address_space() / 64 >= STACK_LITTLE || pthread_attr_init(&attributes))
		return;
	if (!pthread_attr_setstacksize(&attributes, STACK_LITTLE))
		pthread_setattr_default_np(&attributes);
	pthread_attr_destroy(&attributes);
}

int main(int argc, char **argv)
{
	static char buffer[1 << 16]; /* large, so that most output is written by
					write_rest_of_output, which can name the error */

	ws_main_argv = argv;
	ws_out_of_memory = fail_out_of_memory;
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	hold_closed_streams();
	shrink_stacks();
	ws_restore_environment();
	ws_open_foreign_trace = ws_import_open;
	return write_rest_of_output(dispatch_command(argc, argv));
}
