/* scripts.c - see scripts.h. */
#include "analyze/scripts.h"

#include <string.h>

#include "analyze/facts.h"
#include "analyze/script_loops.h"
#include "analyze/source_line.h"
#include "base/mem.h"
#include "lanes/row_tree.h"

#define SEARCH                                                                                   \
	"If it looks for an item there, again and again: a hash table finds it without looking " \
	"at the others; keep one beside the list."
#define SORT                                                                                   \
	"Sort once, after the last item has come; to keep a few new items in order, put each " \
	"where it belongs."
#define JOIN                                                                                    \
	"Joining two texts makes a new one and copies both, in a loop again and again: append " \
	"in place, or gather the parts in a list and join them once."
#define FRONT                                                                                   \
	"Inserting or removing at the front moves all other items: append, and reverse at the " \
	"end, or keep an index of the first."
#define COPY                                                                                   \
	"In a loop, each copy goes through all items: change the list in place (append), and " \
	"hand on references."
#define KEYS                                                                                     \
	"Work out what is compared once for each item, before sorting (map, sort, map; sort_by " \
	"in Ruby), instead of in each comparison."
#define COMPILE                                                                           \
	"Compile each expression once and keep it (qr//, a constant, Regexp.union): one " \
	"with a variable in it is compiled anew whenever that has changed."
#define MATCH                                                                                 \
	"Anchor expressions, avoid nested repetitions, use plain searches (index, eq) where " \
	"the text is fixed, and one expression for many words."

#define PLAIN WS_SCRIPT_PLAIN
#define LOOP WS_SCRIPT_LOOP
#define WASTE WS_SCRIPT_WASTE

/* What the C library does for any of them. */
static const struct ws_script_work common[] = {
	{"sorting", SORT, 0.3, PLAIN, {"qsort*", "msort_with_tmp*", NULL}},
	{"comparing texts",
	 SEARCH,
	 0.25,
	 PLAIN,
	 {"memcmp", "__memcmp*", "strcmp", "__strcmp*", NULL}},
	{"copying texts or lists",
	 JOIN " The same goes for lists.",
	 0.3,
	 PLAIN,
	 {"memcpy", "__memcpy*", "memmove", "__memmove*", NULL}},
	{"making and freeing values",
	 "Make fewer: use values again, change them in place, and leave out what is not needed.",
	 0.3,
	 PLAIN,
	 {"malloc", "free", "calloc", "realloc", "_int_malloc", "_int_free*", "_int_realloc",
	  "malloc_consolidate", "unlink_chunk*", NULL}},
};

