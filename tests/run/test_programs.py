"""test_programs.py - programs of all kinds, as a distribution has them: what they print and return
must be what they print and return alone, with perf events and without, and in a session: collected
from its beginning, and not collected.

PROGRAMS is a table: a name, the commands that must be there, and a line of shell. STARTERS are
commands that start others in ways of their own; what they start prints what a process gets from its
parent: descriptors, signals that are ignored or blocked, limits, umask, folder. Programs that the
machine lacks are skipped and named. WS_TEST_PROGRAMS=all (`make nightly`) adds those that take more
than a second.
"""
import os
import shutil

from harness import Failed, test

ALL = os.environ.get("WS_TEST_PROGRAMS") == "all"
MODES = (None, "none")  # of WARPSIGHT_PERF: as the machine allows, and without perf events
SESSIONS = ("collected", "idle")

C_MAIN = "printf '#include <stdio.h>\\nint main(void){puts(\"built\");return 3;}' >m.c && "
LOOP = "i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo $i; done"
THREADS = (
    "import threading as t; l=t.Lock(); c=[0]\n"
    "def f():\n with l: c[0]+=1\n"
    "a=[t.Thread(target=f) for _ in range(200)]; [x.start() for x in a]; [x.join() for x in a]"
    "; print(c[0])"
)
MANY = (
    "printf '#include <pthread.h>\\n#include <stdio.h>\\nstatic void *f(void *a){return a;}"
    "int main(void){int n=0;pthread_t t;pthread_attr_t a;pthread_attr_init(&a);"
    "pthread_attr_setstacksize(&a,65536);for(int i=0;i<5000;i++)if(!pthread_create(&t,&a,f,0))"
    '{pthread_join(t,0);n++;}printf("%%d\\\\n",n);}\' >t.c && cc -pthread t.c -o t && ./t'
)
DEEP = (
    "printf 'int f(void){return 5;}' >l.c && cc -shared -fPIC l.c -o l.so && printf '#define "
    '_GNU_SOURCE\\n#include <dlfcn.h>\\nint main(void){void*h=dlopen("./l.so",RTLD_NOW|'
    'RTLD_DEEPBIND);int(*f)(void)=(int(*)(void))dlsym(h,"f");return f();}\' >d.c && cc d.c -o d '
    "-ldl && ./d"
)
CLOSEFROM = (
    "printf '#define _GNU_SOURCE\\n#include <unistd.h>\\n#include <stdio.h>\\n"
    'int main(void){closefrom(3);printf("%%d\\\\n",dup(0));return 0;}\' >c.c && cc c.c -o c && ./c'
)
VFORK = (
    "printf '#include <unistd.h>\\n#include <sys/wait.h>\\nint main(void){int s;if(!vfork())"
    'execlp("sh","sh","-c","echo child; exit 4",(char*)0);wait(&s);return WEXITSTATUS(s);}\' '
    ">v.c && cc v.c -o v && ./v"
)
SECCOMP = (
    "printf '#include <linux/seccomp.h>\\n#include <sys/prctl.h>\\n#include <sys/syscall.h>\\n"
    "#include <unistd.h>\\nint main(void){prctl(PR_SET_SECCOMP,SECCOMP_MODE_STRICT);"
    'for(int i=0;i<99;i++)write(1,"x",1);syscall(SYS_exit,6);}\' >s.c && cc s.c -o s && ./s'
)
# Its handler of the sampler's signal wants another held back, which it then sends itself.
MASK = (
    "printf '#include <signal.h>\\n#include <stdio.h>\\nstatic volatile int in,early;"
    "static void u(int s){early+=in;}static void g(int s){in=1;raise(SIGUSR1);in=0;}"
    "int main(void){struct sigaction a={.sa_handler=g};sigaddset(&a.sa_mask,SIGUSR1);"
    "sigaction(SIGURG,&a,0);signal(SIGUSR1,u);raise(SIGURG);return early;}' "
    ">h.c && cc h.c -o h && ./h"
)
REDIS = (
    "redis-server --port 0 --unixsocket $PWD/s --save '' --daemonize no >/dev/null 2>&1 & "
    "until redis-cli -s s ping 2>/dev/null | grep -q PONG; do sleep 0.05; done; "
    "redis-cli -s s set a 5; redis-cli -s s incr a; redis-cli -s s shutdown nosave; wait; echo end"
)
NGINX = (
    "printf 'daemon on;pid %s/p;error_log %s/e;events{}http{access_log off;client_body_temp_path "
    "%s/b;proxy_temp_path %s/x;fastcgi_temp_path %s/f;uwsgi_temp_path %s/u;scgi_temp_path %s/g;"
    "server{listen unix:%s/s;return 200 answer;}}' $PWD $PWD $PWD $PWD $PWD $PWD $PWD $PWD >c; "
    "nginx -c $PWD/c 2>/dev/null; curl -s --unix-socket s http://x/; kill $(cat p); "
    "while [ -e p ]; do sleep 0.05; done; echo; echo end"
)
POSTGRES = (
    "mkdir d; chmod 777 .; id -u | grep -qx 0 && { chown 65534 d; as='setpriv --reuid=65534 "
    "--clear-groups'; }; export HOME=$PWD; $as initdb -D d >/dev/null 2>&1 && echo 'select 6*7;' | "
    "$as postgres --single -D d postgres 2>/dev/null | grep -c 42"
)
JAVA = (
    'printf \'public class A{public static void main(String[] a){System.out.println("java");'
    "System.exit(9);}}' >A.java && java A.java"
)
GO = (
    'printf \'package main\\nimport ("fmt";"os")\\nfunc main(){c:=make(chan int);for i:=0;i<99;'
    "i++{go func(){c<-1}()};n:=0;for n<99{n+=<-c};fmt.Println(n);os.Exit(8)}' >m.go && "
    "GOCACHE=$PWD/.c GOFLAGS=-mod=mod go build -o g m.go && ./g"
)
RUST = (
    "printf 'fn main(){let h:Vec<_>=(0..9).map(|i|std::thread::spawn(move||i)).collect();"
    'let n:i32=h.into_iter().map(|t|t.join().unwrap()).sum();println!("{}",n);'
    "std::process::exit(2)}' >m.rs && rustc -O m.rs -o r 2>/dev/null && ./r"
)

