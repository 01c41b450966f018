/*
 * follow.c - keeps the whole process tree in the session: whatever way a program starts another,
 * the new image gets the session's environment, even if the program cleared its own; and the
 * recorder is told what was started, so that it can say which images could not be recorded (static,
 * set-user-ID, of another architecture).
 *
 * The environment is completed in the arguments of exec and posix_spawn, never in the program's own
 * memory; only system() and popen(), which take no environment, get a completed `environ` for the
 * length of the call when the program had removed ours. Images that our libraries cannot be loaded
 * into get the program's own LD_PRELOAD, so that their loader does not complain.
 *
 * Between vfork and exec the child runs on the parent's thread state: `paused` keeps everything but
 * exec notes from being recorded there.
 */
#include <alloca.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/gpu_tools.h"
#include "inject/bind.h"
#include "inject/rt.h"
#include "inject/traced.h"

extern char **environ;

ws_traced_fn *ws_traced_hook;
ws_sample_fn *ws_sample_hook;
ws_stack_fn *ws_stack_hook;

/* ---- what kind of image is it? ---- */

enum image {
	IMAGE_HOOKABLE,
	IMAGE_FOREIGN /* loading our libraries would fail, noisily or fatally */
};

static enum image classify_elf(long fd, const char *head, long n)
{
	const Elf64_Ehdr *header = (const void *)head;
	char interp[256];
	Elf64_Phdr ph;

	if (n < (long)sizeof(*header) || header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_ident[EI_DATA] != ELFDATA2LSB)
		return IMAGE_FOREIGN;
#if defined(__x86_64__)
	if (header->e_machine != EM_X86_64)
		return IMAGE_FOREIGN;
#elif defined(__aarch64__)
	if (header->e_machine != EM_AARCH64)
		return IMAGE_FOREIGN;
#endif
	for (int i = 0; i < header->e_phnum && i < 64; i++) {
		if (ws_raw_syscall(SYS_pread64, fd, (long)&ph, sizeof(ph),
				   (long)(header->e_phoff + (uint64_t)i * header->e_phentsize), 0,
				   0) != (long)sizeof(ph))
			break;
		if (ph.p_type != PT_INTERP)
			continue;
		n = ws_raw_syscall(SYS_pread64, fd, (long)interp, sizeof(interp) - 1,
				   (long)ph.p_offset, 0, 0);
		if (n <= 0)
			break;
		interp[n] = 0;
		return strstr(interp, "musl") ? IMAGE_FOREIGN : IMAGE_HOOKABLE;
	}
	return IMAGE_HOOKABLE; /* static: there is no loader that could complain */
}

/* Whether our libraries can be named in LD_PRELOAD for `path`, following #! lines. Unreadable files
 * are taken for hookable. */
static enum image classify_image(const char *path)
{
	char head[512], interpreter[256];
	enum image image = IMAGE_HOOKABLE;

	for (int depth = 0; depth < 4; depth++) {
		long fd = ws_raw_syscall(SYS_openat, AT_FDCWD, (long)path,
					 O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0, 0),
		     n;
		char *text, *end;

		if (fd < 0)
			return IMAGE_HOOKABLE;
		n = ws_raw_syscall(SYS_read, fd, (long)head, sizeof(head) - 1, 0, 0, 0);
		if (n >= 4 && !memcmp(head, ELFMAG, 4))
			image = classify_elf(fd, head, n);
		ws_raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
		if (n < 3 || head[0] != '#' || head[1] != '!')
			return image;
		head[n] = 0;
		text = head + 2 + strspn(head + 2, " \t");
		end = text + strcspn(text, " \t\r\n");
		if (end == text || end - text >= (long)sizeof(interpreter))
			return IMAGE_HOOKABLE;
		memcpy(interpreter, text, (size_t)(end - text));
		interpreter[end - text] = 0;
		path = interpreter;
	}
	return IMAGE_HOOKABLE;
}

/* ---- the environment ---- */

