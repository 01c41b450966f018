#!/usr/bin/env python3
"""Scripts whose interpreter is written in C: test_scripts.py WARPSIGHT.

What the interpreter does most is named in words of the script's language, and how its own loops
work is nobody's concern. Prints TAP.
"""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
from findings import analyze, check_absent, check_first
from tap import Skip, live, main, same

SEARCH = """
my @seen; my $back = 0;
sub visit { my ($id) = @_; if (grep { $_ eq $id } @seen) { $back++ } else { push @seen, $id } }
visit("v" . ($_ * 7919 % 3000)) for 1 .. 6000;
print "$back\n";
"""

SORT = """
my @top;
for my $i (1 .. 6000) { push @top, "p" . ($i * 7919 % 100003); @top = sort @top }
print "$top[0]\n";
"""

COMPILE = """
my $found = 0;
for my $line (1 .. 900) { for my $word (1 .. 100) { $found++ if "line $line" =~ /\\b$word\\b/ } }
print "$found\n";
"""


def run_script(interpreter, name, script):
    if not shutil.which(interpreter):
        raise Skip("%s is not installed" % interpreter)
    with open(name, "w") as f:
        f.write(script)
    return analyze(name, interpreter, name)


@live
def searching_an_array_for_each_item_is_named():
    report = run_script("perl", "search.pl", SEARCH)
    check_first(report, "script-work", "perl", "search.pl", "grep", "hash table")
    check_absent(report, "hot-code")


@live
def sorting_again_and_again_is_named():
    check_first(
        run_script("perl", "sort.pl", SORT),
        "script-work",
        "sort.pl",
        "for sorting, at line 3: for my $i",
    )


@live
def compiling_expressions_again_and_again_is_named():
    report = run_script("perl", "compile.pl", COMPILE)
    check_first(report, "script-work", "compiling regular expressions", "qr//")


READ = """listing() { awk 'BEGIN { for (i = 0; i < 30000; i++) print i, "/srv/file" i }'; }
# read a line, and
total=0
while read -r size name; do
  total=$((total + size))
done < <(listing | tr -d Q)
echo $total
"""


@live
def a_shell_that_reads_slowly_comes_before_those_who_wait_for_it():
    report = run_script("bash", "sizes.sh", READ)
    check_first(report, "script-work", "sizes.sh", "one byte at a time), at line 4: while read")
    check_absent(report, "slow-reader")
    check_absent(report, "serial-section")


BUILD = """out=""
for i in $(seq 1 2500); do
  out="$out<li>item number $i of a list that grows and grows</li>"
done
echo ${#out}
"""


@live
def a_shell_that_copies_its_text_each_time_is_named():
    report = run_script("bash", "build.sh", BUILD)
    check_first(report, "script-work", "copies the whole text", 'at line 3: out="$out')


DEDUPE = """// Leaves out what was seen before: seen.includes(id)
const seen = [];
for (let i = 0; i < 40000; i++) {
  const id = 'id' + (i * 7919 % 20011);
  if (!seen.includes(id)) seen.push(id);
}
console.log(seen.length);
"""


@live
def a_search_in_javascript_is_named():
    report = run_script("node", "dedupe.js", DEDUPE)
    check_first(report, "script-work", "node computes in dedupe.js", "at line 5: if (!seen")
    check_absent(report, "serial-section")
    check_absent(report, "slow-stage")


JSON_COPY = """let state = [];
for (let i = 0; i < 300; i++) state.push({ id: i, name: 'item ' + i, tags: ['a', 'b', 'c'] });
for (let round = 0; round < 8000; round++) {
  const next = JSON.parse(JSON.stringify(state));
  next[round % 300].id++;
  state = next;
}
console.log(state[0].id);
"""

SUMMARY = """const list = [];
for (let i = 0; i < 300; i++) list.push({ id: i, name: 'item ' + i, tags: ['a', 'b', 'c'] });
const text = JSON.stringify(list);
let sum = 0;
for (let round = 0; round < 8000; round++) sum += JSON.parse(text)[round % 300].id;
console.log(sum);
"""


@live
def copying_by_json_is_waste_and_reading_it_is_not():
    """Of the same operations, only those are a warning that are never what a script is for."""
    for name, program, level in ("copy", JSON_COPY, "warning"), ("summary", SUMMARY, "note"):
        report = run_script("node", name + ".js", program)
        check_first(report, "script-work", "reading or writing JSON", "JSON.parse(")
        same(report["findings"][0]["severity"], level, name)


COMPUTE = """let v = 1;
for (let i = 0; i < 300000000; i++) v = (v * 31 + i) % 1000003;
console.log(v);
"""


@live
def javascript_that_only_computes_is_not_said_to_do_more():
    check_absent(run_script("node", "compute.js", COMPUTE), "script-work")


