/*
 * messages.h - how many bytes collectives moved, where NCCL or a framework's trace recorded it
 * (table `collective`).
 */
#ifndef WS_ANALYZE_MESSAGES_H
#define WS_ANALYZE_MESSAGES_H

#include "analyze/model.h"

struct ws_messages {
	uint64_t count, bytes; /* of operations whose bytes are known */
};

/* For operations that began in the model's window, on one GPU or, with NULL, on all. */
struct ws_messages ws_count_messages(const struct ws_model *model, const struct ws_work_gpu *gpu);
/* " and 4.0 KiB": the bytes per operation, as part of a sentence; "" where not known. Owned by the
 * caller. */
char *ws_describe_message(const struct ws_messages *messages);

#endif
