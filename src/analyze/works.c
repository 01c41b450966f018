/* works.c - see works.h. Where several kinds match a function, the first one counts. */
#include "analyze/works.h"

#include <string.h>

#include "analyze/copying.h"
#include "analyze/works_private.h"

static const struct ws_work_kind kinds[] = {
	{.what = "tracing or profiling that the program has set up",
	 .advice = "sys.settrace, sys.setprofile, cProfile, tracemalloc and debuggers are called "
		   "for each function, line or allocation: leave them out where nobody looks at "
		   "what they find.",
	 .is_aid = true,
	 .calls = WS_CALLS_ANY,
	 .names = {"call_trampoline", "profile_trampoline", "trace_trampoline", "profiler_callback",
		   "tracemalloc_*", NULL},
	 .origins = {"/bdb.py", "/tracemalloc.py", NULL}},
	{.what = "making classes",
	 .advice = "Make each class once, outside of functions that are called often: namedtuple, "
		   "dataclass, Enum and class statements write and compile code.",
	 .is_inner = true,
	 .is_avoidable = true,
	 .names = {"namedtuple", "dataclass", "_process_class", "make_dataclass",
		   "EnumMeta.__new__", "EnumType.__new__", "builtin___build_class__", "type_new",
		   "__build_class__", NULL}},
	{.what = "looking at the program's own stack and source (inspect, traceback)",
	 .advice = "inspect.stack and traceback read the source files of all callers: "
		   "sys._getframe(1).f_code.co_name only says who called; or do it only where "
		   "something has gone wrong.",
	 .is_avoidable = true,
	 .names = {NULL},
	 .origins = {"/inspect.py", "/traceback.py", "/linecache.py", NULL}},
	{.what = "PyTorch's anomaly detection, which notes a stack for each operation and "
		 "checks each gradient",
	 .advice = "It is for finding errors: leave out torch.autograd.set_detect_anomaly(True) "
		   "and detect_anomaly() where nothing is searched for.",
	 .is_aid = true,
	 .names = {"torch::autograd::PyAnomalyMetadata*", NULL}},
	{.what = "measuring and joining strings",
	 .is_primitive = true,
	 .is_avoidable = true,
	 .advice = "Joining goes through the whole text each time, which makes loops quadratic: "
		   "remember the length or the end, or gather the parts in a buffer that grows "
		   "(a list and join, std::string::append, StringBuilder).",
	 .names = {"__strlen*",
		   "strlen",
		   "__strcat*",
		   "strcat",
		   "__strncat*",
		   "strncat",
		   "__rawmemchr*",
		   "__strnlen*",
		   "std::*operator+<char*",
		   "*> std::operator+<*",
		   "PyUnicode_Concat",
		   "PyUnicode_Append",
		   "unicode_concat*",
		   "bytes_concat*",
		   "PyBytes_Concat",
		   "runtime.concatstring*",
		   "str.__add__",
		   "bytes.__add__",
		   "*java.lang.StringConcatHelper.*",
		   NULL}},
	{.what = "compiling regular expressions, again and again",
	 .is_avoidable = true,
	 .advice = "Compile each expression once, outside of the loop, and keep it: re remembers "
		   "only the last 512, and std::regex, regcomp and others none at all. Many that "
		   "differ in a word may be one that captures it, or a plain search and a "
		   "dictionary.",
	 .is_inner = true,
	 .names = {"*java.util.regex.Pattern.compile*", "*java.util.regex.Pattern.<init>*",
		   "regcomp", "__regcomp*", "re_compile_internal*", "pcre_compile*",
		   "pcre2_compile*", "std::__detail::_Compiler<*", "std::__detail::_Scanner<*",
		   "*basic_regex<*>::_M_compile*", "*basic_regex<*>::basic_regex<*",
		   "regexp.Compile*", "regexp.MustCompile*", "regexp/syntax.*",
		   "regex::Regex::new*", "regex_syntax::*", NULL},
	 .origins = {"/re/_compiler.py", "/re/_parser.py", "/sre_compile.py", "/sre_parse.py",
		     "/re/_casefix.py", NULL}},
	{.what = "parsing and compiling code from texts",
	 .advice = "compile() it once and hand eval or exec what that returns; or use a function "
		   "(a lambda, a dictionary of functions) instead of a text.",
	 .is_avoidable = true,
	 .names = {"_PyParser_*", "_PyPegen_*", "_PyAST_Compile", "Py_CompileString*",
		   "builtin_compile", NULL},
	 .origins = {"/ast.py", NULL}},
	{.what = "regular expressions",
	 .usual_below = 0.85,
	 .advice = "Compile each expression once, outside of the loop. Nested repetitions such as "
		   "(a+)+ try ever more ways to match: write the expression without them, anchor "
		   "it, or use plain string functions or an engine in linear time (RE2, Rust's "
		   "regex).",
	 .names = {"sre_*",
		   "_sre_*",
		   "re_search_internal*",
		   "check_matching*",
		   "sift_*",
		   "transit_state*",
		   "build_trtable*",
		   "match_ctx_*",
		   "re_acquire_state*",
		   "check_arrival*",
		   "get_subexp*",
		   "proceed_next_node*",
		   "set_regs*",
		   "regexec*",
		   "__regexec*",
		   "pcre*",
		   "std::__detail::_Executor<*",
		   "std::__detail::_NFA<*",
		   "std::__detail::_State<*",
		   "std::__detail::_StateSeq<*",
		   "std::__detail::_Regex*",
		   "std::__detail::_BracketMatcher<*",
		   "std::__detail::_CharMatcher<*",
		   "std::__detail::_AnyMatcher<*",
		   "*std::__cxx11::basic_regex<*",
		   "*std::__detail::__regex_*",
		   "regexp.*",
		   "regex::*",
		   "regex_automata::*",
		   "Perl_regexec*",
		   "S_regmatch*",
		   "S_regtry*",
		   "re.Pattern.*",
		   "re.Scanner.*",
		   "_sre.*",
		   "*java.util.regex.*",
		   NULL},
	 .origins = {"/re.py", "/re/__init__.py", "libpcre", NULL}},
	{.what = "giving containers a little more room, again and again",
	 .advice = "Each time, all items are copied to a new place: reserve room for all of them "
		   "once, or let the container grow by itself (reserve for one more item each "
		   "time makes it quadratic).",
	 .usual_below = 0.5,
	 .is_avoidable = true,
	 .names = {"std::vector<*>::reserve(*", "*::_M_realloc_insert*", "*::_M_realloc_append*",
		   "*::basic_string<*>::reserve(*", NULL}},
	{.what = "making generators of random numbers anew, each with its whole state",
	 .advice = "Make one generator for each thread (static thread_local) and keep it: to seed "
		   "a std::mt19937 takes as long as hundreds of numbers from it.",
	 .is_avoidable = true,
	 .names = {"*mersenne_twister_engine<*>::seed*",
		   "*mersenne_twister_engine<*>::mersenne_twister_engine*", "std::random_device::*",
		   NULL}},
	{.what = "asking the system for random numbers",
	 .advice =
		 "Each time, the kernel is asked: take a few KiB at once and use them up, or seed "
		 "a generator of the program's own once.",
	 .is_avoidable = true,
	 .names = {"getrandom", "getentropy", NULL}},
	{.what = "setting up converters between character sets, again and again",
	 .advice = "iconv_open looks the character sets up and loads what converts them: keep one "
		   "converter for each pair, and reset it where a text ends "
		   "(iconv(converter, NULL, NULL, NULL, NULL)).",
	 .is_inner = true,
	 .is_avoidable = true,
	 .names = {"iconv_open", "iconv_close", "__gconv_open*", "__gconv_close*",
		   "__gconv_find_transform*", "__gconv_create_spec*", NULL}},
	{.what = "going through a text from its start to count or find its characters",
	 .advice =
		 "Characters of UTF-8 differ in length, so that chars().nth() and chars().count() "
		 "look at each before: use bytes (as_bytes()[i]) where the text is ASCII, or "
		 "collect the characters into a Vec once.",
	 .is_avoidable = true,
	 .is_inner = true,
	 .names = {"<core::str::iter::Chars as *>::advance_by*",
		   "<core::str::iter::Chars as *>::nth*", "<core::str::iter::Chars as *>::count*",
		   "core::str::count::*", "<core::str::iter::CharIndices as *>::nth*",
		   "unicode/utf8.RuneCount*", NULL}},
	{.what = "making formats of dates and numbers anew",
	 .advice = "Each reads its pattern and the words of the language, which takes longer than "
		   "to use it: keep one DateTimeFormatter (static final, threads may share it), "
		   "or one SimpleDateFormat or NumberFormat for each thread.",
	 .is_inner = true,
	 .is_avoidable = true,
	 .names = {"java.text.SimpleDateFormat.<init>*", "java.text.SimpleDateFormat.initialize*",
		   "java.text.SimpleDateFormat.compile*", "java.text.DateFormatSymbols.*",
		   "java.text.DecimalFormatSymbols.*", "java.text.DecimalFormat.<init>*",
		   "java.text.DecimalFormat.applyPattern*", "java.text.NumberFormat.getInstance*",
		   "java.text.DateFormat.get*Instance*",
		   "java.time.format.DateTimeFormatter.ofPattern*",
		   "java.time.format.DateTimeFormatterBuilder.*", NULL}},
	{.what = "clearing memory",
	 .is_primitive = true,
	 .advice =
		 "Clear only what is used, or nothing where all of it is written anyway (no = {0} "
		 "for large local arrays, malloc instead of calloc, resize once and keep the "
		 "buffer).",
	 .usual_below = 0.5,
	 .is_avoidable = true,
	 .names = {"memset", "__memset*", "bzero", "__bzero*", "explicit_bzero", NULL}},
	{.what = "counting the owners of objects (std::shared_ptr)",
	 .advice = "Hand a shared_ptr on by reference, or the object itself: each copy changes a "
		   "counter by an atomic instruction, and threads that share the object wait for "
		   "each other's.",
	 .is_avoidable = true,
	 .is_bare = true, /* the last owner frees the object */
	 .names = {"*__exchange_and_add*", "*__atomic_add*", "*_M_add_ref_copy*",
		   "std::_Sp_counted_base<*>::_M_release*",
		   "std::__shared_count<*>::__shared_count(std::__shared_count<*",
		   "std::shared_ptr<*>::shared_ptr(std::shared_ptr<*", NULL}},
	{.what = "copying whole objects",
	 .is_avoidable = true,
	 .advice = "Copy only what changes, or nothing: take arguments, results and the items of "
		   "loops by reference (const T &), also in comparators and lambdas, write a copy "
		   "method of its own, keep an undo list, or use values that are never changed.",
	 .is_copying = true,
	 .names = {"*core::clone::Clone>::clone*", "*std::vector<*>::vector(std::vector<*const&*",
		   "*::vector(std::vector<*const&*", "*::_M_copy<*",
		   "*::basic_string(std::__cxx11::basic_string<*const&*", NULL}},
	{.what = "making handlers and files of logs, again and again",
	 .advice =
		 "Give the logger its handlers once, when the program starts, and keep them: each "
		 "FileHandler opens its file, and what is added but not removed writes every "
		 "message once more.",
	 .is_inner = true,
	 .is_avoidable = true,
	 .names = {"FileHandler.__init__", "FileHandler._open", "FileHandler.close",
		   "StreamHandler.__init__", "Handler.__init__", "Handler.close", "basicConfig",
		   "dictConfig", "fileConfig", NULL}},
	{.what = "writing log messages",
	 .advice = "Write fewer of them: raise the level, ask isEnabledFor before building the "
		   "message, log every n-th item, or let another thread write (QueueHandler, an "
		   "asynchronous logger). Give a logger its handlers once, at the start: with each "
		   "addHandler more, every message is written once more.",
	 .names = {"spdlog::*", "log4cplus::*", "google::LogMessage*", "syslog", "__vsyslog*",
		   "log.(*Logger).*", NULL},
	 .origins = {"/logging/__init__.py", "/logging/handlers.py", "/loguru/", NULL}},
	{.what = "checking types by protocols or abstract classes",
	 .advice = "isinstance with a runtime_checkable Protocol asks for each of its members at "
		   "each call, and with an abstract class (collections.abc) through Python code: "
		   "check for a concrete class, or ask once for each type and keep the answer.",
	 .is_usual = true,
	 .names = {"_ProtocolMeta.__instancecheck__*", "_ProtocolMeta.__subclasscheck__*",
		   "__instancecheck__", "_get_protocol_attrs", "_abc__abc_instancecheck*",
		   "_abc__abc_subclasscheck*", "ABCMeta.__instancecheck__", NULL}},
	{.what = "checking types (isinstance, issubclass)",
	 .advice = "Do not ask for each item: keep items of one kind together, let a method of the "
		   "class do what depends on it, or look the type up in a dictionary.",
	 .is_usual = true,
	 .is_driver = true,
	 .names = {"builtin_isinstance", "builtin_issubclass", "object_recursive_isinstance",
		   "PyObject_IsInstance", "PyObject_IsSubclass", NULL}},
	{.what = "searching through the elements of XML",
	 .advice = "find, findall, iter and XPath go through all elements each time, and a "
		   "predicate ([@id='7']) is evaluated for each: make a dictionary of them once "
		   "({e.get('id'): e for e in root}).",
	 .is_usual = true,
	 .names = {"_elementtree_Element_find*", "_elementtree_Element_iterfind*",
		   "elementiter_next*", "xmlXPath*", NULL},
	 .origins = {"/ElementPath.py", "/_elementpath.", NULL}},
	{.what = "reading or writing JSON, XML or the like",
	 .advice = "Read it once and keep the result, write only what changed, or use a faster "
		   "library (orjson, simdjson) or a binary format.",
	 .is_usual = true,
	 .names = {"nlohmann::*", "rapidjson::*", "YAML::*", "serde_json::*", "encoding/json.*",
		   "encoding/xml.*", "xmlParse*", "_json.*", "_csv.*", NULL},
	 .origins = {"/json/__init__.py", "/json/decoder.py", "/json/encoder.py", "/yaml/",
		     "/configparser.py", "/tomllib/", "/xml/", "/csv.py", "/simplejson/", "/_json.",
		     "/_csv.", "/_csv.", NULL}},
	{.what = "packing and unpacking objects (pickle)",
	 .advice = "Pack less: only what is needed, once, or as arrays and plain bytes.",
	 .is_usual = true,
	 .names = {"_pickle.*", "marshal.*", "*java.io.ObjectOutputStream*",
		   "*java.io.ObjectInputStream*", NULL},
	 .origins = {"/pickle.py", "/_pickle.", "/shelve.py", "/marshal", NULL}},
	{.what = "compressing or unpacking data",
	 .advice = "Use a lower level or a faster method (zstd, lz4), let other threads do it, or "
		   "keep the result.",
	 .is_usual = true,
	 .names = {"compress/*", "flate2::*", NULL},
	 .origins = {"/libz.so", "/libzstd.so", "/liblzma.so", "/libbz2.so", "/liblz4.so",
		     "/libbrotli", "/gzip.py", "/bz2.py", "/lzma.py", "/zipfile.py", "/tarfile.py",
		     NULL}},
	{.what = "moving within compressed files (seek), which unpacks all that is skipped, from "
		 "the "
		 "beginning where it goes back",
	 .advice = "Read in the order of the file (sort the places first), or unpack the file once "
		   "(to a file, into memory); many parts that are read alone are better compressed "
		   "one by one (zip).",
	 .is_avoidable = true,
	 .least = 0.5,
	 .names = {"GzipFile.seek", "DecompressReader.seek", "DecompressReader._rewind",
		   "BZ2File.seek", "LZMAFile.seek", "ZipExtFile.seek", "gzseek*", NULL},
	 .inside = {"_GzipReader.read", "DecompressReader.read*", "GzipFile.read",
		    "ZipExtFile.read", "ZipExtFile._read1", "inflate", "BZ2_bzDecompress*",
		    "lzma_code", NULL}},
	{.what = "flushing compressed files, piece by piece",
	 .advice = "Each flush ends a block, which makes the file longer, and writes it: leave it "
		   "to close, or flush now and then.",
	 .is_avoidable = true,
	 .least = 0.5,
	 .names = {"GzipFile.flush", "gzip.GzipFile.flush", "gzflush", NULL},
	 .inside = {"deflate", "deflate_*", "zlib.Compress.flush", "zlib_Compress_flush*", NULL}},
	{.what = "making TLS contexts, each of which reads and parses all trusted certificates",
	 .advice = "Make one context (ssl.create_default_context, SSL_CTX_new, a session of "
		   "requests or httpx) and use it for all connections.",
	 .is_avoidable = true,
	 .names = {"create_default_context", "create_urllib3_context", "SSLContext.*",
		   "_ssl__SSLContext*", "_ssl._SSLContext.*", "SSL_CTX_*", "X509_STORE_*",
		   "X509_load_*", "PEM_X509_*", "PEM_read_bio_X509*", "OSSL_DECODER_*",
		   "crypto/x509.*", NULL}},
	{.what = "hashing or encrypting",
	 .advice = "Hash less or once, larger pieces at a time, or with a faster function (xxHash, "
		   "BLAKE3) where nobody attacks.",
	 .is_usual = true,
	 .names = {"crypto/*", "sha2::*", "*sun.security.provider.*",
		   "*java.security.MessageDigest*", NULL},
	 .origins = {"/libcrypto.so", "/libssl.so", "/libcrypt.so", "/_sha", "/_md5.", "/_blake2.",
		     "/hashlib.py", NULL}},
	{.what = "looking up hosts or users by their names",
	 .advice = "Look each name up once and keep the answer, or keep connections open.",
	 .names = {"getaddrinfo", "gethostby*", "getnameinfo", "getpwnam*", "getpwuid*", "getgr*",
		   "gaih_inet*", NULL}},
	{.what = "drawing random numbers or names (random, uuid, secrets)",
	 .advice = "Draw many at once (random.choices, getrandbits, NumPy); random.random() is far "
		   "cheaper than randint and choice, and a counter than a UUID.",
	 .is_usual = true,
	 .names = {"os_urandom*", "posix.urandom", "*java.security.SecureRandom.*",
		   "*java.util.UUID.*", NULL},
	 .origins = {"/random.py", "/uuid.py", "/secrets.py", NULL}},
	{.what = "queries of a database",
	 .advice = "Ask once for many rows (a join, IN, executemany, one transaction) instead of "
		   "once for each, give the column an index, and prepare statements once.",
	 .is_usual = true,
	 .names = {"sqlite3_*", "database/sql.*", NULL},
	 .origins = {"/libsqlite3.so", "/_sqlite3.", "/libpq.so", "/libmysqlclient", "/libmariadb",
		     "/sqlalchemy/", "/psycopg", NULL}},
	{.what = "queries that go through all rows of a database's table",
	 .advice =
		 "Where a query looks for a few rows, give the columns that it compares an index "
		 "(CREATE INDEX): EXPLAIN QUERY PLAN says SCAN where there is none. Else ask "
		 "once for all (GROUP BY, a join) instead of going through the table for each "
		 "question; OFFSET goes through all rows that it leaves out (WHERE id > ? goes on "
		 "after the last one).",
	 .is_usual = true,
	 .least = 0.15,
	 .takes_whole = true,
	 .names = {"sqlite3_step", NULL},
	 .inside = {"sqlite3BtreeNext", "sqlite3BtreePayloadFetch", "sqlite3VdbeSerialGet",
		    "sqlite3MemCompare", "sqlite3VdbeOneByteSerialTypeLen*",
		    "sqlite3BtreeCursorHasMoved", "btreeNext", "memcmp", "__memcmp*", NULL}},
	{.what = "sorting",
	 .is_sorting = true,
	 .advice = "Sort once, after the last item has come; to keep few new items in order, put "
		   "each where it belongs (bisect, std::lower_bound) or use a heap or a tree.",
	 .is_usual = true,
	 .is_driver = true,
	 .calls = WS_CALLS_COMPARING,
	 .names = {"*std::sort<*",
		   "*std::__sort<*",
		   "*std::stable_sort<*",
		   "*std::__introsort_loop<*",
		   "*std::__final_insertion_sort<*",
		   "*std::__merge_sort*",
		   "qsort*",
		   "__qsort*",
		   "msort_with_tmp*",
		   "list_sort*",
		   "PyList_Sort",
		   "list.sort",
		   "builtin_sorted",
		   "sorted",
		   "sort.*",
		   "slices.Sort*",
		   "*::sort_unstable*",
		   "*::sort_by*",
		   "*java.util.TimSort.*",
		   "*java.util.DualPivotQuicksort.*",
		   "*java.util.ComparableTimSort.*",
		   "*java.util.Arrays.sort*",
		   "core::slice::sort::*",
		   NULL}},
	{.what = "making heaps anew",
	 .advice = "heapify goes through all items: heapq.heappush and heappop keep the order of a "
		   "heap that is there with a few steps.",
	 .calls = WS_CALLS_COMPARING,
	 .is_avoidable = true,
	 .names = {"_heapq_heapify*", "heapify_internal", "_heapq.heapify", "_heapq.nsmallest",
		   "_heapq.nlargest", NULL}},
	{.what = "going through all items (sum, min, max, any, all)",
	 .is_driver = true,
	 .advice = "If that is asked again and again: keep a running total, a heap (heapq) for the "
		   "smallest item, a set or dictionary for what is looked for.",
	 .is_usual = true,
	 .calls = WS_CALLS_SMALL,
	 .names = {"builtin_sum", "builtin_min", "builtin_max", "builtin_any", "builtin_all",
		   "min_max", "max_min", "sum", "min", "max", "any", "all", NULL}},
	{.what = "adding lists by sum, which copies all that it has for each list",
	 .advice = "Put them together in one pass: itertools.chain.from_iterable, extend, or a "
		   "comprehension with two loops.",
	 .is_avoidable = true,
	 .least = 0.4,
	 .names = {"builtin_sum", "sum", NULL},
	 .inside = {"list_concat", "list_dealloc", "tupleconcat", "PySequence_Concat", NULL}},
	{.what = "copying lists, sets or dictionaries",
	 .is_driver = true,
	 .usual_below = 0.5,
	 .advice = "Each copy goes through all items, in a loop again and again: append in place "
		   "(not a = a + [x]), keep an index instead of cutting off the front (a = a[1:]), "
		   "make a set once outside of the loop, change a dictionary or set in place (not "
		   "{**d, k: v}, not s | {x}).",
	 .is_avoidable = true,
	 .names = {"PyNumber_Or",      "set_or",
		   "list_concat",      "list_copy",
		   "list_slice",       "list_subscript",
		   "list.__getitem__", "list.__add__",
		   "list.copy",	       "list_vectorcall",
		   "list___init__*",   "set_vectorcall",
		   "set_copy",	       "set_update_internal",
		   "set.copy",	       "make_new_set",
		   "frozenset_new",    "dict_copy",
		   "dict_merge",       "dict_update*",
		   "PyDict_Copy",      "PyDict_Update",
		   "dict.copy",	       "dict.update",
		   "tupleconcat",      "tuple_new*",
		   "tuple_vectorcall", "PySequence_List",
		   "PySequence_Tuple", "PyList_AsTuple",
		   "dict_vectorcall",  "tuple.__add__",
		   "set_or",	       "set_sub",
		   "set_and",	       NULL}},
	{.what = "moving the items of lists",
	 .is_avoidable = true,
	 .advice = "Inserting or removing at the front moves all other items: append and reverse "
		   "at the end, or use a deque (collections.deque, std::deque).",
	 .names = {"ins1",
		   "list.insert",
		   "list.pop",
		   "list.__setitem__",
		   "list_insert*",
		   "list_ass_slice*",
		   "list_pop*",
		   "std::vector<*>::erase(*",
		   "std::vector<*>::insert(*",
		   "std::vector<*>::_M_erase(*",
		   "*::_M_insert_rval(*",
		   "*::_M_insert_aux*",
		   "*vec::Vec<*>::remove*",
		   "*vec::Vec<*>::insert*",
		   "*::basic_string<*>::erase(*",
		   "*::basic_string<*>::_M_erase(*",
		   "*::basic_string<*>::insert(*",
		   "*java.lang.AbstractStringBuilder.insert*",
		   "*java.lang.AbstractStringBuilder.delete*",
		   NULL}},
	{.what = "walking along linked lists to items by their numbers",
	 .is_avoidable = true,
	 .advice = "LinkedList.get(i) goes from one end item by item, in a loop over all again and "
		   "again: use an iterator (for each), or an ArrayList.",
	 .names = {"*java.util.LinkedList.node*", "*java.util.LinkedList.get*",
		   "*java.util.LinkedList.set*", NULL}},
	{.what = "keeping heaps and sorted lists in order (heapq, bisect)",
	 .advice = "Objects with a method __lt__ call Python's code for each comparison: tuples "
		   "(time, number, object) are compared by the interpreter itself.",
	 .is_usual = true,
	 .calls = WS_CALLS_COMPARING,
	 .names = {"_heapq_heappush*", "_heapq_heappop*", "_heapq_heapreplace*", "_heapq.*",
		   "_bisect_*", "_bisect.*", "siftup", "siftdown", "heappop_internal",
		   "heapreplace_internal", NULL}},
	{.what = "comparing items one by one",
	 .is_avoidable = true,
	 .advice = "Looking for an item in a list compares it with all of them: use a set or a "
		   "dictionary.",
	 .calls = WS_CALLS_COMPARING,
	 .names = {"*std::find<*", "*std::__find_if<*", "*java.util.ArrayList.indexOf*",
		   "*java.util.ArrayList.contains*", "*java.util.LinkedList.indexOf*",
		   "*java.util.LinkedList.contains*", "*java.util.ImmutableCollections$List*",
		   "core::slice::*::contains*", NULL}},
	{.what = "comparing values",
	 .is_primitive = true,
	 .advice = "Compare less: look items up in a dictionary or set, sort once; numbers are "
		   "compared faster than texts, and both faster than objects with __eq__.",
	 .is_usual = true,
	 .calls = WS_CALLS_COMPARING,
	 .names = {"long_compare", "long_richcompare", "unicode_compare*", "unicode_eq",
		   "PyObject_RichCompare*", NULL}},
	{.what = "values that processes share, under a lock at each access (multiprocessing)",
	 .advice = "Count in a local variable and add that once, or take get_lock() once for many "
		   "items and work on get_obj(), or make it without (lock=False) where each "
		   "process has items of its own.",
	 .is_avoidable = true,
	 .names = {"_multiprocessing_SemLock_*", "semlock_*", NULL},
	 .origins = {"/multiprocessing/sharedctypes.py", NULL}},
	{.what = "growing arrays and tables (append, stack, concat), each time by a copy of the "
		 "whole",
	 .advice = "Gather the parts in a list and put them together once, after the loop; or make "
		   "the array as large as it will be and fill it.",
	 .is_avoidable = true,
	 .names = {"append", "vstack", "hstack", "dstack", "column_stack", "row_stack", "concat",
		   "numpy.append", "_Concatenator.*", "concatenate_managers", "concat_compat",
		   "DataFrame.append", "DataFrame._append", NULL}},
	{.what = "rows and single values of pandas tables, one by one",
	 .advice =
		 "Work on whole columns (frame[\"a\"] * frame[\"b\"], numpy.where, groupby): each "
		 "row of iterrows, loc and apply becomes a Series. Where a loop must be, "
		 "itertuples or lists (tolist) are a hundred times as fast.",
	 .is_avoidable = true,
	 .names = {"DataFrame.iterrows", "FrameApply.*", "FrameColumnApply.*", "Series.__getitem__",
		   "Series.__setitem__", "_LocationIndexer.*", "_iLocIndexer.*", "_LocIndexer.*",
		   "_iAtIndexer.*", "_AtIndexer.*", "_ScalarAccessIndexer.*", "DataFrame.iat",
		   NULL}},
	{.what = "single items of arrays",
	 .advice = "Each item that Python's code reads, computes or stores becomes an object: "
		   "work on whole arrays or rows at once (a[:, 1:] - 0.5), or compile the loop "
		   "(Numba, Cython).",
	 .names = {"npy_clear_floatstatus*", "npy_get_floatstatus*", "numpy.ndarray.__getitem__",
		   "numpy.ndarray.__setitem__", "array_subscript*", "array_assign_subscript*",
		   "array_item", "gentype_*", "PyArray_Scalar*", "double_add", "double_subtract",
		   "double_multiply", "float_add", "float_multiply", "fetestexcept", NULL}},
	{.what = "comparing keys of sets and dictionaries that have the same hash value",
	 .is_primitive = true,
	 .advice = "If __hash__ gives many keys one value, each look-up compares them one by one: "
		   "mix all parts of the key (return hash((x, y))), or use tuples as keys.",
	 .is_usual = true,
	 .calls = WS_CALLS_COMPARING,
	 .is_avoidable = true,
	 .is_collision = true,
	 .names = {"dictkeys_generic_lookup", "set_lookkey", "set_add_entry", NULL}},
	{.what = "looking up items in hash tables",
	 .advice =
		 "Look up each item once and keep the reference, and reserve room for all. If the "
		 "hash function gives many items one value, each look-up compares them one by "
		 "one: mix all parts of the key.",
	 .is_usual = true,
	 .names = {"std::_Hashtable<*", "std::__detail::_Map_base<*", "std::__detail::_Hash*",
		   "std::unordered_map<*", "std::unordered_set<*", "std::unordered_multi*", NULL}},
	{.what = "walking along chains of items in hash tables",
	 .advice = "Its hash function gives many items the same value, or values that are the same "
		   "but for multiples of the table's size: each look-up compares all of them one "
		   "by one. Mix all bits of all parts of the key (as boost::hash_combine does, "
		   "or multiply by a large odd number and shift).",
	 .is_avoidable = true,
	 .has_hash = true,
	 .least = 0.5,
	 .names = {"*_M_find_before_node*", NULL},
	 .inside = {"std::__detail::_Mod_range_hashing::operator()*", "*_M_bucket_index*", NULL}},
	{.what = "looking up items in sorted trees (std::map, std::set)",
	 .advice =
		 "Look up each item once and keep the reference; where the order does not matter, "
		 "use a hash table (std::unordered_map), and for few items a sorted vector.",
	 .is_usual = true,
	 .names = {"std::_Rb_tree<*", "std::map<*", "std::set<*", "std::multimap<*",
		   "std::multiset<*", "std::_Rb_tree_*", NULL}},
	{.what = "looking up members of enumerations (enum)",
	 .advice = "Each Kind(value), and each .name and .value, runs code of Python: keep a "
		   "dictionary of what is needed by value, compare the members themselves, or use "
		   "plain constants in the innermost loop.",
	 .is_usual = true,
	 .names = {NULL},
	 .origins = {"/enum.py", NULL}},
	{.what = "looking up attributes through __getattr__ and properties",
	 .advice = "Each look-up calls Python's code, once for each layer: keep what does not "
		   "change in a local variable or in the object itself (__dict__, "
		   "functools.cached_property), and leave out layers that only hand on.",
	 .is_usual = true,
	 .calls = WS_CALLS_SMALL,
	 .names = {"slot_tp_getattr_hook", "slot_tp_getattro", "property_descr_get", NULL}},
	{.what = "rand(), which takes a lock that all threads share",
	 .advice = "Give each thread a generator of its own (rand_r with a seed for each thread, "
		   "std::mt19937, drand48_r): each call of rand or random changes the one state of "
		   "the process under a lock, whose line goes from core to core.",
	 .is_locked = true,
	 .names = {"rand", "random", "__random", "__random_r", "random_r", "srand", "drand48",
		   "lrand48", "mrand48", "__drand48*", NULL}},
	{.what = "collecting garbage, which the program asks for",
	 .is_avoidable = true,
	 .advice = "Leave that to the interpreter, or ask less often than in each round of a loop.",
	 .names = {"gc.collect", "PyGC_Collect", "runtime.GC", "System.gc*", "JVM_GC",
		   "*java.lang.System.gc*", NULL}},
	{.what = "collecting garbage",
	 .is_primitive = true,
	 .usual_below = 0.5,
	 .advice = "Make fewer objects that live long (arrays instead of lists of objects), freeze "
		   "what stays (gc.freeze), collect less often (gc.set_threshold, GOGC, a larger "
		   "heap by -Xmx), or not within the loop.",
	 .names = {"visit_*",
		   "gc_collect*",
		   "deduce_unreachable*",
		   "subtract_refs*",
		   "update_refs*",
		   "move_unreachable*",
		   "untrack_tuples*",
		   "_PyObject_IS_GC",
		   "dict_traverse",
		   "list_traverse",
		   "tupletraverse",
		   "subtype_traverse",
		   "func_traverse",
		   "_PyGC_*",
		   "_PyObject_GC_New*",
		   "_PyObject_GC_Link*",
		   "_Py_RunGC",
		   "runtime.gcBgMarkWorker*",
		   "runtime.gcDrain*",
		   "runtime.gcAssist*",
		   "runtime.scanobject",
		   "runtime.bgsweep",
		   "G1*",
		   "GCTaskThread*",
		   "WorkGang::*",
		   "GangWorker::*",
		   "PSPromotion*",
		   "ParallelScavenge*",
		   "PSParallelCompact*",
		   "MarkSweep::*",
		   "SerialHeap::*",
		   "GenCollectedHeap::*",
		   "ZMark::*",
		   "Shenandoah*",
		   NULL}},
	{.what = "throwing exceptions",
	 .is_avoidable = true,
	 .advice = "An exception costs microseconds: return a value for what happens often, and "
		   "ask before (find, has_value, std::from_chars).",
	 .is_inner = true,
	 .names = {"_Unwind_*",
		   "uw_*",
		   "__cxa_*",
		   "__gxx_personality*",
		   "execute_cfa_program*",
		   "search_object*",
		   "_dl_find_object*",
		   "read_encoded_value*",
		   "std::__throw_*",
		   "PyErr_Format*",
		   "PyErr_SetObject",
		   "PyErr_SetString",
		   "PyErr_NormalizeException",
		   "PyErr_SetNone",
		   "PyErr_NewException*",
		   "PyTraceBack_*",
		   "PyException_*",
		   "*Error.__init__",
		   "*Error.__new__",
		   "java_lang_Throwable::*",
		   "JVM_FillInStackTrace",
		   "Java_java_lang_Throwable_*",
		   "*java.lang.Throwable.fillInStackTrace*",
		   "*java.lang.Throwable.<init>*",
		   "OptoRuntime::*exception*",
		   "OptoRuntime::rethrow*",
		   "SharedRuntime::*exception*",
		   "Exceptions::*",
		   NULL},
	 .origins = {"/libgcc_s.so", NULL}},
	{.what = "asking objects for their types (dynamic_cast)",
	 .advice = "Each dynamic_cast goes through the classes that the object's class is made of, "
		   "some by comparing their names: use a virtual function, a member that says "
		   "which type it is, std::variant, or static_cast where the type is known.",
	 .is_avoidable = true,
	 .names = {"__dynamic_cast", "__cxxabiv1::*", NULL}},
	{.what = "taking and giving back locks",
	 .is_primitive = true,
	 .advice = "Take the lock less often or hold it for less: gather work outside, give each "
		   "thread a part of its own and combine at the end, or use several locks or "
		   "atomics.",
	 .names = {"sync.(*Mutex).*", "sync.(*RWMutex).*", "*sys::sync::mutex::*",
		   "*sys_common::mutex*", "parking_lot*", "*pthread_mutex_lock*",
		   "*pthread_mutex_unlock*", "*pthread_spin_lock*", "*pthread_rwlock_*",
		   "__lll_lock_w*", "__gthread_mutex_*", NULL}},
	{.what = "handing over between goroutines",
	 .advice = "Hand over more at once: slices of items instead of single ones, channels with "
		   "a buffer, or fewer goroutines that do more each.",
	 .names = {"runtime.chansend*", "runtime.chanrecv*", "runtime.selectgo", "runtime.schedule",
		   "runtime.park_m", "runtime.goready*", "runtime.gopark*", "runtime.mcall",
		   "runtime.findRunnable*", "runtime.goschedImpl", NULL}},
	{.what = "allocating and freeing memory",
	 .is_primitive = true,
	 .is_allocating = true,
	 .advice =
		 "Allocate less often: keep objects and use them again (a pool, an arena, a free "
		 "list), reserve containers' memory at once, store values instead of pointers (in "
		 "Java, StringBuilder instead of += in loops, arrays of int instead of Integer); "
		 "or try another allocator (jemalloc, tcmalloc, mimalloc).",
	 .names = {"malloc",
		   "free",
		   "calloc",
		   "realloc",
		   "cfree",
		   "_int_malloc",
		   "_int_free*",
		   "_int_realloc",
		   "malloc_consolidate",
		   "unlink_chunk*",
		   "sysmalloc",
		   "tcache_*",
		   "operator new*",
		   "operator delete*",
		   "je_*",
		   "mi_malloc*",
		   "mi_free*",
		   "tc_*",
		   "__rust_alloc*",
		   "__rust_dealloc*",
		   "alloc::alloc::*",
		   "__rdl_*",
		   "runtime.mallocgc*",
		   "runtime.newobject",
		   "runtime.makeslice",
		   "runtime.growslice",
		   "OptoRuntime::new_*",
		   "MemAllocator::*",
		   "TypeArrayKlass::*",
		   "ObjArrayKlass::*",
		   NULL}},
	{.what = "making locales, each of which reads its files",
	 .advice = "Make a locale once and keep it (a static std::locale, newlocale at the start), "
		   "or use std::locale::classic and std::to_chars, which need none.",
	 .is_avoidable = true,
	 .names = {"std::locale::locale*", "std::locale::_Impl::_Impl*", "newlocale", "setlocale",
		   "__newlocale*", "_nl_load_locale*", "_nl_find_locale*", NULL}},
	{.what = "replacing parts of texts",
	 .advice = "Each call goes through the whole text, and copies it where something is found: "
		   "replace all words at once (re.sub with a function and a dictionary, "
		   "str.translate for single characters), or while the text is made.",
	 .is_usual = true,
	 .names = {"strings.Replace*", "alloc::str::*::replace*", "java.lang.String.replace*",
		   NULL}},
	{.what = "converting numbers and texts",
	 .advice = "Convert less: keep numbers as numbers, write binary data, or use faster "
		   "functions (std::to_chars, std::from_chars, fmt).",
	 .is_usual = true,
	 .names = {"*vfprintf*",
		   "*vsprintf*",
		   "*vsnprintf*",
		   "__printf_*",
		   "snprintf",
		   "sprintf",
		   "std::ostream*",
		   "*std::basic_ostream<*",
		   "*std::__ostream_insert<*",
		   "strto*",
		   "____strto*",
		   "__strto*",
		   "*sscanf*",
		   "*vfscanf*",
		   "std::num_put*",
		   "std::num_get*",
		   "std::istream*",
		   "*std::basic_istream<*",
		   "*stringstream*",
		   "std::locale*",
		   "fmt.*",
		   "long_to_decimal_string*",
		   "PyUnicode_Format",
		   "PyOS_double_to_string",
		   "float_repr",
		   "PyLong_FromString",
		   "PyFloat_FromString",
		   "core::fmt::*",
		   "strconv.*",
		   "*java.util.Formatter*",
		   "*java.lang.String.format*",
		   "*java.lang.Integer.parseInt*",
		   "*java.lang.Double.parseDouble*",
		   "*jdk.internal.math.*",
		   NULL}},
	{.what = "measuring all the rest of a text at each call of sscanf",
	 .advice = "sscanf looks for the end of the text before it reads anything, which makes a "
		   "loop over a long text quadratic: go on with strtol, strtod or "
		   "std::from_chars, or read line by line (getline, fgets).",
	 .is_avoidable = true,
	 .least = 0.5,
	 .names = {"*sscanf*", NULL},
	 .inside = {"__rawmemchr*", "rawmemchr", "__strlen*", "strlen", "__memchr*", NULL}},
	{.what = "making string streams, one for each text",
	 .advice = "Keep one stream and empty it (str(\"\") and clear()), or use functions without "
		   "one (std::to_string, std::to_chars, std::from_chars, snprintf).",
	 .least = 0.4,
	 .names = {"*stringstream<*>::basic_*stringstream*",
		   "*stringstream<*>::~basic_*stringstream*", NULL},
	 .inside = {"std::locale::*", "std::ios_base::*", "*std::basic_ios<*", "*std::has_facet<*",
		    "*std::use_facet<*", "*__dynamic_cast*", "*basic_stringbuf*", "malloc", "free",
		    "operator new*", "operator delete*", NULL}},
	{.what = "reading characters one by one from std::cin, in step with stdio",
	 .advice = "Call std::ios::sync_with_stdio(false) and std::cin.tie(nullptr) first, or read "
		   "large pieces (read, fread) and convert them by std::from_chars.",
	 .least = 0.4,
	 .names = {"*std::basic_istream<*", "std::istream*", "std::num_get*", "*std::getline<*",
		   NULL},
	 .inside = {"*stdio_sync_filebuf*", "getc", "_IO_getc", "ungetc", "_IO_ungetc", NULL}},
	{.what = "comparing texts",
	 .is_primitive = true,
	 .is_comparing = true,
	 .advice = "If they are those of items of a list, a dictionary (a hash table) finds an "
		   "item without looking at the others; numbers are compared faster than names.",
	 .is_usual = true,
	 .names = {"strcmp", "__strcmp*", "strncmp", "__strncmp*", "strcasecmp*", "__strcasecmp*",
		   "memcmp", "__memcmp*", "bcmp", "*std::operator==<char*",
		   "*std::operator== <char*", "*::basic_string<*::compare(*", NULL}},
	{.what = "asking for environment variables",
	 .advice = "Ask once and keep the answer: each time, all variables are compared.",
	 .is_avoidable = true,
	 .names = {"getenv", "secure_getenv", "__secure_getenv", NULL}},
	{.what = "searching texts",
	 .advice = "Search less: begin where the last search ended, look for several words at "
		   "once, or split the text once and keep the parts in a hash table.",
	 .is_usual = true,
	 .names = {"strstr", "__strstr*", "strcasestr", "__strcasestr*", "memmem", "__memmem*",
		   "strchr", "__strchr*", "strpbrk", "strspn", "strcspn", "__strspn*", "__strcspn*",
		   "__strpbrk*", "memchr", "__memchr*", "*::basic_string<*>::find*", "two_way_*",
		   NULL}},
	{.what = "single characters of files, each under the file's lock",
	 .advice = "Read and write large pieces (fread, fgets, fwrite) or take the lock once "
		   "(flockfile, getc_unlocked, putc_unlocked).",
	 .is_usual = true,
	 .names = {"getc", "_IO_getc", "fgetc", "putc", "_IO_putc", "fputc", "getchar", "putchar",
		   "ungetc", "_IO_ungetc", NULL}},
	{.what = "mathematical functions (powers, exponentials, sines)",
	 .advice = "Compute what does not change once, outside of the loop or in a table, multiply "
		   "instead of calling pow for whole powers, use float where that is exact "
		   "enough, or vectors (-O3 -ffast-math with libmvec).",
	 .is_usual = true,
	 .names = {"pow",      "__pow*",	  "__ieee754_pow*",
		   "exp",      "__exp*",	  "__ieee754_exp*",
		   "log",      "__log*",	  "__ieee754_log*",
		   "sin",      "__sin*",	  "cos",
		   "__cos*",   "sincos",	  "__sincos*",
		   "tan",      "__tan*",	  "atan*",
		   "__atan*",  "__ieee754_atan*", "fmod",
		   "__fmod*",  "__ieee754_fmod*", "cbrt",
		   "__cbrt*",  "powf*",		  "expf*",
		   "logf*",    "sinf*",		  "cosf*",
		   "exp2*",    "log2*",		  "log10*",
		   "__dubsin", "__docos*",	  NULL}},
	{.what = "converting dates",
	 .advice = "Convert each date once, and keep times as numbers, also where dates are sorted "
		   "(a comparison converts two of them each time). Make each time zone once "
		   "(ZoneInfo keeps those that it has made, no_cache reads its file again).",
	 .is_usual = true,
	 .names = {"zoneinfo_*",
		   "date_strftime*",
		   "time_strftime*",
		   "wrap_strftime*",
		   "datetime_strptime*",
		   "localtime*",
		   "__localtime*",
		   "__tz_convert*",
		   "mktime",
		   "__mktime*",
		   "strptime*",
		   "__strptime*",
		   "strftime*",
		   "__strftime*",
		   "timegm",
		   "std::get_time*",
		   "std::time_get::*",
		   "time.Parse*",
		   "java.text.SimpleDateFormat.*",
		   "java.time.format.*",
		   NULL},
	 .origins = {"/_strptime.py", "/dateutil/", NULL}},
	{.what = "computing with exact fractions or decimals",
	 .advice = "Compute with float or whole numbers (cents) where that is exact enough, and "
		   "convert once at the end: fractions grow with each sum, also within "
		   "statistics.mean (fmean computes with floats).",
	 .is_usual = true,
	 .names = {"_decimal.*", "*java.math.BigDecimal.*", "*java.math.BigInteger.*", NULL},
	 .origins = {"/fractions.py", "/statistics.py", "/decimal.py", "/_pydecimal.py",
		     "/_decimal.", NULL}},
	{.what = "importing modules",
	 .advice = "Import only what is needed, once: importlib.reload runs the whole module "
		   "again, and an import in a function looks it up at each call.",
	 .is_start = true,
	 .is_usual = true,
	 .is_start_up = true,
	 .origins = {"<frozen importlib", "/importlib/", NULL}},
	{.what = "copying memory",
	 .is_primitive = true,
	 .advice = "Copy less: pass references, views or slices (memoryview, std::span, "
		   "std::string_view), move instead of copying, and do not remove or insert at the "
		   "front.",
	 .is_usual = true,
	 .names = {"memmove", "__memmove*", "memcpy", "__memcpy*", "__mempcpy*", NULL}},
};

