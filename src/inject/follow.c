/*
 * follow.c - keeps the whole process tree in the session: however a program starts another, the new
 * image gets the session's environment, even if the program cleared its own. The recorder learns
 * what was started, so that it can report which images could not be recorded (static, set-user-ID,
 * of another architecture).
 *
 * The environment is completed in the arguments of exec and posix_spawn, never in the program's own
 * memory; only system() and popen(), which take no environment, get a completed `environ` for the
 * length of the call when the program had removed ours. Images that our libraries cannot be loaded
 * into get the program's own LD_PRELOAD, so that their loader does not complain. Programs started
 * outside the session (because it has ended, or because their user cannot read our files) get
 * nothing from us.
 *
 * Arguments are inspected only once they are known to be readable (readable.h). Those for which the
 * kernel would return EFAULT are passed on unchanged.
 *
 * Between vfork and exec the child runs on the parent's thread state: `paused` keeps everything but
 * exec notes from being recorded there.
 */
#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/gpu_tools.h"
#include "inject/bind.h"
#include "inject/readable.h"
#include "inject/ignored.h"
#include "inject/rt.h"
#include "inject/spare.h"
#include "inject/traced.h"
#include "ring/hookable.h"

extern char **environ;

ws_traced_fn *ws_traced_hook;
ws_sample_fn *ws_sample_hook;
ws_stack_fn *ws_stack_hook;
ws_frames_fn *ws_frames_hook;

/* ---- what kind of image is it? ---- */

enum image {
	IMAGE_HOOKABLE,
	IMAGE_FOREIGN, /* loading our libraries would fail, noisily or fatally */
	IMAGE_TIGHT,   /* they would take too much of its address space */
	IMAGE_OUTSIDE  /* nothing in it can be recorded: it gets the environment that it would have
			  without us */
};

/* Our libraries and what they map at once are 4 to 5 MiB, of which less than 2 MiB are data. */
#define SPACE_LEAST ((rlim_t)32 << 20)
#define DATA_LEAST ((rlim_t)8 << 20)

static bool is_limited_below(int resource, rlim_t least)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	ws_raw_syscall(SYS_prlimit64, 0, resource, 0, (long)&limit, 0, 0);
	return limit.rlim_cur < least;
}

static bool is_space_tight(void)
{
	return is_limited_below(RLIMIT_AS, SPACE_LEAST) ||
	       is_limited_below(RLIMIT_DATA, DATA_LEAST);
}

/*
 * An image is outside the session if its user or its root folder gives it no access to our files,
 * such as a login shell of su or a program started by chroot. The current rights are checked, since
 * the new image will have them. So is one under a filter that would end it for what our libraries
 * do at their start.
 */
static enum image classify_image(const char *path)
{
	const struct ws_arena *arena = ws_rt->arena;

	if (ws_rt_is_filtered())
		return IMAGE_OUTSIDE;
	if (arena && !ws_can_read_hooks(arena->text + arena->text_preload, ws_rt_session_path()))
		return IMAGE_OUTSIDE;
	if (!ws_is_hookable(path))
		return IMAGE_FOREIGN;
	return is_space_tight() ? IMAGE_TIGHT : IMAGE_HOOKABLE;
}

/* For a note about it: why it is started without hooks, unless its file says so itself. */
static int get_reason(enum image image)
{
	if (image == IMAGE_OUTSIDE)
		return EACCES;
	return image == IMAGE_TIGHT ? ENOMEM : 0;
}

/* ---- the environment ---- */

struct env {
	char **v;
	size_t bytes; /* of the mapping that holds all of it */
};

static const char *find_variable(char *const *envp, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; envp && envp[i]; i++)
		if (!strncmp(envp[i], name, n) && envp[i][n] == '=')
			return envp[i] + n + 1;
	return NULL;
}

static char *is_variable_entry(char **room, const char *name, const char *a, const char *sep,
			       const char *b)
{
	char *start = *room, *at = stpcpy(stpcpy(start, name), "=");

	at = stpcpy(stpcpy(stpcpy(at, a), sep), b);
	*room = at + 1;
	return start;
}

