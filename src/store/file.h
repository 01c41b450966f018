/*
 * file.h - file operations of the store: whole reads and writes that a signal or a size limit
 * cannot interrupt halfway, creating a report's file, and its lock.
 */
#ifndef WS_FILE_H
#define WS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Read all `size` bytes at offset `at`; returns 0, or -1 with errno (EIO for a file that ends
 * early). */
int ws_pread_all(int fd, void *to, size_t size, uint64_t at);
/* Write all `size` bytes; a file size limit is an error (EFBIG), not a SIGXFSZ. Some bytes may have
 * been written on failure. */
int ws_pwrite_all(int fd, const void *from, size_t size, uint64_t at);
/* fallocate, for which a file size limit is an error too. 0, or -1 with errno. */
int ws_guarded_fallocate(int fd, int mode, uint64_t at, uint64_t size);

/*
 * Create and lock the file of a report as ws_writer_create promises: it appears under its name only
 * once it is locked and begins with the `size` bytes at `start`. Returns the descriptor, or -1 with
 * a message.
 */
int ws_file_create(const char *path, bool overwrite, const void *start, size_t size,
		   struct ws_err *err);

/* Whether a recorder holds the lock of this open file. */
bool ws_file_is_locked(int fd);

/* 1 locked (until the descriptor is closed), 0 a recorder has it, -1 error. */
int ws_lock_file(int fd);

#endif
