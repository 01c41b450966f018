/*
 * test_works.c - which work of libraries is recognised on the stacks of samples, and how the
 * function of a library that the user's code called is shown. Reports of made-up programs: what
 * functions of Rust, Go and C++ are called does not depend on what is installed here.
 */
#include <dlfcn.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/analysis.h"
#include "analyze/finding.h"
#include "analyze/hot_loop.h"
#include "analyze/print.h"
#include "analyze/source_line.h"
#include "analyze/written.h"
#include "store/store.h"

enum { BEGIN = 1000000, MS = 1000000, SAMPLES = 400, DEEPEST = 5 };

#define PROGRAM "/home/user/program"
#define STDCXX "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"
#define LIBC "/usr/lib/x86_64-linux-gnu/libc.so.6"
#define PYTHON "/usr/bin/python3.11"
#define MODULES "/usr/lib/python3.11/"
#define SQLITE "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0"
#define KERNEL "[kernel.kallsyms]"
#define JVM "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so"
#define JAVA "/tmp/perf-10.map" /* code that it generated */
#define HASHTABLE                                                                            \
	"std::_Hashtable<Tile, Tile, std::allocator<Tile>, std::__detail::_Identity, Same, " \
	"Mix<int>, std::__detail::_Mod_range_hashing>::"

struct place {
	const char *name, *module; /* module: the source file of code of Python */
	const char *inlined;	   /* the source file of an inlined function of `module` */
};

