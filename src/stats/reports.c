/* reports.c - the list of reports, in the order in which --help-reports shows them and the defaults are made. */
#include <string.h>

#include "stats/stats.h"

extern const struct ws_stat ws_stat_nvtx_sum, ws_stat_nvtx_pushpop_sum, ws_stat_nvtx_pushpop_trace, ws_stat_nvtx_startend_sum,
    ws_stat_osrt_sum;

const struct ws_stat *const ws_stats_list[] = {
    &ws_stat_nvtx_sum, &ws_stat_nvtx_pushpop_sum, &ws_stat_nvtx_pushpop_trace, &ws_stat_nvtx_startend_sum, &ws_stat_osrt_sum, NULL,
};

const struct ws_stat *ws_stat_find(const char *name)
{
	for (size_t i = 0; ws_stats_list[i]; i++)
		if (!strcmp(ws_stats_list[i]->name, name))
			return ws_stats_list[i];
	return NULL;
}
