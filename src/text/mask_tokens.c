/* mask_tokens.c - secrets that are known by their form: users in addresses, ghp_..., AKIA...,
 * "Bearer ...", keys. */
#include "base/choose.h"
#include "base/compiler.h"
#include "text/mask_word.h"

static const struct token {
	const char *prefix;
	unsigned char least; /* letters behind the prefix */
	const char *more;    /* what they may be besides letters and digits */
} tokens[] = {
	{"ghp_", 16, ""},
	{"gho_", 16, ""},
	{"ghu_", 16, ""},
	{"ghs_", 16, ""},
	{"ghr_", 16, ""},
	{"github_pat_", 16, "_"},
	{"glpat-", 16, "_-"},
	{"gldt-", 16, "_-"},
	{"sk-", 16, "_-"},
	{"sk_live_", 10, ""},
	{"sk_test_", 10, ""},
	{"rk_live_", 10, ""},
	{"AKIA", 12, ""},
	{"ASIA", 12, ""},
	{"AIza", 30, "_-"},
	{"xoxb-", 10, "-"},
	{"xoxp-", 10, "-"},
	{"xoxa-", 10, "-"},
	{"xoxs-", 10, "-"},
	{"xapp-", 10, "-"},
	{"hf_", 16, ""},
	{"npm_", 20, ""},
	{"pypi-", 16, "_-"},
	{"dop_v1_", 16, ""},
	{"SG.", 20, "._-"},
	{"ya29.", 16, "_-"},
	{"nvapi-", 16, "_-"},
	{"gsk_", 16, ""},
	{"tskey-", 16, "-"},
	{"hvs.", 16, "_-"},
	{"shpat_", 16, ""},
	{"r8_", 20, ""},
	{"AGE-SECRET-KEY-", 16, ""},
	{"dckr_pat_", 16, "_-"},
	{"glptt-", 16, "_-"},
	{"glrt-", 16, "_-"},
	{"whsec_", 16, ""},
	{"rk_test_", 10, ""},
	{"sq0atp-", 16, "_-"},
	{"sq0csp-", 16, "_-"},
	{"NRAK-", 16, ""},
	{"PMAK-", 16, "-"},
	{"lin_api_", 16, ""},
	{"rubygems_", 16, ""},
	{"figd_", 16, "_-"},
	{"sntrys_", 16, "_-+/="},
	{"ntn_", 16, ""},
	{"pscale_tkn_", 16, "_-"},
	{"ATATT", 16, "_-="},
	{"xoxe.", 10, ".-"},
	{"xai-", 16, ""},
	{"rpa_", 20, ""},
	{"dapi", 32, ""},
	{"key-", 32, ""},
	{"1//0", 20, "_-"},
	{"hooks.slack.com/services/", 10, "/"}, /* addresses that let anyone in who knows them */
	{"discord.com/api/webhooks/", 10, "/_-"},
	{"api.telegram.org/bot", 10, ":_-"},
	{"eyJ", 16, "_-.="}, /* JSON in base64: a web token */
};

static bool has_digit(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (isdigit((unsigned char)text[i]))
			return true;
	return false;
}

/* The last stretch of letters of one of the tokens: those behind a further prefix in it end where
 * it does. */
struct stretch {
	size_t end;
	size_t digits, dashes; /* the positions behind its last digit and its last dash; or 0 */
	bool marked;	       /* the rest of it is marked */
};

static void measure_stretch(const struct ws_word *word, size_t at, const char *more,
			    struct stretch *stretch)
{
	*stretch = (struct stretch){.end = at + ws_measure_run(word, at, more)};
	for (size_t i = at; i < stretch->end; i++) {
		if (isdigit((unsigned char)word->text[i]))
			stretch->digits = i + 1;
		if (word->text[i] == '-')
			stretch->dashes = i + 1;
	}
}

/* Marks the token that has its prefix at `at`, if it is one. */
static void mark_token(const struct ws_word *word, size_t at, const struct token *token,
		       struct stretch *stretch)
{
	size_t prefix = strlen(token->prefix), from = at + prefix;

	if (word->length - at < prefix || memcmp(word->text + at, token->prefix, prefix))
		return;
	if (from > stretch->end || !stretch->end)
		measure_stretch(word, from, token->more, stretch);
	if (stretch->marked || stretch->end - from < token->least)
		return;
	/* Words with dashes have no digits: sk-learn-with-some-name. */
	if (stretch->digits <= from && stretch->dashes > from)
		return;
	ws_mark(word, at, stretch->end);
	stretch->marked = true;
}

