/*
 * arena.h - the recorder's side of the shared memory: it makes the file, keeps memory ready before
 * it is needed, and removes the file and the files that dead recorders left.
 */
#ifndef WS_RECORD_ARENA_H
#define WS_RECORD_ARENA_H

#include <sys/types.h>

#include "base/err.h"
#include "ring/ring.h"

struct ws_doorman;

struct ws_area {
	struct ws_arena *arena;
	int fd;	     /* of a file: holds the lock that shows that the owner lives */
	bool sealed; /* else it is a file */
	int socket;  /* of a sealed arena: the socket at the path */
	struct ws_doorman *doorman;
	char path[512];
	bool text_full; /* some text did not fit */
	/*
	 * What the header of the arena said about its layout when it was made. The target can
	 * overwrite the header, so the recorder uses this copy.
	 */
	uint64_t size;
	uint32_t chunk_first, chunk_end; /* chunks are chunk_first <= number < chunk_end */
	uint32_t buffer_first, buffer_count;
	uint64_t pid_ns; /* the recorder's pid namespace */
	uid_t owner;	 /* only processes of this user may register; (uid_t)-1: anyone's */
};

/*
 * Make the arena with room for `budget` bytes of chunks, in sealed memory where /dev/shm has room
 * for it, else in a file in $TMPDIR or /tmp. `owner` is the user the target will run as, (uid_t)-1
 * for our own. Removes arenas whose recorders are gone. 0, or -1 with a message.
 */
int ws_area_create(struct ws_area *area, uint64_t budget, uid_t owner, struct ws_err *err);
/*
 * Use an arena that is already mapped and whose header can still be trusted. The caller has set
 * `area->arena` and `area->fd`.
 */
void ws_area_adopt(struct ws_area *area);
/* Add `s` (with its NUL) to the arena's texts; returns its offset. Call it only before the target
 * starts. Returns 0 and sets text_full when the arena is full. */
uint32_t ws_area_text(struct ws_area *area, const char *text, size_t len);
/* Keep a few MiB of chunks ready, so that hooks need not allocate them. Cheap when there is nothing
 * to do. */
void ws_area_feed(struct ws_area *area);
/*
 * Restore the file's length if someone has made it shorter. What was behind the new end is lost,
 * and nothing more is recorded. True when it was shorter.
 */
bool ws_area_repair(struct ws_area *area);
/* Call `fn` for each folder in which arenas may be. */
void ws_area_each_folder(void (*fn)(void *ctx, const char *folder), void *ctx);
/* Let in processes that can reach a sealed arena only by its socket, with the rights that the
 * caller has now. Called before the target starts. */
void ws_area_admit(struct ws_area *area);
/* Whether a recorder holds the arena with this path. */
bool ws_area_is_live(const char *path);
/* Tell hooks that the recorder has finished, unmap, remove the file. */
void ws_area_destroy(struct ws_area *area);

#endif