# name: (what must be there, seconds it may take: "quick" or "long", a line of shell)
PROGRAMS = {
    "redis": ("redis-server redis-cli", "quick", REDIS),
    "nginx": ("nginx curl", "quick", NGINX),
    "postgres": ("postgres initdb", "long", POSTGRES),
    "git": (
        "git",
        "quick",
        "git init -q . && git -c user.name=a -c user.email=b commit -qm x --allow-empty && git "
        "log --format=%s && git fsck",
    ),
    "gcc": ("gcc", "quick", C_MAIN + "gcc m.c -o m && ./m"),
    "gcc-lto": ("gcc", "long", C_MAIN + "gcc -O2 -flto m.c -o m && ./m"),
    "c++": (
        "c++",
        "long",
        "printf '#include <iostream>\\nint main(){try{throw 5;}catch(int i){std::cout<<i;}}' >m.cc "
        "&& c++ m.cc -o m && ./m",
    ),
    "clang": ("clang", "quick", C_MAIN + "clang m.c -o m && ./m"),
    "musl": ("musl-gcc", "quick", C_MAIN + "musl-gcc m.c -o m && ./m"),
    "musl-static": ("musl-gcc", "quick", C_MAIN + "musl-gcc -static m.c -o m && ./m"),
    "static": ("gcc", "quick", C_MAIN + "gcc -static m.c -o m && ./m"),
    "32-bit": ("gcc", "quick", C_MAIN + "gcc -m32 m.c -o m 2>/dev/null && ./m"),
    "node": ("node", "quick", "node -e 'console.log(6*7); process.exit(4)'"),
    "node-workers": (
        "node",
        "quick",
        'node -e \'const w=require("worker_threads");new w.Worker("1",{eval:true})'
        '.on("exit",c=>console.log("w",c))\'',
    ),
    "node-children": (
        "node",
        "quick",
        'node -e \'require("child_process").exec("echo a; exit 3",(e,o)=>console.log(o,e.code))\'',
    ),
    "java": ("java javac", "long", JAVA),
    "java-version": ("java", "long", "java -Xint -version 2>&1 | wc -l"),
    "go": ("go", "long", GO),
    "rust": ("rustc", "long", RUST),
    "perl": ("perl", "quick", 'perl -e \'print join(",",sort map{$_*2}1..9),"\\n"; exit 5\''),
    "perl-fork": (
        "perl",
        "quick",
        "perl -e '$|=1; for(1..20){fork or exit $_} $n+=$?>>8 while wait>0; print \"$n\\n\"'",
    ),
    "perl-signals": (
        "perl",
        "quick",
        "perl -e '$SIG{ALRM}=sub{print \"alarm\\n\"; exit 2}; alarm 1; sleep 5'",
    ),
    "ruby": ("ruby", "quick", "ruby -e 'puts (1..9).map{|i| Thread.new{i}}.sum(&:value); exit 3'"),
    "ruby-fork": (
        "ruby",
        "quick",
        "ruby -e 'p fork{exit 7}.then{|p| Process.wait2(p)[1].exitstatus}'",
    ),
    "php": ("php", "quick", "php -r 'echo array_sum(range(1,9)), PHP_EOL; exit(3);'"),
    "lua": ("lua5.4", "quick", "lua5.4 -e 'print(select(3, os.execute(\"exit 3\"))) os.exit(2)'"),
    "tcl": ("tclsh", "quick", "echo 'puts [exec echo a | cat]; exit 2' | tclsh"),
    "python": ("python3", "quick", "python3 -c 'print(sum(range(99))); raise SystemExit(5)'"),
    "python-threads": ("python3", "quick", "python3 -c '%s'" % THREADS),
    "python-processes": (
        "python3",
        "quick",
        'python3 -c \'import multiprocessing as m\nif __name__=="__main__":\n'
        ' p=m.get_context("fork").Pool(3); print(p.map(abs,range(-9,0))); p.close(); p.join()\'',
    ),
    "python-spawn": (
        "python3",
        "long",
        'printf \'import multiprocessing as m\\nif __name__=="__main__":\\n'
        ' p=m.get_context("spawn").Pool(2); print(p.map(abs,range(-9,0))); p.close(); p.join()\' '
        ">m.py; python3 m.py",
    ),
    "python-asyncio": (
        "python3",
        "quick",
        "python3 -c 'import asyncio as a\nasync def f():\n"
        ' p=await a.create_subprocess_exec("sh","-c","echo in; exit 3"); print(await p.wait())\n'
        "a.run(f())'",
    ),
    "python-closes": (
        "python3",
        "quick",
        "python3 -c 'import os; os.closerange(3,4096); print(os.dup(0)); os._exit(4)'",
    ),
    "python-setrlimit": (
        "python3",
        "quick",
        "python3 -c 'import resource as r; r.setrlimit(r.RLIMIT_NOFILE,(16,16)); "
        'print(len([open("/dev/null") for i in range(12)]))\'',
    ),
    "python-sqlite": (
        "python3",
        "quick",
        'python3 -c \'import sqlite3 as s; print(s.connect(":memory:").execute("select 7")'
        ".fetchall())'",
    ),
    "ignored-urgent": (
        "python3",
        "quick",
        "trap '' URG; echo 'import signal as s; print(s.getsignal(s.SIGURG))' >f; python3 f; "
        'python3 -c \'import os,subprocess as p; p.call(["python3","f"]); '
        'os.system("python3 f"); os.execlp("python3","python3","f")\'',
    ),
    "unshare-user": ("unshare", "quick", "unshare -U -r sh -c 'id -u; exit 3'"),
    "unshare-all": ("unshare", "quick", "unshare -Urmpuif --mount-proc sh -c 'echo $$; exit 3'"),
    "bubblewrap": (
        "bwrap",
        "quick",
        "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all sh -c 'echo in; exit 3'",
    ),
    "five-thousand-threads": ("cc", "quick", MANY),
    "deepbind": ("cc", "quick", DEEP),
    "closefrom": ("cc", "quick", CLOSEFROM),
    "vfork": ("cc", "quick", VFORK),
    "seccomp-strict": ("cc", "quick", SECCOMP),
    "masked-handler": ("cc", "quick", MASK),
    "busybox": (
        "busybox",
        "quick",
        "busybox sh -c 'seq 9 | busybox awk \"{n+=\\$1}END{print n}\"'",
    ),
    "dash": ("dash", "quick", "dash -c '%s; exit 2'" % LOOP),
    "bash": ("bash", "quick", "bash -c 'f=$(echo a); echo <(:) >/dev/null; echo $f; exit 2'"),
    "bash-jobs": (
        "bash",
        "quick",
        "bash -c 'set -m; sleep 5 & kill %1; wait %1; echo $?; (exit 3) & wait -n; echo $?' 2>&1 | "
        "grep -v Terminated",
    ),
    "bash-coproc": (
        "bash",
        "quick",
        "bash -c 'coproc cat; echo a >&${COPROC[1]}; read -u ${COPROC[0]} x; echo $x'",
    ),
    "bash-traps": (
        "bash",
        "quick",
        'bash -c \'trap "echo t" USR1; trap "echo x" EXIT; kill -USR1 $$; exit 6\'',
    ),
    "ksh": ("ksh", "quick", "ksh -c '%s; exit 2'" % LOOP),
    "zsh": ("zsh", "quick", "zsh -fc '%s; exit 2'" % LOOP),
    "mksh": ("mksh", "quick", "mksh -c '%s; exit 2'" % LOOP),
    "awk": (
        "awk",
        "quick",
        'seq 1000 | awk \'{n+=$1; "echo a" | getline x; print x | "cat"}END{print n}\'',
    ),
    "gawk": ("gawk", "quick", "gawk 'BEGIN{\"date +%Y\" |& getline x; print (x>2000)}'"),
    "pipeline": ("sed", "quick", "seq 999 | sed -n '/9$/p' | sort -rn | uniq | head -5 | tr 9 8"),
    "broken-pipe": ("yes", "quick", "yes | head -3"),
    "gzip": ("gzip", "quick", "seq 99999 | gzip | gzip -d | cksum"),
    "bzip2": ("bzip2", "quick", "seq 9999 | bzip2 | bzip2 -d | cksum"),
    "xz": ("xz", "quick", "seq 9999 | xz -T4 | xz -d | cksum"),
    "zstd": ("zstd", "quick", "seq 99999 | zstd -T4 -q | zstd -dq | cksum"),
    "lz4": ("lz4", "quick", "seq 99999 | lz4 -q | lz4 -dq | cksum"),
    "pigz": ("pigz", "quick", "seq 99999 | pigz -p4 | pigz -d | cksum"),
    "tar": ("tar", "quick", "mkdir d; seq 99 >d/a; tar czf - d | tar tzf -"),
    "cpio": ("cpio", "quick", "seq 9 >a; echo a | cpio -o 2>/dev/null | cpio -t 2>/dev/null"),
    "dd-direct": (
        "dd",
        "quick",
        "dd if=/dev/zero of=f bs=4096 count=4 oflag=direct 2>/dev/null; echo $?; wc -c <f",
    ),
    "rsync": ("rsync", "quick", "mkdir a; seq 99 >a/b; rsync -a a/ c/; cksum <c/b"),
    "curl": (
        "curl",
        "quick",
        "seq 99 >f; curl -s file://$PWD/f | cksum; curl -s file:///none; echo $?",
    ),
    "openssl": (
        "openssl",
        "quick",
        "echo a | openssl dgst -sha256; openssl genrsa 1024 2>/dev/null | wc -l",
    ),
    "ssh-keygen": ("ssh-keygen", "quick", "ssh-keygen -q -t ed25519 -N '' -f k && wc -l <k.pub"),
    "sqlite3": (
        "sqlite3",
        "quick",
        "sqlite3 d 'create table t(a); insert into t values(1),(2); select sum(a) from t'",
    ),
    "make": (
        "make",
        "quick",
        "printf 'all: a b c d\\n%%:\\n\\t@sleep 0.02; echo $@ >$@.o\\n' >M; make -f M -j4; cat *.o",
    ),
    "make-fails": ("make", "quick", "printf 'all:\\n\\t@exit 3\\n' >M; make -f M -j2; echo $?"),
    "find-exec": ("find", "quick", "touch a b c; find . -type f -exec echo {} \\; | sort"),
    "xargs": ("xargs", "quick", "seq 40 | xargs -P4 -n1 sh -c 'exit 0'; seq 9 | xargs -n3 echo"),
    "timeout": (
        "timeout",
        "quick",
        "timeout 0.2 sleep 9; echo $?; timeout -s KILL 0.2 sleep 9; echo $?",
    ),
    "flock": ("flock", "quick", "flock f sh -c 'echo in; exit 3'"),
    "script": ("script", "quick", "script -qec 'tty >/dev/null && echo tty; exit 3' /dev/null"),
    "expect": (
        "expect",
        "quick",
        "expect -c 'spawn -noecho sh -c {read x; echo got $x}; send a\\n; expect got'",
    ),
    "gdb": (
        "gdb cc",
        "long",
        C_MAIN + "cc m.c -o m; gdb -q -batch -nx -ex run ./m 2>/dev/null | grep -c built",
    ),
    "strace": ("strace", "quick", "strace -f -o /dev/null sh -c 'echo a; (exit 3)'"),
    "ltrace": ("ltrace", "quick", "ltrace -o /dev/null true"),
    "valgrind": ("valgrind", "long", "valgrind -q sh -c 'echo a; exit 3'"),
    "qemu-user": ("qemu-x86_64", "long", "qemu-x86_64 /bin/echo a"),
    "socat": ("socat", "quick", "echo a | socat - EXEC:cat"),
    "bc": ("bc", "quick", "echo '2^99' | bc"),
    "tee": ("tee", "quick", "seq 9 | tee a b | cksum; cat a b | cksum"),
    "split": ("split", "quick", "seq 999 | split -l 100 --filter='cksum | cut -c1-4; :' "),
    "sort-parallel": (
        "sort",
        "quick",
        "seq 99999 | sort -R --random-source=/dev/zero --parallel=4 | sort -n | cksum",
    ),
    "memcached": (
        "memcached socat",
        "quick",
        "memcached -u $(id -un) -s $PWD/s -a 666 & p=$!; until [ -S s ]; do sleep 0.02; done; "
        "printf 'set a 0 0 1\\r\\n5\\r\\nget a\\r\\nquit\\r\\n' | socat - UNIX:s; kill $p; wait",
    ),
    "screen": (
        "screen",
        "quick",
        "SCREENDIR=$PWD/.s; export SCREENDIR; mkdir -m700 .s; screen -Dm sh -c 'echo a >f'; cat f",
    ),
    "killed": ("sh", "quick", "kill -9 $$"),
    "segmentation-fault": ("sh", "quick", "ulimit -c 0; kill -SEGV $$"),
    "no-such-program": ("sh", "quick", "./none 2>/dev/null; echo $?"),
    "here-document": ("sh", "quick", "cat <<E\na $(echo b)\nE"),
    "deep-recursion": (
        "bash",
        "quick",
        "bash -c 'f(){ [ $1 -gt 0 ] && f $(($1-1)) || echo end; }; f 500'",
    ),
    "many-children": (
        "sh",
        "quick",
        "i=0; while [ $i -lt 60 ]; do (exit $i) & i=$((i+1)); done; wait; echo end",
    ),
}

