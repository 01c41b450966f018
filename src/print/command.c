/* command.c - see command.h. */
#include "print/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

extern char **environ;

void ws_free_words(char **words)
{
	for (size_t i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}

/* Read one word from *at on, and move *at behind it; false when a quote is not closed. */
static bool read_word(const char **at, struct ws_text *word)
{
	char quote = 0;

	for (; **at && (quote || !strchr(" \t\n", **at)); ++*at) {
		char letter = **at;

		if (letter == '\\' && quote != '\'' && (*at)[1]) {
			letter = *++*at;
		} else if (quote && letter == quote) {
			quote = 0;
			continue;
		} else if (!quote && (letter == '"' || letter == '\'')) {
			quote = letter;
			continue;
		}
		ws_text_add(word, &letter, 1);
	}
	return !quote;
}

char **ws_split_words(const char *text, struct ws_err *err)
{
	char **words = NULL;
	size_t count = 0, capacity = 0;

	ws_grow(words, capacity, 1);
	words[0] = NULL;
	for (text += strspn(text, " \t\n"); *text; text += strspn(text, " \t\n")) {
		struct ws_text word = {0};

		ws_text_puts(&word, "");
		if (!read_word(&text, &word)) {
			ws_text_free(&word);
			ws_free_words(words);
			ws_fail(err, "a quote is not closed");
			return NULL;
		}
		ws_grow(words, capacity, count + 2);
		words[count++] = word.text;
		words[count] = NULL;
	}
	if (count)
		return words;
	ws_free_words(words);
	ws_fail(err, "there is no command");
	return NULL;
}

static int spawn_command(struct ws_command_output *out, char **words, int in)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, normal;
	int status;

	sigemptyset(&none);
	sigemptyset(&normal);
	sigaddset(&normal, SIGPIPE); /* we ignore it, which a child would inherit */
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &normal);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	status = posix_spawnp(&out->pid, words[0], &actions, &attr, words, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return status;
}

int ws_command_start(struct ws_command_output *out, const char *command, struct ws_err *err)
{
	char **words = ws_split_words(command, err);
	int fd[2], status;

	memset(out, 0, sizeof(*out));
	if (!words)
		return -1;
	if (pipe2(fd, O_CLOEXEC) < 0) {
		ws_free_words(words);
		return ws_fail_errno(err, "cannot start %s", command);
	}
	/* A command that ends early must not end us: its status is checked when it has ended. */
	out->pipe_signal = signal(SIGPIPE, SIG_IGN);
	fflush(stdout); /* what was printed so far comes before what the command prints */
	out->file = fdopen(fd[1], "w");
	status = out->file ? spawn_command(out, words, fd[0]) : errno;
	close(fd[0]);
	if (status) {
		if (out->file)
			fclose(out->file);
		else
			close(fd[1]);
		out->file = NULL;
		signal(SIGPIPE, out->pipe_signal);
		errno = status;
		ws_fail_errno(err, "cannot start %s", words[0]);
	} else {
		out->name = ws_strdup(words[0]);
	}
	ws_free_words(words);
	return -(status != 0);
}

int ws_command_finish(struct ws_command_output *out, struct ws_err *err)
{
	int status = 0, rc = 0, error = 0;

	if (!out->file)
		return 0;
	if (fclose(out->file) && errno != EPIPE) /* the command need not read everything */
		error = errno;
	signal(SIGPIPE, out->pipe_signal);
	while (waitpid(out->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		rc = ws_fail(err, "%s was ended by signal %d", out->name, WTERMSIG(status));
	else if (WEXITSTATUS(status))
		rc = ws_fail(err, "%s ended with status %d", out->name, WEXITSTATUS(status));
	else if (error)
		rc = ws_fail(err, "cannot write to %s: %s", out->name, strerror(error));
	free(out->name);
	memset(out, 0, sizeof(*out));
	return rc;
}
