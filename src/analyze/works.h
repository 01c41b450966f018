/*
 * works.h - well-known kinds of work that functions of libraries do, for which cheaper ways are
 * known: allocating, regular expressions, copying objects, writing a log...
 *
 * The name of a function tells, or the library or Python module that it is in.
 */
#ifndef WS_ANALYZE_WORKS_H
#define WS_ANALYZE_WORKS_H

#include "query/stacks.h"

enum { WS_WORK_NONE };

/* Which functions of Python that a library calls back are part of its work, rather than the user's
 * own: those that compare items (lambdas, __eq__), also those that yield them (generator
 * expressions), or any. */
enum ws_work_calls { WS_CALLS_NONE, WS_CALLS_COMPARING, WS_CALLS_SMALL, WS_CALLS_ANY };

struct ws_work_kind {
	const char *what; /* "of the time goes into ..." */
	const char *advice;
	bool is_aid;	    /* for finding errors: 5 % of the path counts */
	bool is_start;	    /* done once, when a program starts */
	double usual_below; /* the share of the path below which it is usual */
	bool is_usual;	    /* many programs are for it: never more than a note, */
	bool is_for_once;   /* unless a loop of Python asks for it again and again */
	bool is_start_up;   /* it is done once: nothing is to be gained in the steps */
	bool is_allocating; /* its page faults are its own */
	bool is_inner;	    /* says more than the work of who called it */
	uint8_t calls;	    /* enum ws_work_calls */
	bool is_locked;	    /* by a lock that all threads share: a fault of several threads only */
	bool is_avoidable;  /* nearly all of it goes where the advice is followed, not half */
	bool is_copying;    /* copy constructors do it, too */
	bool is_native;	    /* `names` are of functions in C, not of Python's modules */
	bool is_driver;	    /* takes its items from others: other work within it says more, */
	bool is_primitive;  /* unless that goes with any work */
	bool is_collision;  /* keys with the same hash value, where other evidence shows them */
	bool is_comparing;  /* of texts, as loops that look for one do */
	bool is_sorting;
	bool is_packing; /* of objects into messages */
	bool is_bare;	 /* only where the function does no other work */
	bool has_hash;	 /* the function that the user's called has a hash function's name */
	/* A part of the work of the last kind before it that is none: functions of `inside`, called
	 * by one of `names`, take `least` of that work or more. */
	double least;
	bool takes_whole; /* it says of the whole work what it is, rather than being told apart */
	const char *same_calls[6]; /* ws_takes_same_things: waste where a loop calls them so */
	const char *asked_by[4];   /* of `is_for_once`: what the statement has; NULL: anything */
	const char *inside[16];
	const char *names[48];	 /* of functions; '*' stands for any text */
	const char *origins[16]; /* parts of paths of libraries and modules */
};

/* What a function says of the work that it is called for. Of parts of kinds, there is a bit each.
 */
struct ws_work_marks {
	uint8_t kind;	 /* WS_WORK_NONE or the number of a kind */
	uint16_t inside; /* parts of which it is one of `inside` */
	uint16_t around; /* parts of which it is one of `names` */
};
struct ws_work_marks ws_classify_work(const struct ws_stacks *stacks,
				      const struct ws_function *function);
/* The kind of a number other than WS_WORK_NONE, which is below ws_count_work_kinds(). */
const struct ws_work_kind *ws_get_work_kind(uint8_t kind);
uint8_t ws_count_work_kinds(void);
/* Whether it is the work of Python's own modules or its interpreter. */
bool ws_is_pythons_work(uint8_t kind);
/* Whether a kind, or WS_WORK_NONE, is that of comparing texts. */
bool ws_is_comparing_work(uint8_t kind);
/* Whether a function sorts what it is given. */
bool ws_is_sorting(const struct ws_stacks *stacks, const struct ws_function *function);
/* The number of the first kind among parts (not 0), and of the kind that a kind is a part of:
 * itself where it is none. */
uint8_t ws_find_work_part(uint16_t parts);
uint8_t ws_find_whole_work(uint8_t kind);

#endif