/* "Bearer x", "Basic x": how credentials are written in headers. */
static void mark_credentials(const struct ws_word *word, size_t at)
{
	static const char *const schemes[] = {"Bearer ", "Basic ", "Token "};

	for (size_t i = 0; i < WS_COUNT(schemes); i++) {
		size_t from = at + strlen(schemes[i]), run;

		if (!ws_word_has(word, at, schemes[i]))
			continue;
		from = ws_skip_blanks(word, from);
		run = ws_measure_run(word, from, "._-+/=~:");
		if (run >= 8 && (has_digit(word->text + from, run) || run >= 16))
			ws_mark(word, from, from + run);
	}
}

static const char key_file[] = "-----BEGIN ";

/* Whether a key begins there, in the form in which files hold it. */
static bool is_private_key(const struct ws_word *word, size_t at)
{
	static const char key[] = "PRIVATE KEY";

	return ws_word_has(word, at, key_file) &&
	       memmem(word->text + at, ws_min(word->length - at, (size_t)60), key, strlen(key));
}

void ws_mark_tokens(const struct ws_word *word)
{
	struct stretch stretches[WS_COUNT(tokens)] = {{0}};

	for (size_t at = 0; at < word->length; at++) {
		if (at && ws_is_word_letter(word->text[at - 1]))
			continue;
		if (is_private_key(word, at)) {
			ws_mark(word, at + strlen(key_file), word->length);
			return;
		}
		for (size_t i = 0; i < WS_COUNT(tokens); i++)
			mark_token(word, at, &tokens[i], &stretches[i]);
		mark_credentials(word, at);
	}
}

/* ---- addresses ---- */

/* The part of a word without blanks or quotes in which an address stands. */
struct address {
	size_t end;
	size_t host; /* the last '@' in it, where the host begins; 0: there is none */
	bool marked; /* the rest of it up to the host is marked */
};

static void measure_address(const struct ws_word *word, size_t at, struct address *address)
{
	*address = (struct address){.end = at};
	while (address->end < word->length && !strchr(" \t\n\"'?#<>", word->text[address->end])) {
		if (word->text[address->end] == '@')
			address->host = address->end;
		address->end++;
	}
}

static bool is_web_address(const struct ws_word *word, size_t at)
{
	return at >= 7 && (!strncasecmp(word->text + at - 7, "http://", 7) ||
			   (at >= 8 && !strncasecmp(word->text + at - 8, "https://", 8)));
}

/* scheme://user:password@host, and https://token@host; `at` is behind "://". */
static void mark_user_info(const struct ws_word *word, size_t at, struct address *address)
{
	size_t host, colon;

	if (at >= address->end)
		measure_address(word, at, address);
	host = address->host;
	if (address->marked || host <= at) /* no '/' is expected in a password, but it may be */
		return;
	for (colon = at; colon < host && !strchr(":/", word->text[colon]); colon++)
		;
	if (colon < host && word->text[colon] == ':' &&
	    !(memchr(word->text + colon, '/', host - colon) &&
	      isdigit((unsigned char)word->text[colon + 1]))) {
		ws_mark(word, colon + 1, host);
		address->marked = true;
	} else if (colon == host && is_web_address(word, at)) {
		ws_mark(word, at, host);
		address->marked = true;
	}
}

/* user:password@host without a scheme; `host` is the '@'. Not image:tag@sha256:..., nor times. */
static void mark_bare_user(const struct ws_word *word, size_t host)
{
	size_t colon = host, user;

	while (colon && !strchr(" \t\n\"'/=,;@(<>:", word->text[colon - 1]))
		colon--;
	if (colon < 2 || colon == host || word->text[colon - 1] != ':' ||
	    host + 1 >= word->length || !ws_is_word_letter(word->text[host + 1]) ||
	    ws_word_has(word, host + 1, "sha256:"))
		return;
	for (user = colon - 1; user && ws_is_name_letter(word->text[user - 1]); user--)
		;
	if (user == colon - 1 || word->text[user] == '-' ||
	    (user && strchr(":/", word->text[user - 1])) ||
	    ws_is_number_or_port(word->text + user, host - user))
		return;
	ws_mark(word, colon, host);
}

void ws_mark_addresses(const struct ws_word *word)
{
	struct address address = {0};

	for (size_t at = 0; at < word->length; at++)
		if (word->text[at] == '@')
			mark_bare_user(word, at);
	for (size_t at = 0; at + 3 <= word->length; at++)
		if (!memcmp(word->text + at, "://", 3))
			mark_user_info(word, at + 3, &address);
}
