/*
 * mask.c - see mask.h.
 *
 * Each rule looks at the text and marks the stretches that are secret; rules may overlap. Names are
 * taken apart into their parts ("--db-password", "DB_PASSWORD", "dbPassword"), so that
 * "--tokenizer" and "--max-tokens" are not mistaken for tokens. An argument with blanks in it may
 * be a shell command: its words are looked at as those of a command of their own.
 *
 * A word may be 128 KiB long, and the target waits: what a rule finds out about a stretch (where a
 * value ends, which letters a token has) is kept until the text behind it is reached, so that a
 * word with thousands of names or tokens takes no more than a few looks at each byte.
 */
#include "text/mask.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/choose.h"
#include "base/compiler.h"

enum {
	DEEPEST = 4,	     /* shell commands in shell commands */
	LONGEST_PROGRAM = 15 /* of the names of programs listed below */
};

struct word {
	const char *text;
	size_t length;
	char *marks;   /* one byte for each of the text: whether it is secret */
	bool is_shell; /* it is a shell command: the word behind -c */
};

static bool is_letter(char letter)
{
	return isalnum((unsigned char)letter);
}

static bool is_name_letter(char letter)
{
	return is_letter(letter) || (letter && strchr("_-.", letter));
}

static void mark(const struct word *word, size_t from, size_t to)
{
	if (from < to)
		memset(word->marks + from, 1, to - from);
}

static bool starts_with(const struct word *word, size_t at, const char *text)
{
	size_t length = strlen(text);

	return word->length - at >= length && !strncasecmp(word->text + at, text, length);
}

/* The length of the run of bytes from `at` on that are letters, digits or in `more`. */
static size_t measure_run(const struct word *word, size_t at, const char *more)
{
	size_t end = at;

	while (end < word->length && word->text[end] &&
	       (is_letter(word->text[end]) || strchr(more, word->text[end])))
		end++;
	return end - at;
}

/* ---- names ---- */

/* Whether the part of a name is one of the words of a list with a blank around each. */
static bool is_listed(const char *part, size_t length, const char *list)
{
	for (const char *at = list; *at;) {
		size_t word_length;

		at += strspn(at, " ");
		word_length = strcspn(at, " ");
		if (word_length == length && !strncasecmp(at, part, length))
			return true;
		at += word_length;
	}
	return false;
}

static const char secret_parts[] =
	"password passwd passphrase passcode pass pwd pw secret secrets token jwt credential "
	"credentials creds auth authorization bearer cookie apikey accesskey secretkey privatekey "
	"authtoken accesstoken clientsecret userpass passin passout psk signature authkey "
	"storepass keypass requirepass masterauth";
/* Among such words, "key" alone says nothing, but after these it does. */
static const char key_parts[] =
	"api access secret private auth account encryption signing session storage master shared "
	"client license service subscription deploy hmac aes";
/* Parts that say that the value describes the secret and is not the secret. */
static const char harmless_parts[] =
	"file files path dir stdin fd prompt command cmd helper type size len length limit count "
	"num max min id no expiry expires ttl url uri endpoint policy style format mode method "
	"name names env var from sock socket host port server version";

/* The length of the next part of a name: up to a sign, or to a capital after a small letter. */
static size_t measure_part(const char *name, size_t length)
{
	size_t end = 1;

	while (end < length && is_letter(name[end])) {
		bool starts_upper = isupper((unsigned char)name[end]),
		     after_upper = isupper((unsigned char)name[end - 1]),
		     before_lower = end + 1 < length && islower((unsigned char)name[end + 1]);

		if (starts_upper && (!after_upper || before_lower))
			break;
		end++;
	}
	return end;
}

static bool is_upper_case(const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (islower((unsigned char)name[i]))
			return false;
	return true;
}