/* The program's LD_PRELOAD without our libraries; NULL when nothing is left. */
static char *remove_own_libraries(char **room, const char *value, const char *ours)
{
	size_t n = strlen(ours);
	const char *at = strstr(value, ours);
	char *start = *room, *from;

	from = stpcpy(start, "LD_PRELOAD=");
	if (!at)
		from = stpcpy(from, value);
	else {
		size_t before = (size_t)(at - value);

		while (before && (value[before - 1] == ':' || value[before - 1] == ' '))
			before--;
		memcpy(from, value, before);
		from += before;
		*from = 0;
		from = stpcpy(from, at + n);
	}
	*room = from + 1;
	return start[strlen("LD_PRELOAD=")] ? start : NULL;
}

/* The loader uses the last LD_PRELOAD in the environment. */
static const char *env_preload(char *const *envp, size_t *index)
{
	const char *found = NULL;

	for (size_t i = 0; envp && envp[i]; i++)
		if (!strncmp(envp[i], "LD_PRELOAD=", 11)) {
			*index = i;
			found = envp[i] + 11;
		}
	return found;
}

/* Our variables in an environment; each text is "" if the variable is absent. */
struct own_values {
	const char *preload, *nvtx, *cuda, *session;
};

static struct own_values find_own_values(void)
{
	const struct ws_arena *arena = ws_rt->arena;

	return (struct own_values){.preload = arena->text + arena->text_preload,
				   .nvtx = arena->text + arena->text_nvtx,
				   .cuda = arena->text + arena->text_cuda,
				   .session = ws_rt_session_path()};
}

/* Memory for a copy of `envp` with `more` variables and `bytes` of text; false when there is none.
 */
static bool copy_environment(char *const *envp, size_t bytes, struct env *out, size_t *count,
			     char **room)
{
	*count = 0;
	while (envp && envp[*count])
		++*count;
	bytes += (*count + 8) * sizeof(char *);
	out->v = ws_spare_take(bytes);
	if (!out->v)
		return false;
	out->bytes = bytes;
	*room = (char *)(out->v + *count + 8);
	if (*count)
		memcpy(out->v, envp, *count * sizeof(char *));
	return true;
}

static bool is_own_entry(const char *entry, const char *name, const char *value)
{
	size_t n = strlen(name);

	return *value && !strncmp(entry, name, n) && entry[n] == '=' &&
	       !strcmp(entry + n + 1, value);
}

/* An entry without `text` of ours at its end; NULL when it is only ours. */
static char *cut_entry(char *entry, const char *text, size_t length, char **room)
{
	size_t n = strlen(entry), name = strcspn(entry, "=") + 1;
	char *start = *room;

	if (n < name + length || memcmp(entry + n - length, text, length) != 0)
		return entry;
	n -= length;
	if (n == name)
		return NULL;
	memcpy(start, entry, n - 1); /* without what separates our part */
	start[n - 1] = 0;
	*room = start + n;
	return start;
}

static bool is_list_of_ours(const char *entry)
{
	return !strncmp(entry, "VK_", 3) || !strncmp(entry, "ACC_PROFLIB=", 12) ||
	       !strncmp(entry, "NCCL_PROFILER_PLUGIN=", 21);
}

/*
 * What the launcher has added to lists for Vulkan's loader (the layer's name, and the folder of the
 * hooks), for GCC's runtime of OpenACC, and for NCCL (the path of a hook).
 */
static char *restore_list(char *entry, const struct own_values *own, char **room)
{
	size_t folder = strcspn(own->preload, ":");
	const char *hook = strrchr(entry, '/');

	while (folder && own->preload[folder - 1] != '/')
		folder--;
	if (!strncmp(entry, "ACC_PROFLIB=", 12) || !strncmp(entry, "NCCL_PROFILER_PLUGIN=", 21)) {
		if (!hook || strncmp(hook, "/libwarpsight-", 14) || !folder ||
		    (size_t)(hook + 1 - entry) < folder ||
		    memcmp(hook + 1 - folder, own->preload, folder) != 0)
			return entry;
		return cut_entry(entry, hook + 1 - folder, folder + strlen(hook + 1), room);
	}
	if (!strncmp(entry, "VK_INSTANCE_LAYERS=", 19))
		return cut_entry(entry, WS_VULKAN_LAYER, strlen(WS_VULKAN_LAYER), room);
	if (folder > 1 &&
	    (!strncmp(entry, "VK_ADD_LAYER_PATH=", 18) || !strncmp(entry, "VK_LAYER_PATH=", 14)))
		return cut_entry(entry, own->preload, folder - 1, room);
	return entry;
}

