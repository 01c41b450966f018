/*
 * duckdb_abi.h - the part of DuckDB's C interface that parquet.c uses, so that the build does not
 * need DuckDB. The functions are those of its stable interface (1.0 and later); they are bound by
 * name when the library is opened.
 */
#ifndef WS_EXPORT_DUCKDB_ABI_H
#define WS_EXPORT_DUCKDB_ABI_H

#include <stdint.h>

enum {
	DUCKDB_INTEGER = 4,
	DUCKDB_BIGINT = 5,
	DUCKDB_UTINYINT = 6,
	DUCKDB_UINTEGER = 8,
	DUCKDB_UBIGINT = 9,
	DUCKDB_DOUBLE = 11,
	DUCKDB_VARCHAR = 17,
	DUCKDB_BLOB = 18
};

struct duckdb_result { /* six words; space for more */
	uint64_t words[16];
};
typedef void *duckdb_handle;
typedef void duckdb_callback(duckdb_handle info);
typedef void duckdb_main(duckdb_handle info, duckdb_handle chunk);

/* WS_DUCKDB(result, name, arguments) */
#define WS_DUCKDB_FUNCTIONS(WS_DUCKDB)                                                        \
	WS_DUCKDB(const char *, duckdb_library_version, (void))                               \
	WS_DUCKDB(int, duckdb_open, (const char *path, duckdb_handle *database))              \
	WS_DUCKDB(int, duckdb_connect, (duckdb_handle database, duckdb_handle * connection))  \
	WS_DUCKDB(void, duckdb_disconnect, (duckdb_handle * connection))                      \
	WS_DUCKDB(void, duckdb_close, (duckdb_handle * database))                             \
	WS_DUCKDB(int, duckdb_query,                                                          \
		  (duckdb_handle connection, const char *sql, struct duckdb_result *result))  \
	WS_DUCKDB(const char *, duckdb_result_error, (struct duckdb_result * result))         \
	WS_DUCKDB(void, duckdb_destroy_result, (struct duckdb_result * result))               \
	WS_DUCKDB(duckdb_handle, duckdb_create_table_function, (void))                        \
	WS_DUCKDB(void, duckdb_destroy_table_function, (duckdb_handle * function))            \
	WS_DUCKDB(void, duckdb_table_function_set_name,                                       \
		  (duckdb_handle function, const char *name))                                 \
	WS_DUCKDB(void, duckdb_table_function_set_extra_info,                                 \
		  (duckdb_handle function, void *info, void (*free)(void *)))                 \
	WS_DUCKDB(void, duckdb_table_function_set_bind,                                       \
		  (duckdb_handle function, duckdb_callback * bind))                           \
	WS_DUCKDB(void, duckdb_table_function_set_init,                                       \
		  (duckdb_handle function, duckdb_callback * init))                           \
	WS_DUCKDB(void, duckdb_table_function_set_function,                                   \
		  (duckdb_handle function, duckdb_main * main))                               \
	WS_DUCKDB(int, duckdb_register_table_function,                                        \
		  (duckdb_handle connection, duckdb_handle function))                         \
	WS_DUCKDB(void *, duckdb_bind_get_extra_info, (duckdb_handle info))                   \
	WS_DUCKDB(void, duckdb_bind_add_result_column,                                        \
		  (duckdb_handle info, const char *name, duckdb_handle type))                 \
	WS_DUCKDB(duckdb_handle, duckdb_create_logical_type, (int type))                      \
	WS_DUCKDB(void, duckdb_destroy_logical_type, (duckdb_handle * type))                  \
	WS_DUCKDB(void *, duckdb_function_get_extra_info, (duckdb_handle info))               \
	WS_DUCKDB(void, duckdb_function_set_error, (duckdb_handle info, const char *message)) \
	WS_DUCKDB(duckdb_handle, duckdb_data_chunk_get_vector,                                \
		  (duckdb_handle chunk, uint64_t column))                                     \
	WS_DUCKDB(void, duckdb_data_chunk_set_size, (duckdb_handle chunk, uint64_t rows))     \
	WS_DUCKDB(void *, duckdb_vector_get_data, (duckdb_handle vector))                     \
	WS_DUCKDB(void, duckdb_vector_ensure_validity_writable, (duckdb_handle vector))       \
	WS_DUCKDB(uint64_t *, duckdb_vector_get_validity, (duckdb_handle vector))             \
	WS_DUCKDB(void, duckdb_vector_assign_string_element_len,                              \
		  (duckdb_handle vector, uint64_t row, const char *text, uint64_t length))    \
	WS_DUCKDB(uint64_t, duckdb_vector_size, (void))

#endif