static const struct ws_interpreter interpreters[] = {
	{"perl",
	 {"perl", "libperl", NULL},
	 "perl -d:NYTProf says which line.",
	 false,
	 {{"compiling regular expressions",
	   COMPILE,
	   0.2,
	   WASTE,
	   {"Perl_re_op_compile*", "Perl_re_compile*", "Perl_pp_regcomp", "Perl_pregcomp",
	    "Perl_fbm_compile", NULL},
	   {"=~", "qr/", "split", NULL}},
	  {"regular expressions",
	   MATCH,
	   0.3,
	   PLAIN,
	   {"Perl_regexec_flags", "Perl_pp_match", "Perl_pp_subst", "Perl_re_intuit_start",
	    "S_reg*", NULL},
	   {"=~", NULL}},
	  {"sorting, whose comparisons work out their keys anew",
	   KEYS,
	   0.2,
	   WASTE,
	   {NULL},
	   {"sort", NULL},
	   0.7,
	   true,
	   false},
	  {"sorting", SORT, 0.3, PLAIN, {"Perl_pp_sort", "Perl_sortsv*", NULL}, {"sort", NULL}},
	  {"going through arrays item by item (grep, map)",
	   SEARCH,
	   0.12,
	   LOOP,
	   {"Perl_pp_grepwhile", "Perl_pp_grepstart", "Perl_pp_mapwhile", NULL},
	   {"grep", "map", "first", "any", NULL}},
	  {"going through all items of hashes (keys, values, each)",
	   SEARCH,
	   0.12,
	   LOOP,
	   {"Perl_hv_iterinit", "Perl_hv_iterkey*", "Perl_hv_iterval", "Perl_do_kv", "Perl_pp_each",
	    NULL},
	   {"keys", "values", "each", NULL}},
	  {"copying hashes and arrays item by item, as those that are handed over by value",
	   "my (%all) = @_ and my %copy = %$all make each item anew, in each call: hand over a "
	   "reference (\\%all) and use its items in place ($all->{$key}, $all->[0]).",
	   0.25,
	   WS_SCRIPT_COPY,
	   {"Perl_hv_pushkv", "Perl_hv_iternext*", "Perl_newSVhek", "Perl_hv_clear",
	    "Perl_pp_aassign", "Perl_av_make", NULL},
	   {NULL},
	   0.85},
	  {"moving the items of arrays (unshift, splice)",
	   FRONT,
	   0.2,
	   WASTE,
	   {"Perl_pp_unshift", "Perl_av_unshift", "Perl_pp_splice", NULL},
	   {"unshift", "splice", NULL}},
	  {"cutting pieces out of texts (substr), which copies them",
	   "Cutting off the front copies all the rest, in a loop again and again: go on at a "
	   "position (index with a start, /\\G.../gc), or take the front off in place (substr with "
	   "four arguments, s/^...//).",
	   0.25,
	   PLAIN,
	   {"Perl_pp_substr", NULL},
	   {"substr", NULL}},
	  {"making arrays and hashes ([...], {...})",
	   COPY,
	   0.25,
	   PLAIN,
	   {"Perl_pp_anonlist", "Perl_pp_anonhash", NULL}},
	  {"joining texts",
	   JOIN,
	   0.3,
	   PLAIN,
	   {"Perl_pp_concat", "Perl_pp_multiconcat", "Perl_sv_catsv*", "Perl_sv_catpv*",
	    "Perl_do_join", "Perl_pp_join", "Perl_pp_stringify", NULL},
	   {"join", ".=", NULL}},
	  {"splitting texts",
	   "Split each text once and keep the parts, only as far as needed (a limit as third "
	   "argument), or take a part by index and substr.",
	   0.25,
	   PLAIN,
	   {"Perl_pp_split", NULL},
	   {"split", NULL}},
	  {"counting the characters of UTF-8 texts from their beginnings",
	   "substr, index, pos and length of a text with characters beyond ASCII count from its "
	   "start: work on bytes (encode), or cut pieces off once (split, unpack).",
	   0.2,
	   WASTE,
	   {"Perl_utf8_length", "Perl_sv_len_utf8*", "Perl_sv_pos_*", "Perl_utf8_hop*", NULL},
	   {"substr", "index", "pos", NULL}},
	  {"making texts of values (sprintf)",
	   "Make each text once, join plain texts with '.', and keep numbers as numbers.",
	   0.3,
	   PLAIN,
	   {"Perl_pp_sprintf", "Perl_sv_vcatpvf*", "Perl_do_sprintf", NULL},
	   {"sprintf", "printf", NULL}},
	  {"loops over items (foreach)",
	   SEARCH,
	   0.08,
	   LOOP,
	   {"Perl_pp_iter", NULL},
	   {"for", "foreach", NULL}},
	  {"hash look-ups",
	   "Look each key up once and keep what is found in a variable.",
	   0.2,
	   PLAIN,
	   {"Perl_hv_common*", "Perl_pp_helem", "Perl_pp_exists", "Perl_pp_delete", NULL},
	   {NULL},
	   0,
	   false,
	   true},
	  {"calling subs",
	   "Do more in each call, or write small subs where they are called.",
	   0.2,
	   PLAIN,
	   {"Perl_pp_entersub", "Perl_pp_leavesub", NULL}},
	  {"reading lines",
	   "Read larger pieces (local $/) and split them.",
	   0.3,
	   PLAIN,
	   {"Perl_sv_gets", "Perl_pp_readline", "Perl_do_readline", NULL}}}},
	{"ruby",
	 {"ruby", "libruby", NULL},
	 "stackprof or ruby-prof say which line.",
	 false,
	 {{"compiling regular expressions",
	   COMPILE,
	   0.2,
	   WASTE,
	   {"rb_reg_new*", "rb_reg_regcomp", "onig_new*", "onig_compile*", "rb_reg_init_str", NULL},
	   {"Regexp.new", "#{", "Regexp.union", NULL}},
	  {"regular expressions",
	   MATCH,
	   0.3,
	   PLAIN,
	   {"rb_reg_*", "onig_match*", "onig_search*", NULL},
	   {"=~", "match", "match?", "scan", "gsub", "sub", NULL}},
	  {"sorting, whose comparisons work out their keys anew",
	   KEYS,
	   0.2,
	   WASTE,
	   {NULL},
	   {"sort", "sort!", "min_by", "max_by", NULL},
	   0.7,
	   true,
	   false},
	  {"sorting",
	   SORT,
	   0.3,
	   PLAIN,
	   {"rb_ary_sort*", "qsort_r", "msort_with_tmp*", NULL},
	   {"sort", "sort!", "sort_by", "sort_by!", "min_by", "max_by", NULL}},
	  {"searching arrays item by item (include?, index, delete, -)",
	   SEARCH,
	   0.2,
	   WASTE,
	   {"rb_ary_includes*", "rb_ary_delete", "rb_ary_assoc", "rb_ary_rassoc", NULL},
	   {"include?", "index", "find_index", "delete", "member?", NULL}},
	  {"moving the items of arrays (unshift, insert, delete_at)",
	   FRONT,
	   0.2,
	   WASTE,
	   {"rb_ary_unshift", "rb_ary_delete_at", "rb_ary_splice", NULL},
	   {"unshift", "prepend", "insert", "delete_at", "slice!", NULL}},
	  {"joining texts by + (a new text each time)",
	   JOIN " In Ruby, << appends in place.",
	   0.2,
	   WASTE,
	   {"rb_str_plus", "rb_str_opt_plus", "rb_str_times", NULL},
	   {"+=", " + ", NULL}},
	  {"joining and copying arrays",
	   COPY,
	   0.2,
	   WASTE,
	   {"rb_ary_plus", "rb_ary_dup", "rb_ary_concat", "rb_ary_replace", "rb_ary_subseq", NULL},
	   {"+=", "dup", "concat", " + ", NULL}},
	  {"copying hashes",
	   COPY,
	   0.2,
	   WASTE,
	   {"rb_hash_dup", "rb_hash_update_by", NULL},
	   {"merge", "dup", "clone", NULL}},
	  {"collecting garbage",
	   "Make fewer objects: symbols and numbers instead of texts, frozen texts, change in "
	   "place "
	   "(map!, <<).",
	   0.3,
	   PLAIN,
	   {"rb_gc*", NULL}},
	  {"making texts of values",
	   "Make each text once and keep it.",
	   0.3,
	   PLAIN,
	   {"rb_str_format*", "rb_obj_as_string", "rb_inspect", NULL}},
	  {"comparing values",
	   SEARCH,
	   0.3,
	   PLAIN,
	   {"rb_equal*", "rb_eql*", "rb_str_equal", NULL},
	   {NULL},
	   0,
	   false,
	   true},
	  {"hash look-ups",
	   "Look each key up once and keep what is found.",
	   0.3,
	   PLAIN,
	   {"rb_hash_*", "rb_st_*", NULL},
	   {NULL},
	   0,
	   false,
	   true}}},
	{"php",
	 {"php", "libphp", NULL},
	 "Xdebug's or Excimer's profiler says which line.",
	 false,
	 {{"regular expressions",
	   MATCH,
	   0.3,
	   PLAIN,
	   {"php_pcre_*", "pcre2_*", NULL},
	   {"preg_match", "preg_match_all", "preg_replace", "preg_split", "preg_replace_callback",
	    NULL}},
	  {"sorting",
	   SORT,
	   0.3,
	   PLAIN,
	   {"zend_sort*", "zend_hash_sort*", "zend_insert_sort", NULL},
	   {"sort", "usort", "uasort", "ksort", "asort", "rsort", NULL}},
	  {"joining and copying arrays",
	   COPY,
	   0.2,
	   WASTE,
	   {"php_array_merge*", "zend_array_dup", "zend_array_destroy", "php_array_replace*", NULL},
	   {"array_merge", "array_unshift", "array_shift", "array_replace", "array_slice", NULL}},
	  {"comparing items (in_array, array_search, ==)",
	   SEARCH,
	   0.2,
	   PLAIN,
	   {"zend_string_equal_val", "zend_compare", "zend_is_identical", "fast_equal_check*",
	    "zend_fast_equal_strings", "zendi_smart_str*", "string_compare_function*",
	    "compare_function", NULL},
	   {"in_array", "array_search", "array_keys", "array_unique", NULL}},
	  {"reading or writing JSON",
	   "Read it once and keep the result.",
	   0.3,
	   PLAIN,
	   {"php_json_*", NULL},
	   {"json_decode", "json_encode", NULL}},
	  {"joining texts",
	   JOIN,
	   0.3,
	   PLAIN,
	   {"concat_function", "smart_str_*", "php_implode", "_zend_new_interned_string*", NULL}},
	  {"replacing in texts",
	   "Do several replacements in one pass (strtr with an array).",
	   0.3,
	   PLAIN,
	   {"php_str_to_str", "php_strtr*", "zend_memnstr*", NULL},
	   {"str_replace", "strtr", "substr_replace", "str_ireplace", NULL}}}},
	{"lua",
	 {"lua", "liblua", NULL},
	 "A hook (debug.sethook) or LuaJIT's -jp says which line.",
	 false,
	 {{"moving the items of tables (table.insert and table.remove at the front or in the "
	   "middle)",
	   FRONT,
	   0.3,
	   WASTE,
	   {"lua_seti", "lua_geti", NULL},
	   {"table.insert", "table.remove", NULL}},
	  {"joining texts (..)",
	   JOIN " In Lua, that is table.concat.",
	   0.3,
	   PLAIN,
	   {"lua_concat", "luaV_concat", "luaO_tostring*", "memcpy", "__memcpy*", NULL},
	   {"..", NULL}},
	  {"matching patterns",
	   MATCH,
	   0.3,
	   PLAIN,
	   {"str_find_aux", "do_match", "str_gsub", "gmatch_aux", NULL},
	   {"gsub", "gmatch", "match", "find", NULL}},
	  {"collecting garbage",
	   "Make fewer tables and texts.",
	   0.3,
	   PLAIN,
	   {"luaC_*", "lua_gc", NULL}}}},
	{"tclsh",
	 {"tclsh", "libtcl", "wish", NULL},
	 "The command time and the package profiler say which procedure.",
	 false,
	 {{"regular expressions",
	   MATCH,
	   0.3,
	   PLAIN,
	   {"Tcl_RegExp*", "TclReExec", NULL},
	   {"regexp", "regsub", NULL}},
	  {"comparing texts (lsearch, string equal, switch)",
	   SEARCH " (In Tcl: dict or array.)",
	   0.25,
	   PLAIN,
	   {"memcmp", "__memcmp*", "TclpUtfNcmp2", "Tcl_UtfNcmp", NULL},
	   {"lsearch", NULL}}}},
	{"awk",
	 {"gawk", "mawk", "awk", "original-awk"},
	 "gawk --profile=FILE counts how often each line runs.",
	 false,
	 {{"regular expressions",
	   MATCH,
	   0.3,
	   PLAIN,
	   {"re_search*", "re_match*", "re_compile*", "dfaexec*", "rpl_re_*", NULL},
	   {"~", "match", "gsub", "sub", "split", NULL}}}},
	{"node",
	 {"node", "libnode", NULL},
	 "node --cpu-prof says which line.",
	 true,
	 {{"files, while everything else waits (fs....Sync)",
	   "Read each file once and keep what is needed of it, or use fs.promises, which lets the "
	   "program go on meanwhile.",
	   0.25,
	   PLAIN,
	   {"node::fs::*", "uv_fs_*", "uv__fs_*", NULL},
	   {"readFileSync", "writeFileSync", "appendFileSync", "existsSync", "statSync",
	    "readdirSync", "openSync", NULL}},
	  {"starting processes and waiting for them (execSync, spawnSync)",
	   "Do the work in the program itself, hand many inputs to one process, or let several run "
	   "at once (exec, spawn).",
	   0.2,
	   PLAIN,
	   {"node::SyncProcessRunner::*", NULL},
	   {"execSync", "spawnSync", "execFileSync", NULL}},
	  {"reading or writing JSON",
	   "Read it once and keep the result. JSON.parse(JSON.stringify(x)) copies all of x: copy "
	   "only what changes ({...x}), or use structuredClone.",
	   0.25,
	   PLAIN,
	   {"v8::internal::Builtin_JsonParse*", "v8::internal::Builtin_JsonStringify*", NULL},
	   {"JSON.parse", "JSON.stringify", NULL},
	   0,
	   false,
	   false,
	   "JSON.parse(JSON.stringify("},
	  {"sorting",
	   SORT,
	   0.3,
	   PLAIN,
	   {"Builtins_ArrayPrototypeSort", "Builtins_ArrayTimSort*", "Builtins_ArrayMergeSort*",
	    "Builtins_MergeLow*", "Builtins_MergeHigh*", "Builtins_Gallop*",
	    "Builtins_BinaryInsertionSort*", NULL},
	   {"sort", "toSorted", NULL}},
	  {"searching arrays item by item (includes, indexOf, find, filter)",
	   SEARCH " (In JavaScript: Set, Map.)",
	   0.2,
	   WASTE,
	   {"Builtins_ArrayIncludes*", "Builtins_ArrayIndexOf*", "Builtins_ArrayPrototypeIncludes",
	    "Builtins_ArrayPrototypeFind*", "Builtins_ArrayFind*", "Builtins_ArraySome*",
	    "Builtins_ArrayEvery*", "Builtins_ArrayFilter*", "Builtins_ArrayPrototypeLastIndexOf",
	    NULL},
	   {"includes", "indexOf", "find", "findIndex", "some", "filter", NULL}},
	  {"moving the items of arrays (shift, unshift, splice)",
	   FRONT,
	   0.2,
	   WASTE,
	   {"Builtins_ArrayPrototypeShift", "v8::internal::Builtin_ArrayShift*",
	    "v8::internal::Builtin_ArrayUnshift*", "Builtins_ArrayPrototypeUnshift",
	    "Builtins_ArrayPrototypeSplice", "Builtins_FastArraySplice*",
	    "v8::internal::Heap::MoveRange*", NULL},
	   {"shift", "unshift", "splice", NULL}},
	  {"copying arrays (spread, slice, concat)",
	   COPY,
	   0.25,
	   WASTE,
	   {"Builtins_CloneFastJSArray*", "Builtins_ArrayPrototypeSlice",
	    "Builtins_ExtractFastJSArray*", "v8::internal::Builtin_ArrayConcat*",
	    "Builtins_IterableToList*", "Builtins_ArrayPrototypeConcat", "Builtins_ArrayFrom",
	    NULL},
	   {"[...", "slice", "concat", "Array.from", NULL}},
	  {"copying objects (spread, Object.assign, structuredClone)",
	   COPY,
	   0.25,
	   WASTE,
	   {"Builtins_CopyDataProperties*", "Builtins_SetDataProperties*",
	    "Builtins_CloneObjectIC*", "v8::internal::Runtime_CopyDataProperties*",
	    "v8::internal::Runtime_CloneObjectIC*", "v8::internal::Builtin_ObjectAssign*",
	    "Builtins_ObjectAssign", "v8::internal::ValueSerializer::*",
	    "v8::internal::ValueDeserializer::*", NULL},
	   {"{...", "{ ...", "Object.assign", "structuredClone", NULL}},
	  {"regular expressions",
	   MATCH,
	   0.3,
	   PLAIN,
	   {"Builtins_RegExp*", "v8::internal::RegExp*", "v8::internal::Runtime_RegExp*",
	    "v8::internal::IrregexpInterpreter*", "v8::internal::NativeRegExpMacroAssembler*",
	    NULL},
	   {"match", "matchAll", "replace", "test", "exec", "RegExp", NULL}},
	  {"searching, splitting and replacing in texts",
	   "Do several replacements in one pass (one expression and a function), split once and "
	   "keep the parts.",
	   0.25,
	   PLAIN,
	   {"Builtins_StringPrototypeReplace*", "v8::internal::Runtime_StringReplace*",
	    "Builtins_StringPrototypeSplit", "v8::internal::Runtime_StringSplit*",
	    "Builtins_StringPrototypeIndexOf", "Builtins_StringIndexOf*",
	    "v8::internal::String::IndexOf*", "Builtins_StringPrototypeIncludes",
	    "v8::internal::Builtin_StringPrototypeIncludes*", NULL},
	   {"replace", "replaceAll", "split", "indexOf", "includes", NULL}},
	  {"joining texts, whose parts are copied when they are read",
	   JOIN,
	   0.3,
	   PLAIN,
	   {"v8::internal::String::SlowFlatten*", "v8::internal::String::WriteToFlat*",
	    "void v8::internal::String::WriteToFlat*", "Builtins_ArrayPrototypeJoin",
	    "Builtins_StringAdd*", NULL},
	   {"+=", "join", "concat", NULL}},
	  {"listing the keys of objects (Object.keys, entries, in)",
	   "Keep a Map, whose size and items need no list, or keep the list beside the object.",
	   0.25,
	   PLAIN,
	   {"v8::internal::KeyAccumulator*", "v8::internal::FastKeyAccumulator*",
	    "Builtins_ObjectKeys", "Builtins_ObjectEntries", "Builtins_ObjectValues*",
	    "v8::internal::Runtime_ObjectKeys*", "v8::internal::Runtime_ForInEnumerate*", NULL},
	   {"Object.keys", "Object.entries", "Object.values", NULL}},
	  {"throwing exceptions, each of which notes its stack",
	   "Return a value for what happens often, and ask before.",
	   0.2,
	   WASTE,
	   {"v8::internal::Isolate::Throw*", "v8::internal::Isolate::CaptureSimpleStackTrace*",
	    "v8::internal::ErrorUtils::*", "v8::internal::Builtin_ErrorConstructor*", NULL},
	   {"throw", "catch", NULL}},
	  {"copying buffers, texts or lists",
	   "Buffer.concat, + and [...list, item] make a new one and copy all that was there, in a "
	   "loop again and again: push the pieces to an array and join them once, at the end.",
	   0.3,
	   PLAIN,
	   {"memcpy", "__memcpy*", "memmove", "__memmove*", NULL},
	   {"Buffer.concat", "concat(", NULL},
	   0.85,
	   false,
	   false,
	   "Buffer.concat("},
	  {"collecting garbage",
	   "Make fewer objects: change them in place, use typed arrays, keep buffers.",
	   0.4,
	   PLAIN,
	   {"v8::internal::Heap::CollectGarbage*", "v8::internal::Scavenger*",
	    "v8::internal::MarkCompact*", "v8::internal::ConcurrentMarking*", NULL}}}},
	{"the shell",
	 {"bash", "dash", "zsh", "ksh"},
	 "PS4='+$EPOCHREALTIME $LINENO ' bash -x says which line. Loops over many items are a "
	 "thousand times as fast in awk, Perl or Python.",
	 false,
	 {{"reading lines (read takes one byte at a time)",
	   "Let one awk or sed read the lines, or read all at once (mapfile).",
	   0.25,
	   WASTE,
	   {"read_builtin", "zreadc*", "zread", NULL},
	   {"read", NULL},
	   0.85},
	  {"counting the characters of texts from their beginnings (${#text}, ${text:at:1})",
	   "In a locale such as UTF-8 each look at a length or a part goes through the text: keep "
	   "the length in a variable, read the characters one by one (while read -rn1, fold -w1, "
	   "grep -o .), or set LC_ALL=C where bytes will do.",
	   0.3,
	   PLAIN,
	   {"mbstrlen", "__mbrtowc", "mbrtowc", "mbrlen", "__mbrlen", "mbsmbchar", NULL},
	   {"${#", ":at:", ":i:", ":n:", ":pos:", ":0:", ":1"},
	   0.85},
	  {"assigning texts to variables, which copies the whole text each time",
	   "Append by name+=text instead of name=$name..., or print the parts and take all of "
	   "them at once: text=$(for ...; do printf ...; done).",
	   0.4,
	   WASTE,
	   {"expand_string_assignment", NULL},
	   {"=\"$", "=$", "=\"${", NULL}},
	  {"patterns and replacements within texts",
	   MATCH,
	   0.3,
	   PLAIN,
	   {"strmatch*", "xstrmatch", "glob_*", "match_upattern", "match_pattern*",
	    "remove_pattern", "parameter_brace_remove_pattern", "pat_subst", NULL}},
	  {"arrays",
	   "bash keeps arrays as lists: an associative array (declare -A) finds an item "
	   "by its name.",
	   0.2,
	   PLAIN,
	   {"array_reference", "array_insert", "array_to_*", "array_value", "array_from_*",
	    "array_copy", "array_dispose*", NULL}}}},
};

