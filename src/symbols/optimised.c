/*
 * optimised.c - see optimised.h.
 *
 * LLVM's debugging information of optimised functions says that all of their calls are described
 * (call_all_calls, or GNU_all_call_sites before DWARF 5). Variables of optimised code move from
 * register to register, which takes lists of locations; without optimisation each has its place in
 * the frame all the time.
 */
#if WS_HAVE_DW

#include "symbols/optimised.h"

#include <dwarf.h>
#include <stdbool.h>
#include <string.h>

enum { MOST_VARIABLES = 64 };

/* The level in the last option -O of a command line: "2", "" for -O alone. NULL for none. */
static const char *find_last_level(const char *options)
{
	const char *level = NULL;

	for (const char *at = options; (at = strstr(at, " -O")); at += 3)
		level = at + 3;
	return level;
}

enum ws_optimised ws_judge_unit(Dwarf_Die *unit)
{
	Dwarf_Attribute attribute;
	const char *producer = NULL, *level;

	if (dwarf_attr(unit, DW_AT_producer, &attribute))
		producer = dwarf_formstring(&attribute);
	if (!producer)
		return WS_OPTIMISED_UNKNOWN;
	level = find_last_level(producer);
	if (level && *level == '0')
		return WS_OPTIMISED_NO;
	if (level)
		return WS_OPTIMISED_YES;
	/* GCC notes -mtune and its like in any case, and -O where it was given. */
	if (!strncmp(producer, "GNU ", 4) && strstr(producer, " -m"))
		return WS_OPTIMISED_NO;
	if (strstr(producer, "clang") || strstr(producer, "LLVM"))
		return WS_OPTIMISED_UNKNOWN;
	return WS_OPTIMISED_YES;
}

static bool has_flag(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	bool flag = false;

	return dwarf_attr(die, name, &attribute) && !dwarf_formflag(&attribute, &flag) && flag;
}

/* Whether a variable lies at a fixed place of its function's frame. */
static enum ws_optimised judge_variable(Dwarf_Die *variable)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *operations;
	size_t count;

	if (!dwarf_attr(variable, DW_AT_location, &attribute))
		return WS_OPTIMISED_UNKNOWN;
	switch (dwarf_whatform(&attribute)) {
	case DW_FORM_exprloc:
	case DW_FORM_block:
	case DW_FORM_block1:
		break;
	default:
		return WS_OPTIMISED_YES; /* a list */
	}
	if (dwarf_getlocation(&attribute, &operations, &count) || !count ||
	    operations[0].atom == DW_OP_addr || operations[0].atom == DW_OP_addrx)
		return WS_OPTIMISED_UNKNOWN; /* static */
	if (operations[0].atom == DW_OP_fbreg)
		return WS_OPTIMISED_NO;
	return WS_OPTIMISED_YES;
}

enum ws_optimised ws_judge_function(Dwarf_Die *function)
{
	enum ws_optimised judged = WS_OPTIMISED_UNKNOWN;
	Dwarf_Die die;
	int seen = 0;

	if (has_flag(function, DW_AT_call_all_calls) ||
	    has_flag(function, DW_AT_GNU_all_call_sites))
		return WS_OPTIMISED_YES;
	if (dwarf_child(function, &die))
		return WS_OPTIMISED_UNKNOWN;
	do {
		int tag = dwarf_tag(&die);
		enum ws_optimised one = WS_OPTIMISED_UNKNOWN;

		if (tag == DW_TAG_variable || tag == DW_TAG_formal_parameter)
			one = judge_variable(&die);
		if (one == WS_OPTIMISED_YES)
			return one;
		if (one == WS_OPTIMISED_NO)
			judged = one;
	} while (++seen < MOST_VARIABLES && !dwarf_siblingof(&die, &die));
	return judged;
}

#endif
