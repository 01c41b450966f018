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
	struct ws_upload *upload; /* until it has ended */
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
	struct job jobs[MOST_JOBS];
	int n;
	bool running; /* a job is being imported */
};

struct ws_jobs *ws_jobs_new(struct ws_view *view)
{
	struct ws_jobs *jobs = ws_calloc(1, sizeof(*jobs));

	jobs->view = view;
	pthread_mutex_init(&jobs->lock, NULL);
	pthread_cond_init(&jobs->changed, NULL);
	return jobs;
}

/* ---- one job ---- */

/* The end of its output says why it failed. */
static void read_said(struct job *job, int out, char said[MOST_SAID])
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
	(void)job;
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

static int run_child(struct job *job, struct ws_err *err)
{
	char *argv[] = {(char *)"warpsight",
			(char *)"import",
			(char *)"--quiet",
			ws_format("--output=%s", ws_upload_report_path(job->upload)),
			(char *)ws_upload_path(job->upload),
			NULL};
	char said[MOST_SAID];
	int out, status = 0, rc;
	pid_t pid;

	pthread_mutex_lock(&job->all->lock);
	rc = job->cancel ? ws_fail(err, "it was cancelled")
			 : ws_child_start(argv, WS_CHILD_KILLED, &job->pid, &out, err);
	pid = job->pid;
	pthread_mutex_unlock(&job->all->lock);
	free(argv[3]);
	if (rc)
		return -1;
	read_said(job, out, said);
	close(out);
	/* Forget the pid before waiting for the child: afterwards it may belong to another
	 * process. */
	pthread_mutex_lock(&job->all->lock);
	job->pid = 0;
	pthread_mutex_unlock(&job->all->lock);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (WIFSIGNALED(status))
		return ws_fail(err, "importing %s ended by signal %d", job->name, WTERMSIG(status));
	ws_fail(err, "%s", last_line(said));
	ws_upload_hide_path(job->upload, err);
	return -1;
}

static void *run_jobs(void *arg)
{
	struct job *job = arg;
	struct ws_jobs *jobs = job->all;
	struct ws_err err = {.msg = ""};
	int report = -1;

	pthread_mutex_lock(&jobs->lock);
	while (jobs->running && !job->cancel)
		pthread_cond_wait(&jobs->changed, &jobs->lock);
	if (job->cancel) {
		job->state = CANCELLED;
		pthread_mutex_unlock(&jobs->lock);
		goto out;
	}
	jobs->running = true;
	job->state = RUNNING;
	pthread_mutex_unlock(&jobs->lock);
	if (!run_child(job, &err))
		report = ws_upload_open_imported(job->upload, jobs->view, &err);
	pthread_mutex_lock(&jobs->lock);
	job->report = report;
	job->problem = err;
	job->state = report >= 0 ? DONE : job->cancel ? CANCELLED : FAILED;
	jobs->running = false;
	pthread_cond_broadcast(&jobs->changed);
	pthread_mutex_unlock(&jobs->lock);
out:
	ws_upload_free(job->upload);
	pthread_mutex_lock(&jobs->lock);
	job->upload = NULL;
	pthread_mutex_unlock(&jobs->lock);
	return NULL;
}

int ws_jobs_add(struct ws_jobs *jobs, struct ws_upload *upload, struct ws_err *err)
{
	struct job *job;
	int n;

	pthread_mutex_lock(&jobs->lock);
	n = jobs->n;
	if (n == MOST_JOBS) {
		pthread_mutex_unlock(&jobs->lock);
		ws_upload_free(upload);
		return ws_fail(
			err, "%d traces have been imported; start 'warpsight view' again for more",
			n);
	}
	job = &jobs->jobs[n];
	*job = (struct job){.all = jobs,
			    .upload = upload,
			    .name = ws_strdup(ws_upload_name(upload)),
			    .report = -1};
	if (stat(ws_upload_path(upload), &job->file))
		job->file.st_size = 0;
	if (pthread_create(&job->thread, NULL, run_jobs, job)) {
		pthread_mutex_unlock(&jobs->lock);
		free(job->name);
		ws_upload_free(upload);
		return ws_fail(err, "there are too many threads");
	}
	jobs->n++;
	pthread_mutex_unlock(&jobs->lock);
	return n;
}

static bool under_way(const struct job *job)
{
	return job->state == WAITING || job->state == RUNNING;
}

/* Under the lock. */
static void cancel_job(struct job *job)
{
	job->cancel = true;
	if (job->pid > 0)
		kill(-job->pid, SIGKILL);
	if (job->pid > 0)
		kill(job->pid, SIGKILL); /* it may not lead its group yet */
	pthread_cond_broadcast(&job->all->changed);
}

int ws_jobs_cancel(struct ws_jobs *jobs, const struct ws_params *params, struct ws_err *err)
{
	const char *text = params->get(params->ctx, "job");
	char *end;
	long n = text ? strtol(text, &end, 10) : -1;
	int rc = 0;

	pthread_mutex_lock(&jobs->lock);
	if (!text || end == text || *end || n < 0 || n >= jobs->n || !under_way(&jobs->jobs[n]))
		rc = ws_fail(err, "this import is not under way");
	else
		cancel_job(&jobs->jobs[n]);
	pthread_mutex_unlock(&jobs->lock);
	return rc;
}

void ws_jobs_free(struct ws_jobs *jobs)
{
	if (!jobs)
		return;
	pthread_mutex_lock(&jobs->lock);
	for (int i = 0; i < jobs->n; i++)
		if (under_way(&jobs->jobs[i]))
			cancel_job(&jobs->jobs[i]);
	pthread_mutex_unlock(&jobs->lock);
	for (int i = 0; i < jobs->n; i++) {
		pthread_join(jobs->jobs[i].thread, NULL);
		free(jobs->jobs[i].name);
	}
	pthread_mutex_destroy(&jobs->lock);
	pthread_cond_destroy(&jobs->changed);
	free(jobs);
}

/* ---- telling ---- */

/* How far a process has read a file: where its descriptor of it stands. -1 when it reads otherwise.
 */
static int64_t read_by(pid_t pid, const struct stat *file)
{
	char path[64], line[128];
	int64_t pos = -1;
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && pos < 0 && (entry = readdir(dir))) {
		struct stat st;
		FILE *f;

		if (fstatat(dirfd(dir), entry->d_name, &st, 0) || st.st_ino != file->st_ino ||
		    st.st_dev != file->st_dev)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.10s", (int)pid, entry->d_name);
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

void ws_jobs_put(struct ws_jobs *jobs, struct ws_text *text)
{
	static const char *const states[] = {"waiting", "running", "done", "failed", "cancelled"};

	ws_put_json_key(text, "jobs");
	ws_text_puts(text, "[");
	pthread_mutex_lock(&jobs->lock);
	for (int i = 0; i < jobs->n; i++) {
		const struct job *job = &jobs->jobs[i];

		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		ws_put_json_int(text, "id", i);
		ws_put_json_string(text, "name", job->name);
		ws_put_json_string(text, "state", states[job->state]);
		ws_put_json_int(text, "all", (int64_t)job->file.st_size);
		ws_put_json_int(text, "done",
				job->state == RUNNING && job->pid ? read_by(job->pid, &job->file)
								  : -1);
		ws_put_json_int(text, "report", job->report);
		ws_put_json_string(text, "error", job->state == FAILED ? job->problem.msg : "");
		ws_text_puts(text, "}");
	}
	pthread_mutex_unlock(&jobs->lock);
	ws_text_puts(text, "]");
}
