/*
 * test_mask.c - secrets in command lines, and what only looks like them.
 *
 * Words stand with a '|' between them, so that arguments with blanks can be seen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "text/mask.h"

static char *mask_line(const char *line)
{
	size_t length = strlen(line) + 1;
	char *words = ws_strdup(line);
	struct ws_text out = {0};

	for (char *at = words; (at = strchr(at, '|')); at++)
		*at = 0;
	ws_mask_words(&out, words, length);
	free(words);
	assert_int_equal(out.text[out.len - 1], 0);
	for (size_t i = 0; i + 1 < out.len; i++)
		if (!out.text[i])
			out.text[i] = '|';
	return out.text;
}

static void check_line(const char *line, const char *want)
{
	char *got = mask_line(line);

	assert_string_equal(got, want);
	free(got);
}

/* Command lines and what is shown of them; | stands between the words. */
static const char *const secrets[][2] = {
	{"app|--password=hunter2|x", "app|--password=***|x"},
	{"app|--password|hunter2|x", "app|--password|***|x"},
	{"app|-password|hunter2|x", "app|-password|***|x"},
	{"app|--db-password=a b,c", "app|--db-password=***"},
	{"app|--dbPassword=x|--accessToken=y", "app|--dbPassword=***|--accessToken=***"},
	{"app|--api-key|abc", "app|--api-key|***"},
	{"app|--apikey=abc", "app|--apikey=***"},
	{"java|-Dspring.datasource.password=x|A", "java|-Dspring.datasource.password=***|A"},
	{"curl|-u|user:secret|http://h/", "curl|-u|user:***|http://h/"},
	{"curl|-uuser:secret|http://h/", "curl|-uuser:***|http://h/"},
	{"curl|--user=me:secret", "curl|--user=me:***"},
	{"curl|--proxy-user|me:secret", "curl|--proxy-user|me:***"},
	{"app|-u|user:secret", "app|-u|user:***"},
	{"app|-p|hunter2", "app|-p|***"},
	{"/opt/app|-p=hunter2", "/opt/app|-p=***"},
	{"sh|-c|app \"$@\"|app|-p|hunter2", "sh|-c|app \"$@\"|app|-p|***"},
	{"srun|-n|4|-p|gpu|app|-p|hunter2", "srun|-n|4|-p|gpu|app|-p|***"},
	{"sshpass|-p|x y|ssh|-p|22|host", "sshpass|-p|***|ssh|-p|22|host"},
	{"sudo|mysqldump|-uroot|-psecret|db", "sudo|mysqldump|-uroot|-p***|db"},
	{"redis-cli|-p|6379|-a|secret", "redis-cli|-p|6379|-a|***"},
	{"openssl|rsa|-passin|pass:x", "openssl|rsa|-passin|***"},
	{"git|clone|https://me:tok@host/r.git", "git|clone|https://me:***@host/r.git"},
	{"git|clone|https://tok@host/r.git", "git|clone|https://***@host/r.git"},
	{"app|postgres://u:p@ss@db:5432/x", "app|postgres://u:***@db:5432/x"},
	{"wget|https://h/?a=1&access_token=abc&b=2", "wget|https://h/?a=1&access_token=***&b=2"},
	{"wget|https://h/?key=abc#x", "wget|https://h/?key=***#x"},
	{"env|AWS_SECRET_ACCESS_KEY=x/y+z|cmd", "env|AWS_SECRET_ACCESS_KEY=***|cmd"},
	{"sh|-c|PGPASSWORD=abc psql", "sh|-c|PGPASSWORD=*** psql"},
	{"app|--dbpasswd|abc", "app|--dbpasswd|***"},
	{"curl|-b|session=abc|http://h/", "curl|-b|***|http://h/"},
	{"env|OPENAI_KEY=abc|cmd", "env|OPENAI_KEY=***|cmd"},
	{"sh|-c|DB_PASSWORD=x cmd --flag", "sh|-c|DB_PASSWORD=*** cmd --flag"},
	{"sh|-c|cd d && mysql -psecret db; ls", "sh|-c|cd d && mysql -p*** db; ls"},
	{"sh|-c|app --token 'a b' -v", "sh|-c|app --token '***' -v"},
	{"ssh|h|sh -c \"curl -u me:secret h\"", "ssh|h|sh -c \"curl -u me:*** h\""},
	{"curl|-H|Authorization: Bearer abcdef123", "curl|-H|Authorization: ***"},
	{"curl|-HX-Api-Key:abc", "curl|-HX-Api-Key:***"},
	{"sh|-c|curl -H \"Authorization: Basic abc\" h", "sh|-c|curl -H \"Authorization: ***\" h"},
	{"curl|-d|{\"user\": \"me\", \"password\": \"x y\", \"n\": 1}",
	 "curl|-d|{\"user\": \"me\", \"password\": \"***\", \"n\": 1}"},
	{"python3|-c|login(user='a', password='b c')",
	 "python3|-c|login(user='a', password='***')"},
	{"app|AccountName=a;AccountKey=b==;X=1", "app|AccountName=a;AccountKey=***;X=1"},
	{"app|ghp_0123456789abcdefABCDEF", "app|***"},
	{"app|x=sk-proj-0123456789abcdefgh", "app|x=***"},
	{"app|AKIAIOSFODNN7EXAMPLE", "app|***"},
	{"app|eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "app|***"},
	{"htpasswd|-b|f|user|hunter2", "htpasswd|-b|f|user|***"},
	{"/usr/bin/htpasswd|-nbB|user|hunter2", "/usr/bin/htpasswd|-nbB|user|***"},
	{"aws|configure|set|aws_secret_access_key|x/y",
	 "aws|configure|set|aws_secret_access_key|***"},
	{"git|config|--global|user.password|x", "git|config|--global|user.password|***"},
	{"npm|config|set|//r/:_authToken|x", "npm|config|set|//r/:_authToken|***"},
	{"redis-cli|config|set|requirepass|x", "redis-cli|config|set|requirepass|***"},
	{"redis-cli|auth|hunter2", "redis-cli|auth|***"},
	{"wandb|login|--relogin|0123abc", "wandb|login|--relogin|***"},
	{"sh|-c|vault login s.abc; ls", "sh|-c|vault login ***; ls"},
	{"ngrok|config|add-authtoken|x", "ngrok|config|add-authtoken|***"},
	{"rabbitmqctl|add_user|me|hunter2", "rabbitmqctl|add_user|me|***"},
	{"mysqladmin|-u|root|password|x", "mysqladmin|-u|root|password|***"},
	{"nmcli|dev|wifi|connect|net|password|x|ifname|w0",
	 "nmcli|dev|wifi|connect|net|password|***|ifname|w0"},
	{"pdftk|a.pdf|output|b.pdf|user_pw|x", "pdftk|a.pdf|output|b.pdf|user_pw|***"},
	{"wpa_passphrase|net|hunter22", "wpa_passphrase|net|***"},
	{"openssl|passwd|-6|hunter2", "openssl|passwd|-6|***"},
	{"ssh-keygen|-q|-N|hunter2|-f|k", "ssh-keygen|-q|-N|***|-f|k"},
	{"keytool|-storepass|x|-keypass|y|-list", "keytool|-storepass|***|-keypass|***|-list"},
	{"tailscale|up|--authkey=x", "tailscale|up|--authkey=***"},
	{"curl|-E|cert.pem:hunter2|h", "curl|-E|cert.pem:***|h"},
	{"warpsight|profile|-e|API_TOKEN=abc|app", "warpsight|profile|-e|API_TOKEN=***|app"},
	{"app|-pS3cret99|x", "app|-p***|x"},
	{"app|-Ppass!word|x", "app|-P***|x"},
	{"docker|login|-u|me|-phunter22", "docker|login|-u|me|-p***"},
	{"mongosh|-u|me|-phunter|db", "mongosh|-u|me|-p***|db"},
	{"lftp|-u|me,hunter2|host", "lftp|-u|me,***|host"},
	{"sqlplus|me/hunter2@db", "sqlplus|me/***@db"},
	{"sqlplus|-s|me/hunter2", "sqlplus|-s|me/***"},
	{"xfreerdp|/u:me|/p:hunter2|/v:host", "xfreerdp|/u:me|/p:***|/v:host"},
	{"imp|userid=me/hunter2@db|file=x", "imp|userid=me/***@db|file=x"},
	{"rar|a|-hphunter|x.rar|x", "rar|a|-hp***|x.rar|x"},
	{"sh|-c|PGPASSWORD=x psql -h h", "sh|-c|PGPASSWORD=*** psql -h h"},
	{"smbclient|-U|me%hunter2|//h/s", "smbclient|-U|me%***|//h/s"},
	{"mount|-t|cifs|-o|username=me,password=hunter2,vers=3|a|b",
	 "mount|-t|cifs|-o|username=me,password=***,vers=3|a|b"},
	{"aria2c|--http-passwd=x1|--rpc-secret|y", "aria2c|--http-passwd=***|--rpc-secret|***"},
	{"app|--connection|Server=h;User Id=me;Password=hunter2;Db=x",
	 "app|--connection|Server=h;User Id=me;Password=***;Db=x"},
	{"app|--dsn|host=h password=hunter2 dbname=x", "app|--dsn|host=h password=*** dbname=x"},
	{"app|--dsn|AccountName=a;AccountKey=QUJD==;Suffix=x",
	 "app|--dsn|AccountName=a;AccountKey=***;Suffix=x"},
	{"borg|create|--encryption-passphrase|x", "borg|create|--encryption-passphrase|***"},
	{"warpsight|profile|--env-var=A=1,API_TOKEN=abc",
	 "warpsight|profile|--env-var=A=1,API_TOKEN=***"},
};

static void secrets_are_masked(void **state)
{
	(void)state;
	for (size_t i = 0; i < WS_COUNT(secrets); i++)
		check_line(secrets[i][0], secrets[i][1]);
}

static void other_words_stay(void **state)
{
	static const char *const lines[] = {
		"python|train.py|--tokenizer|gpt2|--max-tokens=512|--num_tokens|5",
		"app|--password-file=/run/x|--token-file|y|--no-auth|--author=me",
		"mkdir|-p|build",
		"srun|-p|gpu|-n|4|app",
		"docker|run|-p|8080:80|-u|1000:1000|image",
		"ssh|-p|22|git@host",
		"warpsight|profile|-p|range|-o|x|app",
		"app|-p|8080",
		"app|-p|/tmp/x",
		"app|--monkey=1|--keyboard=us|KEYMAP=de|PWD=/home|--key=name",
		"gunicorn|app.auth:create|--bind|0.0.0.0:80",
		"app|https://host:8080/a@b",
		"app|ssh://git@host/x|file:///a:b@c",
		"app|sk-learn-with-a-long-name|task-0123456789abcdefgh",
		"sh|-c|for i in 1 2 3; do echo $i; done | sort -k 2",
		"ffmpeg|-i|a.mp4|-vf|scale=1:2",
		"date|-u|+%H:%M",
		"rsync|-u|host:path|.",
		"app||x|",
		"git|config|credential.helper|store|x",
		"wandb|login|--host=x",
		"wandb|sync|auth.d",
		"htpasswd|-c|f|user",
		"ssh-keygen|-f|key|-t|ed25519",
		"app|set|password",
		"app|-print|-p8080|-pretty|-P4|-Prelease|-Pversion=1.2|-p127.0.0.1:80|-Plib/x86_64",
		"sqlplus|/|as|sysdba|@lib/run.sql",
		"lftp|-u|me|host",
		"mvn|-Pjdk-17-tests|package",
		"gcc|-pthread|-pedantic-errors|-print-file-name=libc.so.6",
	};

	(void)state;
	for (size_t i = 0; i < WS_COUNT(lines); i++)
		check_line(lines[i], lines[i]);
}

/* Whatever the bytes, no more words come out than went in, and nothing is read beyond them. */
static void any_bytes_are_taken(void **state)
{
	static const char pieces[][8] = {"-p", "\"", "'", "token", "=",	  ":",	"://", "@",
					 "?",  "&",  " ", "|",	   "sk-", "\\", ";",   "\xff"};
	uint32_t seed = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct ws_text line = {0};
		char *got;
		size_t before = 0, after = 0;

		ws_text_puts(&line, "x");
		for (int i = 0; i < 12; i++) {
			seed = seed * 1664525 + 1013904223;
			ws_text_puts(&line, pieces[seed >> 28]);
		}
		got = mask_line(line.text);
		for (const char *at = line.text; *at; at++)
			before += *at == '|';
		for (const char *at = got; *at; at++)
			after += *at == '|';
		assert_int_equal(before, after);
		free(got);
		ws_text_free(&line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_are_masked),
		cmocka_unit_test(other_words_stay),
		cmocka_unit_test(any_bytes_are_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