uint32_t ws_find_interpreter(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash)
		path = slash + 1;
	for (uint32_t i = 0; i < WS_COUNT(interpreters); i++)
		for (size_t k = 0; k < WS_COUNT(interpreters[i].files); k++) {
			const char *file = interpreters[i].files[k];
			size_t length = file ? strlen(file) : 0;

			/* "perl", "perl5.36.0", "libruby-3.1.so.3.1" match, longer words do not */
			if (file && !strncmp(path, file, length) &&
			    strspn(path + length, "-.0123456789jitso") == strlen(path + length))
				return i + 1;
		}
	return 0;
}

const struct ws_interpreter *ws_get_interpreter(uint32_t number)
{
	return &interpreters[number - 1];
}

const struct ws_script_work *ws_get_script_work(uint32_t interpreter, uint32_t work)
{
	if (work > WS_SCRIPT_WORKS)
		return &common[work - WS_SCRIPT_WORKS - 1];
	return &interpreters[interpreter - 1].works[work - 1];
}

uint32_t ws_classify_script_work(uint32_t interpreter, const char *function)
{
	const struct ws_script_work *works = interpreters[interpreter - 1].works;
	size_t length = strlen(function);

	for (uint32_t i = 0; i < WS_SCRIPT_WORKS && works[i].what; i++)
		if (*works[i].names && ws_is_name_among(function, length, works[i].names))
			return i + 1;
	for (uint32_t i = 0; i < WS_COUNT(common); i++)
		if (ws_is_name_among(function, length, common[i].names))
			return WS_SCRIPT_WORKS + i + 1;
	return 0;
}