/* The entry as it would be without us: the entry itself, a copy made in `room`, or NULL when it is
 * only ours. */
static char *restore_entry(char *entry, const struct own_values *own, char **room)
{
	if (!strncmp(entry, "LD_PRELOAD=", 11) && strstr(entry, own->preload))
		return remove_own_libraries(room, entry + 11, own->preload);
	if (!strncmp(entry, "ASAN_OPTIONS=", 13))
		return cut_entry(entry, WS_ASAN_ORDER, strlen(WS_ASAN_ORDER), room);
	if (is_list_of_ours(entry))
		return restore_list(entry, own, room);
	if (is_own_entry(entry, WS_ENV_SESSION, own->session) ||
	    is_own_entry(entry, "NVTX_INJECTION64_PATH", own->nvtx) ||
	    is_own_entry(entry, "CUDA_INJECTION64_PATH", own->cuda))
		return NULL;
	return entry;
}

/* A copy of `envp` as it would be without us. False when there is nothing of ours in it. */
static bool restore_environment(char *const *envp, struct env *out)
{
	const struct own_values own = find_own_values();
	const char *session = find_variable(envp, WS_ENV_SESSION);
	size_t count, kept = 0, bytes = 0;
	char *room;

	if (!session || strcmp(session, own.session))
		return false;
	for (size_t i = 0; envp[i]; i++)
		if (!strncmp(envp[i], "LD_PRELOAD=", 11) ||
		    !strncmp(envp[i], "ASAN_OPTIONS=", 13) || is_list_of_ours(envp[i]))
			bytes += strlen(envp[i]) + 1;
	if (!copy_environment(envp, bytes, out, &count, &room))
		return false;
	for (size_t i = 0; i < count; i++) {
		out->v[kept] = restore_entry(out->v[i], &own, &room);
		kept += out->v[kept] != NULL;
	}
	out->v[kept] = NULL;
	return true;
}

/* A copy of `envp` without our libraries; our other variables stay, for the programs that this one
 * starts. */
static bool withhold_libraries(char *const *envp, struct env *out)
{
	size_t at = 0, count;
	const char *old = env_preload(envp, &at);
	char *room;

	if (!old || !copy_environment(envp, strlen(old) + 16, out, &count, &room))
		return false;
	out->v[at] = remove_own_libraries(&room, old, find_own_values().preload);
	if (!out->v[at])
		out->v[at] = out->v[--count];
	out->v[count] = NULL;
	return true;
}

/*
 * A copy of `envp` with the session's variables, in memory of its own so that any length fits.
 * Returns false when `envp` can be used as it is: it belongs to a session already, there is none,
 * or it cannot be read.
 */
