/*
 * kernel_links.c - how the GPU is linked to others (sections Nvlink...), by NVML: how many of
 * its NVLinks are active, to how many devices, and what they can move.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "inject/bind.h"
#include "inject/kernel.h"
#include "ring/nvml_links_abi.h"

enum { DEVICES = 64, FACTS_MOST = 8 };

static struct {
#define X(member, name, arguments) int(*member) arguments;
	NVML_LINK_FUNCTIONS(X)
#undef X
} nvml;

/* Of one GPU; what NVML does not say is 0. */
struct links {
	bool read, known;
	unsigned links, active, mask, remotes, switches;
	double bytes; /* a second in one direction, of all active links */
	char seen[NVML_LINKS_MOST][32];
};
static struct links gpus[DEVICES];

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

static void read_links(struct links *links, int number)
{
	char bus[64];
	void *device;

	links->read = true;
	if (!ws_kernel_driver.device_bus || ws_kernel_driver.device_bus(bus, sizeof(bus), number) ||
	    !bind_nvml())
		return;
	links->known = !nvml.find(bus, &device);
	if (links->known)
		for (unsigned link = 0; link < NVML_LINKS_MOST; link++) {
			int active = 0;

			if (nvml.get_state(device, link, &active))
				continue;
			links->links++;
			if (active)
				read_link(links, device, link);
		}
	nvml.shut_down();
}

static uint32_t find_handle(struct ws_thread *thread, const char *text)
{
	return *text ? ws_rt_find_string(thread, text, strlen(text)) : 0;
}

/* Returns how many values there are. */
static uint32_t list_facts(struct ws_thread *thread, const struct links *links,
			   struct ws_kernel_value values[FACTS_MOST])
{
	const struct {
		const char *name, *unit;
		double value;
	} facts[] = {
		{"nvlink__max_count", "", links->links},
		{"nvlink__count_physical", "", links->active},
		{"nvlink__count_logical", "", links->remotes},
		{"nvlink__enabled_mask", "", links->mask},
		{"nvlink__is_nvswitch_connected", "", links->switches > 0},
		{"nvlink__bandwidth_each_direction", "byte/s", links->bytes},
	};

	for (size_t i = 0; i < WS_COUNT(facts); i++)
		values[i] = (struct ws_kernel_value){find_handle(thread, facts[i].name),
						     find_handle(thread, facts[i].unit),
						     facts[i].value};
	return WS_COUNT(facts);
}

void ws_kernel_write_links(struct ws_thread *thread, uint32_t result, uint32_t device)
{
	struct links *links = &gpus[device % DEVICES];
	struct ws_kernel_value values[FACTS_MOST];
	uint32_t count;

	if (!strstr(ws_kernel_settings.sections, "Nvlink"))
		return;
	if (!links->read)
		read_links(links, (int)device);
	if (!links->known)
		return;
	count = list_facts(thread, links, values);
	ws_kernel_write_values(thread, result, values, count);
}