/* After the interpreter's options, some of which have the script itself as their argument. */
void ws_put_script(const char *command, struct ws_text *text)
{
	const char *word = command + strcspn(command, " "), *end;

	while (*word == ' ') {
		word += strspn(word, " ");
		end = word + strcspn(word, " ");
		if (*word == '\'' || *word == '"')
			break; /* awk '{ ... }' */
		if (*word != '-') {
			ws_text_add(text, word, (size_t)(end - word));
			return;
		}
		/* perl -ne '...', bash -c '...', php -r '...' */
		if (word[1] != '-' && end > word + 1 && strchr("eEcr", end[-1]))
			break;
		word = end;
	}
	ws_text_puts(text, "a program on its command line");
}

void ws_put_script_path(const struct ws_model *model, const char *command, struct ws_text *text)
{
	const char *folder = ws_find_meta(model->report, "session.directory");
	struct ws_text script = {0};

	ws_put_script(command, &script);
	if (*script.text != '/')
		ws_text_printf(text, "%s/", folder ? folder : "");
	ws_text_puts(text, script.text);
	ws_text_free(&script);
}

void ws_put_script_start(const struct ws_model *model, const char *command,
			 const struct ws_process_info *child, struct ws_text *text)
{
	uint64_t until = (uint64_t)ws_lanes_realtime(model->report, model->to);
	struct ws_text path = {0}, line = {0};
	uint32_t number;

	ws_put_script_path(model, command, &path);
	number = ws_find_command_line(path.text, child->cmdline, until);
	if (number && ws_put_source_line(path.text, number, until, &line))
		ws_text_printf(text, ", %s at line %u: %s", child->name, number, line.text);
	ws_text_free(&line);
	ws_text_free(&path);
}