PROBE = (
    "ls -l /proc/self/fd | sed -E 's/.* ([0-9]+ -> )/\\1/; s/[0-9]{4,}/N/g; /^total/d; "
    "s#/proc/[0-9N]+/#/proc/P/#; s#/pts/[0-9]+#/pts/T#'; grep -E '^(SigBlk|SigIgn|NoNewPrivs|"
    "Seccomp|Threads):' /proc/self/status; cat /proc/self/limits; umask; pwd | sed 's#.*/##'; "
    "cat /proc/self/oom_score_adj; cut -d' ' -f19,41 /proc/self/stat; exit 7"
)

# Not among the signals below is SIGURG, by which samples are taken without perf events: /proc says
# that it is handled. What programs see themselves is in "ignored-urgent" above.
#
# name: (what must be there, a line of shell in which "$P" is what is to be started)
STARTERS = {
    "sh": ("sh", 'sh "$P"'),
    "exec": ("sh", 'exec sh "$P"'),
    "background": ("sh", 'sh "$P" & wait $!'),
    "subshell": ("sh", '(sh "$P")'),
    "pipe": ("sh", 'sh "$P" | cat'),
    "extra-descriptors": ("sh", 'exec 5</dev/null 9>f; sh "$P"'),
    "closed-input": ("sh", 'sh "$P" <&-'),
    "umask": ("sh", 'umask 077; ulimit -n 200; ulimit -c 0; sh "$P"'),
    "ignored-signals": ("sh", "trap '' INT USR1 PIPE PROF; sh \"$P\""),
    "blocked-signals": (
        "python3",
        "python3 -c 'import os,signal as s; s.pthread_sigmask(0,range(1,32)); "
        'os.execlp("sh","sh",os.environ["P"])\'',
    ),
    "env": ("env", 'env -i PATH="$PATH" sh "$P"'),
    "nohup": ("nohup", 'nohup sh "$P" 2>/dev/null'),
    "setsid": ("setsid", 'setsid -w sh "$P"'),
    "timeout": ("timeout", 'timeout 30 sh "$P"'),
    "nice": ("nice", 'nice -n 5 sh "$P"'),
    "chrt": ("chrt", 'chrt -b 0 sh "$P"'),
    "taskset": ("taskset", 'taskset -c 0 sh "$P"'),
    "prlimit": ("prlimit", 'prlimit --nofile=99:99 sh "$P"'),
    "xargs": ("xargs", 'echo "$P" | xargs -n1 sh'),
    "find": ("find", 'find / -maxdepth 0 -exec sh "$P" \\;'),
    "make": ("make", "printf 'all:\\n\\t@sh $(P)\\n' >M; make -s -f M -j2 2>/dev/null"),
    "bash": ("bash", 'bash -c "sh $P; exit 7"'),
    "ksh": ("ksh", 'ksh -c "sh $P; exit 7"'),
    "zsh": ("zsh", 'zsh -fc "sh $P; exit 7"'),
    "busybox": ("busybox", 'busybox sh -c "sh $P; exit 7"'),
    "perl": ("perl", "perl -e 'system \"sh\",$ENV{P}; exit $?>>8'"),
    "ruby": ("ruby", 'ruby -e \'system "sh",ENV["P"]; exit $?.exitstatus\''),
    "php": ("php", 'php -r \'passthru("sh ".getenv("P"),$r); exit($r);\''),
    "python-subprocess": (
        "python3",
        'python3 -c \'import os,subprocess as s; exit(s.call(["sh",os.environ["P"]]))\'',
    ),
    "python-posix-spawn": (
        "python3",
        'python3 -c \'import os; p=os.posix_spawnp("sh",["sh",os.environ["P"]],os.environ); '
        "exit(os.waitstatus_to_exitcode(os.waitpid(p,0)[1]))'",
    ),
    "node": (
        "node",
        'node -e \'process.exit(require("child_process").spawnSync("sh",[process.env.P],'
        '{stdio:"inherit"}).status)\'',
    ),
    "script": ("script", 'script -qec "sh $P" /dev/null'),
    "setpriv": ("setpriv", 'setpriv --no-new-privs sh "$P"'),
    "unshare": ("unshare", 'unshare -Ur sh "$P"'),
    "strace": ("strace", 'strace -f -o /dev/null sh "$P"'),
    "flock": ("flock", 'flock f sh "$P"'),
}