static bool complete_environment(char *const *envp, enum image image, struct env *out)
{
	struct own_values own;
	size_t count, at = 0;
	const char *old, *named;
	char *room;

	if (!ws_rt->arena || !(ws_rt_is_filtered() || ws_are_texts_readable(envp)))
		return false;
	if (image == IMAGE_OUTSIDE || ws_rt_is_over())
		return restore_environment(envp, out);
	if (image == IMAGE_FOREIGN || image == IMAGE_TIGHT)
		return withhold_libraries(envp, out);
	own = find_own_values();
	old = env_preload(envp, &at);
	named = find_variable(envp, WS_ENV_SESSION);
	/* A program may keep our variable but set or remove LD_PRELOAD. Another session's variables
	 * are left alone. */
	if (named && (strcmp(named, own.session) || (old && strstr(old, own.preload))))
		return false;
	if (!copy_environment(envp,
			      4096 + strlen(own.session) + 2 * strlen(own.preload) +
				      strlen(own.nvtx) + strlen(own.cuda) + (old ? strlen(old) : 0),
			      out, &count, &room))
		return false;
	if (old && *old && !strstr(old, own.preload))
		out->v[at] = is_variable_entry(&room, "LD_PRELOAD", old, ":", own.preload);
	else if (!old || !*old)
		out->v[old ? at : count++] =
			is_variable_entry(&room, "LD_PRELOAD", own.preload, "", "");
	if (*own.nvtx && !find_variable(envp, "NVTX_INJECTION64_PATH"))
		out->v[count++] =
			is_variable_entry(&room, "NVTX_INJECTION64_PATH", own.nvtx, "", "");
	if (*own.cuda && !find_variable(envp, "CUDA_INJECTION64_PATH") && !ws_find_gpu_tool(envp))
		out->v[count++] =
			is_variable_entry(&room, "CUDA_INJECTION64_PATH", own.cuda, "", "");
	if (!named)
		out->v[count++] = is_variable_entry(&room, WS_ENV_SESSION, own.session, "", "");
	out->v[count] = NULL;
	return true;
}

static void free_environment(struct env *env)
{
	ws_spare_give(env->v, env->bytes);
}

/* ---- exec ---- */

/*
 * The functions behind ours, looked up once at the start: a lookup takes the loader's lock, which
 * in a vfork child of a threaded program could be held by a thread that does not exist there.
 */
#define NEXT_FUNCTIONS(X) \
	X(execve)         \
	X(execvpe)        \
	X(fexecve)        \
	X(posix_spawn) X(posix_spawnp) X(system) X(popen) X(fork) X(clone) X(mlockall)
#define X(name) __typeof__(&name) name;
static struct {
	NEXT_FUNCTIONS(X)
} next;
#undef X

__attribute__((constructor(102))) static void find_next(void)
{
#define X(name) next.name = ws_find_next_symbol(#name);
	NEXT_FUNCTIONS(X)
#undef X
}

#define NEXT(name) (next.name ? next.name : (__typeof__(&name))ws_find_next_symbol(#name))

/* The path, or NULL when it cannot be read. */
static const char *check_path(const char *path)
{
	uintptr_t known = 0;

	return ws_rt_is_filtered() || ws_is_text_readable(path, &known) ? path : NULL;
}

/* Where execvp would find `file`; `file` itself when it would find nothing, NULL when it cannot be
 * read. */
static const char *search_path(const char *file, char *buf, size_t size)
{
	const char *path, *end;

	if (ws_rt_is_filtered())
		return file;
	if (!check_path(file) || strchr(file, '/') || !ws_are_texts_readable(environ))
		return check_path(file);
	path = find_variable(environ, "PATH");
	if (!path)
		return file;
	for (;; path = end + 1) {
		size_t n;
		struct stat st;

		end = path + strcspn(path, ":");
		n = (size_t)(end - path);
		if (n + strlen(file) + 2 <= size) {
			memcpy(buf, path, n);
			if (n)
				buf[n++] = '/';
			strcpy(buf + n, file);
			memset(&st, 0, sizeof(st));
			if (!ws_raw_syscall(SYS_newfstatat, AT_FDCWD, (long)buf, (long)&st, 0, 0,
					    0) &&
			    S_ISREG(st.st_mode) &&
			    !ws_raw_syscall(SYS_faccessat, AT_FDCWD, (long)buf, X_OK, 0, 0, 0))
				return buf;
		}
		if (!*end)
			return file;
	}
}