void ws_put_script_statements(const struct ws_model *model, const char *command,
			      const struct ws_script_work *work, struct ws_text *text)
{
	enum { MOST = 3 };
	uint64_t until = (uint64_t)ws_lanes_realtime(model->report, model->to);
	uint32_t lines[MOST + 1];
	struct ws_text path = {0};
	size_t count;

	ws_put_script_path(model, command, &path);
	count = ws_find_statements(path.text, until, work->words, lines, MOST + 1);
	for (size_t i = 0; i < count && count <= MOST; i++) {
		struct ws_text line = {0};

		if (ws_put_source_line(path.text, lines[i], until, &line))
			ws_text_printf(text, "%s line %u: %s", i ? ";" : ", at", lines[i],
				       line.text);
		ws_text_free(&line);
	}
	ws_text_free(&path);
}

bool ws_put_script_copies(const struct ws_model *model, const char *command, struct ws_text *text)
{
	enum { MOST = 2 };
	uint64_t until = (uint64_t)ws_lanes_realtime(model->report, model->to);
	uint32_t lines[MOST];
	struct ws_text path = {0};
	size_t count;

	ws_put_script_path(model, command, &path);
	count = ws_find_list_copies(path.text, until, lines, MOST);
	for (size_t i = 0; i < count; i++) {
		ws_text_printf(text, "%s line %u: ", i ? ";" : ", at", lines[i]);
		ws_put_source_line(path.text, lines[i], until, text);
	}
	ws_text_free(&path);
	return count;
}

const char *ws_put_script_loop(const struct ws_model *model, const char *command, unsigned depth,
			       struct ws_text *text)
{
	uint64_t until = (uint64_t)ws_lanes_realtime(model->report, model->to);
	struct ws_text path = {0}, line = {0};
	struct ws_script_loop loop;

	ws_put_script_path(model, command, &path);
	loop = ws_find_deepest_loop(path.text, until);
	if (loop.line && loop.depth >= depth &&
	    ws_put_source_line(path.text, loop.line, until, &line))
		ws_text_printf(text, ", whose innermost loop%s is at line %u: %s",
			       loop.compares ? ", which looks at items one by one," : "", loop.line,
			       line.text);
	else
		loop.compares = false;
	ws_text_free(&line);
	ws_text_free(&path);
	return loop.compares ? SEARCH : NULL;
}
