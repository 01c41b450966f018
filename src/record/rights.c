/*
 * rights.c - see rights.h. It keeps the rights for reading other processes and their files
 * (SYS_PTRACE, DAC_READ_SEARCH), events and programs in the kernel for processes that come later
 * (PERFMON, BPF, SYSLOG for the kernel's symbols; SYS_ADMIN instead on kernels without the first
 * two), their buffers (IPC_LOCK, SYS_RESOURCE), coming round in time to read them (SYS_NICE), and
 * passing signals on (KILL).
 */
#include "record/rights.h"

#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"

#ifndef CAP_PERFMON /* newer than some headers */
#define CAP_PERFMON 38
#define CAP_BPF 39
#endif

static const uint8_t kept[] = {CAP_SYS_PTRACE,	 CAP_DAC_READ_SEARCH, CAP_PERFMON,
			       CAP_BPF,		 CAP_SYSLOG,	      CAP_IPC_LOCK,
			       CAP_SYS_RESOURCE, CAP_SYS_NICE,	      CAP_KILL};

static uint64_t choose_capabilities(const char *folder)
{
	uint64_t wanted = 0;
	struct stat st;

	for (size_t i = 0; i < WS_COUNT(kept); i++)
		wanted |= UINT64_C(1) << kept[i];
	if (prctl(PR_CAPBSET_READ, CAP_PERFMON, 0, 0, 0) < 0)
		wanted |= UINT64_C(1) << CAP_SYS_ADMIN;
	/* Reports may be made, renamed and removed later, in a folder that belongs to another user.
	 */
	if (stat(folder, &st) || st.st_uid != geteuid())
		wanted |= UINT64_C(1) << CAP_DAC_OVERRIDE;
	return wanted;
}

void ws_rights_reduce(const char *folder)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	uint64_t wanted = choose_capabilities(folder);

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* Do this while we still may: SETPCAP is dropped with the others. */
	for (int number = 0; number < 64; number++)
		if (!(wanted >> number & 1))
			prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
	if (syscall(SYS_capget, &head, data))
		return;
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= (uint32_t)(wanted >> (32 * i));
		data[i].effective &= data[i].permitted;
		data[i].inheritable = 0;
	}
	syscall(SYS_capset, &head, data);
}
