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

#include <stdlib.h>

#include "base/choose.h"
#include "base/compiler.h"
#include "text/mask_word.h"

enum {
	DEEPEST = 4,	     /* shell commands in shell commands */
	LONGEST_PROGRAM = 15 /* of the names of programs listed below */
};

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
	"password passwords passwd passphrase passcode pass pwd pw secret secrets token jwt otp "
	"credential "
	"credentials creds auth authorization bearer cookie apikey accesskey secretkey privatekey "
	"authtoken accesstoken clientsecret userpass passin passout psk signature authkey "
	"storepass keypass requirepass masterauth dbpass rootpass dbpw sessionid jsessionid "
	"phpsessid";
/* Among such words, "key" alone says nothing, but after these it does. */
static const char key_parts[] =
	"api access secret private auth account encryption signing session storage master shared "
	"client license service subscription deploy hmac aes priv";
/* Parts that say that the value describes the secret and is not the secret. */
static const char harmless_parts[] =
	"file files path dir stdin fd prompt command cmd helper type size len length limit count "
	"num max min id no expiry expires ttl url uri endpoint policy style format mode method "
	"name names env var from sock socket host port server version";

/* The length of the next part of a name: up to a sign, or to a capital after a small letter. */
static size_t measure_part(const char *name, size_t length)
{
	size_t end = 1;

	while (end < length && ws_is_word_letter(name[end])) {
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

/* Names that are written in one: PGPASSWORD, dbpasswd, ENCRYPTIONKEY. */
static bool ends_in_secret(const char *part, size_t length)
{
	static const char *const ends[] = {"password", "passwd", "passphrase"};

	for (size_t i = 0; i < WS_COUNT(ends); i++) {
		size_t n = strlen(ends[i]);

		if (length > n && !strncasecmp(part + length - n, ends[i], n))
			return true;
	}
	return length > 3 && !strncasecmp(part + length - 3, "key", 3) &&
	       is_listed(part, length - 3, key_parts);
}

bool ws_is_secret_name(const char *name, size_t length)
{
	bool secret = false, key_follows = false;
	size_t at = 0;

	if (is_listed(name, length, "PWD OLDPWD pwd"))
		return false;
	while (at < length) {
		size_t part;

		if (!ws_is_word_letter(name[at])) {
			at++;
			continue;
		}
		part = measure_part(name + at, length - at);
		if (is_listed(name + at, part, harmless_parts))
			return false;
		secret |=
			is_listed(name + at, part, secret_parts) || ends_in_secret(name + at, part);
		if (is_listed(name + at, part, "key pat"))
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

static bool is_quote(char letter)
{
	return letter && strchr("'\"`", letter);
}

/* Skips a quotation mark, and the backslash before it; *quote gets which it was. */
static size_t skip_quote(const struct ws_word *word, size_t at, char *quote)
{
	size_t from = at;

	*quote = 0;
	if (at < word->length && word->text[at] == '\\')
		at++;
	if (at >= word->length || !is_quote(word->text[at]))
		return from;
	*quote = word->text[at];
	return at + 1;
}

/* Whether a name with a colon right before its value is one: "X-Api-Key:x", not "app.auth:main". */
static bool is_header_name(const char *name, size_t length)
{
	return memchr(name, '-', length) ||
	       is_listed(name, length,
			 "authorization cookie password passwd pass pwd secret token jwt");
}

/* Skips the letters that say of which kind a text in quotes is: b'...', rf"...". */
static size_t skip_prefix(const struct ws_word *word, size_t at)
{
	size_t end = at;

	while (end < word->length && end < at + 2 && word->text[end] &&
	       strchr("bBrRuUfF", word->text[end]))
		end++;
	return end < word->length && is_quote(word->text[end]) ? end : at;
}

/* Skips what stands between a name in quotes and its value: a ] or the sign. Returns 0 where it is
 * given none. */
static size_t skip_sign(const struct ws_word *word, const struct assignment *found, size_t at,
			bool quoted)
{
	bool bracket = quoted && at < word->length && word->text[at] == ']';

	at = ws_skip_blanks(word, at + bracket);
	if (at >= word->length || !word->text[at])
		return 0;
	if (word->text[at] == '=' && at + 1 < word->length && word->text[at + 1] == '>')
		return at + 2; /* name => value */
	if (strchr("=:", word->text[at]))
		return at + 1;
	if (word->text[at] == ',' && quoted) /* set("name", "value") */
		return is_quote(word->text[ws_skip_blanks(word, at + 1)]) ? at + 1 : 0;
	if (word->text[at] == '>' && found->name && word->text[found->name - 1] == '<')
		return at + 1; /* <name>value */
	return 0;
}

/* Reads what follows the name at `found`: false when it is not given a value. */
static bool read_assignment(const struct ws_word *word, struct assignment *found)
{
	char closing, sign;
	size_t at = skip_quote(word, found->name_end, &closing),
	       next = skip_sign(word, found, at, closing != 0);

	if (!next)
		return false;
	sign = word->text[next - 1];
	found->value = skip_prefix(word, ws_skip_blanks(word, next));
	found->value = skip_quote(word, found->value, &found->quote);
	found->header = sign == ':' && !closing && !found->quote;
	if (found->quote || closing)
		return true;
	if (next > at + 1) /* "name = value" only with quotes; else it is a sentence */
		return false;
	if (sign == '=' || sign == '>') {
		found->value = next;
		return true;
	}
	return found->value > next ||
	       is_header_name(word->text + found->name, found->name_end - found->name);
}

/* PASSWORD 'x', PASSWORD('x') and IDENTIFIED BY 'x', as in SQL. */
static bool read_clause(const struct ws_word *word, struct assignment *found, bool identified)
{
	const char *name = word->text + found->name;
	size_t length = found->name_end - found->name, at;

	if (!is_listed(name, length, "password passphrase") &&
	    !(identified && is_listed(name, length, "by")))
		return false;
	at = ws_skip_blanks(word, found->name_end);
	at += at < word->length && word->text[at] == '(';
	found->value = skip_quote(word, at, &found->quote);
	found->header = false;
	return found->quote && at > found->name_end;
}

static bool has_blanks(const struct ws_word *word)
{
	return memchr(word->text, ' ', word->length) || memchr(word->text, '\t', word->length) ||
	       memchr(word->text, '\n', word->length);
}

/* How the value of an assignment ends. */
enum value_kind {
	IN_QUOTES,
	IN_DOUBLE_QUOTES,
	IN_BACKQUOTES,
	HEADER_VALUE,
	PLAIN_VALUE,
	REST_OF_WORD,
	KINDS
};

static const char *const value_stops[KINDS] = {"'", "\"", "`", "\"'\n", "\"'&;,)}]#< \t\n", ""};

/* What is known of the word while its assignments are looked for. */
struct assignments {
	const struct ws_word *word;
	size_t scheme;	    /* where the first "://" is; the word's length without one */
	bool is_option;	    /* one that begins with a dash and has no blanks */
	size_t ends[KINDS]; /* where the last value of each kind ended */
};

static struct assignments begin_assignments(const struct ws_word *word)
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
		return found->quote == '`' ? IN_BACKQUOTES : IN_DOUBLE_QUOTES;
	if (found->header)
		return found->name || all->word->is_shell ? HEADER_VALUE : REST_OF_WORD;
	if (!all->word->is_shell && (!found->name || all->is_option) && all->scheme >= found->name)
		return REST_OF_WORD;
	return PLAIN_VALUE;
}

/* The end of what is in quotes from `from` on. */
static size_t find_quote(const struct ws_word *word, size_t from, char quote)
{
	const char *end = NULL;

	if (from < word->length)
		end = memchr(word->text + from, quote, word->length - from);
	return end ? (size_t)(end - word->text) : word->length;
}

/* "token: str = 'x'": what a header ends with is the value, in quotes. */
static bool is_annotation(const struct ws_word *word, size_t from, size_t end)
{
	size_t before = end;

	while (before > from && word->text[before - 1] == ' ')
		before--;
	return end < word->length && is_quote(word->text[end]) && before > from &&
	       word->text[before - 1] == '=';
}

static size_t find_value_end(const struct ws_word *word, size_t from, enum value_kind kind)
{
	const char *stops = value_stops[kind];
	size_t end = from;

	if (kind == REST_OF_WORD)
		return word->length;
	if (kind == PLAIN_VALUE && from < word->length && word->text[from] == '(')
		return find_quote(word, from, ')');
	while (end < word->length && !(word->text[end] && strchr(stops, word->text[end])))
		end += 1 + (word->text[end] == '\\' && kind != HEADER_VALUE);
	end = ws_min(end, word->length);
	if (kind == HEADER_VALUE && is_annotation(word, from, end))
		return find_quote(word, end + 1, word->text[end]);
	/* 'a'"b" is one word of a shell. */
	while (kind <= IN_BACKQUOTES && end + 1 < word->length && is_quote(word->text[end + 1]))
		end = find_quote(word, end + 2, word->text[end + 1]);
	return end;
}

/* Marks the value of an assignment. One that begins within a value of its kind ends with it, and is
 * marked already. */
static void mark_assigned(struct assignments *all, const struct assignment *found)
{
	enum value_kind kind = classify_value(all, found);

	if (found->value < all->ends[kind])
		return;
	all->ends[kind] = find_value_end(all->word, found->value, kind);
	ws_mark(all->word, found->value, all->ends[kind]);
}

/* Whether the name is that of a secret in the query of an address: ?key=x, &sig=x. */
static bool is_query_secret(const struct ws_word *word, const struct assignment *found)
{
	return found->name && strchr("?&", word->text[found->name - 1]) &&
	       word->text[found->name - 1] &&
	       is_listed(word->text + found->name, found->name_end - found->name,
			 "key sig signature code sas session sid");
}

/* Whether the name, perhaps behind -D or -P as in -Dtoken=x, is that of a secret. */
static bool names_secret(const struct ws_word *word, const struct assignment *found)
{
	const char *name = word->text + found->name;
	size_t length = found->name_end - found->name;

	if (!found->name && length > 2 && (!memcmp(name, "-D", 2) || !memcmp(name, "-P", 2)) &&
	    ws_is_secret_name(name + 2, length - 2))
		return true;
	return ws_is_secret_name(name, length) || is_query_secret(word, found);
}

static void mark_assignments(const struct ws_word *word)
{
	struct assignments all = begin_assignments(word);
	struct assignment found = {0};
	bool identified = false;

	for (size_t at = 0; at < word->length; at = found.name_end + 1) {
		found.name = at;
		while (found.name < word->length && !ws_is_name_letter(word->text[found.name]))
			found.name++;
		found.name_end = found.name + ws_measure_run(word, found.name, "_-.");
		identified |= is_listed(word->text + found.name, found.name_end - found.name,
					"identified");
		if (read_clause(word, &found, identified) ||
		    (read_assignment(word, &found) && names_secret(word, &found)))
			mark_assigned(&all, &found);
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
	{"snmpget snmpwalk snmpset snmpbulkwalk", "AXc", "", ""},
	{"openssl", "kK", "", "p"},
	{"ssh-keygen", "NP", "", "pu"},
	{"curl", "b", "uUE", "p"}, /* cookies; a file of them is masked, too */
	{"http https", "", "a", "p"},
	{"smbclient rpcclient net winexe", "", "uU", "p"},
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
	const char *next;  /* words behind which the next is one */
	const char *last;  /* words behind which the last is one */
	char letter;	   /* the same for an option of one letter */
	const char *pairs; /* words behind which the values of all NAME=VALUE are */
} operands[] = {
	{"htpasswd", "", "", 'b', ""},
	{"wandb snyk vault bw ngrok cargo", "", "login auth unlock authtoken add-authtoken", 0,
	 "put write"},
	{"rabbitmqctl", "", "add_user change_password authenticate_user", 0, ""},
	{"redis-cli", "", "auth", 0, ""},
	{"mysqladmin nmcli wpa_cli", "password wifi-sec.psk psk", "", 0, ""},
	{"pdftk", "user_pw owner_pw input_pw", "", 0, ""},
	{"openssl", "-hmac -macopt", "passwd", 0, ""},
	{"wpa_passphrase mkpasswd", "", "wpa_passphrase mkpasswd", 0, ""},
	{"rclone", "pass pass2", "obscure", 0, ""},
	{"mc mcli", "", "set", 0, ""},
	{"fly flyctl heroku doppler", "", "", 0, "secrets config:set"},
	{"kubectl", "", "", 0, "secret"},
};

static const struct program any_program = {"", "p", "u", ""};

/* The end of a path, which may be the name of a program. */
static const char *find_base(const struct ws_word *word, size_t *length)
{
	const char *base = memrchr(word->text, '/', word->length);

	base = base ? base + 1 : word->text;
	*length = word->length - (size_t)(base - word->text);
	return base;
}

/* The program that a word names, by the end of its path; NULL when it is not listed. */
static const struct program *find_program(const struct ws_word *word)
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

static const struct operand *find_operand(const struct ws_word *word)
{
	size_t length;
	const char *base = find_base(word, &length);

	for (size_t i = 0; length <= LONGEST_PROGRAM && i < WS_COUNT(operands); i++)
		if (is_listed(base, length, operands[i].names))
			return &operands[i];
	return NULL;
}

/* Whether the value of a -p of an unknown program is none: a number, ports, a path, an option. */
static bool is_plain_value(const struct ws_word *word)
{
	return !word->length || strchr("-/.~", *word->text) ||
	       ws_is_number_or_port(word->text, word->length) ||
	       (isdigit((unsigned char)*word->text) && memchr(word->text, ':', word->length));
}

/* Whether what follows -p or -P of an unknown program in the same word looks like a password and
 * like no name, number or path: -pS3cret, -P'a!bcde', not -print, -p8080, -Pversion=1.2. */
static bool is_glued_password(const struct ws_word *word, char letter)
{
	static const char signs[] = "!@#$%^&*?+";
	const char *value = word->text + 2;
	size_t length = word->length - 2;
	bool digits = false, letters = false, strange = false;

	if (!strchr("pP", letter) || length < 6 || memchr(value, '=', length) ||
	    memchr(value, '/', length) || ws_is_number_or_port(value, length))
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
static void mark_user(const struct ws_word *word, size_t from, const struct program *program)
{
	const char *signs = program->way == WAY_COMMA ? ",:" : ":%";
	size_t at = from;

	if (from < word->length && strchr("+./", word->text[from]))
		return;
	while (at < word->length && !strchr(signs, word->text[at]))
		at++;
	if (at < word->length && !ws_is_number_or_port(word->text + from, word->length - from))
		ws_mark(word, at + 1, word->length);
}

/* What the word after this one is. */
enum next_word { NEXT_ANY, NEXT_SECRET, NEXT_PERHAPS_SECRET, NEXT_USER };

/* Several options in one word, of which the last has the next word as its value: -sSu a:b. */
static enum next_word judge_letters(const struct ws_word *word, const struct program *program)
{
	char last = word->text[word->length - 1];

	for (size_t i = 1; i < word->length; i++)
		if (!isalpha((unsigned char)word->text[i]))
			return NEXT_ANY;
	if (strchr(program->users, last))
		return NEXT_USER;
	return word->length <= 5 && strchr(program->passwords, last) ? NEXT_SECRET : NEXT_ANY;
}

/* -p, -psecret, -p=secret, -u user:secret: one dash and a letter. */
static enum next_word mark_short_option(const struct ws_word *word, const struct program *program)
{
	char letter = word->text[1];
	bool alone = word->length == 2;
	size_t value = 2 + (word->length > 2 && word->text[2] == '=');

	if (strchr(program->harmless, letter))
		return NEXT_ANY;
	if (!alone && program == &any_program && is_glued_password(word, letter))
		ws_mark(word, value, word->length);
	if (strchr(program->passwords, letter)) {
		if (!alone && (program != &any_program || value == 3))
			ws_mark(word, value, word->length);
		else if (alone && program != &any_program)
			return NEXT_SECRET;
		else if (alone)
			return NEXT_PERHAPS_SECRET;
		return NEXT_ANY;
	}
	if (alone && (letter == 'u' || strchr(program->users, letter)))
		return NEXT_USER;
	if (!alone && program != &any_program) {
		if (!strchr(program->users, letter))
			return judge_letters(word, program);
		mark_user(word, value, program);
	}
	return NEXT_ANY;
}

/* --user, --password and the like whose value is the next word, or behind a '='. */
static enum next_word mark_long_option(const struct ws_word *word, const struct program *program)
{
	const char *value = memchr(word->text, '=', word->length);
	size_t dashes = strspn(word->text, "-"), length = word->length;

	if (value)
		length = (size_t)(value - word->text);
	if (dashes + ws_measure_run(word, dashes, "_-.") < length)
		return NEXT_ANY;
	if (is_listed(word->text + dashes, length - dashes,
		      "user username userpwd proxy-user credential-pair login")) {
		if (!value)
			return NEXT_USER;
		mark_user(word, length + 1, program);
	} else if (!value && ws_is_secret_name(word->text + dashes, length - dashes)) {
		return NEXT_SECRET;
	}
	return NEXT_ANY;
}

static bool is_long_option(const struct ws_word *word)
{
	return word->length > 2 && word->text[0] == '-';
}

static enum next_word mark_option(const struct ws_word *word, const struct program *program)
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

static void mark_value(const struct ws_word *word, enum next_word kind,
		       const struct program *program)
{
	if (kind == NEXT_SECRET && !(word->length > 2 && !memcmp(word->text, "--", 2)))
		ws_mark(word, 0, word->length);
	else if (kind == NEXT_PERHAPS_SECRET && !is_plain_value(word))
		ws_mark(word, 0, word->length);
	else if (kind == NEXT_USER)
		mark_user(word, 0, program);
}

/* Words that hold a secret in the way of their program alone. */
static void mark_own_way(const struct ws_word *word, const struct program *program)
{
	const char *sign = memchr(word->text, '/', word->length), *host;

	if (program->way == WAY_RAR && ws_word_has(word, 0, "-hp"))
		ws_mark(word, 3, word->length);
	else if (program->way == WAY_SLASH &&
		 (ws_word_has(word, 0, "/p:") || ws_word_has(word, 0, "/gp:")))
		ws_mark(word,
			(size_t)((char *)memchr(word->text, ':', word->length) + 1 - word->text),
			word->length);
	else if (program->way == WAY_OWNER && sign && sign != word->text &&
		 !strchr("-@.", *word->text)) {
		host = memchr(sign, '@', word->length - (size_t)(sign - word->text));
		ws_mark(word, (size_t)(sign + 1 - word->text),
			host ? (size_t)(host - word->text) : word->length);
	}
}

/* ---- commands ---- */

static void mark_shell_command(const struct ws_word *word, int depth);

/* Whether a word is neither an option nor, perhaps, the value of one. */
static bool is_operand(const struct ws_word *words, size_t i)
{
	const struct ws_word *before = words;

	if (i)
		before = &words[i - 1];
	return *words[i].text != '-' &&
	       (*before->text != '-' || memchr(before->text, '=', before->length));
}

/* "config user.password x", "configure set aws_secret_access_key x" */
static bool is_setting(const struct ws_word *words, size_t i)
{
	size_t before = i;

	while (before && *words[before - 1].text == '-')
		before--;
	return before && *words[i].text != '-' &&
	       is_listed(words[before - 1].text, words[before - 1].length, "set config") &&
	       ws_is_secret_name(words[i].text, words[i].length);
}

static bool has_letter(const struct ws_word *word, char letter)
{
	return letter && word->length > 1 && *word->text == '-' && word->text[1] != '-' &&
	       memchr(word->text, letter, word->length);
}

/* The value of NAME=VALUE, or of --option=NAME=VALUE. */
static void mark_pair(const struct ws_word *word)
{
	size_t at = find_quote(word, 0, '=');

	if (*word->text == '-')
		at = find_quote(word, at + 1, '=');
	ws_mark(word, at + 1, word->length);
}

/* Marks the secrets among words that belong to no option. */
static void mark_operands(const struct ws_word *words, size_t count)
{
	const struct operand *operand = NULL;
	bool last = false, pairs = false;

	for (size_t i = 0; i < count; i++) {
		const struct ws_word *word = &words[i];
		const struct operand *named = find_operand(word);
		const char *base;
		size_t length;

		if (named && *word->text != '-')
			operand = named;
		if (i + 1 < count && is_setting(words, i))
			mark_value(&words[i + 1], NEXT_SECRET, &any_program);
		if (!operand)
			continue;
		if (pairs)
			mark_pair(word);
		pairs |= is_listed(word->text, word->length, operand->pairs);
		if (i + 1 == count)
			break;
		if (is_listed(word->text, word->length, operand->next))
			mark_value(&words[i + 1], NEXT_SECRET, &any_program);
		base = find_base(word, &length);
		last |= is_listed(base, length, operand->last) || has_letter(word, operand->letter);
	}
	if (last && *words[count - 1].text != '-')
		ws_mark(&words[count - 1], 0, words[count - 1].length);
}

static void mark_command(const struct ws_word *words, size_t count, int depth)
{
	const struct program *program = &any_program;
	enum next_word next = NEXT_ANY;

	for (size_t i = 0; i < count; i++) {
		const struct ws_word *word = &words[i];
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
		ws_mark_addresses(word);
		ws_mark_tokens(word);
		if (has_blanks(word) && depth < DEEPEST)
			mark_shell_command(word, depth + 1);
	}
	mark_operands(words, count);
}

static const char word_breaks[] = " \t\n;|&()<>";

/* The end of the word of a shell command that begins at `at`: *from and the return value surround
 * it, without its quotes where all of it stands in one pair. In code, what is in quotes ends there;
 * in a shell, 'a':"b" is one word. */
static size_t find_shell_word(const struct ws_word *word, size_t at, size_t *from)
{
	size_t end = at;

	*from = at;
	if (word->text[at] == '"' || word->text[at] == '\'') {
		end = find_quote(word, at + 1, word->text[at]);
		if (end + 1 >= word->length || strchr(word_breaks, word->text[end + 1]) ||
		    strchr(",.+]}\\", word->text[end + 1])) {
			*from = at + 1;
			return end;
		}
		end++;
	}
	while (end < word->length && !(word->text[end] && strchr(word_breaks, word->text[end]))) {
		size_t closing = word->length;

		if (word->text[end] == '"' || word->text[end] == '\'')
			closing = find_quote(word, end + 1, word->text[end]);
		end = closing < word->length ? closing + 1 : end + 1;
	}
	return end;
}

/* The same for a text that is one word by these rules: its parts between blanks or quotes. */
static size_t find_part(const struct ws_word *word, size_t at, size_t *from)
{
	size_t end = at;

	*from = at;
	if (word->text[at] == '"' || word->text[at] == '\'') {
		*from = at + 1;
		return find_quote(word, at + 1, word->text[at]);
	}
	while (end < word->length && !(word->text[end] && strchr(word_breaks, word->text[end])))
		end++;
	return end;
}

/* A command of a shell. */
struct shell_command {
	struct ws_word *words;
	size_t count, cap;
};

/* Whether a command reads a secret from its standard input: "chpasswd", "docker login
 * --password-stdin", "sudo -S". */
static bool reads_secret(const struct shell_command *command)
{
	for (size_t i = 0; i < command->count; i++) {
		const struct ws_word *word = &command->words[i];

		if (is_listed(word->text, word->length,
			      "chpasswd --password-stdin --passphrase-fd --with-token --stdin") ||
		    (i && is_listed(word->text, word->length, "-S") &&
		     is_listed(word[-1].text, word[-1].length, "sudo")))
			return true;
	}
	return false;
}

/* What `echo` or `printf` print into such a command: all words, or what is behind a colon. */
static void mark_printed(const struct shell_command *command)
{
	if (!command->count ||
	    !is_listed(command->words->text, command->words->length, "echo printf"))
		return;
	for (size_t i = 1; i < command->count; i++) {
		const struct ws_word *word = &command->words[i];
		size_t colon = find_quote(word, 0, ':');

		if (*word->text != '-')
			ws_mark(word, colon < word->length ? colon + 1 : 0, word->length);
	}
}

static void end_command(struct shell_command *command, struct shell_command *before, int depth)
{
	struct shell_command free_one = *before;

	mark_command(command->words, command->count, depth);
	if (reads_secret(command))
		mark_printed(before);
	*before = *command;
	free_one.count = 0;
	*command = free_one;
}

/* Looks at a text with blanks as a shell would: word by word, a new command after a ; or |. */
static void mark_shell_command(const struct ws_word *word, int depth)
{
	struct shell_command now = {0}, before = {0};
	bool one = false;
	size_t at = 0;

	while (at < word->length) {
		size_t from, end;

		if (!word->text[at] || strchr(word_breaks, word->text[at])) {
			if (!strchr(" \t<>", word->text[at]) && now.count)
				end_command(&now, &before, depth);
			at++;
			continue;
		}
		end = find_shell_word(word, at, &from);
		if (!from && end == word->length)
			one = true;
		if (one)
			end = find_part(word, at, &from);
		ws_grow(now.words, now.cap, now.count + 1);
		now.words[now.count++] =
			(struct ws_word){word->text + from, end - from, word->marks + from};
		at = ws_max(end, at) + (from > at || end == at);
	}
	end_command(&now, &before, depth);
	free(now.words);
	free(before.words);
}

static void put_masked(struct ws_text *out, const struct ws_word *word)
{
	for (size_t i = 0; i < word->length; i++) {
		if (!word->marks[i])
			ws_text_add(out, word->text + i, 1);
		else if (!i || !word->marks[i - 1])
			ws_text_puts(out, "***");
	}
	ws_text_add(out, "", 1);
}

static bool follows_c(const struct ws_word *words, size_t count)
{
	return count && words[count - 1].length >= 2 && words[count - 1].text[0] == '-' &&
	       words[count - 1].text[words[count - 1].length - 1] == 'c';
}

void ws_mask_words(struct ws_text *out, const char *text, size_t length)
{
	char *marks = ws_calloc(length + 1, 1);
	struct ws_word *words = NULL;
	size_t count = 0, cap = 0;

	for (size_t at = 0; at < length; at += words[count - 1].length + 1) {
		ws_grow(words, cap, count + 1);
		words[count] = (struct ws_word){text + at, strnlen(text + at, length - at),
						marks + at, .is_shell = follows_c(words, count)};
		count++;
	}
	mark_command(words, count, 0);
	for (size_t i = 0; i < count; i++)
		put_masked(out, &words[i]);
	free(words);
	free(marks);
}