/* By its number from 0: those of Python come first. */
static const struct ws_work_kind *get_kind(uint8_t number)
{
	if (number < ws_python_work_kind_count)
		return &ws_python_work_kinds[number];
	return &kinds[number - ws_python_work_kind_count];
}

static uint8_t count_kinds(void)
{
	return (uint8_t)(ws_python_work_kind_count + WS_COUNT(kinds));
}

static bool is_part(const struct ws_work_kind *kind)
{
	return kind->least > 0;
}

/* Whether `text` is `pattern`, in which '*' stands for any text. */
static bool is_match(const char *text, const char *pattern)
{
	const char *star = NULL, *again = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			again = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++again;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static bool is_named(const char *name, const char *const *patterns)
{
	for (; *patterns; patterns++)
		if ((**patterns == '*' || **patterns == *name) && is_match(name, *patterns))
			return true;
	return false;
}

/* Parts of paths may hold a star, too. */
static bool is_from(const char *origin, const char *const *parts)
{
	for (; *parts; parts++) {
		size_t fixed = strcspn(*parts, "*");
		const char *at = origin;

		if (!(*parts)[fixed] && strstr(origin, *parts))
			return true;
		while ((*parts)[fixed] && (at = strstr(at, "/"))) {
			if (is_match(at, *parts))
				return true;
			at++;
		}
	}
	return false;
}

/* The interpreter, its library and the modules that come with it. */
static bool is_pythons_own(const char *origin)
{
	static const char *const parts[] = {"/libpython3", "/bin/python3", "/lib/python3",
					    "<frozen", NULL},
				 *const others[] = {"/site-packages/", "/dist-packages/", NULL};

	return is_from(origin, parts) && !is_from(origin, others);
}

static bool is_kind_of(const struct ws_work_kind *kind, const struct ws_function *function,
		       const char *origin)
{
	bool by_name =
		!function->unresolved && !(kind->is_native && function->kind == WS_FRAME_PYTHON);

	if (is_part(kind))
		return false;
	if (by_name && (is_named(function->name, kind->names) ||
			(kind->is_copying && ws_is_copy_constructor(function->name))))
		return true;
	return is_from(origin, kind->origins);
}

/* Parts of kinds say no kind by themselves. */
static struct ws_work_marks find_parts(const char *name)
{
	struct ws_work_marks marks = {0};
	unsigned part = 0;

	for (uint8_t i = 0; i < count_kinds(); i++) {
		if (!is_part(get_kind(i)))
			continue;
		if (is_named(name, get_kind(i)->inside))
			marks.inside |= (uint16_t)(1u << part);
		if (is_named(name, get_kind(i)->names))
			marks.around |= (uint16_t)(1u << part);
		part++;
	}
	return marks;
}

struct ws_work_marks ws_classify_work(const struct ws_stacks *stacks,
				      const struct ws_function *function)
{
	const char *origin = ws_stacks_get_origin(stacks, function);
	struct ws_work_marks marks = {0};

	if (function->kind == WS_FRAME_KERNEL)
		return marks;
	if (!function->unresolved)
		marks = find_parts(function->name);
	for (uint8_t i = is_pythons_own(origin) ? 0 : ws_python_work_kind_count;
	     i < count_kinds() && !marks.kind; i++)
		if (is_kind_of(get_kind(i), function, origin))
			marks.kind = (uint8_t)(i + 1);
	return marks;
}

uint8_t ws_find_work_part(uint16_t parts)
{
	for (uint8_t i = 0; i < count_kinds(); i++) {
		if (!is_part(get_kind(i)))
			continue;
		if (parts & 1)
			return (uint8_t)(i + 1);
		parts = (uint16_t)(parts >> 1);
	}
	return WS_WORK_NONE;
}

uint8_t ws_find_whole_work(uint8_t kind)
{
	while (kind > 1 && is_part(get_kind((uint8_t)(kind - 1))))
		kind--;
	return kind;
}

const struct ws_work_kind *ws_get_work_kind(uint8_t kind)
{
	return get_kind((uint8_t)(kind - 1));
}

uint8_t ws_count_work_kinds(void)
{
	return (uint8_t)(count_kinds() + 1);
}

bool ws_is_comparing_work(uint8_t kind)
{
	return kind != WS_WORK_NONE && ws_get_work_kind(kind)->is_comparing;
}

bool ws_is_sorting(const struct ws_stacks *stacks, const struct ws_function *function)
{
	uint8_t kind = ws_classify_work(stacks, function).kind;

	return kind != WS_WORK_NONE && ws_get_work_kind(kind)->is_sorting;
}
