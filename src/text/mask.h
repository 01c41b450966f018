/*
 * mask.h - command lines without the secrets in them: passwords, tokens and keys become ***.
 *
 * Known are options and variables whose names say so (--password=x, --api-key x, DB_PASSWORD=x,
 * "token": "x", Authorization: Bearer x), short options of programs that take a password (mysql
 * -px, sshpass -p x), users with theirs (curl -u user:x, https://user:x@host) and the forms of
 * well-known tokens (ghp_..., sk-..., AKIA..., JSON web tokens), in arguments and in shell commands
 * and code that an argument holds. It is a list of habits, not a proof: what looks like any other
 * word stays. In doubt a word is masked.
 */
#ifndef WS_TEXT_MASK_H
#define WS_TEXT_MASK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

/* Append the words of a command, NUL-separated in `words` (`length` bytes), masked; they are
 * separated and ended by NULs as before. */
void ws_mask_words(struct ws_text *out, const char *words, size_t length);

/* Whether a variable or option of this name holds a secret, judging by its name. */
bool ws_is_secret_name(const char *name, size_t length);

#endif
