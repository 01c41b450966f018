/*
 * hotspot.h - names and frames of the code that Java's virtual machine (HotSpot, JDK 9 and later)
 * generates, read from outside while the program runs.
 *
 * libjvm.so describes the layout of its own structures for debuggers (gHotSpotVMStructs). By that
 * the block of the code cache which holds an address is found, and its method's name. The program
 * is not asked, stopped or changed. What is read may be garbage or change meanwhile: every length
 * is checked, and a method that cannot be read stays without a name.
 */
#ifndef WS_RECORD_HOTSPOT_H
#define WS_RECORD_HOTSPOT_H

#include "record/stacks.h"
#include "symbols/unwind.h"

struct ws_hotspot;

struct ws_hotspot *ws_hotspot_new(void);
void ws_hotspot_free(struct ws_hotspot *hotspot); /* NULL is fine */
/* Look at the frames of generated code after number `seen`, while their process lives: returns how
 * many frames there are now. */
uint32_t ws_hotspot_look(struct ws_hotspot *hotspot, const struct ws_stackset *stacks,
			 uint32_t seen);
/* For ws_unwinder_set_reader: compiled methods keep no frame pointer, but frames of one size;
 * interpreted ones keep their method, which is named at once. */
bool ws_hotspot_read_frame(void *hotspot, const struct ws_module *module, uint64_t ip,
			   uint64_t word, struct ws_generated_frame *frame);
/* What was found in a process (its number as seen from here), as a perf map; NULL for nothing. */
const char *ws_hotspot_get_map(void *hotspot, int pid);

#endif