/* Names that are written in one: PGPASSWORD, dbpasswd. */
static bool ends_in_secret(const char *part, size_t length)
{
	static const char *const ends[] = {"password", "passwd", "passphrase"};

	for (size_t i = 0; i < WS_COUNT(ends); i++) {
		size_t n = strlen(ends[i]);

		if (length > n && !strncasecmp(part + length - n, ends[i], n))
			return true;
	}
	return false;
}

bool ws_is_secret_name(const char *name, size_t length)
{
	bool secret = false, key_follows = false;
	size_t at = 0;

	if (is_listed(name, length, "PWD OLDPWD pwd"))
		return false;
	while (at < length) {
		size_t part;

		if (!is_letter(name[at])) {
			at++;
			continue;
		}
		part = measure_part(name + at, length - at);
		if (is_listed(name + at, part, harmless_parts))
			return false;
		secret |=
			is_listed(name + at, part, secret_parts) || ends_in_secret(name + at, part);
		if (is_listed(name + at, part, "key"))
			secret |= key_follows ||
				  (at && at + part == length && is_upper_case(name, length));
		key_follows = is_listed(name + at, part, key_parts);
		at += part;
	}
	return secret;
}

/* ---- NAME=VALUE and NAME: VALUE, anywhere ---- */

struct assignment {
	size_t name, name_end; /* where the name stands */
	size_t value;	       /* where the value begins */
	char quote;	       /* in which it stands, or 0 */
	bool header;	       /* "Name: value" */
};

static size_t skip_blanks(const struct word *word, size_t at)
{
	while (at < word->length && (word->text[at] == ' ' || word->text[at] == '\t'))
		at++;
	return at;
}

/* Skips a quotation mark, and the backslash before it; *quote gets which it was. */
static size_t skip_quote(const struct word *word, size_t at, char *quote)
{
	size_t from = at;

	*quote = 0;
	if (at < word->length && word->text[at] == '\\')
		at++;
	if (at >= word->length || !strchr("'\"", word->text[at]) || !word->text[at])
		return from;
	*quote = word->text[at];
	return at + 1;
}

/* Whether a name with a colon right before its value is one: "X-Api-Key:x", not "app.auth:main". */
static bool is_header_name(const char *name, size_t length)
{
	return memchr(name, '-', length) ||
	       is_listed(name, length, "authorization cookie password passwd secret token jwt");
}

/* Reads what follows the name at `found`: false when it is not given a value. */
static bool read_assignment(const struct word *word, struct assignment *found)
{
	char closing, sign;
	size_t at = skip_quote(word, found->name_end, &closing), next;

	if (closing)
		at = skip_blanks(word, at);
	next = skip_blanks(word, at);
	if (next >= word->length || !strchr("=:", word->text[next]) || !word->text[next])
		return false;
	sign = word->text[next];
	found->value = skip_quote(word, skip_blanks(word, next + 1), &found->quote);
	found->header = sign == ':' && !closing && !found->quote;
	if (found->quote || closing)
		return true;
	if (next > at) /* "name = value" only with quotes; else it is a sentence */
		return false;
	if (sign == '=') {
		found->value = next + 1;
		return true;
	}
	return found->value > next + 1 ||
	       is_header_name(word->text + found->name, found->name_end - found->name);
}

static bool has_blanks(const struct word *word)
{
	return memchr(word->text, ' ', word->length) || memchr(word->text, '\t', word->length) ||
	       memchr(word->text, '\n', word->length);
}

/* How the value of an assignment ends. */
enum value_kind { IN_QUOTES, IN_DOUBLE_QUOTES, HEADER_VALUE, PLAIN_VALUE, REST_OF_WORD, KINDS };

static const char *const value_stops[KINDS] = {"'", "\"", "\"'\n", "\"'&;,)}]# \t\n", ""};

/* What is known of the word while its assignments are looked for. */
struct assignments {
	const struct word *word;
	size_t scheme;	    /* where the first "://" is; the word's length without one */
	bool is_option;	    /* one that begins with a dash and has no blanks */
	size_t ends[KINDS]; /* where the last value of each kind ended */
};

