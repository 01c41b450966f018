/*
 * cuda_api.c - which calls of the CUDA runtime and driver are traced: those that matter
 * (cuda_calls.c), and what the user adds or takes out.
 *
 * Both domains are enabled: CUPTI omits a driver call that happens inside a traced runtime call, so
 * every piece of work belongs to exactly one call. Libraries that use the driver directly still
 * have their driver calls traced.
 */
#include <string.h>

#include "inject/cuda.h"
#include "ring/cuda_record.h"
#include "schema/schema.h"

bool ws_cuda_api_coarse;
static uint64_t wanted[2][WS_CUDA_CBIDS / 64]; /* runtime, driver */
static uint32_t last_cbid[2];

/* Length of a callback's name without what CUPTI adds: _v7000, _ptsz, _ptds. */
static size_t plain_length(const char *name)
{
	size_t n = strlen(name);
	const char *v = strrchr(name, '_');

	if (v && v[1] == 'v' && strlen(v) >= 6 && strspn(v + 2, "0123456789") == strlen(v + 2))
		n = (size_t)(v - name);
	if (n > 5 && (!strncmp(name + n - 5, "_ptsz", 5) || !strncmp(name + n - 5, "_ptds", 5)))
		n -= 5;
	return n;
}

/* What the user's +name,-name list says about a call (a trailing * matches anything): 1 to trace
 * it, -1 to leave it out, 0 if it is not mentioned. The last matching word counts. */
static int is_user_word(const char *list, const char *name)
{
	size_t plain = plain_length(name), full = strlen(name);
	int word = 0;

	while (*list) {
		size_t n = strcspn(list, ",");
		const char *at = list + (*list == '+' || *list == '-');
		size_t len = (size_t)(list + n - at);
		bool star = len && at[len - 1] == '*';

		if (star ? full >= len - 1 && !strncmp(name, at, len - 1)
			 : (len == plain || len == full) && !strncmp(name, at, len))
			word = *list == '-' ? -1 : 1;
		list += n + (list[n] == ',');
	}
	return word;
}

static bool choose_calls(int driver, const char *name)
{
	struct ws_arena *arena = ws_rt->arena;
	int word = arena->cuda.text_apis && arena->cuda.text_apis < WS_ARENA_TEXT
			   ? is_user_word(arena->text + arena->cuda.text_apis, name)
			   : 0;

	if (word)
		return word > 0;
	if (arena->cuda.flags & WS_CUDA_ALL_APIS)
		return true;
	return ws_cuda_is_call_recorded(driver, name);
}

static bool is_wanted_call(int driver, uint32_t cbid)
{
	return cbid < WS_CUDA_CBIDS && wanted[driver][cbid / 64] >> cbid % 64 & 1;
}

bool ws_cuda_is_api_wanted(uint32_t kind, uint32_t cbid)
{
	return is_wanted_call(kind == CUPTI_KIND_DRIVER, cbid);
}

static void write_call_name(struct ws_thread *thread, int driver, uint32_t cbid, const char *name)
{
	uint32_t handle = ws_rt_define_string(name, strlen(name));
	struct ws_rec_cuda_name *record =
		handle ? ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OTHER) : NULL;

	if (!record)
		return;
	record->rec = ws_rec_head(WS_REC_CUDA_NAME, sizeof(*record),
				  driver ? WS_CUDA_NAME_DRIVER : WS_CUDA_NAME_RUNTIME, handle);
	record->key = cbid;
	ws_rt_commit(thread, record, sizeof(*record));
}

void ws_cuda_write_api_names(void)
{
	static const uint32_t domains[2] = {CUPTI_DOMAIN_RUNTIME, CUPTI_DOMAIN_DRIVER};
	struct ws_thread *thread = ws_rt_enter();

	for (int driver = 0; driver < 2; driver++)
		for (uint32_t cbid = 1, gap = 0; cbid < WS_CUDA_CBIDS && gap < 64; cbid++) {
			const char *name = NULL;

			if (ws_cupti.GetCallbackName(domains[driver], cbid, &name) || !name) {
				gap++;
				continue;
			}
			gap = 0;
			last_cbid[driver] = cbid;
			if (!choose_calls(driver, name))
				continue;
			wanted[driver][cbid / 64] |= UINT64_C(1) << cbid % 64;
			if (thread)
				write_call_name(thread, driver, cbid, name);
		}
	if (thread)
		ws_rt_leave(thread);
}