static int read_pid(void)
{
	return (int)ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* Called before and after a real exec of `path` (NULL when the path cannot be read); the second
 * runs only if the exec failed. */
static char *const *prepare_exec(const char *path, char *const *envp, struct env *made)
{
	struct ws_thread *thread;
	enum image image = IMAGE_HOOKABLE;

	made->v = NULL;
	ws_ignore_signal_for_exec();
	if (!ws_rt->arena && !ws_rt_is_collecting_slow() && !ws_rt->arena)
		return envp;
	if (path)
		image = classify_image(path);
	if (!ws_rt_is_filtered())
		ws_rt_write_process_note(WS_NOTE_EXEC, ws_rt_read_ticks(), path, read_pid(),
					 get_reason(image));
	if (!path || !complete_environment(envp, image, made))
		return envp;
	thread = ws_self;
	if (thread && thread->vfork_start && thread->paused &&
	    ws_rt_is_own_thread(thread)) { /* the memory belongs to the parent */
		thread->vfork_env = made->v;
		thread->vfork_env_bytes = made->bytes;
	}
	return made->v;
}

static int note_failed_exec(const char *path, struct env *made, int result)
{
	int error = errno;

	ws_handle_signal_again();
	if (made->v) {
		free_environment(made);
		if (ws_self)
			ws_self->vfork_env = NULL;
	}
	if (!ws_rt_is_filtered())
		ws_rt_write_process_note(WS_NOTE_EXEC_FAILED, ws_rt_read_ticks(), path, read_pid(),
					 error);
	errno = error;
	return result;
}

WS_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	const char *readable = check_path(path);
	struct env made;
	char *const *use = prepare_exec(readable, envp, &made);

	return note_failed_exec(readable, &made, NEXT(execve)(path, argv, use));
}

WS_EXPORT int execv(const char *path, char *const argv[])
{
	return execve(path, argv, environ);
}

WS_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
	char buf[4096];
	struct env made;
	const char *path = search_path(file, buf, sizeof(buf));
	char *const *use = prepare_exec(path, envp, &made);

	return note_failed_exec(path, &made, NEXT(execvpe)(file, argv, use));
}

WS_EXPORT int execvp(const char *file, char *const argv[])
{
	return execvpe(file, argv, environ);
}

WS_EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	char path[64];
	struct env made;
	char *const *use;

	if (!envp) /* which the C library refuses */
		return NEXT(fexecve)(fd, argv, envp);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	use = prepare_exec(path, envp, &made);
	return note_failed_exec(path, &made, NEXT(fexecve)(fd, argv, use));
}

WS_EXPORT int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
	int (*real)(int, const char *, char *const[], char *const[], int) =
		ws_find_next_symbol("execveat");
	const char *readable = check_path(path);
	struct env made;
	char *const *use = prepare_exec(readable, envp, &made);
	int r;

	if (real)
		return note_failed_exec(readable, &made, real(dir, path, argv, use, flags));
	r = (int)ws_raw_syscall(SYS_execveat, dir, (long)path, (long)argv, (long)use, flags, 0);
	errno = -r;
	return note_failed_exec(readable, &made, -1);
}

/* The variadic forms: count the arguments, collect them on the stack, pass them on. */
static __attribute__((noinline)) size_t count_args(va_list ap, const char *first)
{
	size_t n = 0;

	for (const char *text = first; text; text = va_arg(ap, char *))
		n++;
	return n;
}

#define COLLECT(first, argv, ap)                 \
	size_t n;                                \
	va_list ap;                              \
	char **argv;                             \
	va_start(ap, first);                     \
	n = count_args(ap, first);               \
	va_end(ap);                              \
	argv = alloca((n + 1) * sizeof(char *)); \
	va_start(ap, first);                     \
	argv[0] = (char *)first;                 \
	for (size_t i = 1; i <= n; i++)          \
	argv[i] = va_arg(ap, char *)

WS_EXPORT int execl(const char *path, const char *arg, ...)
{
	COLLECT(arg, argv, ap);
	va_end(ap);
	return execve(path, argv, environ);
}

WS_EXPORT int execlp(const char *file, const char *arg, ...)
{
	COLLECT(arg, argv, ap);
	va_end(ap);
	return execvpe(file, argv, environ);
}

WS_EXPORT int execle(const char *path, const char *arg, ...)
{
	char *const *envp;

	COLLECT(arg, argv, ap);
	envp = va_arg(ap, char *const *);
	va_end(ap);
	return execve(path, argv, envp);
}

/* ---- posix_spawn, system, popen ---- */

typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *,
		     const posix_spawnattr_t *, char *const[], char *const[]);

