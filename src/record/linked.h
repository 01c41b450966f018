/* linked.h - which libraries a program is linked to, as far as its file says so. */
#ifndef WS_RECORD_LINKED_H
#define WS_RECORD_LINKED_H

#include <stdint.h>

/*
 * Those of `libraries` (bits by enum ws_library) that a program needs, or a library that it needs
 * and that is installed where libraries usually are. `program` is looked for as execvp does. What
 * is opened while the program runs is unknown, and so is what a script's interpreter does with it.
 */
uint64_t ws_find_linked_libraries(const char *program, uint64_t libraries);

#endif