struct env {
	char **v;
	size_t bytes; /* of the mapping that holds it all */
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

/* The loader goes by the last LD_PRELOAD there is. */
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

/*
 * A copy of `envp` with the session's variables, in memory of its own so that any length fits.
 * Returns false when `envp` can be used as it is: it belongs to a session already, or there is
 * none.
 */
static bool complete_environment(char *const *envp, enum image image, struct env *out)
{
	struct ws_arena *arena = ws_rt->arena;
	size_t count = 0, bytes = 4096, at = 0;
	const char *old, *preload, *nvtx, *cuda, *session = ws_rt_session_path();
	const char *named = find_variable(envp, WS_ENV_SESSION);
	char *room;
	long p;

	if (!arena || atomic_load_explicit(&arena->closed, memory_order_relaxed))
		return false;
	preload = arena->text + arena->text_preload;
	nvtx = arena->text + arena->text_nvtx;
	cuda = arena->text + arena->text_cuda;
	old = env_preload(envp, &at);
	/* A program may keep our variable and yet set or remove LD_PRELOAD; another session's
	 * variables are left alone. */
	if (named && image == IMAGE_HOOKABLE &&
	    (strcmp(named, session) || (old && strstr(old, preload))))
		return false;
	if (image == IMAGE_FOREIGN && !old)
		return false;
	while (envp && envp[count])
		count++;
	bytes += (count + 8) * sizeof(char *) + strlen(session) + 2 * strlen(preload) +
		 strlen(nvtx) + strlen(cuda) + (old ? strlen(old) : 0);
	p = ws_raw_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p < 0 && p > -4096)
		return false;
	out->v = (char **)p;
	out->bytes = bytes;
	room = (char *)(out->v + count + 8);
	if (count)
		memcpy(out->v, envp, count * sizeof(char *));
	if (image == IMAGE_FOREIGN) {
		out->v[at] = remove_own_libraries(&room, old, preload);
		if (!out->v[at])
			out->v[at] = out->v[--count];
		out->v[count] = NULL;
		return true;
	}
	if (old && *old && !strstr(old, preload))
		out->v[at] = is_variable_entry(&room, "LD_PRELOAD", old, ":", preload);
	else if (!old || !*old)
		out->v[old ? at : count++] =
			is_variable_entry(&room, "LD_PRELOAD", preload, "", "");
	if (*nvtx && !find_variable(envp, "NVTX_INJECTION64_PATH"))
		out->v[count++] = is_variable_entry(&room, "NVTX_INJECTION64_PATH", nvtx, "", "");
	if (*cuda && !find_variable(envp, "CUDA_INJECTION64_PATH") && !ws_find_gpu_tool(envp))
		out->v[count++] = is_variable_entry(&room, "CUDA_INJECTION64_PATH", cuda, "", "");
	if (!named)
		out->v[count++] = is_variable_entry(&room, WS_ENV_SESSION, session, "", "");
	out->v[count] = NULL;
	return true;
}

static void free_environment(struct env *env)
{
	ws_raw_syscall(SYS_munmap, (long)env->v, (long)env->bytes, 0, 0, 0, 0);
}

/* ---- exec ---- */

/*
 * The functions behind ours, looked up once at the start: a lookup takes the loader's lock, which
 * in a vfork child of a threaded program could be held by a thread that is not there.
 */
#define NEXT_FUNCTIONS(X) \
	X(execve) X(execvpe) X(fexecve) X(posix_spawn) X(posix_spawnp) X(system) X(popen) X(fork)
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

/* Where execvp would find `file`; `file` itself when it would find nothing. */
static const char *search_path(const char *file, char *buf, size_t size)
{
	const char *path = find_variable(environ, "PATH"), *end;

	if (!file || strchr(file, '/') || !path)
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

/* Before and after a real exec of `path`; `after` only runs when it failed. */
static char *const *prepare_exec(const char *path, char *const *envp, struct env *made)
{
	struct ws_thread *thread;

	made->v = NULL;
	if (!ws_rt->arena && !ws_rt_is_collecting_slow() && !ws_rt->arena)
		return envp;
	ws_rt_write_process_note(WS_NOTE_EXEC, path, read_pid(), 0);
	if (!path || !complete_environment(envp, classify_image(path), made))
		return envp;
	thread = ws_self;
	if (thread && thread->vfork_start &&
	    thread->paused) { /* the memory is the parent's, where it would stay */
		thread->vfork_env = made->v;
		thread->vfork_env_bytes = made->bytes;
	}
	return made->v;
}

static int note_failed_exec(const char *path, struct env *made, int result)
{
	int error = errno;

	if (made->v) {
		free_environment(made);
		if (ws_self)
			ws_self->vfork_env = NULL;
	}
	ws_rt_write_process_note(WS_NOTE_EXEC_FAILED, path, read_pid(), error);
	errno = error;
	return result;
}

WS_EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	struct env made;
	char *const *use = prepare_exec(path, envp, &made);

	return note_failed_exec(path, &made, NEXT(execve)(path, argv, use));
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

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	use = prepare_exec(path, envp, &made);
	return note_failed_exec(path, &made, NEXT(fexecve)(fd, argv, use));
}