/* The arguments of posix_spawn and posix_spawnp. */
struct spawn {
	pid_t *pid;
	const char *file;
	const posix_spawn_file_actions_t *actions;
	const posix_spawnattr_t *attr;
	char *const *argv, *const *envp;
};

static int call_spawn(spawn_fn *real, const struct spawn *spawn, pid_t *pid, char *const *envp)
{
	int result;

	ws_ignore_signal_for_exec();
	result = real(pid, spawn->file, spawn->actions, spawn->attr, spawn->argv, envp);
	ws_handle_signal_again();
	return result;
}

static int spawn_process(spawn_fn *real, enum ws_traced fn, const char *path,
			 const struct spawn *spawn)
{
	char *const *envp = spawn->envp;
	struct env made = {0};
	enum image image;
	pid_t child = -1;
	uint64_t start;
	int r;

	if (!path || (!ws_rt->arena && !ws_rt_is_collecting_slow() && !ws_rt->arena))
		return call_spawn(real, spawn, spawn->pid, envp);
	image = classify_image(path);
	if (complete_environment(envp, image, &made))
		envp = made.v;
	start = ws_rt_read_ticks();
	r = call_spawn(real, spawn, &child, envp);
	ws_traced_call(fn, start, ws_rt_read_ticks(), r, r);
	if (made.v)
		free_environment(&made);
	if (!r)
		ws_rt_write_process_note(WS_NOTE_SPAWN, start, path, child, get_reason(image));
	if (spawn->pid && !r)
		*spawn->pid = child;
	return r;
}

WS_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			  const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	struct spawn spawn = {pid, path, actions, attr, argv, envp};

	return spawn_process(NEXT(posix_spawn), WS_TRACED_posix_spawn, check_path(path), &spawn);
}

WS_EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	struct spawn spawn = {pid, file, actions, attr, argv, envp};
	char buf[4096];

	return spawn_process(NEXT(posix_spawnp), WS_TRACED_posix_spawnp,
			     search_path(file, buf, sizeof(buf)), &spawn);
}

/*
 * system and popen read `environ`. A program that removed our variables gets them back for the
 * call, and if its session is over they are removed for the call. The next call uses the same
 * memory if `environ` is still the same. Another thread may be copying the pointers meanwhile, so a
 * replaced environment is freed only some calls later.
 */
struct lent {
	struct env env;
	size_t bytes; /* of the mapping of this */
	size_t count; /* of `source` */
	enum image image;
	_Atomic uint32_t users; /* calls that go on */
	char *source[];		/* what was in `environ` */
};

#define LENT_KEPT 16u

static struct lent *_Atomic last_lent, *_Atomic old_lent[LENT_KEPT];

/* An environment that is still in use is never freed. */
static void retire_lent(struct lent *lent)
{
	static _Atomic uint32_t turn;
	struct lent *old;

	if (!lent)
		return;
	old = atomic_exchange(&old_lent[atomic_fetch_add(&turn, 1) % LENT_KEPT], lent);
	if (!old || atomic_load(&old->users) || environ == old->env.v)
		return;
	free_environment(&old->env);
	ws_spare_give(old, old->bytes);
}

static struct lent *make_lent(size_t count, enum image image)
{
	size_t bytes = sizeof(struct lent) + count * sizeof(char *);
	struct lent *lent;
	struct env made;

	if (!complete_environment(environ, image, &made))
		return NULL;
	lent = ws_spare_take(bytes);
	if (!lent) {
		free_environment(&made);
		return NULL;
	}
	lent->env = made;
	lent->bytes = bytes;
	lent->count = count;
	lent->image = image;
	if (count)
		memcpy(lent->source, environ, count * sizeof(char *));
	return lent;
}

static struct lent *lend_environ(void)
{
	struct lent *lent = atomic_load_explicit(&last_lent, memory_order_acquire);
	enum image image;
	size_t count = 0;

