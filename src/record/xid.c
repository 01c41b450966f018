/* xid.c - see xid.h. */
#include "record/xid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define LOOK_NS UINT64_C(100000000)
enum { RECORD_MOST = 8192, FACILITY_SHIFT = 3 };

struct ws_xid {
	int fd;
	uint64_t looked;
};

struct ws_xid *ws_xid_open(struct ws_err *err)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct ws_xid *xid;
	char record[RECORD_MOST];

	/* Where the log is closed to a user, some kernels say so only when it is read. */
	if (fd < 0 || (read(fd, record, sizeof(record)) < 0 && errno == EPERM) ||
	    lseek(fd, 0, SEEK_END) < 0) {
		ws_fail_errno(err,
			      "--trigger=xid: the kernel's log (/dev/kmsg), in which the driver "
			      "reports errors of GPUs, cannot be read");
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	xid = ws_calloc(1, sizeof(*xid));
	xid->fd = fd;
	return xid;
}

void ws_xid_close(struct ws_xid *xid)
{
	if (!xid)
		return;
	close(xid->fd);
	free(xid);
}

/* "4,1234,5678,-;NVRM: Xid (PCI:0000:01:00): 79, ..." Whoever may write to the log could write
 * that too; such records have a facility other than the kernel's, 0. */
int ws_xid_parse(const char *record, size_t len)
{
	static const char sign[] = "NVRM: Xid (";
	const char *text = memchr(record, ';', len), *end = record + len;
	unsigned long priority = strtoul(record, NULL, 10);
	int number = 0;

	if (!text || priority >> FACILITY_SHIFT || (size_t)(end - ++text) < sizeof(sign) ||
	    memcmp(text, sign, sizeof(sign) - 1))
		return -1;
	text = memchr(text, ')', (size_t)(end - text));
	if (!text || end - text < 4 || memcmp(text, "): ", 3))
		return -1;
	for (text += 3; text < end && *text >= '0' && *text <= '9' && number < 100000; text++)
		number = number * 10 + *text - '0';
	return number ? number : -1;
}

bool ws_xid_look(struct ws_xid *xid, uint64_t now)
{
	char record[RECORD_MOST];
	bool found = false;
	ssize_t n;

	if (now < xid->looked + LOOK_NS)
		return false;
	xid->looked = now;
	/* EPIPE: some were overwritten before they could be read. */
	while ((n = read(xid->fd, record, sizeof(record) - 1)) > 0 || (n < 0 && errno == EPIPE)) {
		if (n < 0)
			continue;
		record[n] = 0;
		found |= ws_xid_parse(record, (size_t)n) > 0;
	}
	return found;
}
