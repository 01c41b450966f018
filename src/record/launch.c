/*
 * launch.c - see launch.h. The child is forked before the report exists (its pid may be part of the
 * name) and waits on a pipe. It restores the signal dispositions and the mask that the recorder
 * itself was started with, so that nohup and the like reach the target.
 */
#include "record/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/jit_runtimes.h"
#include "base/gpu_tools.h"
#include "base/choose.h"
#include "base/mem.h"
#include "base/nvtx_libraries.h"
#include "record/libraries.h"
#include "record/signals.h"
#include "record/vulkan_loader.h"
#include "ring/hookable.h"
#include "ring/ring.h"

extern char **environ;

static int become_user(const char *user)
{
	struct passwd *pw = getpwnam(user);

	return !pw || initgroups(user, pw->pw_gid) || setgid(pw->pw_gid) || setuid(pw->pw_uid);
}

/* A process with that user's rights checks it. */
bool ws_launch_can_read_hooks(const struct ws_record_opts *options, const char *preload,
			      const char *session)
{
	int status = 0;
	pid_t pid;

	if (!options->run_as)
		return true;
	pid = fork();
	if (!pid)
		_exit(become_user(options->run_as) || !ws_can_read_hooks(preload, session));
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status);
}

static _Noreturn void run_child(const struct ws_record_opts *options, char **envp, int go,
				int failed, int out, int err)
{
	char word = 0;
	int error = EPERM;

	ws_signals_restore();
	while (read(go, &word, 1) < 0 && errno == EINTR)
		;
	if (word != 'g')
		_exit(0);
	if ((out >= 0 && dup2(out, 1) < 0) || (err >= 0 && dup2(err, 2) < 0)) {
		error = errno;
	} else if (!options->run_as || !become_user(options->run_as)) {
		environ = envp;
		execvp(options->argv[0], options->argv);
		error = errno;
	}
	while (write(failed, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(127);
}

int ws_launch_prepare(struct ws_launch *launch, const struct ws_record_opts *options, char **envp,
		      int out, int err, struct ws_err *err_e)
{
	int go[2], failed[2];

	if (pipe2(go, O_CLOEXEC))
		return ws_fail_errno(err_e, "cannot make a pipe");
	if (pipe2(failed, O_CLOEXEC)) {
		ws_fail_errno(err_e, "cannot make a pipe");
		close(go[0]);
		close(go[1]);
		return -1;
	}
	launch->pid = fork();
	if (!launch->pid) {
		close(go[1]);
		close(failed[0]);
		run_child(options, envp, go[0], failed[1], out, err);
	}
	close(go[0]);
	close(failed[1]);
	launch->go = go[1];
	launch->failed = failed[0];
	if (launch->pid < 0) {
		ws_fail_errno(err_e, "cannot fork to start %s", options->argv[0]);
		close(launch->go);
		close(launch->failed);
		return -1;
	}
	return 0;
}

int ws_launch_go(struct ws_launch *launch)
{
	int error = 0;
	ssize_t n;

	while ((n = write(launch->go, "g", 1)) < 0 && errno == EINTR)
		;
	if (n < 0)
		error = errno;
	close(launch->go);
	if (error) {
		close(launch->failed);
		return error;
	}
	while ((n = read(launch->failed, &error, sizeof(error))) < 0 && errno == EINTR)
		;
	close(launch->failed);
	return n == sizeof(error) ? error : 0;
}

void ws_launch_cancel(struct ws_launch *launch)
{
	close(launch->go);
	close(launch->failed);
}

static const char *find_variable(char **env, size_t n, const char *name, size_t *at)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < n; i++)
		if (!strncmp(env[i], name, len) && env[i][len] == '=') {
			if (at)
				*at = i;
			return env[i] + len + 1;
		}
	return NULL;
}

static void set_variable(char **env, size_t *n, char *entry)
{
	char *name = ws_strndup(entry, strcspn(entry, "="));
	size_t at = *n;

	if (!find_variable(env, *n, name, &at))
		(*n)++;
	else
		free(env[at]);
	env[at] = entry;
	free(name);
}

/* Add options to those that a variable already holds; of two contradictory ones the last counts. */
static void add_words(char **env, size_t *n, const char *name, const char *words)
{
	const char *old = find_variable(env, *n, name, NULL);

	if (old && strstr(old, words))
		return;
	if (old && *old)
		set_variable(env, n, ws_format("%s=%s %s", name, old, words));
	else
		set_variable(env, n, ws_format("%s=%s", name, words));
}

bool ws_launch_foreign_cuda(const char *value)
{
	return value && *value && strcmp(value, "none") != 0;
}

