/* interposer.c - a library of the user's own, preloaded beside ours, that interposes some of the
 * same functions and counts. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((visibility("default"))) int interposer_counts[3];

__attribute__((visibility("default"))) ssize_t read(int fd, void *buf, size_t n)
{
	ssize_t (*next)(int, void *, size_t) =
		(ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");

	interposer_counts[0]++;
	return next(fd, buf, n);
}

/* The lock without the try: ours must not pass it by. */
__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static int (*next)(pthread_mutex_t *);

	if (!next)
		next = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	interposer_counts[1]++;
	return next(mutex);
}

__attribute__((visibility("default"))) int pthread_cond_signal(pthread_cond_t *c)
{
	int (*next)(pthread_cond_t *) =
		(int (*)(pthread_cond_t *))dlsym(RTLD_NEXT, "pthread_cond_signal");

	interposer_counts[2]++;
	return next(c);
}