def empty(folder):
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)


def check_same(t, r, bare, how):
    seen, alone = (r.status, r.out, r.target_err), (bare.status, bare.out, bare.err)
    for what, ours, theirs in zip(("status", "output", "errors"), seen, alone):
        if ours != theirs:
            raise Failed("%s: %s alone: %r, ours: %r; %s" % (how, what, theirs, ours, r.messages))


def run_in_session(t, argv, env, how):
    """Run it in a session of its own, and return what it printed."""
    report = os.path.join(t.dir, how + ".wsrep")
    start = ["start", "-f", "-o", report, "--session-new=" + how]
    if how == "collected":
        r = t.tool(*start)
        if r.status:
            raise Failed("no collection can be asked for: %s" % r.said())
        name = "--session=" + how
    else:
        name = "--session-new=" + how
    empty(t.work)
    r = t.tool("launch", name, *argv, env=env)
    t.recorders.add(r.pid)
    if how == "collected":
        t.verify(report)
    return r


def compare(t, words, line, env=None):
    """Run a line of shell bare, recorded in each mode and in a session, each time in an empty
    folder.
    """
    for word in words.split():
        if not shutil.which(word):
            t.skip("%s is not installed" % word)
    argv = ["sh", "-c", line]
    bare = t.run(argv, env=env)
    if b"not permitted" in bare.err or bare.status in (126, 127):
        t.skip("it does not run here alone: %s" % bare.said()[-200:])
    report = os.path.join(t.dir, "r.wsrep")
    for mode in MODES:
        empty(t.work)
        both = dict(env or {}, WARPSIGHT_PERF=mode)
        r = t.profile(argv, "-f", output=report, env=both)
        check_same(t, r, bare, "WARPSIGHT_PERF=%s" % mode)
        t.verify(report)
    for how in SESSIONS if ALL else SESSIONS[:1]:
        check_same(t, run_in_session(t, argv, env, how), bare, how)
        t.check_clean()


def add_program(name, words, length, line):
    def program(t):
        if length == "long" and not ALL:
            t.skip("takes long: WS_TEST_PROGRAMS=all runs it")
        compare(t, words, line)

    program.__name__ = name
    test("programs")(program)


def add_starter(name, words, line):
    def starter(t):
        probe = os.path.join(t.dir, "probe")
        with open(probe, "w") as f:
            f.write(PROBE)
        compare(t, words, line, {"P": probe})

    starter.__name__ = "inherited-through-" + name
    test("programs")(starter)


for name, program in PROGRAMS.items():
    add_program(name, *program)
for name, starter in STARTERS.items():
    add_starter(name, *starter)
