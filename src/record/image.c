/*
 * image.c - finds out from an executable's file why it could not be recorded. The dynamic loader
 * loads the hooks, so they cannot record an image without one, with another one, or for which it
 * refuses preloads; the report says so.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "record/proc.h"
#include "base/choose.h"
#include "ring/hookable.h"

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#else
#define OWN_MACHINE EM_AARCH64
#endif

static const char *find_elf_problem(int fd, const Elf64_Ehdr *header)
{
	Elf64_Phdr ph;
	char interp[256];
	ssize_t n;

	if (header->e_ident[EI_CLASS] != ELFCLASS64)
		return "a 32-bit program";
	if (header->e_machine != OWN_MACHINE)
		return "a program for another processor";
	for (int i = 0; i < header->e_phnum && i < 128; i++) {
		if (pread(fd, &ph, sizeof(ph),
			  (off_t)(header->e_phoff + (uint64_t)i * header->e_phentsize)) !=
		    sizeof(ph))
			break;
		if (ph.p_type != PT_INTERP)
			continue;
		n = pread(fd, interp, sizeof(interp) - 1, (off_t)ph.p_offset);
		interp[ws_max(n, 0)] = 0;
		return strstr(interp, "musl") ? "linked to the musl C library" : NULL;
	}
	return "statically linked";
}

uid_t ws_image_user(int pid)
{
	unsigned uid = geteuid();
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Uid: %u", &uid) == 1)
			break;
	if (file)
		fclose(file);
	return uid;
}

static const char *find_rights_problem(int fd, uid_t user)
{
	const char *problem = NULL;
	struct stat st;

	if (!fstat(fd, &st) && st.st_mode & (S_ISUID | S_ISGID))
		problem = "a set-user-ID or set-group-ID program";
	else if (fgetxattr(fd, "security.capability", NULL, 0) > 0)
		problem = "a program with file capabilities";
	return user ? problem : NULL;
}

static const char *find_file_problem(int fd, uid_t user, char *interpreter, size_t size)
{
	union {
		Elf64_Ehdr elf;
		char c[512];
	} head;
	ssize_t n = pread(fd, &head, sizeof(head) - 1, 0);
	char *text, *end;

	interpreter[0] = 0;
	if (n < 4)
		return NULL;
	if (!memcmp(head.c, ELFMAG, 4)) {
		const char *problem =
			n < (ssize_t)sizeof(Elf64_Ehdr) ? NULL : find_elf_problem(fd, &head.elf);

		return ws_or(problem, find_rights_problem(fd, user));
	}
	if (head.c[0] != '#' || head.c[1] != '!')
		return NULL;
	head.c[n] = 0;
	text = head.c + 2 + strspn(head.c + 2, " \t");
	end = text + strcspn(text, " \t\r\n");
	snprintf(interpreter, size, "%.*s", (int)(end - text), text);
	return NULL;
}

const char *ws_image_problem(const char *path, uid_t user, char *buf, size_t size)
{
	char name[4096], interpreter[512];
	const char *problem = NULL;

	snprintf(name, sizeof(name), "%s", path);
	for (int depth = 0; depth < 5 && !problem; depth++) {
		int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

		if (fd < 0)
			return NULL;
		problem = find_file_problem(fd, user, interpreter, sizeof(interpreter));
		close(fd);
		if (!interpreter[0])
			break;
		snprintf(name, sizeof(name), "%s", interpreter);
	}
	if (!problem && !ws_is_hookable(path))
		problem = "linked to a C library other than glibc";
	if (!problem)
		return NULL;
	snprintf(buf, size, "%s is %s: the hooks cannot be loaded into it", name, problem);
	return buf;
}
