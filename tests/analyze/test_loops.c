/* test_loops.c - what loops of machine code carry from round to round. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "analyze/hot_loop.h"
#include "base/compiler.h"

enum judgement { NEITHER, ASKS, SEARCHES };

struct loop {
	const char *name;
	uint8_t code[96];
	size_t length;
	enum judgement judgement;
	bool follows;
};

static const struct loop loops[] = {
	/* mov %ebx,%eax; sub %edx,%eax; cmp $0x153,%eax; jg 9f; mov 0x100(%rip),%ebx; cmp
	   $0xd47,%ebx; jle 1b */
	{"spin copies",
	 {0x89, 0xd8, 0x29, 0xd0, 0x3d, 0x53, 0x01, 0,	  0, 0x7f, 0x0e, 0x8b, 0x1d,
	  0,	0x01, 0,    0,	  0x81, 0xfb, 0x47, 0x0d, 0, 0,	   0x7e, 0xe7},
	 25,
	 ASKS,
	 false},
	/* mov -16(%rbp),%rax; mov (%rax),%eax; mov %eax,-4(%rbp); cmpl $0,-4(%rbp); je 1b */
	{"spin unoptimised",
	 {0x48, 0x8b, 0x45, 0xf0, 0x8b, 0, 0x89, 0x45, 0xfc, 0x83, 0x7d, 0xfc, 0, 0x74, 0xf1},
	 15,
	 ASKS,
	 false},
	/* mov (%rdi),%eax; add $1,%ecx; test %eax,%eax; je 1b */
	{"counts", {0x8b, 0x07, 0x83, 0xc1, 0x01, 0x85, 0xc0, 0x74, 0xf7}, 9, NEITHER, false},
	/* cmp %esi,(%rdi,%rax,8); je 9f; inc %rax; cmp %rax,%rdx; jne 1b */
	{"array search",
	 {0x39, 0x34, 0xc7, 0x74, 0x08, 0x48, 0xff, 0xc0, 0x48, 0x39, 0xc2, 0x75, 0xf3},
	 13,
	 SEARCHES,
	 false},
	/* cmp %esi,8(%rdi); je 9f; mov (%rdi),%rdi; test %rdi,%rdi; jne 1b */
	{"list search",
	 {0x39, 0x77, 0x08, 0x74, 0x08, 0x48, 0x8b, 0x3f, 0x48, 0x85, 0xff, 0x75, 0xf3},
	 13,
	 SEARCHES,
	 true},
	/* mov %rax,%rbx; cmp %esi,8(%rbx); je 9f; mov (%rbx),%rax; test %rax,%rax; jne 1b */
	{"list search with copy",
	 {0x48, 0x89, 0xc3, 0x39, 0x73, 0x08, 0x74, 0x08, 0x48, 0x8b, 0x03, 0x48, 0x85, 0xc0, 0x75,
	  0xf0},
	 16,
	 SEARCHES,
	 true},
	/* movslq %eax,%rcx; cmp %esi,(%rdi,%rcx,4); je 9f; mov (%rdx,%rcx,4),%eax; test %eax,%eax;
	   jns 1b */
	{"index search",
	 {0x48, 0x63, 0xc8, 0x39, 0x34, 0x8f, 0x74, 0x07, 0x8b, 0x04, 0x8a, 0x85, 0xc0, 0x79, 0xf1},
	 15,
	 SEARCHES,
	 true},
	/* add (%rdi,%rax,8),%ecx; inc %rax; cmp %rax,%rdx; jne 1b */
	{"array sum",
	 {0x03, 0x0c, 0xc7, 0x48, 0xff, 0xc0, 0x48, 0x39, 0xc2, 0x75, 0xf5},
	 11,
	 NEITHER,
	 false},
	/* imul $0x1000193,%ecx,%ecx; xor (%rdi),%ecx; js 9f; add $4,%rdi; cmp %rdx,%rdi; jne 1b */
	{"hash",
	 {0x69, 0xc9, 0x93, 0x01, 0, 0x01, 0x33, 0x0f, 0x78, 0x09, 0x48, 0x83, 0xc7, 0x04, 0x48,
	  0x39, 0xd7, 0x75, 0xed},
	 19,
	 NEITHER,
	 false},
	/* cmpb $0x2c,(%rdi); je 9f; inc %rdi; cmp %rdi,%rdx; jne 1b */
	{"text",
	 {0x80, 0x3f, 0x2c, 0x74, 0x08, 0x48, 0xff, 0xc7, 0x48, 0x39, 0xfa, 0x75, 0xf3},
	 13,
	 NEITHER,
	 false},
	/* cmp %esi,16(%rdi); je 9f; jg 2f; mov (%rdi),%rdi; jmp 3f; mov 8(%rdi),%rdi; test
	   %rdi,%rdi; jne 1b */
	{"tree",
	 {0x39, 0x77, 0x10, 0x74, 0x10, 0x7f, 0x05, 0x48, 0x8b, 0x3f, 0xeb,
	  0x04, 0x48, 0x8b, 0x7f, 0x08, 0x48, 0x85, 0xff, 0x75, 0xeb},
	 21,
	 NEITHER,
	 false},
	/* add 8(%rdi),%ecx; mov (%rdi),%rdi; test %rdi,%rdi; jne 1b */
	{"list sum",
	 {0x03, 0x4f, 0x08, 0x48, 0x8b, 0x3f, 0x48, 0x85, 0xff, 0x75, 0xf5},
	 11,
	 NEITHER,
	 false},
	/* lea 1(%r8),%rax; cmp %rsi,%rax; jge 9f; mov %rax,%r8; shl $5,%rax; mov
	   (%rdx,%rax,1),%r10; cmp %rdi,%r10; jne 1b */
	{"scaled search",
	 {0x49, 0x8d, 0x40, 0x01, 0x48, 0x39, 0xf0, 0x7d, 0x10, 0x49, 0x89, 0xc0, 0x48,
	  0xc1, 0xe0, 0x05, 0x4c, 0x8b, 0x14, 0x02, 0x49, 0x39, 0xfa, 0x75, 0xe7},
	 25,
	 SEARCHES,
	 false},
	/* mov (%rbx,%rbp,8),%rdi; mov %r12,%rsi; call 1b; test %eax,%eax; je 9f; add $1,%rbp; cmp
	   %rbp,%r13; jne 1b */
	{"calling search",
	 {0x48, 0x8b, 0x3c, 0xeb, 0x4c, 0x89, 0xe6, 0xe8, 0xf4, 0xff, 0xff, 0xff, 0x85,
	  0xc0, 0x74, 0x09, 0x48, 0x83, 0xc5, 0x01, 0x49, 0x39, 0xed, 0x75, 0xe7},
	 25,
	 SEARCHES,
	 false},
	/* mov -4(%rbp),%eax; movslq %eax,%rdx; mov -24(%rbp),%rax; shl $3,%rdx; add %rdx,%rax; mov
	   (%rax),%eax; cmp %eax,-8(%rbp); je 9f; addl $1,-4(%rbp); cmpl $100,-4(%rbp); jle 1b */
	{"unoptimised search",
	 {0x8b, 0x45, 0xfc, 0x48, 0x63, 0xd0, 0x48, 0x8b, 0x45, 0xe8, 0x48, 0xc1,
	  0xe2, 0x03, 0x48, 0x01, 0xd0, 0x8b, 0,    0x39, 0x45, 0xf8, 0x74, 0x0a,
	  0x83, 0x45, 0xfc, 0x01, 0x83, 0x7d, 0xfc, 0x64, 0x7e, 0xde},
	 34,
	 SEARCHES,
	 false},
	/* mov %eax,%edi; call 1b; test %eax,%eax; je 9f; mov (%rbx),%rbx; test %rbx,%rbx; jne 1b */
	{"calls on results",
	 {0x89, 0xc7, 0xe8, 0xf9, 0xff, 0xff, 0xff, 0x85, 0xc0, 0x74, 0x08, 0x48, 0x8b, 0x1b, 0x48,
	  0x85, 0xdb, 0x75, 0xed},
	 19,
	 NEITHER,
	 false},
};