	if (!ws_rt_is_filtered() && !ws_are_texts_readable(environ))
		return NULL;
	while (environ && environ[count])
		count++;
	if (!ws_rt->arena && !ws_rt_is_collecting_slow() && !ws_rt->arena)
		return NULL;
	image = ws_rt_is_over() ? IMAGE_OUTSIDE : classify_image("/bin/sh");
	if (!lent || lent->count != count || lent->image != image ||
	    (count && memcmp(lent->source, environ, count * sizeof(char *)))) {
		lent = make_lent(count, image);
		if (!lent)
			return NULL;
		retire_lent(atomic_exchange(&last_lent, lent));
	}
	atomic_fetch_add(&lent->users, 1);
	environ = lent->env.v;
	return lent;
}

/* The environment that programs started by system and popen inherit. */
static struct lent *lend_inheritance(void)
{
	ws_ignore_signal_for_exec();
	return lend_environ();
}

static void return_inheritance(struct lent *lent, char **own)
{
	ws_handle_signal_again();
	if (!lent)
		return;
	if (environ == lent->env.v)
		environ = own;
	atomic_fetch_sub(&lent->users, 1);
}

WS_EXPORT int system(const char *command)
{
	char **own = environ;
	struct lent *lent = lend_inheritance();
	uint64_t start = ws_rt_read_ticks();
	int r = NEXT(system)(command);

	return_inheritance(lent, own);
	ws_traced_call(WS_TRACED_system, start, ws_rt_read_ticks(), r, r < 0 ? errno : 0);
	return r;
}

WS_EXPORT FILE *popen(const char *command, const char *type)
{
	char **own = environ;
	struct lent *lent = lend_inheritance();
	uint64_t start = ws_rt_read_ticks();
	FILE *file = NEXT(popen)(command, type);

	return_inheritance(lent, own);
	ws_traced_call(WS_TRACED_popen, start, ws_rt_read_ticks(), (long)file, file ? 0 : errno);
	return file;
}

/* ---- locked memory ---- */

WS_EXPORT int mlockall(int flags)
{
	int result = NEXT(mlockall)(flags);

	if (!result)
		ws_rt_unlock_memory();
	return result;
}

/* ---- fork and its relatives ---- */

static pid_t note_fork(enum ws_traced fn, uint64_t start, pid_t pid)
{
	if (pid > 0) {
		ws_traced_call(fn, start, ws_rt_read_ticks(), pid, 0);
		ws_rt_write_process_note(WS_NOTE_FORK, start, NULL, pid, 0);
	} else if (pid < 0) {
		ws_traced_call(fn, start, ws_rt_read_ticks(), pid, errno);
	}
	return pid;
}

WS_EXPORT pid_t fork(void)
{
	bool interrupted = ws_rt_before_fork();
	uint64_t start = ws_rt_read_ticks();
	pid_t pid = NEXT(fork)();

	ws_rt_after_fork(interrupted, !pid);
	return note_fork(WS_TRACED_fork, start, pid);
}

WS_EXPORT pid_t _Fork(void)
{
	pid_t (*real)(void) = ws_find_next_symbol("_Fork");
	bool interrupted = ws_rt_before_fork();
	uint64_t start = ws_rt_read_ticks();
	pid_t pid = real ? real() : -1;

	if (!real)
		errno = ENOSYS;
	ws_rt_after_fork(interrupted, !pid);
	return note_fork(WS_TRACED_fork, start, pid);
}

struct termios;
struct winsize;
WS_EXPORT pid_t forkpty(int *master, char *name, const struct termios *termios,
			const struct winsize *winsize)
{
	pid_t (*real)(int *, char *, const struct termios *, const struct winsize *) =
		ws_find_next_symbol("forkpty");
	bool interrupted = ws_rt_before_fork();
	uint64_t start = ws_rt_read_ticks();
	pid_t pid = real ? real(master, name, termios, winsize) : -1;

	if (!real)
		errno = ENOSYS;
	ws_rt_after_fork(interrupted, !pid);
	return note_fork(WS_TRACED_forkpty, start, pid);
}

/*
 * A child of clone may run in this process's memory on the calling thread's thread-local storage,
 * where it would find the thread's state and write into its ring at the same time. Its events are
 * not recorded. A child whose parent waits for it (CLONE_VFORK) is treated like any vfork child.
 */
