/*
 * mask_word.h - a word in which the rules of mask.c and mask_tokens.c mark what is secret.
 */
#ifndef WS_TEXT_MASK_WORD_H
#define WS_TEXT_MASK_WORD_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct ws_word {
	const char *text;
	size_t length;
	char *marks;   /* one byte for each of the text: whether it is secret */
	bool is_shell; /* it is a shell command: the word behind -c */
};

static inline bool ws_is_word_letter(char letter)
{
	return isalnum((unsigned char)letter);
}

static inline bool ws_is_name_letter(char letter)
{
	return ws_is_word_letter(letter) || (letter && strchr("_-.", letter));
}

static inline bool ws_is_number_or_port(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isdigit((unsigned char)text[i]) && !strchr(".:-", text[i]))
			return false;
	return true;
}

static inline void ws_mark(const struct ws_word *word, size_t from, size_t to)
{
	if (from < to)
		memset(word->marks + from, 1, to - from);
}

static inline bool ws_word_has(const struct ws_word *word, size_t at, const char *text)
{
	size_t length = strlen(text);

	return word->length - at >= length && !strncasecmp(word->text + at, text, length);
}

/* The length of the run of bytes from `at` on that are letters, digits or in `more`. */
static inline size_t ws_measure_run(const struct ws_word *word, size_t at, const char *more)
{
	size_t end = at;

	while (end < word->length && word->text[end] &&
	       (ws_is_word_letter(word->text[end]) || strchr(more, word->text[end])))
		end++;
	return end - at;
}

static inline size_t ws_skip_blanks(const struct ws_word *word, size_t at)
{
	while (at < word->length && (word->text[at] == ' ' || word->text[at] == '\t'))
		at++;
	return at;
}

/* Mark the passwords of users in addresses: scheme://user:password@host, user:password@host. */
void ws_mark_addresses(const struct ws_word *word);
/* Mark the tokens that are known by their form, and the credentials of headers. */
void ws_mark_tokens(const struct ws_word *word);

#endif
