/*
 * python_methods.h - names of the functions in C that Python calls, for files without a symbol
 * table: interpreters and extension modules as distributions strip them.
 *
 * What Python can call by name stands in tables of the file, whatever was stripped: methods of
 * modules and types (PyMethodDef), and what types do for operators (the slots of PyTypeObject).
 * Functions are called as in Python: "gc.collect", "list.pop", "list.__contains__".
 */
#ifndef WS_SYMBOLS_PYTHON_METHODS_H
#define WS_SYMBOLS_PYTHON_METHODS_H

#include "symbols/cfi.h"
#include "symbols/symtab.h"

struct ws_python_methods;

/*
 * Name the functions of `n` sorted addresses that have no name in `hit` yet. Returns what owns the
 * names, NULL where the file is not Python's. `cfi` says where functions begin; NULL: nothing can
 * be named.
 */
struct ws_python_methods *ws_python_methods_find(const struct ws_elf *elf, struct ws_cfi *cfi,
						 const uint64_t *address, size_t n,
						 struct ws_symbol_hit *hit);
void ws_python_methods_free(struct ws_python_methods *methods); /* NULL is fine */

#endif