/* False when CUPTI has the functions but they fail. */
static bool enable_call_by_call(bool on)
{
	int (*const enable[2])(uint32_t, uint8_t) = {ws_cupti.ActivityEnableRuntimeApi,
						     ws_cupti.ActivityEnableDriverApi};
	uint32_t enabled = 0, refused = 0;

	for (int driver = 0; driver < 2; driver++) {
		/* While the inner profiler has enabled the whole domain, nothing needs to be turned
		 * on. */
		if (ws_inner_wants_broad(driver ? CUPTI_KIND_DRIVER : CUPTI_KIND_RUNTIME))
			continue;
		for (uint32_t cbid = 1; cbid <= last_cbid[driver]; cbid++)
			if (is_wanted_call(driver, cbid))
				*(enable[driver](cbid, on) ? &refused : &enabled) += 1;
	}
	return enabled || !refused;
}

/*
 * Once there is a context, CUPTI (13.0) accepts single calls without an error and records none of
 * them. It still turns on whole kinds, so both kinds are enabled and the calls that are not wanted
 * are then disabled.
 */
static bool is_late, is_narrowed;

void ws_cuda_expect_contexts(void)
{
	is_late = true;
}

void ws_cuda_forget_apis(void)
{
	memset(wanted, 0, sizeof(wanted));
	is_narrowed = ws_cuda_api_coarse = false;
}

static const uint32_t api_kinds[2] = {CUPTI_KIND_RUNTIME, CUPTI_KIND_DRIVER};

static void disable_late(void)
{
	is_narrowed = false;
	for (int driver = 0; driver < 2; driver++)
		if (!ws_inner_wants_broad(api_kinds[driver]))
			ws_cupti.ActivityDisable(api_kinds[driver]);
}

/* False when CUPTI refuses to disable single calls. */
static bool enable_late(void)
{
	int (*const enable[2])(uint32_t, uint8_t) = {ws_cupti.ActivityEnableRuntimeApi,
						     ws_cupti.ActivityEnableDriverApi};
	bool refused = false;

	is_narrowed = true;
	for (int driver = 0; driver < 2; driver++) {
		if (ws_inner_wants_broad(api_kinds[driver]))
			continue;
		ws_cupti.ActivityEnable(api_kinds[driver]);
		for (uint32_t cbid = 1; cbid <= last_cbid[driver] && !refused; cbid++)
			if (!is_wanted_call(driver, cbid))
				refused = enable[driver](cbid, 0) == CUPTI_ERR_NOT_SUPPORTED;
	}
	if (refused)
		disable_late();
	return !refused;
}

static void enable_whole_domain(uint32_t kind, bool on)
{
	if (on)
		ws_cupti.ActivityEnable(kind);
	else if (!ws_inner_wants_broad(kind))
		ws_cupti.ActivityDisable(kind);
}

void ws_cuda_enable_apis(bool on)
{
	if (ws_rt->arena->cuda.flags & WS_CUDA_ALL_APIS) {
		ws_cuda_api_coarse = true; /* --cuda-api=-name may still exclude some */
		enable_whole_domain(CUPTI_KIND_RUNTIME, on);
		enable_whole_domain(CUPTI_KIND_DRIVER, on);
		return;
	}
	if (!ws_cuda_api_by_callback && ws_cupti.ActivityEnableRuntimeApi &&
	    ws_cupti.ActivityEnableDriverApi) {
		if (!on && is_narrowed) {
			disable_late();
			return;
		}
		if (on && is_late ? enable_late() : enable_call_by_call(on))
			return;
	}
	if (!on)
		return;
	if (!ws_cuda_api_by_callback)
		ws_cuda_report(
			WS_INFO,
			"This CUPTI is older than 12.5 and cannot choose API calls one by one: "
			"they are recorded through callbacks, "
			"which cost more.",
			"", "");
	ws_cuda_start_old_calls();
}
