/*
 * sections.h - what is measured of a kernel: sections.def, derived.def and breakdowns.def as data.
 */
#ifndef WS_KERNEL_SECTIONS_H
#define WS_KERNEL_SECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/kernel_sampled.h"

/* Families of chips, as bits. */
enum ws_kernel_chips {
	WS_GA100 = 1,
	WS_GA10X = 2,
	WS_AD10X = 4,
	WS_GH100 = 8,
	WS_GB100 = 16, /* GB10x and GB11x */
	WS_GB20X = 32,
	WS_ALL_CHIPS = 63,
};

/* Sets of sections, as bits. */
enum ws_kernel_sets {
	WS_BASIC = 1,
	WS_DETAILED = 2,
	WS_FULL = 4,
	WS_ROOFLINE = 8,
	WS_SOURCE = 16,
};

struct ws_kernel_set {
	const char *name;
	uint8_t bit;
	const char *about;
};

struct ws_kernel_section {
	const char *identifier, *title;
	uint8_t sets;
};

struct ws_kernel_line {
	uint16_t section;  /* its number */
	uint8_t chips;	   /* bits of enum ws_kernel_chips */
	bool shown;	   /* false: only measured for rules and formulas */
	const char *group; /* the table in the section's body; "" for a line at the head */
	const char *label; /* NULL for a line of a breakdown: see ws_kernel_label */
	const char *unit;
	const char *value; /* a metric or a formula */
};

struct ws_kernel_derived {
	const char *name, *unit, *formula;
	uint8_t chips;
};

struct ws_kernel_breakdown {
	const char *throughput, *metric; /* base names */
	uint8_t chips;
};

extern const struct ws_kernel_set ws_kernel_sets[];
extern const size_t ws_kernel_set_count;
extern const struct ws_kernel_section ws_kernel_sections[];
extern const size_t ws_kernel_section_count;
extern const struct ws_kernel_breakdown ws_kernel_breakdowns[];
extern const size_t ws_kernel_breakdown_count;

/* The lines of all sections in the order in which they are shown, those of breakdowns among them.
 */
const struct ws_kernel_line *ws_kernel_lines(size_t *count);

/* The family of a chip such as GH100 or AD102; 0 when it is not known (Turing and older). */
uint8_t ws_kernel_chip_family(const char *chip);
/* The index of a section, or -1. `reason` (may be NULL) gets why a section that users know from
 * elsewhere is not available; otherwise NULL. */
int ws_kernel_find_section(const char *identifier, const char **reason);
const struct ws_kernel_set *ws_kernel_find_set(const char *name);
/* The formula of a metric on a chip of this family; NULL when the metric is not derived. */
const struct ws_kernel_derived *ws_kernel_find_derived(const char *name, size_t n, uint8_t family);
/* Whether a metric can be computed from the launch and the device without measuring
 * (launch__...). */
bool ws_kernel_is_computed(const char *name, size_t n);
/* Write a line's label into `text`, which has `room` bytes. */
void ws_kernel_label(const struct ws_kernel_line *line, char *text, size_t room);

#endif