ASK = """const http = require('http');
const server = http.createServer((request, answer) => setTimeout(() => answer.end('yes'), 10));
const ask = (port) => new Promise((done) => {
  http.get({ port }, (answer) => { answer.resume(); answer.on('end', done); });
});
server.listen(0, async () => {
  for (let i = 0; i < 60; i++) await ask(server.address().port);
  server.close();
});
"""


@live
def javascript_that_awaits_in_a_loop_is_named():
    check_first(
        run_script("node", "ask.js", ASK),
        "blocking-io",
        "The event loop of node has nothing to do",
        "at line 7: for (let i = 0",
        "Promise.all",
    )


PIPELINES = """get() { grep "^k$1 " data.txt | awk '{print $2}' | tr a-z A-Z; }
for i in $(seq 1 40); do echo "k$i v$i"; done > data.txt
seq 1 70 | while read -r k; do
    get $k >> out.txt
done
"""


@live
def pipelines_one_after_the_other_are_named():
    check_first(
        run_script("sh", "pipelines.sh", PIPELINES),
        "child-processes",
        "70 grep",
        "grep at line 1: get()",
    )


POLL = """rm -f result.*
( for i in 1 2 3 4 5 6 7; do sleep 0.15; echo $i > result.$i; done ) &
for i in 1 2 3 4 5 6 7; do
  while [ ! -e result.$i ]; do sleep 0.03; done
done
"""


@live
def a_script_that_asks_again_after_a_pause_is_named():
    report = run_script("bash", "poll.sh", POLL)
    check_first(report, "sleeping", "sleep at line 4: while [ ! -e")
    same(report["findings"][0]["severity"], "warning")


# Beside the pauses, as many short processes as make a finding of their own.
PAUSES = """make_part() {
  seq 1 40000 | awk -v part="$1" '{ print part, $1 * 3 }' > part.tmp
  mv part.tmp part.$1
}
rm -f part.*
for part in 1 2 3 4 5 6; do
  make_part $part &
  while [ ! -e part.$part ]; do
    sleep 0.2
  done
  wc -l < part.$part > lines.$part
done
cat lines.*
"""


PACK = """
pack() {
    %s -c "a = 0
for i in range(%d): a += i * i
print(a)" > "sum$1"
}
for n in 1 2 3 4; do
    pack $n
done
cat sum? | wc -c
"""


@live
def programs_that_a_script_runs_one_after_the_other_are_named():
    """The path goes back through all of them, although those of the pipeline at its end wait for
    each other and began later.
    """
    report = run_script("bash", "pack.sh", PACK % (sys.executable, 2000000))
    check_first(report, "children-in-turn", "4 processes", "at line 3", "xargs -P")


@live
def short_processes_cost_no_more_than_they_take():
    """Ten that do nothing are no reason for the time of two that compute."""
    script = "for n in 1 2 3 4 5 6 7 8 9 10; do %s; done\n" % shutil.which("true")
    script += '%s -c "for i in range(12000000): i * i"\n' % sys.executable * 2
    report = run_script("bash", "mixed.sh", script)
    titles = [found["title"] for found in report["findings"]]
    if any("short processes" in title for title in titles):
        raise AssertionError(titles)


@live
def pauses_are_no_starting_of_processes():
    report = run_script("bash", "pauses.sh", PAUSES)
    check_first(report, "sleeping", "sleep at line 9: sleep 0.2")
    started = [f for f in report["findings"] if f["rule"] == "child-processes"]
    if started and started[0]["cost_ns"] > report["window_ns"] / 2:
        raise AssertionError(started)


SINGLE_BYTES = """head -c 300000 /dev/zero > image
# dd bs=4096 would do
dd if=image of=body bs=1 skip=512 2> /dev/null
"""


@live
def single_bytes_that_dd_moves_are_named():
    report = run_script("bash", "cut.sh", SINGLE_BYTES)
    check_first(report, "small-io", "dd at line 3: dd if=image", "take bs=1M")
    same(len([f for f in report["findings"] if f["rule"] == "small-io"]), 1)


FIND = """mkdir -p tree
for i in $(seq 1 250); do echo $i > tree/$i.txt; done
find tree -name '*.txt' -exec wc -c {} \\; > sizes
"""


@live
def a_process_for_each_file_that_find_starts_is_named():
    check_first(
        run_script("sh", "sizes.sh", FIND),
        "child-processes",
        "(mostly wc)",
        "find at line 3: find tree",
        "end -exec by +",
    )


KEYS = """
my @lines = map { join ";", $_, "Runner" . $_ * 7919 % 9001, "Club", $_ * 31 % 4001 } 1 .. 40000;
my @ranked = sort { (split /;/, $a)[3] <=> (split /;/, $b)[3] } @lines;
print "$ranked[0]\\n";
"""


