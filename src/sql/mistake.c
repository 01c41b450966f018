/* mistake.c - see mistake.h. */
#include "sql/mistake.h"

#include <string.h>
#include <strings.h>

#include "text/suggest.h"

/* What follows `begin` in the message, without a table's name before a dot; NULL when it begins
 * otherwise. */
static const char *find_missing_name(const char *message, const char *begin)
{
	const char *dot;

	if (strncmp(message, begin, strlen(begin)) != 0)
		return NULL;
	message += strlen(begin);
	dot = strrchr(message, '.');
	return dot ? dot + 1 : message;
}

/* Whether it is the column of the numbers of such texts: nameId for name. */
static bool is_number_of(const char *column, const char *word)
{
	size_t length = strlen(word);

	return strlen(column) == length + 2 && !strncasecmp(column, word, length) &&
	       !strcmp(column + length, "Id");
}

/* The column with the numbers of what was asked for, of the tables with rows; NULL without any. */
static const char *find_number_column(const struct ws_sql_report *report, const char *word)
{
	for (size_t i = 0; i < report->table_count; i++) {
		const struct ws_sql_table *table = report->tables[i];

		for (size_t k = 0; k < table->column_count; k++)
			if (is_number_of(table->columns[k].name, word))
				return table->columns[k].name;
	}
	return NULL;
}

static void put_nearest(const struct ws_nearest *near, struct ws_text *out)
{
	if (ws_has_near_name(near))
		ws_text_printf(out, "; did you mean %.*s?", (int)near->best_len, near->best);
}

static void put_column_hint(const struct ws_sql_report *report, const char *word,
			    struct ws_text *out)
{
	const char *number = find_number_column(report, word);
	struct ws_nearest near = {.word = word};

	if (number) {
		ws_text_printf(out, "; texts are in StringIds: JOIN StringIds ON id = %s", number);
		return;
	}
	for (size_t i = 0; i < report->table_count; i++)
		for (size_t k = 0; k < report->tables[i]->column_count; k++)
			ws_try_name(&near, report->tables[i]->columns[k].name,
				    strlen(report->tables[i]->columns[k].name));
	put_nearest(&near, out);
}

void ws_sql_put_hint(const struct ws_sql_report *report, const char *message, struct ws_text *out)
{
	const char *column = find_missing_name(message, "no such column: "),
		   *table = find_missing_name(message, "no such table: ");
	struct ws_nearest near = {.word = table};

	if (column)
		put_column_hint(report, column, out);
	if (!table)
		return;
	for (size_t i = 0; i < report->table_count; i++)
		ws_try_name(&near, report->tables[i]->name, strlen(report->tables[i]->name));
	put_nearest(&near, out);
}