static const struct sampled {
	struct place frames[DEEPEST]; /* innermost first */
	enum ws_finding_level level;
	const char *title;	      /* in that of the first finding */
	struct place beside[DEEPEST]; /* of a second thread, which ends after a third of the time */
} programs[] = {
	{{{"main.order", PROGRAM}, {"main.main", PROGRAM}, {"runtime.goexit.abi0", PROGRAM}},
	 WS_LEVEL_NOTE,
	 "the CPU computes at main.order",
	 {{"runtime.scanobject", PROGRAM},
	  {"runtime.gcBgMarkWorker", PROGRAM},
	  {"runtime.goexit.abi0", PROGRAM}}},
	{{{"main.order", PROGRAM}, {"main.main", PROGRAM}, {"runtime.goexit.abi0", PROGRAM}},
	 WS_LEVEL_CRITICAL,
	 "10 works, mostly at main.order, while the others",
	 {{"main.read", PROGRAM}, {"runtime.goexit.abi0", PROGRAM}}},
	{{{"__gconv_find_transform", LIBC},
	  {"__gconv_open", LIBC},
	  {"iconv_open", LIBC},
	  {"to_utf8", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "setting up converters between character sets, again and again at to_utf8, in iconv_open"},
	{{{"<core::str::iter::Chars as core::iter::traits::iterator::Iterator>::advance_by",
	   PROGRAM, "/rustc/90b35a6/library/core/src/str/iter.rs"},
	  {"core::iter::traits::iterator::Iterator::nth", PROGRAM,
	   "/rustc/90b35a6/library/core/src/iter/traits/iterator.rs"},
	  {"genome::base", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "going through a text from its start to count or find its characters at genome::base"},
	{{{"std::_Sp_counted_base<(__gnu_cxx::_Lock_policy)2>::_M_release()", PROGRAM,
	   "/usr/include/c++/12/bits/shared_ptr_base.h"},
	  {"std::shared_ptr<Conf>::~shared_ptr()", PROGRAM,
	   "/usr/include/c++/12/bits/shared_ptr.h"},
	  {"look", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "counting the owners of objects (std::shared_ptr) at look"},
	{{{"_int_free", LIBC},
	  {"cfree", LIBC},
	  {"std::_Sp_counted_base<(__gnu_cxx::_Lock_policy)2>::_M_release()", PROGRAM,
	   "/usr/include/c++/12/bits/shared_ptr_base.h"},
	  {"forget", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "allocating and freeing memory at forget"},
	{{{"java.util.HashMap$TreeNode.find", JAVA}, {"Islands.claim", JAVA}},
	 WS_LEVEL_WARNING,
	 "goes into hash tables whose keys collide: many have the same hashCode"},
	{{{"java.util.HashMap.getNode", JAVA},
	  {"java.util.HashMap.get", JAVA},
	  {"Words.count", JAVA}},
	 WS_LEVEL_NOTE,
	 "looking up items in hash tables (HashMap) at Words.count"},
	{{{"std::__find_if<std::_Rb_tree_const_iterator<int>, Equals>", PROGRAM,
	   "/usr/include/c++/12/bits/stl_algobase.h"},
	  {"is_blocked", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "going through a sorted tree (std::set, std::map) item by item at is_blocked"},
	{{{"getrandom", LIBC}, {"draw_number", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "asking the system for random numbers at draw_number, in getrandom"},
	{{{"getrandom", LIBC}, {"std::random_device::_M_getval()", STDCXX}, {"dice", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "making generators of random numbers anew"},
	{{{"java.text.DecimalFormat.clone", JAVA},
	  {"java.text.SimpleDateFormat.initialize", JAVA},
	  {"java.text.SimpleDateFormat.<init>", JAVA},
	  {"Journal.date", JAVA}},
	 WS_LEVEL_WARNING,
	 "making formats of dates and numbers anew at Journal.date"},
	{{{"by_name", PROGRAM}, {"msort_with_tmp", LIBC}, {"qsort_r", LIBC}, {"rank", PROGRAM}},
	 WS_LEVEL_NOTE,
	 "the CPU computes at by_name: it compares items for sorting at rank"},
	{{{"_Unwind_Find_FDE", "/lib/x86_64-linux-gnu/libgcc_s.so.1"},
	  {"__cxa_throw", STDCXX},
	  {"int __gnu_cxx::__stoa<long, int>(long (*)(char const*), char const*)", PROGRAM,
	   "/usr/include/c++/12/ext/string_conversions.h"},
	  {"parse", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "100 % of the time goes into throwing exceptions at parse, in __gnu_cxx::__stoa"},
	{{{"std::_Hashtable<int, std::pair<int const, int> >::_M_find_before_node(unsigned long)",
	   PROGRAM, "/usr/include/c++/12/bits/hashtable.h"},
	  {"std::__detail::_Map_base<int, std::pair<int const, int> >::operator[](int const&)",
	   PROGRAM, "/usr/include/c++/12/bits/hashtable_policy.h"},
	  {"count", PROGRAM}},
	 WS_LEVEL_NOTE,
	 "looking up items in hash tables at count, in std::__detail::_Map_base"},
	{{{"std::__detail::_Executor<char const*>::_M_dfs(std::__detail::_Match_mode, long)",
	   PROGRAM, "/usr/include/c++/12/bits/regex_executor.tcc"},
	  {"match", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "regular expressions at match"},
	{{{"_code", MODULES "re/_compiler.py"},
	  {"compile", MODULES "re/_compiler.py"},
	  {"match", MODULES "re/__init__.py"},
	  {"classify", "/home/user/classify.py"}},
	 WS_LEVEL_WARNING,
	 "compiling regular expressions, again and again at classify"},
	{{{"std::_Rb_tree<int, int>::_M_insert_unique(int const&)", PROGRAM,
	   "/usr/include/c++/12/bits/stl_tree.h"},
	  {"keep", PROGRAM}},
	 WS_LEVEL_NOTE,
	 "looking up items in sorted trees (std::map, std::set) at keep"},
	{{{"__memmove_avx512_unaligned_erms", LIBC},
	  {"std::vector<Job, std::allocator<Job> >::erase(Job const*)", PROGRAM,
	   "/usr/include/c++/12/bits/stl_vector.h"},
	  {"process", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "moving the items of lists at process, in std::vector::erase"},
	{{{"__memmove_avx512_unaligned_erms", LIBC},
	  {"std::string std::operator+<char, std::char_traits<char> >(std::string const&, char "
	   "const*)",
	   PROGRAM, "/usr/include/c++/12/bits/basic_string.h"},
	  {"render", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "measuring and joining strings at render, in std::operator+"},
	{{{"__vfprintf_internal", LIBC},
	  {"std::ostream& std::ostream::operator<< <int>(int)", STDCXX},
	  {"save", PROGRAM}},
	 WS_LEVEL_NOTE,
	 "converting numbers and texts at save, in std::ostream::operator<<"},
	{{{"__memmove_avx512_unaligned_erms", LIBC},
	  {"<alloc::vec::Vec<T,A> as core::clone::Clone>::clone", PROGRAM,
	   "/rustc/9fc6b431/library/alloc/src/vec/mod.rs"},
	  {"demo::main", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "copying whole objects at demo::main"},
	{{{"runtime.lock2", PROGRAM},
	  {"runtime.chansend1", PROGRAM, "/usr/lib/go-1.19/src/runtime/chan.go"},
	  {"main.produce", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "handing over between goroutines at main.produce, in runtime.chansend1"},
	{{{"PyLong_FromString", PYTHON},
	  {"_PyObject_MakeTpCall", PYTHON},
	  {"JSONDecoder.decode", MODULES "json/decoder.py"},
	  {"load", MODULES "json/__init__.py"},
	  {"get_setting", "/home/user/conf.py"}},
	 WS_LEVEL_NOTE,
	 "reading or writing JSON, XML or the like at get_setting (conf.py:7), in json.load"},
	{{{"_elementtree_Element_find_impl", MODULES "lib-dynload/_elementtree.so"},
	  {"_elementtree_Element_find", MODULES "lib-dynload/_elementtree.so"},
	  {"price", "/home/user/prices.py"}},
	 WS_LEVEL_NOTE,
	 "searching through the elements of XML at price (prices.py:7)"},
	{{{"PyObject_GetAttr", PYTHON},
	  {"_ProtocolMeta.__instancecheck__", MODULES "typing.py"},
	  {"PyObject_IsInstance", PYTHON},
	  {"total_area", "/home/user/shapes.py"}},
	 WS_LEVEL_NOTE,
	 "checking types by protocols or abstract classes at total_area (shapes.py:7)"},
	{{{"std::locale::_Impl::_Impl(char const*, unsigned long)", STDCXX},
	  {"std::locale::locale(char const*)", STDCXX},
	  {"number", PROGRAM, "/home/user/labels.cpp"}},
	 WS_LEVEL_WARNING,
	 "making locales, each of which reads its files at number"},
	{{{"stringlib_replace_substring", PYTHON},
	  {"unicode_replace", PYTHON},
	  {"mask", "/home/user/mask.py"}},
	 WS_LEVEL_NOTE,
	 "replacing parts of texts, each time in the whole text at mask (mask.py:7)"},
	{{{"replace", "/usr/lib/libpython3.11.so.1.0"}, {"mask", "/home/user/mask.py"}},
	 WS_LEVEL_NOTE,
	 "replacing parts of texts, each time in the whole text at mask (mask.py:7), in replace"},
	{{{"replace", MODULES "dataclasses.py"}, {"change", "/home/user/change.py"}},
	 WS_LEVEL_NOTE,
	 "100 % of the time goes into calls of a library at change (change.py:7), in "
	 "dataclasses.replace"},
	{{{"replace", "/opt/tool/libtool.so"}, {"mask", PROGRAM}},
	 WS_LEVEL_NOTE,
	 "the CPU computes at replace"},
	/* What goes through items says less than what makes them; but a sum of lists copies. */
	{{{"Reader_iternext", MODULES "lib-dynload/_csv.cpython-311.so"},
	  {"list_vectorcall", PYTHON},
	  {"load", "/home/user/load.py"}},
	 WS_LEVEL_NOTE,
	 "reading or writing CSV at load (load.py:7), in list_vectorcall"},
	{{{"_PyUnicode_FromASCII", PYTHON},
	  {"glob0", MODULES "fnmatch.py"},
	  {"list_vectorcall", PYTHON},
	  {"glob", MODULES "glob.py"},
	  {"find_all", "/home/user/find.py"}},
	 WS_LEVEL_NOTE,
	 "listing folders (glob, os.walk, os.listdir) at find_all (find.py:7), in glob.glob"},
	{{{"malloc", LIBC}, {"list_vectorcall", PYTHON}, {"copy_all", "/home/user/copy_all.py"}},
	 WS_LEVEL_WARNING,
	 "copying lists, sets or dictionaries at copy_all"},
	{{{"list_concat", PYTHON}, {"builtin_sum", PYTHON}, {"flatten", "/home/user/flat.py"}},
	 WS_LEVEL_WARNING,
	 "adding lists by sum, which copies all that it has for each list at flatten (flat.py:7)"},
	{{{"PyNumber_Add", PYTHON}, {"builtin_sum", PYTHON}, {"total", "/home/user/total.py"}},
	 WS_LEVEL_NOTE,
	 "going through all items (sum, min, max, any, all) at total (total.py:7)"},
	{{{"__memmove_avx512_unaligned_erms", LIBC},
	  {"unicode_subscript", PYTHON},
	  {"consume", "/home/user/consume.py"}},
	 WS_LEVEL_WARNING,
	 "cutting texts or bytes into slices, each of which is a copy at consume (consume.py:7)"},
	{{{"unicode_char", PYTHON}, {"unicode_subscript", PYTHON}, {"scan", "/home/user/scan.py"}},
	 WS_LEVEL_NOTE,
	 "reading single characters and pieces of texts at scan (scan.py:7)"},
	{{{"tuplerichcompare", PYTHON},
	  {"dictkeys_generic_lookup", PYTHON},
	  {"look_up", "/home/user/look_up.py"}},
	 WS_LEVEL_NOTE,
	 "looking up keys in sets and dictionaries at look_up (look_up.py:7)"},
	{{{"sqlite3BtreeNext", SQLITE},
	  {"sqlite3VdbeExec", SQLITE},
	  {"sqlite3_step", SQLITE},
	  {"pysqlite_connection_execute", MODULES "lib-dynload/_sqlite3.so"},
	  {"find", "/home/user/find.py"}},
	 WS_LEVEL_NOTE,
	 "queries that go through all rows of a database's table at find (find.py:7)"},
	{{{"sqlite3BtreeTableMoveto", SQLITE},
	  {"sqlite3VdbeExec", SQLITE},
	  {"sqlite3_step", SQLITE},
	  {"pysqlite_connection_execute", MODULES "lib-dynload/_sqlite3.so"},
	  {"find", "/home/user/find.py"}},
	 WS_LEVEL_NOTE,
	 "queries of a database at find (find.py:7)"},
	{{{"encoder_call", MODULES "lib-dynload/_json.so"},
	  {"JSONEncoder.iterencode", MODULES "json/encoder.py"},
	  {"dump", MODULES "json/__init__.py"},
	  {"save", "/home/user/save.py"}},
	 WS_LEVEL_NOTE,
	 "writing JSON at save (save.py:7), in json.dump"},
	{{{"__memmove_avx_unaligned", LIBC},
	  {"implement_array_function", "/usr/lib/python3/dist-packages/numpy/core/umath.so"},
	  {"append", "/usr/lib/python3/dist-packages/numpy/lib/function_base.py"},
	  {"collect", "/home/user/collect.py"}},
	 WS_LEVEL_WARNING,
	 "growing arrays and tables (append, stack, concat), each time by a copy of the whole at "
	 "collect (collect.py:7)"},
	{{{"collections.deque.__getitem__", PYTHON}, {"smooth", "/home/user/smooth.py"}},
	 WS_LEVEL_WARNING,
	 "walking through deques to items by their numbers at smooth"},
	{{{"deflate", "/usr/lib/x86_64-linux-gnu/libz.so.1.2.13"},
	  {"zlib.Compress.flush", MODULES "lib-dynload/zlib.so"},
	  {"GzipFile.flush", MODULES "gzip.py"},
	  {"write", "/home/user/log.py"}},
	 WS_LEVEL_WARNING,
	 "flushing compressed files, piece by piece at write"},
	{{{"inflate", "/usr/lib/x86_64-linux-gnu/libz.so.1.2.13"},
	  {"_GzipReader.read", MODULES "gzip.py"},
	  {"DecompressReader.seek", MODULES "_compression.py"},
	  {"GzipFile.seek", MODULES "gzip.py"},
	  {"article", "/home/user/archive.py"}},
	 WS_LEVEL_WARNING,
	 "moving within compressed files (seek), which unpacks all that is skipped"},
	{{{"inflate", "/usr/lib/x86_64-linux-gnu/libz.so.1.2.13"},
	  {"_GzipReader.read", MODULES "gzip.py"},
	  {"GzipFile.read", MODULES "gzip.py"},
	  {"article", "/home/user/archive.py"}},
	 WS_LEVEL_NOTE,
	 "compressing or unpacking data at article"},
	{{{"PyObject_Vectorcall", PYTHON},
	  {"Series.__init__", "/usr/lib/python3/dist-packages/pandas/core/series.py"},
	  {"DataFrame.iterrows", "/usr/lib/python3/dist-packages/pandas/core/frame.py"},
	  {"freight", "/home/user/freight.py"}},
	 WS_LEVEL_WARNING,
	 "rows and single values of pandas tables, one by one at freight (freight.py:7)"},
	{{{"int.__eq__", PYTHON},
	  {"max_min", PYTHON},
	  {"_PyObject_MakeTpCall", PYTHON},
	  {"shortest", "/home/user/roads.py"}},
	 WS_LEVEL_NOTE,
	 "going through all items (sum, min, max, any, all) at shortest (roads.py:7), in max_min"},
	{{{"__strptime_internal", LIBC}, {"message_time", PROGRAM, "/home/user/mailbox.c"}},
	 WS_LEVEL_NOTE,
	 "converting dates at message_time"},
	{{{"PyDict_SetItem", PYTHON},
	  {"deepcopy", MODULES "copy.py"},
	  {"try_move", "/home/user/game.py"}},
	 WS_LEVEL_WARNING,
	 "copying whole objects at try_move (game.py:7), in copy.deepcopy"},
	{{{"deflate", "/usr/lib/x86_64-linux-gnu/libz.so.1.2.13"},
	  {"PyObject_Vectorcall", PYTHON},
	  {"respond", "/home/user/server.py"}},
	 WS_LEVEL_NOTE,
	 "compressing or unpacking data at respond (server.py:7), in deflate"},
	{{{"PyUnicode_FromFormatV", PYTHON},
	  {"PyErr_Format", PYTHON},
	  {"int.__new__", PYTHON},
	  {"parse", "/home/user/read.py"}},
	 WS_LEVEL_WARNING,
	 "throwing exceptions at parse (read.py:7), in int.__new__"},
	{{{"list.__contains__", PYTHON}, {"unique", "/home/user/ids.py"}},
	 WS_LEVEL_WARNING,
	 "comparing items one by one at unique (ids.py:7), in list.__contains__"},
	{{{"[python3.11]", PYTHON}, {"re.Pattern.match", PYTHON}, {"check", "/home/user/valid.py"}},
	 WS_LEVEL_WARNING,
	 "regular expressions at check (valid.py:7), in re.Pattern.match"},
	{{{"PyDict_Next", PYTHON}, {"gc.collect", PYTHON}, {"serve", "/home/user/serve.py"}},
	 WS_LEVEL_WARNING,
	 "collecting garbage, which the program asks for at serve (serve.py:7), in gc.collect"},
	{{{"fetestexcept", "/usr/lib/x86_64-linux-gnu/libm.so.6"},
	  {"npy_clear_floatstatus_barrier", "/usr/lib/python3/dist-packages/numpy/core.so"},
	  {"PyNumber_Multiply", PYTHON},
	  {"normalise", "/home/user/grid.py"}},
	 WS_LEVEL_WARNING,
	 "single items of arrays at normalise (grid.py:7)"},
	/* What a function of a library spends its time in may say more than what it is for. */
	{{{"__rawmemchr_avx2", LIBC},
	  {"_IO_strfile_read", LIBC},
	  {"__isoc99_sscanf", LIBC},
	  {"load", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "measuring all the rest of a text at each call of sscanf at load, in __isoc99_sscanf"},
	{{{"__vfscanf_internal", LIBC}, {"__isoc99_sscanf", LIBC}, {"load", PROGRAM}},
	 WS_LEVEL_NOTE,
	 "converting numbers and texts at load"},
	{{{"std::__detail::_Mod_range_hashing::operator()(unsigned long, unsigned long)", PROGRAM,
	   "/usr/include/c++/12/bits/hashtable_policy.h"},
	  {HASHTABLE "_M_find_before_node(unsigned long)", PROGRAM,
	   "/usr/include/c++/12/bits/hashtable.h"},
	  {"std::unordered_set<Tile, Mix<int>, Same>::insert(Tile&&)", PROGRAM,
	   "/usr/include/c++/12/bits/unordered_set.h"},
	  {"visit", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "walking along chains of items in hash tables at visit, in std::unordered_set::insert, "
	 "with the hash function Mix<int>"},
	{{{"__memset_avx2_unaligned_erms", LIBC}, {"handle_message", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "clearing memory at handle_message"},
	{{{"[libcrypto.so.3]", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3"},
	  {"SSL_CTX_set_default_verify_paths", "/usr/lib/x86_64-linux-gnu/libssl.so.3"},
	  {"fetch", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "making TLS contexts, each of which reads and parses all trusted certificates at fetch"},
	{{{"std::vector<float>::vector(std::vector<float> const&)", PROGRAM,
	   "/usr/include/c++/12/bits/stl_vector.h"},
	  {"Track::Track(Track const&)", PROGRAM},
	  {"mix", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "copying whole objects at mix, in Track::Track"},
	{{{"operator new(unsigned long)", LIBC},
	  {"std::map<int, int>::map(std::map<int, int> const&)", PROGRAM,
	   "/usr/include/c++/12/bits/stl_map.h"},
	  {"Node::tags() const", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "copying whole objects at Node::tags() const, in std::map::map"},
	{{{"Member::Member(Member const&)", PROGRAM},
	  {"void std::sort<Member*, bool (*)(Member, Member)>(Member*, Member*)", PROGRAM,
	   "/usr/include/c++/12/bits/stl_algo.h"},
	  {"sort_roster", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "copying whole objects (Member) at sort_roster, in std::sort"},
	{{{"__gnu_cxx::__exchange_and_add_dispatch(int*, int)", PROGRAM,
	   "/usr/include/c++/12/ext/atomicity.h"},
	  {"std::shared_ptr<Node>::~shared_ptr()", PROGRAM,
	   "/usr/include/c++/12/bits/shared_ptr.h"},
	  {"climb", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "counting the owners of objects (std::shared_ptr) at climb"},
	{{{"frame::sender(RegisterMap*) const", JVM},
	  {"java_lang_Throwable::fill_in_stack_trace(Handle, methodHandle const&)", JVM},
	  {"JVM_FillInStackTrace", JVM}},
	 WS_LEVEL_WARNING,
	 "throwing exceptions at frame::sender(RegisterMap*) const on thread"},
	{{{"JVM_FillInStackTrace", JVM},
	  {"java.lang.Throwable java.lang.Throwable.fillInStackTrace(int)", JAVA},
	  {"int java.lang.Integer.parseInt(java.lang.String, int)", JAVA},
	  {"long Sheet.readRow(java.lang.String[], int)", JAVA},
	  {"StubRoutines (1)", JAVA}},
	 WS_LEVEL_WARNING,
	 "throwing exceptions at long Sheet.readRow(java.lang.String[], int)"},
	/* Code that a library made from a text belongs to the file that calls it. */
	{{{"PyDict_SetItem", PYTHON},
	  {"values", "<string>.py"},
	  {"deepcopy", MODULES "copy.py"},
	  {"tally", "/home/user/tally.py"}},
	 WS_LEVEL_WARNING,
	 "copying whole objects at tally (tally.py:7)"},
	{{{"__strcmp_avx2", LIBC}, {"find_account", PROGRAM}},
	 WS_LEVEL_NOTE,
	 "comparing texts at find_account"},
	/* The handler of a signal, and the kernel that delivers signals. */
	{{{"on_tick", PROGRAM}, {"__restore_rt", LIBC}, {"compute", PROGRAM}},
	 WS_LEVEL_CRITICAL,
	 "100 % of the time goes into signals and their handler at on_tick"},
	{{{"get_signal", KERNEL}, {"arch_do_signal_or_restart", KERNEL}, {"compute", PROGRAM}},
	 WS_LEVEL_CRITICAL,
	 "100 % of the time goes into signals, most of them at compute"},
	/* A lock that is tried first, as our hooks do, is a lock and no asking again and again. */
	{{{"pthread_mutex_trylock", LIBC},
	  {"pthread_mutex_lock", "/opt/warpsight/lib/libwarpsight-osrt.so"},
	  {"add_item", PROGRAM}},
	 WS_LEVEL_WARNING,
	 "taking and giving back locks at add_item, in pthread_mutex_lock"},
	/* What functools.lru_cache has not kept, and a recursion that is computed once. */
	{{{"_PyLong_Add", PYTHON},
	  {"zone_of", "/home/user/zones.py"},
	  {"bounded_lru_cache_wrapper", PYTHON},
	  {"plan", "/home/user/plan.py"}},
	 WS_LEVEL_NOTE,
	 "cache of zone_of (functools.lru_cache) hardly helps: for 100 % of the time the function "
	 "computes what is not in it, at the end of the run as at the beginning, called at plan "
	 "(plan.py:7)"},
	{{{"ways", "/home/user/ways.py"},
	  {"infinite_lru_cache_wrapper", PYTHON},
	  {"ways", "/home/user/ways.py"},
	  {"infinite_lru_cache_wrapper", PYTHON},
	  {"main", "/home/user/main.py"}},
	 WS_LEVEL_NOTE,
	 "the CPU computes at ways"},
	/* What a library calls back is a part of its work. */
	{{{"Event.__lt__", "/home/user/event.py"},
	  {"slot_tp_richcompare", PYTHON},
	  {"list_sort", PYTHON},
	  {"add", "/home/user/queue.py"}},
	 WS_LEVEL_NOTE,
	 "sorting at add (queue.py:7), in list_sort"},
	{{{"next_job.<locals>.<lambda>", "/home/user/jobs.py"},
	  {"min_max", PYTHON},
	  {"next_job", "/home/user/jobs.py"}},
	 WS_LEVEL_NOTE,
	 "going through all items (sum, min, max, any, all) at next_job (jobs.py:7), in min_max"},
	{{{"Point.__eq__", "/home/user/point.py"},
	  {"slot_tp_richcompare", PYTHON},
	  {"dictkeys_generic_lookup", PYTHON},
	  {"count", "/home/user/count.py"}},
	 WS_LEVEL_NOTE,
	 "comparing keys of sets and dictionaries that have the same hash value at count"},
	{{{"on_call", "/home/user/hook.py"},
	  {"call_trampoline", PYTHON},
	  {"step", "/home/user/step.py"}},
	 WS_LEVEL_CRITICAL,
	 "tracing or profiling that the program has set up at step (step.py:7)"},
	/* A function with a name of its own is not. */
	{{{"PyNumber_Add", PYTHON},
	  {"weigh", "/home/user/weigh.py"},
	  {"list_sort", PYTHON},
	  {"add", "/home/user/queue.py"}},
	 WS_LEVEL_NOTE,
	 "the CPU computes at weigh (weigh.py:7)"},
	{{{"list_slice", PYTHON}, {"consume", "/home/user/lines.py"}},
	 WS_LEVEL_WARNING,
	 "copying lists, sets or dictionaries at consume (lines.py:7), in list_slice"},
	{{{"PyErr_Format", PYTHON},
	  {"PyLong_FromString", PYTHON},
	  {"number", "/home/user/number.py"}},
	 WS_LEVEL_WARNING,
	 "throwing exceptions at number (number.py:7)"},
	{{{"_PyPegen_parse", PYTHON},
	  {"builtin_eval", PYTHON},
	  {"namedtuple", MODULES "collections/__init__.py"},
	  {"parse", "/home/user/rows.py"}},
	 WS_LEVEL_WARNING,
	 "making classes at parse (rows.py:7)"},
	{{{"get_file_lines", MODULES "linecache.py"},
	  {"stack", MODULES "inspect.py"},
	  {"trace", "/home/user/trace.py"}},
	 WS_LEVEL_WARNING,
	 "looking at the program's own stack and source (inspect, traceback) at trace"},
	/* The user's own functions may be called what they like. */
	{{{"send_all", PROGRAM}, {"main", PROGRAM}}, WS_LEVEL_NOTE, "computes at send_all"},
	{{{"sqlite3_step", PROGRAM}, {"main", PROGRAM}}, WS_LEVEL_NOTE, "computes at sqlite3_step"},
};

#define ROW(writer, table, ...) \
	ws_writer_add(writer, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__})

static uint32_t make_string(struct ws_writer *writer, const char *text)
{
	return ws_writer_string(writer, text, strlen(text));
}

static void add_frame(struct ws_writer *writer, uint32_t id, const struct place *place)
{
	size_t length = strlen(place->module);
	bool python = !strcmp(place->module + length - 3, ".py"),
	     kernel = !strcmp(place->module, KERNEL);
	const char *file = strcmp(place->module, "<string>.py") ? place->module : "<string>";
	uint32_t name = make_string(writer, place->name), path = make_string(writer, file);

	ROW(writer, module, .id = id, .path = path,
	    .kind = python ? WS_MODULE_PYTHON : WS_MODULE_FILE);
	if (python) {
		ROW(writer, frame, .id = id, .kind = WS_FRAME_PYTHON, .module = id, .address = 7,
		    .name = name, .file = path);
		return;
	}
	ROW(writer, frame, .id = id, .kind = kernel ? WS_FRAME_KERNEL : WS_FRAME_USER, .module = id,
	    .address = 4096 + id);
	ROW(writer, symbol, .frame = id, .set = 1, .name = name,
	    .file = place->inlined ? make_string(writer, place->inlined) : 0,
	    .line = place->inlined ? 7 : 0);
}

/* The frames of the samples have numbers above `base`, innermost first; returns the stack of
 * callers. */
static uint32_t add_stack(struct ws_writer *writer, uint32_t base, const struct place *frames)
{
	uint32_t count = 0, parent = 0;

	while (count < DEEPEST && frames[count].name)
		count++;
	for (uint32_t i = count; i--;) {
		add_frame(writer, base + i + 1, &frames[i]);
		if (!i)
			break;
		ROW(writer, stack, .id = base + count - i, .parent = parent, .frame = base + i + 1);
		parent = base + count - i;
	}
	return parent;
}

static void write_second_thread(struct ws_writer *writer, const struct sampled *program)
{
	uint32_t callers = add_stack(writer, DEEPEST, program->beside);

	ROW(writer, thread, .id = 2, .process = 1, .tid = 11, .start = BEGIN);
	ROW(writer, sched, .start = BEGIN, .end = BEGIN + SAMPLES / 3 * (uint64_t)MS, .thread = 2,
	    .cpu = 1);
	for (uint64_t i = 0; i < SAMPLES / 3; i++)
		ROW(writer, sample, .start = BEGIN + i * MS, .thread = 2, .weight = MS,
		    .frame = DEEPEST + 1, .callers = callers, .flags = WS_SAMPLE_CLOCK, .time = MS);
}

static void write_report(const char *path, const struct sampled *program)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 16384};
	struct ws_err err = {""};
	struct ws_writer *writer = ws_writer_create(path, &options, &err);
	uint64_t end = BEGIN + (uint64_t)SAMPLES * MS;
	uint32_t callers;

	assert_non_null(writer);
	ROW(writer, process, .id = 1, .pid = 10, .start = BEGIN,
	    .exe = make_string(writer, PROGRAM), .name = make_string(writer, "program"),
	    .cmdline = make_string(writer, PROGRAM));
	ROW(writer, thread, .id = 1, .process = 1, .tid = 10, .start = BEGIN);
	ROW(writer, sched, .start = BEGIN, .end = end, .thread = 1, .cpu = 0);
	ROW(writer, collection, .start = BEGIN, .end = end);
	callers = add_stack(writer, 0, program->frames);
	if (program->beside[0].name)
		write_second_thread(writer, program);
	for (uint64_t i = 0; i < SAMPLES; i++)
		ROW(writer, sample, .start = BEGIN + i * MS, .thread = 1, .weight = MS, .frame = 1,
		    .callers = callers, .flags = WS_SAMPLE_CLOCK, .time = MS);
	assert_int_equal(ws_writer_close(writer, &err), 0);
}

static void check_program(const struct sampled *program)
{
	struct ws_model_options all = {.to = UINT64_MAX};
	struct ws_findings findings;
	struct ws_analysis *analysis;
	struct ws_report *report;
	struct ws_err err = {""};
	char path[64];

	snprintf(path, sizeof(path), "test_works.%d.wsrep", (int)getpid());
	write_report(path, program);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	analysis = ws_analysis_open(report, &all, &err);
	assert_non_null(analysis);
	ws_findings_make(analysis, NULL, &findings);
	assert_true(findings.count > 0);
	if (!strstr(findings.findings[0].title, program->title))
		print_error("%s\nis not in: %s\n", program->title, findings.findings[0].title);
	assert_non_null(strstr(findings.findings[0].title, program->title));
	assert_int_equal(findings.findings[0].level, program->level);
	ws_findings_free(&findings);
	ws_analysis_close(analysis);
	ws_report_close(report);
	unlink(path);
}

static void test_work_of_libraries(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		check_program(&programs[i]);
}

/* The faults of one place, as they are shown after a recording. */
static void print_three(const struct ws_analysis *analysis, const char *path, FILE *out)
{
	const struct ws_code_place *place = &analysis->breakdown.rows[0].place;
	struct ws_finding faults[3];
	struct ws_findings findings = {.findings = faults, .count = 3};
	struct ws_analysis_view view = {.analysis = analysis,
					.findings = &findings,
					.brief = true,
					.path = path,
					.file = out};

	for (int i = 0; i < 3; i++)
		faults[i] = (struct ws_finding){.rule = ws_rules[0],
						.level = WS_LEVEL_WARNING,
						.title = (char *)"title",
						.advice = (char *)"advice",
						.gain_ns = MS,
						.file = place->file,
						.line = place->line};
	ws_print_analysis_text(&view);
}

/* Eleven lines and the one that names the report: the last finding goes without its source line. */
static void test_brief_lines(void **state)
{
	char source[PATH_MAX], here[PATH_MAX - 64], path[64], *text = NULL;
	struct sampled program = {{{"deepcopy", MODULES "copy.py"}, {"try_move", source}}, 0, ""};
	struct ws_model_options all = {.to = UINT64_MAX};
	struct ws_analysis *analysis;
	struct ws_report *report;
	struct ws_err err = {""};
	size_t length, lines = 0;
	FILE *file;

	(void)state;
	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(source, sizeof(source), "%s/test_works.%d.py", here, (int)getpid());
	file = fopen(source, "w");
	assert_non_null(file);
	fputs("\n\n\n\n\n\nseventh\n", file);
	fclose(file);
	snprintf(path, sizeof(path), "test_works.%d.wsrep", (int)getpid());
	write_report(path, &program);
	report = ws_report_open_plain(path, &err);
	assert_non_null(report);
	analysis = ws_analysis_open(report, &all, &err);
	assert_non_null(analysis);
	file = open_memstream(&text, &length);
	assert_non_null(file);
	print_three(analysis, path, file);
	fclose(file);
	for (size_t i = 0; i < length; i++)
		lines += text[i] == '\n';
	assert_int_equal(lines, 11);
	assert_non_null(strstr(text, "the line: seventh\n"));
	free(text);
	ws_analysis_close(analysis);
	ws_report_close(report);
	unlink(path);
	unlink(source);
}

#ifdef __x86_64__
/* Writes to variables with fixed addresses, and what is none. */
__attribute__((used, aligned(64), visibility("hidden"))) long counters[16];
__attribute__((visibility("hidden"))) void write_variables(void);
__asm__(".text\n.globl write_variables\n.hidden write_variables\n"
	".type write_variables, @function\nwrite_variables:\n"
	"lock addq $1, counters(%rip)\n"
	"movl $5, counters+8(%rip)\n"
	"cmpq $1, counters+16(%rip)\n"
	"movq counters+24(%rip), %rax\n"
	"movsd %xmm0, counters+32(%rip)\n"
	"xchgb %al, counters+40(%rip)\n"
	"lea counters+48(%rip), %rax\n"
	"movw $7, counters+56(%rip)\n"
	"movq %rax, write_variables(%rip)\n"
	"ret\n.skip 32\n.size write_variables, .-write_variables\n");

/* An address in a register, which another one of these changes. */
__attribute__((visibility("hidden"))) void write_by_register(void);
__asm__(".text\n.globl write_by_register\n.hidden write_by_register\n"
	".type write_by_register, @function\nwrite_by_register:\n"
	"leaq counters(%rip), %rcx\n"
	"leaq counters+8(%rip), %rdx\n"
	"movq %rax, 16(%rcx)\n"
	"lock addq $1, (%rcx)\n"
	"movq %rax, (%rdx)\n"
	"addq $8, %rdx\n"
	"ret\n.skip 32\n.size write_by_register, .-write_by_register\n");

static void test_written_by_registers(void **state)
{
	enum { STRETCH = 40, MOST = 10 };
	uintptr_t code = (uintptr_t)write_by_register, data = (uintptr_t)counters;
	struct ws_written found[MOST];
	struct ws_elf elf;
	struct ws_err err;
	Dl_info info;

	(void)state;
	assert_true(dladdr((void *)code, &info) != 0);
	assert_int_equal(ws_elf_open(&elf, "/proc/self/exe", &err), 0);
	if (elf.type == ET_DYN) {
		code -= (uintptr_t)info.dli_fbase;
		data -= (uintptr_t)info.dli_fbase;
	}
	assert_int_equal(ws_find_written(&elf, code, code + STRETCH, found, MOST), 2);
	assert_int_equal(found[0].target, data + 16);
	assert_false(found[0].atomic);
	assert_int_equal(found[1].target, data);
	assert_true(found[1].atomic);
	ws_elf_close(&elf);
}

static void test_written(void **state)
{
	static const struct {
		uint64_t offset;
		bool atomic;
	} expected[] = {{0, true}, {8, false}, {32, false}, {40, true}, {56, false}};
	enum { STRETCH = 90, MOST = 10 };
	uintptr_t code = (uintptr_t)write_variables, data = (uintptr_t)counters;
	struct ws_written found[MOST];
	struct ws_text name = {0};
	struct ws_elf elf;
	struct ws_err err;
	Dl_info info;

	(void)state;
	assert_true(dladdr((void *)code, &info) != 0);
	assert_int_equal(ws_elf_open(&elf, "/proc/self/exe", &err), 0);
	if (elf.type == ET_DYN) {
		code -= (uintptr_t)info.dli_fbase;
		data -= (uintptr_t)info.dli_fbase;
	}
	assert_int_equal(ws_find_written(&elf, code, code + STRETCH, found, MOST),
			 WS_COUNT(expected));
	for (size_t i = 0; i < WS_COUNT(expected); i++) {
		assert_int_equal(found[i].target, data + expected[i].offset);
		assert_int_equal(found[i].atomic, expected[i].atomic);
	}
	assert_int_equal(found[0].from, code);
	assert_int_equal(found[0].to, found[1].from);
	assert_int_equal(ws_find_written(&elf, code, code + STRETCH, found, 1), 1);
	assert_true(ws_put_variable(&elf, data + 8, &name));
	assert_string_equal(name.text, "counters+8");
	assert_false(ws_put_variable(&elf, 1, &name));
	ws_text_free(&name);
	ws_elf_close(&elf);
}
#endif

static void check_line(const char *path, uint32_t line, uint64_t until, const char *expected)
{
	struct ws_text text = {0};

	assert_int_equal(ws_put_source_line(path, line, until, &text), expected != NULL);
	if (expected)
		assert_string_equal(text.text, expected);
	ws_text_free(&text);
}

/* Only of regular files with whole paths that have not changed since. */
static void test_source_lines(void **state)
{
	char path[PATH_MAX], here[PATH_MAX - 64];
	FILE *file;

	(void)state;
	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(path, sizeof(path), "%s/test_works.%d.c", here, (int)getpid());
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "first\n\n \tx = y\t+ 1; \r\n%0200d\n", 7);
	fclose(file);
	check_line(path, 1, UINT64_MAX, "first");
	check_line(path, 2, UINT64_MAX, NULL);
	check_line(path, 3, UINT64_MAX, "x = y + 1;");
	check_line(path, 4, UINT64_MAX,
		   "0000000000000000000000000000000000000000000000000000000000000000000000000000000"
		   "00000000000...");
	check_line(path, 5, UINT64_MAX, NULL);
	check_line(path, 0, UINT64_MAX, NULL);
	check_line(path, 1, 1, NULL);
	check_line(strrchr(path, '/') + 1, 1, UINT64_MAX, NULL);
	check_line("/dev/zero", 1, UINT64_MAX, NULL);
	unlink(path);
	check_line(path, 1, UINT64_MAX, NULL);
}

struct sampled_loop {
	const char *name;
	uint8_t code[48];
	uint64_t ns[48]; /* of samples at each byte */
	enum ws_loop_kind kind;
	int64_t step;
};

static const struct sampled_loop loops[] = {
	/* addsd (%rax),%xmm0; add $48000,%rax; cmp %rax,%rdx; jne */
	{"stride",
	 {0xf2, 0x0f, 0x58, 0x00, 0x48, 0x05, 0x80, 0xbb, 0, 0, 0x48, 0x39, 0xc2, 0x75, 0xf1},
	 {[0] = 60, [4] = 40},
	 WS_LOOP_STRIDE,
	 48000},
	/* The same, 8 bytes further on in each round. */
	{"neighbours",
	 {0xf2, 0x0f, 0x58, 0x00, 0x48, 0x05, 0x08, 0, 0, 0, 0x48, 0x39, 0xc2, 0x75, 0xf1},
	 {[0] = 60, [4] = 40},
	 WS_LOOP_FLOAT,
	 0},
	/* mov (%rdi),%rdi; test %rdi,%rdi; jne */
	{"chase",
	 {0x48, 0x8b, 0x3f, 0x48, 0x85, 0xff, 0x75, 0xf8},
	 {[0] = 20, [3] = 80},
	 WS_LOOP_CHASE,
	 0},
	/* lock incq (%rdi); dec %eax; jne */
	{"atomic",
	 {0xf0, 0x48, 0xff, 0x07, 0xff, 0xc8, 0x75, 0xf8},
	 {[0] = 10, [4] = 90},
	 WS_LOOP_ATOMIC,
	 0},
	/* div %rcx; dec %rsi; jne */
	{"division",
	 {0x48, 0xf7, 0xf1, 0x48, 0xff, 0xce, 0x75, 0xf8},
	 {[0] = 10, [3] = 90},
	 WS_LOOP_DIVISION,
	 0},
	/* add %rax,(%rdi); dec %eax; jne */
	{"place", {0x48, 0x01, 0x07, 0xff, 0xc8, 0x75, 0xf9}, {[0] = 90}, WS_LOOP_PLACE, 0},
	/* mov (%rdi),%eax; cmp %eax,%edx; je */
	{"asks", {0x8b, 0x07, 0x39, 0xc2, 0x74, 0xfa}, {[2] = 90}, WS_LOOP_UNKNOWN, 0},
	/* add (%rdi),%rax; add %rsi,%rdi; dec %ecx; jne */
	{"register",
	 {0x48, 0x03, 0x07, 0x48, 0x01, 0xf7, 0xff, 0xc9, 0x75, 0xf6},
	 {[3] = 90},
	 WS_LOOP_STRIDE,
	 0},
};

static void test_what_loops_are_bound_by(void **state)
{
	(void)state;
	for (size_t i = 0; i < WS_COUNT(loops); i++) {
		struct ws_sampled_code code = {.bytes = loops[i].code,
					       .left = sizeof(loops[i].code),
					       .from = 4096,
					       .ns = loops[i].ns,
					       .size = 16};
		struct ws_hot_loop found;

		if (!ws_judge_loop(&code, &found) || found.kind != loops[i].kind)
			fail_msg("%s: kind %d", loops[i].name, (int)found.kind);
		assert_int_equal(found.state.only_asks, !strcmp(loops[i].name, "asks"));
		if (found.kind == WS_LOOP_STRIDE)
			assert_int_equal(found.step, loops[i].step);
		assert_int_equal(found.writes,
				 found.kind == WS_LOOP_ATOMIC || found.kind == WS_LOOP_PLACE);
	}
}

/* Code that ends in the middle, or is none. */
static void test_code_that_is_none(void **state)
{
	uint8_t bytes[64];
	uint64_t ns[32] = {[1] = 1};

	(void)state;
	for (unsigned value = 0; value < 256; value++)
		for (size_t left = 0; left <= sizeof(bytes); left += 8) {
			struct ws_sampled_code code = {
				.bytes = bytes, .left = left, .from = 8, .ns = ns, .size = 32};
			struct ws_hot_loop found;

			memset(bytes, (int)value, sizeof(bytes));
			ws_judge_loop(&code, &found);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_work_of_libraries),
					   cmocka_unit_test(test_brief_lines),
#ifdef __x86_64__
					   cmocka_unit_test(test_written),
					   cmocka_unit_test(test_written_by_registers),
#endif
					   cmocka_unit_test(test_what_loops_are_bound_by),
					   cmocka_unit_test(test_code_that_is_none),
					   cmocka_unit_test(test_source_lines)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