static struct assignments begin_assignments(const struct word *word)
{
	const char *scheme = memmem(word->text, word->length, "://", 3);
	struct assignments all = {.word = word, .scheme = word->length};

	if (scheme)
		all.scheme = (size_t)(scheme - word->text);
	all.is_option = word->length && *word->text == '-' && !has_blanks(word);
	return all;
}

/* A value ends at its quote; where nothing surrounds it, at the end of the word. */
static enum value_kind classify_value(const struct assignments *all, const struct assignment *found)
{
	if (found->quote == '\'')
		return IN_QUOTES;
	if (found->quote)
		return IN_DOUBLE_QUOTES;
	if (found->header)
		return HEADER_VALUE;
	if (!all->word->is_shell && (!found->name || all->is_option) && all->scheme >= found->name)
		return REST_OF_WORD;
	return PLAIN_VALUE;
}

static size_t find_value_end(const struct word *word, size_t from, enum value_kind kind)
{
	const char *stops = value_stops[kind];
	size_t end = from;

	if (kind == REST_OF_WORD)
		return word->length;
	while (end < word->length && !(word->text[end] && strchr(stops, word->text[end])))
		end += 1 + (word->text[end] == '\\' && kind <= IN_DOUBLE_QUOTES);
	return ws_min(end, word->length);
}

/* Marks the value of an assignment. One that begins within a value of its kind ends with it, and is
 * marked already. */
static void mark_assigned(struct assignments *all, const struct assignment *found)
{
	enum value_kind kind = classify_value(all, found);

	if (found->value < all->ends[kind])
		return;
	all->ends[kind] = find_value_end(all->word, found->value, kind);
	mark(all->word, found->value, all->ends[kind]);
}

/* Whether the name is that of a secret in the query of an address: ?key=x, &sig=x. */
static bool is_query_secret(const struct word *word, const struct assignment *found)
{
	return found->name && strchr("?&", word->text[found->name - 1]) &&
	       word->text[found->name - 1] &&
	       is_listed(word->text + found->name, found->name_end - found->name,
			 "key sig signature code sas");
}

static void mark_assignments(const struct word *word)
{
	struct assignments all = begin_assignments(word);
	struct assignment found = {0};

	for (size_t at = 0; at < word->length; at = found.name_end + 1) {
		found.name = at;
		while (found.name < word->length && !is_name_letter(word->text[found.name]))
			found.name++;
		found.name_end = found.name + measure_run(word, found.name, "_-.");
		if (!read_assignment(word, &found))
			continue;
		if (ws_is_secret_name(word->text + found.name, found.name_end - found.name) ||
		    is_query_secret(word, &found))
			mark_assigned(&all, &found);
	}
}

/* ---- addresses ---- */

static bool is_number_or_port(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isdigit((unsigned char)text[i]) && !strchr(".:-", text[i]))
			return false;
	return true;
}

/* The part of a word without blanks or quotes in which an address stands. */
struct address {
	size_t end;
	size_t host; /* the last '@' in it, where the host begins; 0: there is none */
	bool marked; /* the rest of it up to the host is marked */
};

static void measure_address(const struct word *word, size_t at, struct address *address)
{
	*address = (struct address){.end = at};
	while (address->end < word->length && !strchr(" \t\n\"'?#<>", word->text[address->end])) {
		if (word->text[address->end] == '@')
			address->host = address->end;
		address->end++;
	}
}

static bool is_web_address(const struct word *word, size_t at)
{
	return at >= 7 && (!strncasecmp(word->text + at - 7, "http://", 7) ||
			   (at >= 8 && !strncasecmp(word->text + at - 8, "https://", 8)));
}

/* scheme://user:password@host, and https://token@host; `at` is behind "://". */
static void mark_user_info(const struct word *word, size_t at, struct address *address)
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
		mark(word, colon + 1, host);
		address->marked = true;
	} else if (colon == host && is_web_address(word, at)) {
		mark(word, at, host);
		address->marked = true;
	}
}