enum { ADDED_MOST = 32 }; /* variables that we give to the target */

/* Have a library report its calls by NVTX, unless the user has set how much it reports. */
static void set_nvtx_level(char **env, size_t *n, const struct ws_nvtx_library *library,
			   const char *trace)
{
	int level = ws_get_nvtx_level(library, trace);

	for (const char *const *name = library->variables; level && *name; name++) {
		if (find_variable(env, *n, *name, NULL))
			continue;
		if (library->value)
			set_variable(env, n, ws_format("%s=%s", *name, library->value));
		else
			set_variable(env, n, ws_format("%s=%d", *name, level));
	}
}

/* The target's environment without anything of ours. */
static char **copy_own_environment(const struct ws_record_opts *options, size_t *count)
{
	size_t n = 0, inherited = 0;
	char **env;

	while (environ[inherited])
		inherited++;
	env = ws_calloc(inherited + options->env_count + ADDED_MOST, sizeof(char *));
	for (; options->inherit_environment && n < inherited; n++)
		env[n] = ws_strdup(environ[n]);
	for (size_t i = 0; i < options->env_count; i++)
		set_variable(env, &n, ws_strdup(options->env[i]));
	for (size_t i = 0; options->jit_names && i < WS_COUNT(ws_jit_runtimes); i++)
		if (strstr(options->jit_names, ws_jit_runtimes[i].word))
			add_words(env, &n, ws_jit_runtimes[i].variable, ws_jit_runtimes[i].value);
	for (size_t i = 0; i < WS_COUNT(ws_nvtx_libraries); i++)
		set_nvtx_level(env, &n, &ws_nvtx_libraries[i], options->trace);
	*count = n;
	return env;
}

/* The user's own preloads come first: they may have to, ours need not. */
static void name_libraries(char **env, size_t *n, const char *preload)
{
	const char *old = find_variable(env, *n, "LD_PRELOAD", NULL);

	set_variable(env, n,
		     ws_format("LD_PRELOAD=%s%s%s", old && *old ? old : "", old && *old ? ":" : "",
			       preload));
	/* GCC's address sanitizer refuses to run with any preloaded library before it unless told
	 * otherwise; other programs do not read this. */
	old = find_variable(env, *n, "ASAN_OPTIONS", NULL);
	set_variable(env, n,
		     ws_format("ASAN_OPTIONS=%s%s" WS_ASAN_ORDER, old && *old ? old : "",
			       old && *old ? ":" : ""));
}

/* GCC's runtime of OpenACC calls only libraries that this variable names, separated by semicolons.
 */
static void name_openacc_library(char **env, size_t *n, const char *preload)
{
	static const char library[] = "libwarpsight-openmp.so";
	const char *old = find_variable(env, *n, "ACC_PROFLIB", NULL);
	const char *from = strstr(preload, library), *end;

	if (!from)
		return;
	end = from + sizeof(library) - 1;
	while (from > preload && from[-1] != ':')
		from--;
	set_variable(env, n,
		     ws_format("ACC_PROFLIB=%s%s%.*s", ws_text_or(old, ""), old && *old ? ";" : "",
			       (int)(end - from), from));
}

/* NCCL loads one profiler plug-in. One that the user has named stays. */
static void name_nccl_plugin(char **env, size_t *n, const char *hooks)
{
	const char *first = hooks, *slash = NULL;
	size_t length = strcspn(hooks, ":");

	for (const char *at = first; at < first + length; at++)
		if (*at == '/')
			slash = at;
	if (slash && !find_variable(env, *n, WS_NCCL_PLUGIN_VARIABLE, NULL))
		set_variable(env, n,
			     ws_format(WS_NCCL_PLUGIN_VARIABLE "=%.*s/libwarpsight-nccl.so",
				       (int)(slash - first), first));
}

/* Add to a list of paths or names. */
static void add_to_list(char **env, size_t *n, const char *name, const char *text, size_t length)
{
	const char *old = find_variable(env, *n, name, NULL);

	set_variable(env, n,
		     ws_format("%s=%s%s%.*s", name, ws_text_or(old, ""), old && *old ? ":" : "",
			       (int)length, text));
}

/* Whether the installed loader of Vulkan has no variable for further folders with layers. */
static bool is_vulkan_loader_old(void)
{
	int version[3];

	return ws_find_vulkan_loader(version) && !ws_vulkan_loader_adds_folders(version);
}