@live
def keys_that_each_comparison_works_out_are_named():
    report = run_script("perl", "keys.pl", KEYS)
    check_first(report, "script-work", "whose comparisons work out their keys anew", "at line 3: ")


LETTERS = """export LC_ALL=C.UTF-8
text=
for i in {1..250}; do text+="Der König führt über die Brücke $i, "; done
n=0
for ((at = 0; at < ${#text}; at++)); do
    if [[ ${text:at:1} == ü ]]; then n=$((n + 1)); fi
done
echo $n
"""


@live
def letters_that_a_shell_counts_from_the_start_are_named():
    report = run_script("bash", "letters.sh", LETTERS)
    check_first(report, "script-work", "counting the characters of texts", "at line 5: for ((at")


FIND_ITEM = """// for each number, find looks at all parts
const parts = Array.from({ length: 6000 }, (_, n) => ({ id: n * 7919 % 100003, price: n }));
function find(id) {
  for (const part of parts) {
    if (part.id === id) return part;
  }
  return null;
}
let sum = 0;
for (let n = 0; n < 90000; n++) {
  sum += find(n * 7919 % 100003) ? 1 : 0;
}
console.log(sum);
"""

AWK_LIST = """# for (each) word
BEGIN {
  for (i = 0; i < 12000; i++) {
    word = "w" (i * 7919 % 700)
    for (k = 1; k <= n; k++) if (names[k] == word) break
    if (k > n) names[++n] = word
  }
  print n
}
"""


@live
def loops_of_scripts_that_search_are_named_by_their_text():
    check_first(
        run_script("node", "parts.js", FIND_ITEM),
        "script-work",
        "whose innermost loop, which looks at items one by one, is at line 4: for (const part",
        "hash table",
    )
    if not shutil.which("awk"):
        raise Skip("awk is not installed")
    with open("list.awk", "w") as f:
        f.write(AWK_LIST)
    check_first(analyze("list", "awk", "-f", "list.awk"), "script-work", "at line 5: for (k = 1")


INLINE = """seq 1 3000 | gawk '{ print "c" $1 }' > customers
gawk 'NR == FNR { id[NR] = $1; n = NR; next }
     { for (i = 1; i <= n; i++) if (id[i] == $1) { print $1; break } }' customers customers > both
"""


@live
def a_program_on_the_command_line_of_awk_has_its_line_of_the_script():
    if not shutil.which("gawk"):
        raise Skip("gawk is not installed")
    report = run_script("bash", "both.sh", INLINE)
    check_first(report, "script-work", "a program on its command line, gawk at line 2: ")


CUTTING = """my $log = join("\\n", map { "entry $_ " . "x" x 40 } 1 .. 16000) . "\\n";
my $count = 0;
while ($log =~ /\\n/) {
    $log = substr($log, index($log, "\\n") + 1);
    $count++;
}
print "$count\\n";
"""


@live
def cutting_the_front_off_a_text_is_named():
    report = run_script("perl", "cutting.pl", CUTTING)
    check_first(report, "script-work", "cutting pieces out of texts", "at line 4: $log = substr")


BY_VALUE = """use strict;
my %stock = map { ("item$_" => $_) } 1 .. 1000;
sub left {
    my ($name, %all) = @_;
    return $all{$name};
}
my $sum = 0;
$sum += left("item$_", %stock) for 1 .. 500;
print "$sum\n";
"""

MAPPED = """my %count;
my $text = join(' ', map { "word" . ($_ % 2003) } 1 .. 500000);
$count{$_}++ for split / /, $text;
print scalar(keys %count), "\n";
"""


@live
def a_hash_that_is_handed_over_by_value_is_named():
    report = run_script("perl", "stock.pl", BY_VALUE)
    check_first(
        report, "script-work", "copying hashes and arrays", "at line 4: my ($name, %all)", "\\%all"
    )
    same(report["findings"][0]["severity"], "warning")


@live
def a_script_that_searches_nothing_is_not_told_to_search_less():
    report = run_script("perl", "mapped.pl", MAPPED)
    findings = [f for f in report["findings"] if f["rule"] == "script-work"]
    same([f["severity"] for f in findings], ["note"] * len(findings))
    same(any("looks for an item" in f["advice"] for f in findings), False)


@live
def a_script_is_named_though_its_interpreter_has_no_symbols():
    program = "BEGIN { for (i = 0; i < 4000000; i++) sum += i % 7; print sum }"
    if not shutil.which("awk"):
        raise Skip("awk is not installed")
    with open("sum.awk", "w") as f:
        f.write(program)
    report = analyze("sum", "awk", "-f", "sum.awk")
    check_first(report, "script-work", "sum.awk")
    same([f["severity"] for f in report["findings"]], ["note"] * len(report["findings"]))


if __name__ == "__main__":
    main()