static struct ws_loop_state look_at(const struct loop *loop)
{
	uint64_t ns[48] = {[0] = 1};
	struct ws_sampled_code code = {.bytes = loop->code,
				       .left = loop->length, /* where a file's code ends */
				       .from = 4096,
				       .ns = ns,
				       .size = loop->length};
	struct ws_hot_loop found;

	if (!ws_judge_loop(&code, &found))
		fail_msg("%s: no loop", loop->name);
	return found.state;
}

static void test_states(void **state)
{
	(void)state;
	for (size_t i = 0; i < WS_COUNT(loops); i++) {
		struct ws_loop_state found = look_at(&loops[i]);

		if (found.only_asks != (loops[i].judgement == ASKS))
			fail_msg("%s: asks %d", loops[i].name, found.only_asks);
		if (found.searches != (loops[i].judgement == SEARCHES))
			fail_msg("%s: searches %d", loops[i].name, found.searches);
		if (found.searches)
			assert_int_equal(found.follows, loops[i].follows);
	}
}

/* The address counts from the instruction behind the one that reads. */
static void test_asked_variable(void **state)
{
	(void)state;
	assert_int_equal(look_at(&loops[0]).asked, 4096 + 0x11 + 0x100);
	assert_int_equal(look_at(&loops[1]).asked, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_states),
					   cmocka_unit_test(test_asked_variable)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