WS_EXPORT int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
	int (*real)(int, const char *, char *const[], char *const[], int) =
		ws_find_next_symbol("execveat");
	struct env made;
	char *const *use = prepare_exec(path, envp, &made);
	int r;

	if (real)
		return note_failed_exec(path, &made, real(dir, path, argv, use, flags));
	r = (int)ws_raw_syscall(SYS_execveat, dir, (long)path, (long)argv, (long)use, flags, 0);
	errno = -r;
	return note_failed_exec(path, &made, -1);
}

/* The variadic forms: count, collect on the stack, hand on. */
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

static int spawn_process(spawn_fn *real, enum ws_traced fn, const char *path, pid_t *pid,
			 const char *file, const posix_spawn_file_actions_t *actions,
			 const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	struct env made = {0};
	pid_t child = -1;
	uint64_t start;
	int r;

	if (!ws_rt->arena && !ws_rt_is_collecting_slow() && !ws_rt->arena)
		return real(pid, file, actions, attr, argv, envp);
	if (complete_environment(envp, classify_image(path), &made))
		envp = made.v;
	start = ws_rt_read_ticks();
	r = real(&child, file, actions, attr, argv, envp);
	ws_traced_call(fn, start, ws_rt_read_ticks(), r, r);
	if (made.v)
		free_environment(&made);
	if (!r)
		ws_rt_write_process_note(WS_NOTE_SPAWN, path, child, 0);
	if (pid && !r)
		*pid = child;
	return r;
}

WS_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			  const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	return spawn_process(NEXT(posix_spawn), WS_TRACED_posix_spawn, path, pid, path, actions,
			     attr, argv, envp);
}

WS_EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	char buf[4096];

	return spawn_process(NEXT(posix_spawnp), WS_TRACED_posix_spawnp,
			     search_path(file, buf, sizeof(buf)), pid, file, actions, attr, argv,
			     envp);
}

/*
 * system and popen read `environ`. A program that removed our variables gets them back for the
 * call, from memory that is never freed: another thread may copy the pointers meanwhile. The next
 * call uses it again if `environ` is still the same.
 */
struct lent {
	char **v;
	size_t count;
	char *source[]; /* what was in `environ` */
};

static char **lend_environ(void)
{
	static struct lent *_Atomic last;
	struct lent *lent = atomic_load_explicit(&last, memory_order_acquire);
	struct env made;
	size_t count = 0;
	long p;

	while (environ && environ[count])
		count++;
	if ((!ws_rt->arena && !ws_rt_is_collecting_slow()) ||
	    atomic_load_explicit(&ws_rt->arena->closed, memory_order_relaxed))
		return NULL;
	if (lent && lent->count == count &&
	    (!count || !memcmp(lent->source, environ, count * sizeof(char *))))
		return environ = lent->v;
	if (!complete_environment(environ, IMAGE_HOOKABLE, &made))
		return NULL;
	p = ws_raw_syscall(SYS_mmap, 0, (long)(sizeof(*lent) + count * sizeof(char *)),
			   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p > 0 || p < -4095) {
		lent = (struct lent *)p;
		lent->v = made.v;
		lent->count = count;
		if (count)
			memcpy(lent->source, environ, count * sizeof(char *));
		atomic_store_explicit(&last, lent, memory_order_release);
	}
	return environ = made.v;
}

static void return_environ(char **lent, char **own)
{
	if (lent && environ == lent)
		environ = own;
}

WS_EXPORT int system(const char *command)
{
	char **own = environ, **lent = lend_environ();
	uint64_t start = ws_rt_read_ticks();
	int r = NEXT(system)(command);

	return_environ(lent, own);
	ws_traced_call(WS_TRACED_system, start, ws_rt_read_ticks(), r, r < 0 ? errno : 0);
	return r;
}

WS_EXPORT FILE *popen(const char *command, const char *type)
{
	char **own = environ, **lent = lend_environ();
	uint64_t start = ws_rt_read_ticks();
	FILE *file = NEXT(popen)(command, type);

	return_environ(lent, own);
	ws_traced_call(WS_TRACED_popen, start, ws_rt_read_ticks(), (long)file, file ? 0 : errno);
	return file;
}

/* ---- fork and its relatives ---- */

static pid_t note_fork(enum ws_traced fn, uint64_t start, pid_t pid)
{
	if (pid > 0) {
		ws_traced_call(fn, start, ws_rt_read_ticks(), pid, 0);
		ws_rt_write_process_note(WS_NOTE_FORK, NULL, pid, 0);
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

	if (thread && thread->vfork_start && thread->paused) {
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
			ws_rt_write_process_note(WS_NOTE_FORK, NULL, (int)result, 0);
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
