/*
 * test_mask.c - secrets in command lines, and what only looks like them.
 *
 * Words stand with a '|' between them, so that arguments with blanks can be seen; '^' is a pipe.
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

	for (char *at = words; (at = strpbrk(at, "|^")); at++)
		*at = *at == '|' ? 0 : '|';
	ws_mask_words(&out, words, length);
	free(words);
	assert_int_equal(out.text[out.len - 1], 0);
	for (size_t i = 0; i + 1 < out.len; i++)
		if (!out.text[i] || out.text[i] == '|')
			out.text[i] = out.text[i] ? '^' : '|';
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
	{"curl|-H|Authorization: Digest username=\"a\", response=\"hunter1\"",
	 "curl|-H|Authorization: ***"},
	{"curl|-sSu|a:hunter1|http://x", "curl|-sSu|a:***|http://x"},
	{"curl|-su|a:hunter1|http://x", "curl|-su|a:***|http://x"},
	{"curl|-x|u:hunter1@proxy:3128", "curl|-x|u:***@proxy:3128"},
	{"curl|-X|POST|https://hooks.slack.com/services/T00000000/B00000000/"
	 "hunter1XXXXXXXXXXXXXXXX",
	 "curl|-X|POST|https://***"},
	{"curl|https://api.telegram.org/bot123456:ABC-DEF1234ghIkl-zyx57W2v1u123ewhunter1/"
	 "sendMessage",
	 "curl|https://***/sendMessage"},
	{"curl|https://discord.com/api/webhooks/1234567890/"
	 "hunter1abcdefghijklmnopqrstuvwxyz0123456789",
	 "curl|https://***"},
	{"python3|-c|import os; os.environ['API_KEY']='hunter1'",
	 "python3|-c|import os; os.environ['API_KEY']='***'"},
	{"python3|-c|requests.get(u, headers={'X-Auth-Token': f'hunter1'})",
	 "python3|-c|requests.get(u, headers={'X-Auth-Token': f'***'})"},
	{"python3|-c|token = b'hunter1'", "python3|-c|token = b'***'"},
	{"python3|-c|d = dict(password = r'hunter1')", "python3|-c|d = dict(password = r'***')"},
	{"perl|-e|my %h = (password => 'hunter1');", "perl|-e|my %h = (password => '***');"},
	{"ruby|-e|h = {:password => \"hunter1\"}", "ruby|-e|h = {:password => \"***\"}"},
	{"node|-e|const token = `hunter1`", "node|-e|const token = `***`"},
	{"php|-r|define('DB_PASSWORD', 'hunter1');", "php|-r|define('DB_PASSWORD', '***');"},
	{"psql|-c|ALTER USER me WITH PASSWORD 'hunter1'",
	 "psql|-c|ALTER USER me WITH PASSWORD '***'"},
	{"psql|-c|CREATE USER me PASSWORD 'hunter1'", "psql|-c|CREATE USER me PASSWORD '***'"},
	{"mysql|-e|CREATE USER 'me'@'%' IDENTIFIED BY 'hunter1'",
	 "mysql|-e|CREATE USER 'me'@'%' IDENTIFIED BY '***'"},
	{"mysql|-e|SET PASSWORD FOR 'me' = PASSWORD('hunter1')",
	 "mysql|-e|SET PASSWORD *** 'me' = PASSWORD('***')"},
	{"mysql|-e|ALTER USER me IDENTIFIED WITH x BY \"hunter1\"",
	 "mysql|-e|ALTER USER me IDENTIFIED WITH x BY \"***\""},
	{"redis-cli|AUTH|default|hunter1", "redis-cli|AUTH|default|***"},
	{"kubectl|create|secret|generic|x|--from-literal=dbpw=hunter1",
	 "kubectl|create|secret|generic|x|--from-literal=dbpw=***"},
	{"npm|login|--otp=hunter1", "npm|login|--otp=***"},
	{"cargo|login|hunter1", "cargo|login|***"},
	{"flyctl|secrets|set|DATABASE_URL=postgres://u:hunter1@h/x",
	 "flyctl|secrets|set|DATABASE_URL=***"},
	{"fly|secrets|set|FOO=hunter1", "fly|secrets|set|FOO=***"},
	{"openssl|enc|-K|0123hunter1|-iv|0", "openssl|enc|-K|***|-iv|0"},
	{"openssl|dgst|-hmac|hunter1", "openssl|dgst|-hmac|***"},
	{"openssl|dgst|-macopt|key:hunter1", "openssl|dgst|-macopt|***"},
	{"openssl|dgst|-macopt|hexkey:hunter1", "openssl|dgst|-macopt|***"},
	{"rclone|config|create|x|pass|hunter1", "rclone|config|create|x|pass|***"},
	{"rclone|obscure|hunter1", "rclone|obscure|***"},
	{"mc|alias|set|x|https://h|AKIAACCESS|hunter1", "mc|alias|set|x|https://h|AKIAACCESS|***"},
	{"winexe|-U|DOM/me%hunter1", "winexe|-U|DOM/me%***"},
	{"snmpwalk|-v2c|-c|hunter1|h", "snmpwalk|-v2c|-c|***|h"},
	{"wpa_cli|set_network|0|psk|\"hunter1\"", "wpa_cli|set_network|0|psk|***"},
	{"sh|-c|export MY_PAT=hunter1", "sh|-c|export MY_PAT=***"},
	{"sh|-c|GITHUB_PAT=hunter1 x", "sh|-c|GITHUB_PAT=*** x"},
	{"env|SLACK_WEBHOOK=https://hooks.slack.com/services/T0/B0/hunter1|x",
	 "env|SLACK_WEBHOOK=https://***|x"},
	{"env|ENCRYPTIONKEY=hunter1|y", "env|ENCRYPTIONKEY=***|y"},
	{"env|DBPASS=hunter1|y", "env|DBPASS=***|y"},
	{"env|OTP=hunter1|y", "env|OTP=***|y"},
	{"app|--otp|hunter1", "app|--otp|***"},
	{"app|/pass:hunter1", "app|/pass:***"},
	{"app|--privkey=hunter1", "app|--privkey=***"},
	{"app|--login|me:hunter1", "app|--login|me:***"},
	{"app|--dsn|me:hunter1@tcp(h:3306)/db", "app|--dsn|me:***@tcp(h:3306)/db"},
	{"app|me:hunter1@h", "app|me:***@h"},
	{"app|<password>hunter1</password>", "app|<password>***</password>"},
	{"app|passwords=[hunter1]", "app|passwords=***"},
	{"app|--passwords=hunter1,b", "app|--passwords=***"},
	{"app|-Dtoken=hunter1", "app|-Dtoken=***"},
	{"app|https://h/path;jsessionid=hunter1", "app|https://h/path;jsessionid=***"},
	{"app|https://h/?session=hunter1", "app|https://h/?session=***"},
	{"app|https://h/?sid=hunter1", "app|https://h/?sid=***"},
	{"app|xoxe.xoxp-1-hunter1abcdefgh", "app|***"},
	{"app|1//0ghunter1abcdefghijklmnopqrstuvwxyz", "app|***"},
	{"app|dckr_pat_hunter1abcdefghijklmnopqr", "app|***"},
	{"app|glptt-hunter1hunter1hunter1hunter1", "app|***"},
	{"app|whsec_hunter1abcdefghijklmnopq", "app|***"},
	{"app|sq0atp-hunter1abcdefghijklm", "app|***"},
	{"app|NRAK-hunter1ABCDEFGHIJKLMNOPQRS", "app|***"},
	{"app|lin_api_hunter1abcdefghijklmnopqrstu", "app|***"},
	{"app|ATATT3xFfGF0hunter1abcdefghij", "app|***"},
	{"app|PMAK-hunter1abcdefghijklmno", "app|***"},
	{"app|rubygems_hunter1abcdefghijklmnopqrst", "app|***"},
	{"app|figd_hunter1abcdefghijklmno", "app|***"},
	{"app|sntrys_hunter1abcdefghijklmno", "app|***"},
	{"app|ntn_hunter1abcdefghijklmno", "app|***"},
	{"app|pscale_tkn_hunter1abcdefghijklmno", "app|***"},
	{"sh|-c|mysql -p'hunter1 x' db", "sh|-c|mysql -p*** db"},
	{"sh|-c|curl -u 'a':'hunter1' h", "sh|-c|curl -u 'a':*** h"},
	{"sh|-c|PASSWORD=a\\ hunter1 cmd", "sh|-c|PASSWORD=*** cmd"},
	{"sh|-c|echo hunter1 ^ sudo -S ls", "sh|-c|echo *** ^ sudo -S ls"},
	{"sh|-c|echo 'hunter1' ^ docker login -u me --password-stdin",
	 "sh|-c|echo '***' ^ docker login -u me --password-stdin"},
	{"sh|-c|echo \"root:hunter1\"^chpasswd", "sh|-c|echo \"root:***\"^chpasswd"},
	{"sh|-c|printf '%s' hunter1 ^ gpg --passphrase-fd 0 -d f",
	 "sh|-c|printf '***' *** ^ gpg --passphrase-fd 0 -d f"},
	{"python3|-c|run([\"/bin/true\", \"x\"]); run(\"myapp -pS3cret77; true\", shell=True)",
	 "python3|-c|run([\"/bin/true\", \"x\"]); run(\"myapp -p***; true\", shell=True)"},
	{"python3|-c|x=[\"sshpass -p hunter1 ssh h\"]; y={'a': 'curl -u me:hunter1 h'}",
	 "python3|-c|x=[\"sshpass -p *** ssh h\"]; y={'a': 'curl -u me:*** h'}"},
	{"python3|-c|os.system('curl -u a:hunter1 h'); x('b')",
	 "python3|-c|os.system('curl -u a:*** h'); x('b')"},
	{"sh|-c|mysql -p'hunter 1' db", "sh|-c|mysql -p*** db"},
	{"sh|-c|curl -u 'a':\"hunter1\" h", "sh|-c|curl -u 'a':*** h"},
};

