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

void ws_words_free(char **words)
{
	for (size_t i = 0; words && words[i]; i++)
		free(words[i]);
	free(words);
}

/* One word from *s on; false when a quote is not closed. */
static bool next_word(const char **s, struct ws_text *word)
{
	char quote = 0;

	for (; **s && (quote || !strchr(" \t\n", **s)); ++*s) {
		char letter = **s;

		if (letter == '\\' && quote != '\'' && (*s)[1])
			letter = *++*s;
		else if (quote ? letter == quote : letter == '"' || letter == '\'') {
			quote = quote ? 0 : letter;
			continue;
		}
		ws_text_add(word, &letter, 1);
	}
	return !quote;
}

char **ws_words(const char *text, struct ws_err *err)
{
	char **words = NULL;
	size_t n = 0, cap = 0;

	ws_grow(words, cap, 1);
	words[0] = NULL;
	for (text += strspn(text, " \t\n"); *text; text += strspn(text, " \t\n")) {
		struct ws_text word = {0};

		ws_text_puts(&word, "");
		if (!next_word(&text, &word)) {
			ws_text_free(&word);
			ws_words_free(words);
			ws_fail(err, "a quote is not closed");
			return NULL;
		}
		ws_grow(words, cap, n + 2);
		words[n++] = word.text;
		words[n] = NULL;
	}
	if (n)
		return words;
	ws_words_free(words);
	ws_fail(err, "there is no command");
	return NULL;
}

static int spawn(struct ws_command_out *out, char **words, int in)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, normal;
	int rc;

	sigemptyset(&none);
	sigemptyset(&normal);
	sigaddset(&normal, SIGPIPE); /* which we ignore, and a child would with us */
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &normal);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	rc = posix_spawnp(&out->pid, words[0], &actions, &attr, words, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return rc;
}

int ws_command_start(struct ws_command_out *out, const char *command, struct ws_err *err)
{
	char **words = ws_words(command, err);
	int fd[2], rc;

	memset(out, 0, sizeof(*out));
	if (!words)
		return -1;
	if (pipe2(fd, O_CLOEXEC) < 0) {
		ws_words_free(words);
		return ws_fail_errno(err, "cannot start %s", command);
	}
	out->pipe_signal = signal(
		SIGPIPE,
		SIG_IGN); /* one that ends early must not end us: finishing says how it ended */
	fflush(stdout);	  /* what was printed before stands before what the command prints */
	rc = spawn(out, words, fd[0]);
	close(fd[0]);
	if (rc) {
		close(fd[1]);
		signal(SIGPIPE, out->pipe_signal);
		errno = rc;
		ws_fail_errno(err, "cannot start %s", words[0]);
	} else {
		out->file = fdopen(fd[1], "w");
		out->name = ws_strdup(words[0]);
	}
	ws_words_free(words);
	return rc ? -1 : 0;
}

int ws_command_finish(struct ws_command_out *out, struct ws_err *err)
{
	int status = 0, rc = 0;

	if (!out->file)
		return 0;
	fclose(out->file); /* it may have read no more than it wanted: that is its business */
	signal(SIGPIPE, out->pipe_signal);
	while (waitpid(out->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		rc = ws_fail(err, "%s was ended by signal %d", out->name, WTERMSIG(status));
	else if (WEXITSTATUS(status))
		rc = ws_fail(err, "%s ended with status %d", out->name, WEXITSTATUS(status));
	free(out->name);
	memset(out, 0, sizeof(*out));
	return rc;
}
