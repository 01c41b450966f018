/* jobs.c - see jobs.h. A thread for each job waits for its turn, runs the child, and adds the
 * report. */
#include "serve/jobs.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "text/text.h"
#include "serve/child.h"

enum { MOST_JOBS = 64, MOST_SAID = 4096 };
enum state { WAITING, RUNNING, DONE, FAILED, CANCELLED };

struct job {
	struct ws_jobs *all;
	struct ws_upload *u; /* until it has ended */
	char *name;
	pthread_t thread;
	bool joined;
	enum state state;
	bool cancel;
	pid_t pid;
	struct stat file; /* what it reads */
	int report;
	struct ws_err problem;
};

struct ws_jobs {
	struct ws_view *view;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct job v[MOST_JOBS];
	int n;
	bool running; /* one is */
};

struct ws_jobs *ws_jobs_new(struct ws_view *view)
{
	struct ws_jobs *j = ws_calloc(1, sizeof(*j));

	j->view = view;
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->changed, NULL);
	return j;
}

/* ---- one job ---- */

/* The end of what it writes is why it failed. */
static void read_said(struct job *x, int out, char said[MOST_SAID])
{
	size_t n = 0;

	for (;;) {
		ssize_t got = read(out, said + n, MOST_SAID - 1 - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
		if (n > MOST_SAID / 2) {
			memmove(said, said + n - MOST_SAID / 4, MOST_SAID / 4);
			n = MOST_SAID / 4;
		}
	}
	said[n] = 0;
	(void)x;
}

/* Its last line, without our name before it. */
static const char *last_line(char *said)
{
	static const char ours[] = "warpsight: ";
	size_t n = strlen(said);
	char *line;

	while (n && (said[n - 1] == '\n' || said[n - 1] == '\r'))
		said[--n] = 0;
	line = strrchr(said, '\n');
	line = line ? line + 1 : said;
	return strncmp(line, ours, sizeof(ours) - 1) ? line : line + sizeof(ours) - 1;
}

static int run_child(struct job *x, struct ws_err *e)
{
	char *argv[] = {(char *)"warpsight",
			(char *)"import",
			(char *)"--quiet",
			ws_format("--output=%s", ws_upload_report_path(x->u)),
			(char *)ws_upload_path(x->u),
			NULL};
	char said[MOST_SAID];
	int out, status = 0, rc;
	pid_t pid;

	pthread_mutex_lock(&x->all->lock);
	rc = x->cancel ? ws_fail(e, "it was cancelled") : ws_child_start(argv, &x->pid, &out, e);
	pid = x->pid;
	pthread_mutex_unlock(&x->all->lock);
	free(argv[3]);
	if (rc)
		return -1;
	read_said(x, out, said);
	close(out);
	/* Forgotten before it is waited for: its number may then become another's. */
	pthread_mutex_lock(&x->all->lock);
	x->pid = 0;
	pthread_mutex_unlock(&x->all->lock);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (WIFSIGNALED(status))
		return ws_fail(e, "importing %s ended by signal %d", x->name, WTERMSIG(status));
	ws_fail(e, "%s", last_line(said));
	ws_upload_hide_path(x->u, e);
	return -1;
}

static void *work(void *arg)
{
	struct job *x = arg;
	struct ws_jobs *j = x->all;
	struct ws_err e = {.msg = ""};
	int report = -1;

	pthread_mutex_lock(&j->lock);
	while (j->running && !x->cancel)
		pthread_cond_wait(&j->changed, &j->lock);
	if (x->cancel) {
		x->state = CANCELLED;
		pthread_mutex_unlock(&j->lock);
		goto out;
	}
	j->running = true;
	x->state = RUNNING;
	pthread_mutex_unlock(&j->lock);
	if (!run_child(x, &e))
		report = ws_upload_open_imported(x->u, j->view, &e);
	pthread_mutex_lock(&j->lock);
	x->report = report;
	x->problem = e;
	x->state = report >= 0 ? DONE : x->cancel ? CANCELLED : FAILED;
	j->running = false;
	pthread_cond_broadcast(&j->changed);
	pthread_mutex_unlock(&j->lock);
out:
	ws_upload_free(x->u);
	pthread_mutex_lock(&j->lock);
	x->u = NULL;
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

int ws_jobs_add(struct ws_jobs *j, struct ws_upload *u, struct ws_err *e)
{
	struct job *x;
	int n;

	pthread_mutex_lock(&j->lock);
	n = j->n;
	if (n == MOST_JOBS) {
		pthread_mutex_unlock(&j->lock);
		ws_upload_free(u);
		return ws_fail(
			e, "%d traces have been imported; start 'warpsight view' again for more",
			n);
	}
	x = &j->v[n];
	*x = (struct job){.all = j, .u = u, .name = ws_strdup(ws_upload_name(u)), .report = -1};
	if (stat(ws_upload_path(u), &x->file))
		x->file.st_size = 0;
	if (pthread_create(&x->thread, NULL, work, x)) {
		pthread_mutex_unlock(&j->lock);
		free(x->name);
		ws_upload_free(u);
		return ws_fail(e, "there are too many threads");
	}
	j->n++;
	pthread_mutex_unlock(&j->lock);
	return n;
}

static bool under_way(const struct job *x)
{
	return x->state == WAITING || x->state == RUNNING;
}

/* Under the lock. */
static void cancel(struct job *x)
{
	x->cancel = true;
	if (x->pid > 0)
		kill(-x->pid, SIGKILL);
	if (x->pid > 0)
		kill(x->pid, SIGKILL); /* it may not lead its group yet */
	pthread_cond_broadcast(&x->all->changed);
}

int ws_jobs_cancel(struct ws_jobs *j, const struct ws_params *p, struct ws_err *e)
{
	const char *s = p->get(p->ctx, "job");
	char *end;
	long n = s ? strtol(s, &end, 10) : -1;
	int rc = 0;

	pthread_mutex_lock(&j->lock);
	if (!s || end == s || *end || n < 0 || n >= j->n || !under_way(&j->v[n]))
		rc = ws_fail(e, "this import is not under way");
	else
		cancel(&j->v[n]);
	pthread_mutex_unlock(&j->lock);
	return rc;
}

void ws_jobs_free(struct ws_jobs *j)
{
	if (!j)
		return;
	pthread_mutex_lock(&j->lock);
	for (int i = 0; i < j->n; i++)
		if (under_way(&j->v[i]))
			cancel(&j->v[i]);
	pthread_mutex_unlock(&j->lock);
	for (int i = 0; i < j->n; i++) {
		pthread_join(j->v[i].thread, NULL);
		free(j->v[i].name);
	}
	pthread_mutex_destroy(&j->lock);
	pthread_cond_destroy(&j->changed);
	free(j);
}

/* ---- telling ---- */

/* How far a process has read a file: where its descriptor of it stands. -1 when it reads otherwise.
 */
static int64_t read_by(pid_t pid, const struct stat *file)
{
	char path[64], line[128];
	int64_t pos = -1;
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && pos < 0 && (d = readdir(dir))) {
		struct stat st;
		FILE *f;

		if (fstatat(dirfd(dir), d->d_name, &st, 0) || st.st_ino != file->st_ino ||
		    st.st_dev != file->st_dev)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.10s", (int)pid, d->d_name);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "pos: %" SCNd64, &pos) == 1)
				break;
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return pos > 0 ? pos : -1;
}

void ws_jobs_put(struct ws_jobs *j, struct ws_text *t)
{
	static const char *const states[] = {"waiting", "running", "done", "failed", "cancelled"};

	ws_put_key(t, "jobs");
	ws_text_puts(t, "[");
	pthread_mutex_lock(&j->lock);
	for (int i = 0; i < j->n; i++) {
		const struct job *x = &j->v[i];

		ws_put_comma(t);
		ws_text_puts(t, "{");
		ws_put_int(t, "id", i);
		ws_put_string(t, "name", x->name);
		ws_put_string(t, "state", states[x->state]);
		ws_put_int(t, "all", (int64_t)x->file.st_size);
		ws_put_int(t, "done",
			   x->state == RUNNING && x->pid ? read_by(x->pid, &x->file) : -1);
		ws_put_int(t, "report", x->report);
		ws_put_string(t, "error", x->state == FAILED ? x->problem.msg : "");
		ws_text_puts(t, "}");
	}
	pthread_mutex_unlock(&j->lock);
	ws_text_puts(t, "]");
}