static void secrets_are_masked(void **state)
{
	(void)state;
	for (size_t i = 0; i < WS_COUNT(secrets); i++)
		check_line(secrets[i][0], secrets[i][1]);
}

static const char *const harmless_lines[] = {
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
	"docker|pull|image:tag@sha256:0123456789abcdef",
	"docker|run|--rm|-it|-v|/a:/b|-u|1000:1000|-p|8080:80|img:1.2",
	"scp|-r|me@host:/path|.",
	"rsync|-avu|me@host:path|.",
	"git|clone|git@github.com:x/y.git",
	"git|log|--format=%an:%ae@%h",
	"npm|install|lodash@4.17.21|@types/node@18",
	"pip|install|pkg@git+https://github.com/x/y.git@main",
	"cargo|build|--release",
	"cargo|test|--|--nocapture",
	"kubectl|get|secret|x",
	"vault|status",
	"gmx|mdrun|-pin|on|-ntomp|4",
	"app|--pin|0-3|--pattern|x|--path=/a",
	"python|train.py|--tokens|100|--num-tokens=5|--lr=1e-3|--key-size=128",
	"python3|-c|print('a', 'b'); d = {'x': 1, 'key': 2}",
	"python3|-c|tokens = text.split(); n_tokens = len(tokens)",
	"python3|-c|import numpy as np; a = np.array([1,2]); print(a[0:2] @ b)",
	"java|-Xmx2g|-XX:+UseG1GC|-Dlog.level=info|-cp|a:b|Main",
	"java|-agentlib:jdwp=transport=dt_socket,address=*:5005|Main",
	"srun|--mpi=pmix|-n|4|--gpus-per-task=1|./app|-i|in.dat",
	"mpirun|-np|4|-H|node1:2,node2:2|./app",
	"sh|-c|for f in *.c; do gcc -c \"$f\" -o \"${f%.c}.o\"; done",
	"sh|-c|awk '{print $1\":\"$2}' f",
	"sh|-c|cd /x && make -j4 && ./run --monkey=1",
	"sh|-c|echo \"don't\" ; echo it's fine",
	"sh|-c|echo 12:30@night",
	"sh|-c|kill -USR1 $$; trap : TERM",
	"ffmpeg|-i|a.mp4|-filter_complex|[0:v]scale=1:2[v]",
	"psql|-h|h|-U|me|-c|SELECT token_count FROM t",
	"psql|-c|SELECT 'by', x FROM passwords",
	"app|--hotkey=F1|--keyboard|--turkey=1|--keys=a,b|--sort-key=x",
	"env|PATH=/a:/b|LANG=C|MONKEY=1|HOTKEY=x|JOCKEY=y|TOKENIZERS_PARALLELISM=false",
	"env|KEYBOARD=us|PATTERN=x|COMPASS=n|BYPASS=1|app",
	"curl|-sSL|-o|x|https://h/a",
	"curl|-sSo|x|http://h:8080/a",
	"mc|ls|x",
	"unzip|-o|x.zip|-d|y",
	"unzip|-oq|x.zip",
	"heroku|logs|--tail",
	"redis-cli|-h|h|-p|6379|get|key",
	"openssl|enc|-aes-256-cbc|-in|a|-out|b",
	"xmllint|--xpath|//token/text()|f",
	"tar|-czvpf|a.tgz|dir",
	"find|/|-name|*.py|-print",
	"bash|-lc|source env.sh; python -m http.server 8000",
	"app|user@host:22|x:y",
	"app|a:b|c:d@|@x",
	"app|std::vector<int>@x",
	"gdb|-p|1234",
	"perf|record|-F|99|-p|1234",
	"redis-server|*:6379",
	"postgres: me db 127.0.0.1(5432) idle",
	"sshd: me@pts/0",
};

static void other_words_stay(void **state)
{
	(void)state;
	for (size_t i = 0; i < WS_COUNT(harmless_lines); i++)
		check_line(harmless_lines[i], harmless_lines[i]);
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
