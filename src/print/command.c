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
		char c = **s;

		if (c == '\\' && quote != '\'' && (*s)[1])
			c = *++*s;
		else if (quote ? c == quote : c == '"' || c == '\'') {
			quote = quote ? 0 : c;
			continue;
		}
		ws_text_add(word, &c, 1);
	}
	return !quote;
}

char **ws_words(const char *s, struct ws_err *e)
{
	char **words = NULL;
	size_t n = 0, cap = 0;

	ws_grow(words, cap, 1);
	words[0] = NULL;
	for (s += strspn(s, " \t\n"); *s; s += strspn(s, " \t\n")) {
		struct ws_text word = {0};

		ws_text_puts(&word, "");
		if (!next_word(&s, &word)) {
			ws_text_free(&word);
			ws_words_free(words);
			ws_fail(e, "a quote is not closed");
			return NULL;
		}
		ws_grow(words, cap, n + 2);
		words[n++] = word.s;
		words[n] = NULL;
	}
	if (n)
		return words;
	ws_words_free(words);
	ws_fail(e, "there is no command");
	return NULL;
}

static int spawn(struct ws_command_out *c, char **words, int in)
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
	rc = posix_spawnp(&c->pid, words[0], &actions, &attr, words, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return rc;
}

int ws_command_start(struct ws_command_out *c, const char *command, struct ws_err *e)
{
	char **words = ws_words(command, e);
	int fd[2], rc;

	memset(c, 0, sizeof(*c));
	if (!words)
		return -1;
	if (pipe2(fd, O_CLOEXEC) < 0) {
		ws_words_free(words);
		return ws_fail_errno(e, "cannot start %s", command);
	}
	c->pipe_signal = signal(
		SIGPIPE,
		SIG_IGN); /* one that ends early must not end us: finishing says how it ended */
	fflush(stdout);	  /* what was printed before stands before what the command prints */
	rc = spawn(c, words, fd[0]);
	close(fd[0]);
	if (rc) {
		close(fd[1]);
		signal(SIGPIPE, c->pipe_signal);
		errno = rc;
		ws_fail_errno(e, "cannot start %s", words[0]);
	} else {
		c->f = fdopen(fd[1], "w");
		c->name = ws_strdup(words[0]);
	}
	ws_words_free(words);
	return rc ? -1 : 0;
}

int ws_command_finish(struct ws_command_out *c, struct ws_err *e)
{
	int status = 0, rc = 0;

	if (!c->f)
		return 0;
	fclose(c->f); /* it may have read no more than it wanted: that is its business */
	signal(SIGPIPE, c->pipe_signal);
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		rc = ws_fail(e, "%s was ended by signal %d", c->name, WTERMSIG(status));
	else if (WEXITSTATUS(status))
		rc = ws_fail(e, "%s ended with status %d", c->name, WEXITSTATUS(status));
	free(c->name);
	memset(c, 0, sizeof(*c));
	return rc;
}