/* Where loaders of Vulkan look for the layers that users ask for. */
static char *list_layer_folders(char **env, size_t n)
{
	static const char shared[] = "/usr/local/etc/vulkan/explicit_layer.d:"
				     "/etc/vulkan/explicit_layer.d:"
				     "/usr/local/share/vulkan/explicit_layer.d:"
				     "/usr/share/vulkan/explicit_layer.d";
	const char *home = find_variable(env, n, "HOME", NULL);

	if (!home || !*home)
		return ws_strdup(shared);
	return ws_format("%s/.local/share/vulkan/explicit_layer.d:%s", home, shared);
}

/* Have Vulkan's loader load our layer, behind the user's own. The layer's manifest is beside the
 * hooks. VK_LAYER_PATH replaces the folders that the loader searches by itself. */
static void name_vulkan_layer(char **env, size_t *n, const char *preload)
{
	size_t length = strcspn(preload, ":");
	const char *own = find_variable(env, *n, "VK_LAYER_PATH", NULL);
	const char *variable = "VK_ADD_LAYER_PATH";

	while (length && preload[length - 1] != '/')
		length--;
	if (own && *own) {
		variable = "VK_LAYER_PATH";
	} else if (is_vulkan_loader_old()) {
		char *folders = list_layer_folders(env, *n);

		variable = "VK_LAYER_PATH";
		set_variable(env, n, ws_format("%s=%s", variable, folders));
		free(folders);
	}
	add_to_list(env, n, variable, preload, length ? length - 1 : 0);
	add_to_list(env, n, "VK_INSTANCE_LAYERS", WS_VULKAN_LAYER, strlen(WS_VULKAN_LAYER));
}

char **ws_launch_environment(const struct ws_record_opts *options, const char *session,
			     const char *preload, const char *nvtx, const char *cuda)
{
	size_t n;
	char **env = copy_own_environment(options, &n), *file;
	const char *old;

	if (!*preload)
		return env;
	file = ws_launch_find(options->argv[0], env);
	if (!file || ws_is_hookable(file))
		name_libraries(env, &n, preload);
	free(file);
	if (options->openacc)
		name_openacc_library(env, &n, preload);
	if (options->nccl_events)
		name_nccl_plugin(env, &n, preload);
	if (options->libraries >> WS_LIBRARY_vulkan & 1)
		name_vulkan_layer(env, &n, preload);
	if (*nvtx && !find_variable(env, n, "NVTX_INJECTION64_PATH", NULL))
		set_variable(env, &n, ws_format("NVTX_INJECTION64_PATH=%s", nvtx));
	old = find_variable(env, n, "CUDA_INJECTION64_PATH", NULL);
	if (*cuda && !ws_launch_foreign_cuda(old) && !ws_find_gpu_tool(env))
		set_variable(env, &n, ws_format("CUDA_INJECTION64_PATH=%s", cuda));
	set_variable(env, &n, ws_format("%s=%s", WS_ENV_SESSION, session));
	env[n] = NULL;
	return env;
}

void ws_launch_environment_free(char **env)
{
	for (char **p = env; p && *p; p++)
		free(*p);
	free(env);
}

char *ws_launch_find(const char *name, char **envp)
{
	const char *path = NULL;

	if (strchr(name, '/'))
		return ws_strdup(name);
	for (char **e = envp; *e; e++)
		if (!strncmp(*e, "PATH=", 5))
			path = *e + 5;
	for (const char *at = ws_text_or(path, "/usr/local/bin:/usr/bin:/bin"), *end;;
	     at = end + 1) {
		char *file;
		struct stat st;

		end = at + strcspn(at, ":");
		file = ws_format("%.*s%s%s", (int)(end - at), at, end > at ? "/" : "", name);
		if (!stat(file, &st) && S_ISREG(st.st_mode) && !access(file, X_OK))
			return file;
		free(file);
		if (!*end)
			return NULL;
	}
}

/* What an error of exec means, where that is not obvious; `file` is what was tried, NULL when no
 * file of that name was found. */
static const char *explain_exec_failure(const char *name, const char *file, int error)
{
	struct stat st;

	if (!*name)
		return "it has no name";
	if (file && error == EACCES && !stat(file, &st) && S_ISDIR(st.st_mode))
		return "it is a directory";
	if (file && error == ENOENT && !stat(file, &st))
		return "it is there, but not the interpreter or loader that it names";
	return strerror(error);
}

const char *ws_launch_explain(const char *name, char **envp, int *status, int error)
{
	char *file = ws_launch_find(name, envp);
	const char *why;

	/* exec returns EACCES when some folder of PATH may not be searched; if no other folder has
	 * the program, it was not found. */
	if (error == EACCES && !file)
		error = ENOENT;
	why = explain_exec_failure(name, file, error);
	free(file);
	*status = 126;
	if (error == ENOENT || error == ENOTDIR)
		*status = 127;
	return why;
}
