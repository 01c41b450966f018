/* proofs.c - see proofs.h. */
#include "analyze/proofs.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"

#define TOUCHES "start < :to AND end > :from"
#define THREAD                                                                                 \
	"coalesce((SELECT value FROM ThreadNames AS t JOIN StringIds AS s ON s.id = t.nameId " \
	"WHERE t.globalTid = w.globalTid), '') || ' ' || (w.globalTid & 0xffffff) AS thread"

const char ws_proof_kernels[] =
	"SELECT s.value AS kernel, count(*) AS runs, sum(end - start) AS total_ns, avg(end - "
	"start) "
	"AS average_ns, max(gridX * gridY * gridZ) AS blocks, max(theoreticalOccupancy) AS "
	"occupancy FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds AS s ON s.id = shortName "
	"WHERE " TOUCHES " GROUP BY 1 ORDER BY 3 DESC LIMIT 20";

const char ws_proof_metrics[] =
	"SELECT g.value AS gpu, n.value AS metric, round(sum(v.value * v.span) / sum(v.span), 2) "
	"AS "
	"mean, max(v.value) AS most FROM WARPSIGHT_COUNTER_VALUE AS v JOIN WARPSIGHT_COUNTER AS c "
	"ON c.id = v.counterId JOIN StringIds AS n ON n.id = c.nameId JOIN StringIds AS g ON g.id "
	"= c.groupId WHERE v.span > 0 AND v.start < :to AND v.start + v.span > :from AND g.value "
	"LIKE 'GPU%' GROUP BY 1, 2 ORDER BY 1, 2";

const char ws_proof_streams[] =
	"SELECT deviceId AS gpu, streamId AS stream, count(*) AS kernels, sum(end - start) AS "
	"total_ns, min(start) AS first_ns, max(end) AS last_ns FROM CUPTI_ACTIVITY_KIND_KERNEL "
	"WHERE " TOUCHES " GROUP BY 1, 2 ORDER BY 4 DESC LIMIT 50";

const char ws_proof_launchers[] =
	"SELECT k.deviceId AS gpu, r.globalTid & 0xffffff AS thread, count(*) AS kernels, "
	"sum(k.end - k.start) AS total_ns FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN "
	"CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = k.correlationId AND (r.globalTid & "
	"~0xffffff) = k.globalPid WHERE k.start < :to AND k.end > :from GROUP BY 1, 2 ORDER BY 4 "
	"DESC LIMIT 50";

const char ws_proof_copies[] =
	"SELECT o.label AS operation, f.label AS source, t.label AS target, count(*) AS copies, "
	"sum(bytes) AS bytes, sum(end - start) AS total_ns, 1.0 * sum(bytes) / sum(end - start) AS "
	"GB_per_s FROM CUPTI_ACTIVITY_KIND_MEMCPY LEFT JOIN ENUM_CUDA_MEMCPY_OPER AS o ON o.id = "
	"copyKind LEFT JOIN ENUM_CUDA_MEM_KIND AS f ON f.id = srcKind LEFT JOIN ENUM_CUDA_MEM_KIND "
	"AS t ON t.id = dstKind WHERE " TOUCHES " GROUP BY 1, 2, 3 ORDER BY 6 DESC LIMIT 20";

const char ws_proof_cuda_calls[] =
	"SELECT s.value AS call, count(*) AS calls, sum(end - start) AS total_ns, max(end - start) "
	"AS longest_ns FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds AS s ON s.id = nameId "
	"WHERE " TOUCHES " GROUP BY 1 ORDER BY 3 DESC LIMIT 20";

const char ws_proof_waits[] =
	"SELECT s.value AS call, " THREAD ", count(*) AS calls, sum(end - start) AS total_ns, "
	"max(end - start) AS longest_ns FROM (SELECT start, end, globalTid, nameId FROM OSRT_API "
	"UNION ALL SELECT start, end, globalTid, nameId FROM WARPSIGHT_BLOCKED) AS w JOIN "
	"StringIds "
	"AS s ON s.id = w.nameId WHERE " TOUCHES
	" GROUP BY 1, w.globalTid ORDER BY 4 DESC LIMIT 20";

const char ws_proof_code[] =
	"SELECT s.value AS function, " THREAD
	", count(*) AS samples, sum(cpuTime) AS total_ns FROM "
	"COMPOSITE_EVENTS AS w JOIN SAMPLING_CALLCHAINS AS c ON c.id = w.id AND c.stackDepth = 0 "
	"JOIN StringIds AS s ON s.id = c.symbol WHERE w.start BETWEEN :from AND :to GROUP BY 1, "
	"w.globalTid ORDER BY 4 DESC LIMIT 20";

const char ws_proof_cores[] =
	"SELECT " THREAD ", count(*) AS spans, sum(end - start) AS running_ns, count(DISTINCT cpu) "
	"AS cores FROM WARPSIGHT_SCHED AS w WHERE " TOUCHES " GROUP BY w.globalTid ORDER BY 3 DESC "
	"LIMIT 50";

const char ws_proof_gil[] =
	"SELECT " THREAD ", l.label AS state, count(*) AS spans, sum(end - start) AS total_ns FROM "
	"WARPSIGHT_GIL AS w LEFT JOIN ENUM_WARPSIGHT_GIL_STATE AS l ON l.id = w.state "
	"WHERE " TOUCHES " GROUP BY w.globalTid, w.state ORDER BY 4 DESC LIMIT 50";

const char ws_proof_processes[] =
	"SELECT name, count(*) AS processes FROM PROCESSES GROUP BY 1 ORDER BY 2 DESC LIMIT 20";

static void put_filled(struct ws_text *text, const char *proof, int64_t from, int64_t to)
{
	for (const char *at; (at = strchr(proof, ':')); proof = at) {
		ws_text_add(text, proof, (size_t)(at - proof));
		if (!strncmp(at, ":from", 5)) {
			ws_text_printf(text, "%" PRId64, from);
			at += 5;
		} else if (!strncmp(at, ":to", 3)) {
			ws_text_printf(text, "%" PRId64, to);
			at += 3;
		} else {
			ws_text_add(text, at++, 1);
		}
	}
	ws_text_puts(text, proof);
}

char *ws_make_proof(const char *proof, int64_t from, int64_t to)
{
	struct ws_text text = {0};

	put_filled(&text, proof, from, to);
	return text.text;
}
