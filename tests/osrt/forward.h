/* forward.h - what the generated forward.c is made of; see forward.py. */
#include <features.h>
#undef __USE_EXTERN_INLINES /* getline itself, not what the header makes of it */

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#if defined(__x86_64__)
#include <sys/io.h>
#endif

#include "ring/osrt_record.h"

#pragma GCC diagnostic ignored "-Wnonnull"

typedef uint64_t call_fn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

struct forward {
	const char *symbol;
	unsigned function;
	int args;
	void *stand_in;
	call_fn *call;
	uint64_t (*cast)(uint64_t); /* to the function's result type and back */
};

extern const struct forward forwards[];
extern const size_t forwards_n;
extern uint64_t sent[8], got[8], give;
extern int give_errno;

ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, __SOCKADDR_ARG addr,
		       socklen_t *len);
int __poll_chk(struct pollfd *fds, nfds_t n, int limit, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *mask,
		size_t room);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
size_t __fread_chk(void *to, size_t room, size_t size, size_t n, FILE *file);
size_t __fread_unlocked_chk(void *to, size_t room, size_t size, size_t n, FILE *file);
char *__fgets_chk(char *to, size_t room, int n, FILE *file);
char *__fgets_unlocked_chk(char *to, size_t room, int n, FILE *file);
wchar_t *__fgetws_chk(wchar_t *to, size_t room, int n, FILE *file);
wchar_t *__fgetws_unlocked_chk(wchar_t *to, size_t room, int n, FILE *file);
int pivot_root(const char *root, const char *old);
#if defined(__x86_64__)
int arch_prctl(int code, unsigned long addr);
int uselib(const char *path);
long nfsservctl(int cmd, void *arg, void *result);
#endif
