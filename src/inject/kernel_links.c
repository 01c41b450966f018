/*
 * kernel_links.c - how the GPU is linked to others and to the processors: how many of its NVLinks
 * are active, to how many devices, and what they can move (sections Nvlink..., by NVML); whether
 * it has a C2C link (section C2CLink, by NVML); which processors are near (section NumaAffinity, by
 * the kernel's description of the PCI device).
 */
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "inject/bind.h"
#include "inject/kernel.h"
#include "ring/nvml_links_abi.h"

enum { DEVICES = 64, FACTS_MOST = 16 };

static struct {
#define X(member, name, arguments) int(*member) arguments;
	NVML_LINK_FUNCTIONS(X)
#undef X
} nvml;

/* Of one GPU; what NVML does not say is 0, or less where that is a value. */
struct links {
	bool read, known;
	unsigned links, active, mask, remotes, switches;
	double bytes;	     /* a second in one direction, of all active links */
	int c2c;	     /* whether a C2C link is enabled */
	int node;	     /* of NUMA */
	unsigned processors; /* that are near */
	char seen[NVML_LINKS_MOST][32];
};
static struct links gpus[DEVICES];

static nvml_c2c_fn get_c2c;

static bool bind_nvml(void)
{
	static const struct {
		const char *name;
		size_t offset;
	} functions[] = {
#define X(member, name, arguments) {name, offsetof(__typeof__(nvml), member)},
		NVML_LINK_FUNCTIONS(X)
#undef X
	};
	void *(*open_library)(const char *, int) = ws_find_symbol("dlopen");
	void *library = open_library ? open_library("libnvidia-ml.so.1", RTLD_NOW) : NULL;

	if (!library)
		return false;
	for (size_t i = 0; i < WS_COUNT(functions); i++) {
		void *function = ws_find_symbol_in(library, functions[i].name);

		if (!function)
			return false;
		memcpy((char *)&nvml + functions[i].offset, &function, sizeof(function));
	}
	get_c2c = (nvml_c2c_fn)ws_find_symbol_in(library, NVML_C2C_MODE);
	return !nvml.init();
}

static void add_remote(struct links *links, const char *id)
{
	for (unsigned i = 0; i < links->remotes; i++)
		if (!strcmp(links->seen[i], id))
			return;
	if (links->remotes < NVML_LINKS_MOST)
		snprintf(links->seen[links->remotes++], sizeof(links->seen[0]), "%s", id);
}

static void read_link(struct links *links, void *device, unsigned link)
{
	struct nvml_link_field speed = {.id = NVML_FIELD_LINK_SPEED, .link = link};
	struct nvml_pci remote = {.id = ""};
	int kind = 0;

	links->active++;
	links->mask |= 1u << link;
	if (!nvml.get_fields(device, 1, &speed) && !speed.error)
		links->bytes += 1e6 * speed.value.whole;
	if (!nvml.get_remote(device, link, &remote)) {
		remote.id[sizeof(remote.id) - 1] = 0;
		add_remote(links, remote.id);
	}
	links->switches += !nvml.get_kind(device, link, &kind) && kind == NVML_LINK_TO_SWITCH;
}

static void read_nvlinks(struct links *links, void *device)
{
	for (unsigned link = 0; link < NVML_LINKS_MOST; link++) {
		int active = 0;

		if (nvml.get_state(device, link, &active))
			continue;
		links->links++;
		if (active)
			read_link(links, device, link);
	}
}

/* A driver that does not know the question is one of a machine without such links. */
static int read_c2c(void *device)
{
	unsigned enabled = 0;

	return get_c2c && !get_c2c(device, &enabled) && enabled;
}

static bool read_attribute(const char *bus, const char *name, char *text, size_t room)
{
	char path[128];
	int fd, n;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", bus, name);
	for (char *at = path; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	fd = (int)ws_raw_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return false;
	n = (int)ws_raw_syscall(SYS_read, fd, (long)text, (long)room - 1, 0, 0, 0);
	ws_raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	text[ws_max(n, 0)] = 0;
	return n > 0;
}

/* Of a list such as 0-15,32-47. */
static unsigned count_processors(const char *list)
{
	unsigned count = 0;

	while (isdigit((unsigned char)*list)) {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (last >= first)
			count += (unsigned)(last - first + 1);
		list = *end == ',' ? end + 1 : end;
	}
	return count;
}

/* A machine that has only one node gives none. */
static void read_affinity(struct links *links, const char *bus)
{
	char text[4096];

	links->node = -1;
	if (read_attribute(bus, "numa_node", text, sizeof(text)))
		links->node = atoi(text);
	if (read_attribute(bus, "local_cpulist", text, sizeof(text)))
		links->processors = count_processors(text);
}

static void read_links(struct links *links, int number)
{
	char bus[64];
	void *device;

	links->read = true;
	if (!ws_kernel_driver.device_bus || ws_kernel_driver.device_bus(bus, sizeof(bus), number))
		return;
	read_affinity(links, bus);
	if (!bind_nvml())
		return;
	links->known = !nvml.find(bus, &device);
	if (links->known) {
		read_nvlinks(links, device);
		links->c2c = read_c2c(device);
	}
	nvml.shut_down();
}

static uint32_t find_handle(struct ws_thread *thread, const char *text)
{
	return *text ? ws_rt_find_string(thread, text, strlen(text)) : 0;
}

struct fact {
	const char *section; /* that shows it, or the beginning of its name */
	bool known;
	const char *name, *unit;
	double value;
};

/* Write those of the sections that were asked for. */
static void write_facts(struct ws_thread *thread, uint32_t result, const struct fact *facts,
			size_t count)
{
	struct ws_kernel_value values[FACTS_MOST];
	uint32_t n = 0;

	for (size_t i = 0; i < count && n < FACTS_MOST; i++)
		if (facts[i].known && strstr(ws_kernel_settings.sections, facts[i].section))
			values[n++] = (struct ws_kernel_value){find_handle(thread, facts[i].name),
							       find_handle(thread, facts[i].unit),
							       facts[i].value};
	if (n)
		ws_kernel_write_values(thread, result, values, n);
}

static bool wants_links(void)
{
	static const char *const sections[] = {"Nvlink", "C2CLink", "NumaAffinity"};

	for (size_t i = 0; i < WS_COUNT(sections); i++)
		if (strstr(ws_kernel_settings.sections, sections[i]))
			return true;
	return false;
}

void ws_kernel_write_links(struct ws_thread *thread, uint32_t result, uint32_t device)
{
	struct links *links = &gpus[device % DEVICES];

	if (!wants_links())
		return;
	if (!links->read)
		read_links(links, (int)device);
	const struct fact facts[] = {
		{"Nvlink", links->known, "nvlink__max_count", "", links->links},
		{"Nvlink", links->known, "nvlink__count_physical", "", links->active},
		{"Nvlink", links->known, "nvlink__count_logical", "", links->remotes},
		{"Nvlink", links->known, "nvlink__enabled_mask", "", links->mask},
		{"Nvlink", links->known, "nvlink__is_nvswitch_connected", "", links->switches > 0},
		{"Nvlink", links->known, "nvlink__bandwidth_each_direction", "byte/s",
		 links->bytes},
		{"C2CLink", links->known, "c2clink__present", "", links->c2c},
		{"NumaAffinity", links->node >= 0, "numa__id_cpu", "", links->node},
		{"NumaAffinity", links->processors > 0, "numa__count_cpu", "", links->processors},
	};
	write_facts(thread, result, facts, WS_COUNT(facts));
}