WS_EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	bool shares = (flags & (CLONE_VM | CLONE_SETTLS)) == CLONE_VM &&
		      (ws_rt->arena || ws_rt_is_collecting_slow());
	void *more[3]; /* parent_tid, tls, child_tid: `flags` says which of them are passed */
	uint64_t start = ws_rt_read_ticks();
	bool began;
	va_list ap;
	int pid;

	va_start(ap, arg);
	for (int i = 0; i < 3; i++)
		more[i] = va_arg(ap, void *);
	va_end(ap);
	began = shares && ws_rt_share_thread(true);
	pid = NEXT(clone)(fn, stack, flags, arg, more[0], more[1], more[2]);
	if (began &&
	    (pid < 0 || flags & CLONE_VFORK)) /* the child has ended, or has its own memory */
		ws_rt_share_thread(false);
	if (shares && pid > 0 && !(flags & CLONE_THREAD))
		ws_rt_write_process_note(WS_NOTE_FORK, start, NULL, pid, 0);
	return pid;
}

/*
 * vfork returns twice on one stack, so its wrapper is assembly: the return address waits in a
 * register that the kernel preserves while the child overwrites the stack below, and the C parts
 * run before the child exists and in the parent after it has gone.
 */
__attribute__((visibility("hidden"), used)) void ws_vfork_before(void)
{
	struct ws_thread *thread;

	if (!ws_rt->arena && !ws_rt_is_collecting_slow())
		return;
	thread = ws_rt_enter();
	if (!thread)
		return;
	ws_rt_leave(thread);
	thread->vfork_start = ws_rt_read_ticks();
	thread->paused++;
}

__attribute__((visibility("hidden"), used)) long ws_vfork_after(long result)
{
	struct ws_thread *thread = ws_self;

	if (thread && thread->vfork_start && thread->paused && ws_rt_is_own_thread(thread)) {
		uint64_t start = thread->vfork_start;

		thread->vfork_start = 0;
		thread->paused--;
		if (thread->vfork_env)
			free_environment(&(struct env){.v = thread->vfork_env,
						       .bytes = thread->vfork_env_bytes});
		thread->vfork_env = NULL;
		ws_traced_call(WS_TRACED_vfork, start, ws_rt_read_ticks(), result < 0 ? -1 : result,
			       result < 0 ? (int)-result : 0);
		if (result > 0)
			ws_rt_write_process_note(WS_NOTE_FORK, start, NULL, (int)result, 0);
	}
	if (result < 0) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

#if defined(__x86_64__)
__asm__(".text\n"
	".p2align 4\n"
	".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	subq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call ws_vfork_before\n"
	"	addq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	popq %rdi\n"
	"	movl $58, %eax\n" /* SYS_vfork */
	"	syscall\n"
	"	pushq %rdi\n"
	"	testq %rax, %rax\n"
	"	jz 1f\n"
	"	movq %rax, %rdi\n"
	"	subq $8, %rsp\n"
	"	call ws_vfork_after\n"
	"	addq $8, %rsp\n"
	"1:	ret\n"
	"	.cfi_endproc\n"
	".size vfork, .-vfork\n"
	".globl __vfork\n"
	".set __vfork, vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".p2align 4\n"
	".globl vfork\n"
	".type vfork, %function\n"
	"vfork:\n"
	"	hint #34\n" /* bti c */
	"	stp x29, x30, [sp, #-16]!\n"
	"	bl ws_vfork_before\n"
	"	ldp x29, x30, [sp], #16\n"
	"	mov x0, #0x4111\n" /* CLONE_VFORK | CLONE_VM | SIGCHLD */
	"	mov x1, xzr\n"
	"	mov x2, xzr\n"
	"	mov x3, xzr\n"
	"	mov x4, xzr\n"
	"	mov x8, #220\n" /* SYS_clone */
	"	svc 0\n"
	"	cbz x0, 1f\n"
	"	stp x29, x30, [sp, #-16]!\n"
	"	bl ws_vfork_after\n"
	"	ldp x29, x30, [sp], #16\n"
	"1:	ret\n"
	".size vfork, .-vfork\n"
	".globl __vfork\n"
	".set __vfork, vfork\n");
#endif