static void mark_addresses(const struct word *word)
{
	struct address address = {0};

	for (size_t at = 0; at + 3 <= word->length; at++)
		if (!memcmp(word->text + at, "://", 3))
			mark_user_info(word, at + 3, &address);
}

/* ---- tokens that are known by their form ---- */

static const struct token {
	const char *prefix;
	unsigned char least; /* letters behind the prefix */
	const char *more;    /* what they may be besides letters and digits */
} tokens[] = {
	{"ghp_", 16, ""},     {"gho_", 16, ""},	    {"ghu_", 16, ""},
	{"ghs_", 16, ""},     {"ghr_", 16, ""},	    {"github_pat_", 16, "_"},
	{"glpat-", 16, "_-"}, {"gldt-", 16, "_-"},  {"sk-", 16, "_-"},
	{"sk_live_", 10, ""}, {"sk_test_", 10, ""}, {"rk_live_", 10, ""},
	{"AKIA", 12, ""},     {"ASIA", 12, ""},	    {"AIza", 30, "_-"},
	{"xoxb-", 10, "-"},   {"xoxp-", 10, "-"},   {"xoxa-", 10, "-"},
	{"xoxs-", 10, "-"},   {"xapp-", 10, "-"},   {"hf_", 16, ""},
	{"npm_", 20, ""},     {"pypi-", 16, "_-"},  {"dop_v1_", 16, ""},
	{"SG.", 20, "._-"},   {"ya29.", 16, "_-"},  {"nvapi-", 16, "_-"},
	{"gsk_", 16, ""},     {"tskey-", 16, "-"},  {"hvs.", 16, "_-"},
	{"shpat_", 16, ""},   {"r8_", 20, ""},	    {"AGE-SECRET-KEY-", 16, ""},
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

static void measure_stretch(const struct word *word, size_t at, const char *more,
			    struct stretch *stretch)
{
	*stretch = (struct stretch){.end = at + measure_run(word, at, more)};
	for (size_t i = at; i < stretch->end; i++) {
		if (isdigit((unsigned char)word->text[i]))
			stretch->digits = i + 1;
		if (word->text[i] == '-')
			stretch->dashes = i + 1;
	}
}

/* Marks the token that has its prefix at `at`, if it is one. */
static void mark_token(const struct word *word, size_t at, const struct token *token,
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
	mark(word, at, stretch->end);
	stretch->marked = true;
}

/* "Bearer x", "Basic x": how credentials are written in headers. */
static void mark_credentials(const struct word *word, size_t at)
{
	static const char *const schemes[] = {"Bearer ", "Basic ", "Token "};

	for (size_t i = 0; i < WS_COUNT(schemes); i++) {
		size_t from = at + strlen(schemes[i]), run;

		if (!starts_with(word, at, schemes[i]))
			continue;
		from = skip_blanks(word, from);
		run = measure_run(word, from, "._-+/=~:");
		if (run >= 8 && (has_digit(word->text + from, run) || run >= 16))
			mark(word, from, from + run);
	}
}

static const char key_file[] = "-----BEGIN ";

/* Whether a key begins there, in the form in which files hold it. */
static bool is_private_key(const struct word *word, size_t at)
{
	static const char key[] = "PRIVATE KEY";

	return starts_with(word, at, key_file) &&
	       memmem(word->text + at, ws_min(word->length - at, (size_t)60), key, strlen(key));
}

static void mark_tokens(const struct word *word)
{
	struct stretch stretches[WS_COUNT(tokens)] = {{0}};

	for (size_t at = 0; at < word->length; at++) {
		if (at && is_letter(word->text[at - 1]))
			continue;
		if (is_private_key(word, at)) {
			mark(word, at + strlen(key_file), word->length);
			return;
		}
		for (size_t i = 0; i < WS_COUNT(tokens); i++)
			mark_token(word, at, &tokens[i], &stretches[i]);
		mark_credentials(word, at);
	}
}

/* ---- options, by the program that they are given to ---- */

/* Options of programs that are one letter. For programs that are not listed, -p takes a password
 * and -u a user, with a password or without. */
enum way {
	WAY_USUAL,
	WAY_COMMA, /* -u user,password */
	WAY_SLASH, /* /p:password */
	WAY_OWNER, /* user/password@database */
	WAY_RAR	   /* -hpPASSWORD */
};

static const struct program {
	const char *names;
	const char *passwords; /* their value is one, in the same word or the next */
	const char *users;     /* their value is user:password */
	const char *harmless;  /* although others' would be a secret */
	bool starts_others;    /* what follows its options is a command of its own */
	enum way way;
} programs[] = {
	{"mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck mysqlpump mysqlsh mariadb "
	 "mariadb-dump mariadb-admin mycli sshpass 7z 7za 7zr 7zz mongo mongosh "
	 "mongodump mongorestore mongoexport mongoimport cqlsh ncftp ncftpget ncftpput rdesktop",
	 "p", "", "u"},
	{"zip unzip sqlcmd bcp tsql isql mosquitto_pub mosquitto_sub ipmitool", "P", "", "p"},
	{"redis-cli", "a", "", "pu"},
	{"ldapsearch ldapadd ldapmodify ldapdelete ldappasswd ldapwhoami", "w", "", "p"},
	{"snmpget snmpwalk snmpset snmpbulkwalk", "AX", "", ""},
	{"openssl", "k", "", "p"},
	{"ssh-keygen", "NP", "", "pu"},
	{"curl", "b", "uUE", "p"}, /* cookies; a file of them is masked, too */
	{"http https", "", "a", "p"},
	{"smbclient rpcclient net", "", "uU", "p"},
	{"lftp", "", "u", "p", false, WAY_COMMA},
	{"rar unrar", "p", "", "u", false, WAY_RAR},
	{"xfreerdp xfreerdp3 wlfreerdp", "", "", "pu", false, WAY_SLASH},
	{"sqlplus sqlldr rman exp imp expdp impdp", "", "", "pu", false, WAY_OWNER},
	{"mkdir cp install rsync scp sftp squeue sinfo sacct pytest make ninja ps pgrep pkill lsof "
	 "ss netstat tar node perl ruby git patch renice cargo npm pip conda read declare dd mount "
	 "gcc "
	 "g++ clang cc ld kubectl tmux screen iperf iperf3 nc psql pg_dump pg_restore ping nmap "
	 "less "
	 "vim grep top htop java rpm dpkg xargs wget mvn gradle gradlew cmake df ln find egrep",
	 "", "", "pPu", false},
	{"ssh sbatch srun salloc qsub bsub perf warpsight nsys ncu profile gdb lldb strace ltrace "
	 "taskset chrt ionice valgrind",
	 "", "", "p", true},
};

/* Programs that take secrets without an option. */
static const struct operand {
	const char *names;
	const char *next; /* words behind which the next is one */
	const char *last; /* words behind which the last is one */
	char letter;	  /* the same for an option of one letter */
} operands[] = {
	{"htpasswd", "", "", 'b'},
	{"wandb snyk vault bw ngrok", "", "login auth unlock authtoken add-authtoken", 0},
	{"rabbitmqctl", "", "add_user change_password authenticate_user", 0},
	{"mysqladmin nmcli redis-cli", "password auth wifi-sec.psk", "", 0},
	{"pdftk", "user_pw owner_pw input_pw", "", 0},
	{"openssl", "", "passwd", 0},
	{"wpa_passphrase mkpasswd", "", "wpa_passphrase mkpasswd", 0},
};

static const struct program any_program = {"", "p", "u", ""};

/* The end of a path, which may be the name of a program. */
static const char *find_base(const struct word *word, size_t *length)
{
	const char *base = memrchr(word->text, '/', word->length);

	base = base ? base + 1 : word->text;
	*length = word->length - (size_t)(base - word->text);
	return base;
}

/* The program that a word names, by the end of its path; NULL when it is not listed. */
static const struct program *find_program(const struct word *word)
{
	size_t length;
	const char *base = find_base(word, &length);

	if (length > LONGEST_PROGRAM)
		return NULL;
	for (size_t i = 0; i < WS_COUNT(programs); i++)
		if (is_listed(base, length, programs[i].names))
			return &programs[i];
	return NULL;
}

static const struct operand *find_operand(const struct word *word)
{
	size_t length;
	const char *base = find_base(word, &length);

	for (size_t i = 0; length <= LONGEST_PROGRAM && i < WS_COUNT(operands); i++)
		if (is_listed(base, length, operands[i].names))
			return &operands[i];
	return NULL;
}

/* Whether the value of a -p of an unknown program is none: a number, ports, a path, an option. */
static bool is_plain_value(const struct word *word)
{
	return !word->length || strchr("-/.~", *word->text) ||
	       is_number_or_port(word->text, word->length) ||
	       (isdigit((unsigned char)*word->text) && memchr(word->text, ':', word->length));
}

/* Whether what follows -p or -P of an unknown program in the same word looks like a password and
 * like no name, number or path: -pS3cret, -P'a!bcde', not -print, -p8080, -Pversion=1.2. */
static bool is_glued_password(const struct word *word, char letter)
{
	static const char signs[] = "!@#$%^&*?+";
	const char *value = word->text + 2;
	size_t length = word->length - 2;
	bool digits = false, letters = false, strange = false;

	if (!strchr("pP", letter) || length < 6 || memchr(value, '=', length) ||
	    memchr(value, '/', length) || is_number_or_port(value, length))
		return false;
	for (size_t i = 0; i < length; i++) {
		digits |= isdigit((unsigned char)value[i]) != 0;
		letters |= isalpha((unsigned char)value[i]) != 0;
		strange |= value[i] && strchr(signs, value[i]);
	}
	return strange || (digits && letters);
}

/* user:password, or user%password: what is behind the first of them. Numbers are ids, what begins
 * with a sign is a format or a path. */
static void mark_user(const struct word *word, size_t from, const struct program *program)
{
	const char *signs = program->way == WAY_COMMA ? ",:" : ":%";
	size_t at = from;

	if (from < word->length && strchr("+./", word->text[from]))
		return;
	while (at < word->length && !strchr(signs, word->text[at]))
		at++;
	if (at < word->length && !is_number_or_port(word->text + from, word->length - from))
		mark(word, at + 1, word->length);
}

/* What the word after this one is. */
enum next_word { NEXT_ANY, NEXT_SECRET, NEXT_PERHAPS_SECRET, NEXT_USER };

/* -p, -psecret, -p=secret, -u user:secret: one dash and a letter. */
static enum next_word mark_short_option(const struct word *word, const struct program *program)
{
	char letter = word->text[1];
	bool alone = word->length == 2;
	size_t value = 2 + (word->length > 2 && word->text[2] == '=');

	if (strchr(program->harmless, letter))
		return NEXT_ANY;
	if (!alone && program == &any_program && is_glued_password(word, letter))
		mark(word, value, word->length);
	if (strchr(program->passwords, letter)) {
		if (!alone && (program != &any_program || value == 3))
			mark(word, value, word->length);
		else if (alone && program != &any_program)
			return NEXT_SECRET;
		else if (alone)
			return NEXT_PERHAPS_SECRET;
		return NEXT_ANY;
	}
	if (alone && (letter == 'u' || strchr(program->users, letter)))
		return NEXT_USER;
	if (!alone && strchr(program->users, letter) && program != &any_program)
		mark_user(word, value, program);
	return NEXT_ANY;
}

/* --user, --password and the like whose value is the next word, or behind a '='. */
static enum next_word mark_long_option(const struct word *word, const struct program *program)
{
	const char *value = memchr(word->text, '=', word->length);
	size_t dashes = strspn(word->text, "-"), length = word->length;

	if (value)
		length = (size_t)(value - word->text);
	if (dashes + measure_run(word, dashes, "_-.") < length)
		return NEXT_ANY;
	if (is_listed(word->text + dashes, length - dashes,
		      "user username userpwd proxy-user credential-pair")) {
		if (!value)
			return NEXT_USER;
		mark_user(word, length + 1, program);
	} else if (!value && ws_is_secret_name(word->text + dashes, length - dashes)) {
		return NEXT_SECRET;
	}
	return NEXT_ANY;
}

static bool is_long_option(const struct word *word)
{
	return word->length > 2 && word->text[0] == '-';
}

static enum next_word mark_option(const struct word *word, const struct program *program)
{
	enum next_word next = NEXT_ANY;

	if (word->length < 2 || word->text[0] != '-')
		return NEXT_ANY;
	if (word->text[1] != '-')
		next = mark_short_option(word, program);
	if (next == NEXT_ANY && is_long_option(word))
		next = mark_long_option(word, program);
	return next;
}

static void mark_value(const struct word *word, enum next_word kind, const struct program *program)
{
	if (kind == NEXT_SECRET && !(word->length > 2 && !memcmp(word->text, "--", 2)))
		mark(word, 0, word->length);
	else if (kind == NEXT_PERHAPS_SECRET && !is_plain_value(word))
		mark(word, 0, word->length);
	else if (kind == NEXT_USER)
		mark_user(word, 0, program);
}

/* Words that hold a secret in the way of their program alone. */
static void mark_own_way(const struct word *word, const struct program *program)
{
	const char *sign = memchr(word->text, '/', word->length), *host;

	if (program->way == WAY_RAR && starts_with(word, 0, "-hp"))
		mark(word, 3, word->length);
	else if (program->way == WAY_SLASH &&
		 (starts_with(word, 0, "/p:") || starts_with(word, 0, "/gp:")))
		mark(word, (size_t)((char *)memchr(word->text, ':', word->length) + 1 - word->text),
		     word->length);
	else if (program->way == WAY_OWNER && sign && sign != word->text &&
		 !strchr("-@.", *word->text)) {
		host = memchr(sign, '@', word->length - (size_t)(sign - word->text));
		mark(word, (size_t)(sign + 1 - word->text),
		     host ? (size_t)(host - word->text) : word->length);
	}
}

/* ---- commands ---- */

static void mark_shell_command(const struct word *word, int depth);

/* Whether a word is neither an option nor, perhaps, the value of one. */
static bool is_operand(const struct word *words, size_t i)
{
	const struct word *before = words;

	if (i)
		before = &words[i - 1];
	return *words[i].text != '-' &&
	       (*before->text != '-' || memchr(before->text, '=', before->length));
}

/* "config user.password x", "configure set aws_secret_access_key x" */
static bool is_setting(const struct word *words, size_t i)
{
	size_t before = i;

	while (before && *words[before - 1].text == '-')
		before--;
	return before && *words[i].text != '-' &&
	       is_listed(words[before - 1].text, words[before - 1].length, "set config") &&
	       ws_is_secret_name(words[i].text, words[i].length);
}

static bool has_letter(const struct word *word, char letter)
{
	return letter && word->length > 1 && *word->text == '-' && word->text[1] != '-' &&
	       memchr(word->text, letter, word->length);
}

/* Marks the secrets among words that belong to no option. */
static void mark_operands(const struct word *words, size_t count)
{
	const struct operand *operand = NULL;
	bool last = false;

	for (size_t i = 0; i + 1 < count; i++) {
		const struct word *word = &words[i];
		const struct operand *named = find_operand(word);
		const char *base;
		size_t length;

		if (named && *word->text != '-')
			operand = named;
		if (is_setting(words, i))
			mark_value(&words[i + 1], NEXT_SECRET, &any_program);
		if (!operand)
			continue;
		if (is_listed(word->text, word->length, operand->next))
			mark_value(&words[i + 1], NEXT_SECRET, &any_program);
		base = find_base(word, &length);
		last |= is_listed(base, length, operand->last) || has_letter(word, operand->letter);
	}
	if (last && *words[count - 1].text != '-')
		mark(&words[count - 1], 0, words[count - 1].length);
}

static void mark_command(const struct word *words, size_t count, int depth)
{
	const struct program *program = &any_program;
	enum next_word next = NEXT_ANY;

	for (size_t i = 0; i < count; i++) {
		const struct word *word = &words[i];
		const struct program *named = find_program(word);

		mark_value(word, next, program);
		if (named && *word->text != '-' && next == NEXT_ANY)
			program = named;
		else if (program->starts_others && is_operand(words, i))
			program = &any_program;
		else
			mark_own_way(word, program);
		next = mark_option(word, program);
		mark_assignments(word);
		mark_addresses(word);
		mark_tokens(word);
		if (has_blanks(word) && depth < DEEPEST)
			mark_shell_command(word, depth + 1);
	}
	mark_operands(words, count);
}

/* The end of the word of a shell command that begins at `at`: *from and the return value surround
 * it without its quotes. */
static size_t find_shell_word(const struct word *word, size_t at, size_t *from)
{
	char quote = word->text[at];
	size_t end = at;

	*from = at;
	if (quote == '"' || quote == '\'') {
		const char *closing = memchr(word->text + at + 1, quote, word->length - at - 1);

		*from = at + 1;
		if (closing)
			return (size_t)(closing - word->text);
		return word->length;
	}
	while (end < word->length && !strchr(" \t\n;|&()<>", word->text[end]))
		end++;
	return end;
}

/* Looks at a text with blanks as a shell would: word by word, a new command after a ; or |. */
static void mark_shell_command(const struct word *word, int depth)
{
	struct word *parts = NULL;
	size_t count = 0, cap = 0, at = 0;

	while (at < word->length) {
		size_t from, end;

		if (!word->text[at] || strchr(" \t\n;|&()<>", word->text[at])) {
			if (!strchr(" \t<>", word->text[at])) {
				mark_command(parts, count, depth);
				count = 0;
			}
			at++;
			continue;
		}
		end = find_shell_word(word, at, &from);
		ws_grow(parts, cap, count + 1);
		parts[count++] = (struct word){word->text + from, end - from, word->marks + from};
		at = end + (from > at);
	}
	mark_command(parts, count, depth);
	free(parts);
}

static void put_masked(struct ws_text *out, const struct word *word)
{
	for (size_t i = 0; i < word->length; i++) {
		if (!word->marks[i])
			ws_text_add(out, word->text + i, 1);
		else if (!i || !word->marks[i - 1])
			ws_text_puts(out, "***");
	}
	ws_text_add(out, "", 1);
}

static bool follows_c(const struct word *words, size_t count)
{
	return count && words[count - 1].length >= 2 && words[count - 1].text[0] == '-' &&
	       words[count - 1].text[words[count - 1].length - 1] == 'c';
}

void ws_mask_words(struct ws_text *out, const char *text, size_t length)
{
	char *marks = ws_calloc(length + 1, 1);
	struct word *words = NULL;
	size_t count = 0, cap = 0;

	for (size_t at = 0; at < length; at += words[count - 1].length + 1) {
		ws_grow(words, cap, count + 1);
		words[count] = (struct word){text + at, strnlen(text + at, length - at), marks + at,
					     .is_shell = follows_c(words, count)};
		count++;
	}
	mark_command(words, count, 0);
	for (size_t i = 0; i < count; i++)
		put_masked(out, &words[i]);
	free(words);
	free(marks);
}
