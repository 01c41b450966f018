"""common_queries.py - the queries that people pass on to each other in forums and blogs, by name.

They are written for the SQLite export of any report and make no assumption about its contents.
figures_queries.py measures each against SQLite on the export; tests/sql/test_common_queries.py
compares rows and bounds the work. Where a query is about one name, it takes the one that is there
most often, so that it has rows in every report.
"""

# Texts of ranges are in the row, or in StringIds when registered.
RANGE_NAME = "coalesce(n.text, s.value)"
# The CUDA calls that a thread made within a range.
CALLS_OF_RANGE = "r.globalTid = n.globalTid AND r.start >= n.start AND r.end <= n.end"
# Which process launched a kernel, as the upper bits of the calling thread.
KERNEL_OF_CALL = (
    "k.correlationId = r.correlationId" " AND k.globalPid / 0x1000000 = r.globalTid / 0x1000000"
)
COMMON_RANGE = (
    "(SELECT text FROM NVTX_EVENTS WHERE text IS NOT NULL AND end IS NOT NULL"
    " GROUP BY text ORDER BY count(*) DESC, sum(end - start) DESC, text LIMIT 1)"
)

QUERIES = {
    "top kernels": """
        SELECT s.value AS name, count(*) AS n, sum(k.end - k.start) AS total,
            avg(k.end - k.start) AS mean, min(k.end - k.start) AS least,
            max(k.end - k.start) AS most
        FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName
        GROUP BY s.value ORDER BY total DESC LIMIT 20""",
    "kernels of one range by name": f"""
        SELECT sk.value AS kernel, count(*) AS n, sum(k.end - k.start) AS total
        FROM NVTX_EVENTS n
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON {CALLS_OF_RANGE}
        JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON {KERNEL_OF_CALL}
        JOIN StringIds sk ON sk.id = k.shortName
        WHERE n.text = {COMMON_RANGE} GROUP BY sk.value ORDER BY total DESC""",
    "kernels of ranges with names like": f"""
        SELECT n.text, count(*) AS n, sum(k.end - k.start) AS total
        FROM CUPTI_ACTIVITY_KIND_KERNEL k
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId
        JOIN NVTX_EVENTS n ON n.globalTid = r.globalTid AND n.start <= r.start AND r.end <= n.end
        WHERE n.text LIKE '%7%' GROUP BY n.text ORDER BY total DESC, n.text LIMIT 20""",
    "kernels per range, all ranges": f"""
        SELECT {RANGE_NAME} AS name, count(*) AS n, sum(k.end - k.start) AS total
        FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON {CALLS_OF_RANGE}
        JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON {KERNEL_OF_CALL}
        WHERE n.eventType = 59 AND n.start < (SELECT min(start) + 50000000 FROM NVTX_EVENTS)
        GROUP BY name ORDER BY total DESC, name""",
    "projection of ranges onto the GPU": f"""
        SELECT n.text, n.start, n.end - n.start AS cpu, min(k.start) AS gpu_start,
            max(k.end) - min(k.start) AS gpu, count(*) AS kernels
        FROM NVTX_EVENTS n
        JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON {CALLS_OF_RANGE}
        JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON {KERNEL_OF_CALL}
        WHERE n.text = {COMMON_RANGE}
        GROUP BY n.globalTid, n.start ORDER BY gpu DESC, n.start LIMIT 20""",
    "names of ranges, registered or not": f"""
        SELECT {RANGE_NAME} AS name, count(*) AS n, sum(n.end - n.start) AS total
        FROM NVTX_EVENTS n LEFT JOIN StringIds s ON n.textId = s.id
        WHERE n.eventType IN (59, 60) GROUP BY name ORDER BY total DESC, name LIMIT 30""",
    "longest ranges, registered or not": """
        SELECT n.start, n.end - n.start AS duration, n.text, s.value
        FROM NVTX_EVENTS n LEFT JOIN StringIds s ON id = n.textId
        ORDER BY duration DESC, n.start LIMIT 20""",
    "nested ranges": """
        SELECT a.text AS outer_range, b.text AS inner_range, count(*) AS n
        FROM NVTX_EVENTS a JOIN NVTX_EVENTS b ON b.globalTid = a.globalTid
            AND b.start > a.start AND b.end < a.end
        WHERE a.start < (SELECT min(start) + 20000000 FROM NVTX_EVENTS) AND a.eventType = 59
        GROUP BY 1, 2 ORDER BY n DESC, 1, 2 LIMIT 20""",
    "innermost range of each launch": """
        SELECT r.start, (SELECT n.text FROM NVTX_EVENTS n WHERE n.globalTid = r.globalTid
            AND n.start <= r.start AND n.end >= r.end ORDER BY n.start DESC LIMIT 1) AS inside
        FROM CUPTI_ACTIVITY_KIND_RUNTIME r
        WHERE r.start < (SELECT min(start) + 10000000 FROM CUPTI_ACTIVITY_KIND_RUNTIME)
        ORDER BY r.start, inside LIMIT 500""",
    "gaps on each stream": """
        SELECT deviceId, streamId, count(*) AS n, sum(gap) AS total, max(gap) AS most FROM (
            SELECT deviceId, streamId, start - lag(end) OVER (
                PARTITION BY globalPid, deviceId, streamId ORDER BY start) AS gap
            FROM CUPTI_ACTIVITY_KIND_KERNEL)
        WHERE gap > 1000 GROUP BY 1, 2 ORDER BY total DESC, 1, 2""",
    "longest gaps with their neighbours": """
        WITH k AS (SELECT start, end, shortName, lead(start) OVER w AS next_start,
                lead(shortName) OVER w AS next_name
            FROM CUPTI_ACTIVITY_KIND_KERNEL
            WINDOW w AS (PARTITION BY globalPid, deviceId ORDER BY start))
        SELECT k.end, k.next_start - k.end AS gap, a.value AS before, b.value AS after
        FROM k JOIN StringIds a ON a.id = k.shortName JOIN StringIds b ON b.id = k.next_name
        WHERE gap > 0 ORDER BY gap DESC, k.end LIMIT 20""",
    "busy and idle GPU": """
        WITH work AS (
                SELECT globalPid, deviceId, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL
                UNION ALL SELECT globalPid, deviceId, start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY
                UNION ALL SELECT globalPid, deviceId, start, end FROM CUPTI_ACTIVITY_KIND_MEMSET),
            seen AS (SELECT globalPid, deviceId, start, end, max(end) OVER (
                PARTITION BY globalPid, deviceId ORDER BY start, end
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered FROM work)
        SELECT globalPid, deviceId, max(end) - min(start) AS span,
            sum(CASE WHEN covered IS NULL THEN end - start
                WHEN end > covered THEN end - max(start, covered) ELSE 0 END) AS busy,
            sum(CASE WHEN start > covered THEN start - covered ELSE 0 END) AS idle
        FROM seen GROUP BY 1, 2 ORDER BY 1, 2""",
    "overlap of copies and kernels": """
        SELECT m.copyKind, count(DISTINCT m.start) AS copies, count(*) AS pairs,
            sum(min(m.end, k.end) - max(m.start, k.start)) AS overlap
        FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN CUPTI_ACTIVITY_KIND_KERNEL k
            ON k.deviceId = m.deviceId AND k.start < m.end AND k.end > m.start
        WHERE m.start < (SELECT min(start) + 200000000 FROM CUPTI_ACTIVITY_KIND_MEMCPY)
        GROUP BY m.copyKind ORDER BY 1""",
    "launch latency": """
        SELECT s.value AS call, count(*) AS n, avg(k.start - r.end) AS mean,
            min(k.start - r.start) AS least, max(k.start - r.start) AS most
        FROM CUPTI_ACTIVITY_KIND_RUNTIME r
        JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = r.correlationId
            AND k.globalPid / 0x1000000 = r.globalTid / 0x1000000
        JOIN StringIds s ON s.id = r.nameId GROUP BY s.value ORDER BY n DESC, 1""",
    "slowest launches": """
        SELECT k.start - r.start AS latency, r.start, sr.value AS call, sk.value AS kernel
        FROM CUPTI_ACTIVITY_KIND_KERNEL k
        LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId
        LEFT JOIN StringIds sr ON sr.id = r.nameId LEFT JOIN StringIds sk ON sk.id = k.shortName
        ORDER BY latency DESC, r.start, kernel LIMIT 20""",
    "kernels launched by each call": """
        SELECT (SELECT value FROM StringIds WHERE id = r.nameId) AS call, count(*) AS calls,
            sum((SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k
                WHERE k.correlationId = r.correlationId)) AS kernels
        FROM CUPTI_ACTIVITY_KIND_RUNTIME r
        WHERE r.start < (SELECT min(start) + 300000000 FROM CUPTI_ACTIVITY_KIND_RUNTIME)
        GROUP BY 1 ORDER BY 2 DESC, 1""",
    "calls that started no work": """
        SELECT s.value, count(*) AS n, sum(r.end - r.start) AS total
        FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId
        WHERE NOT EXISTS (SELECT 1 FROM CUPTI_ACTIVITY_KIND_KERNEL k
                WHERE k.correlationId = r.correlationId)
            AND r.correlationId NOT IN (SELECT correlationId FROM CUPTI_ACTIVITY_KIND_MEMCPY
                WHERE correlationId IS NOT NULL)
        GROUP BY s.value ORDER BY total DESC, 1""",
    "steps": """
        WITH step AS (SELECT start, end, row_number() OVER (ORDER BY start, globalTid) AS number
            FROM NVTX_EVENTS
            WHERE end IS NOT NULL AND eventType = 59 ORDER BY end - start DESC LIMIT 40)
        SELECT step.number, step.end - step.start AS duration, count(*) AS kernels,
            sum(k.end - k.start) AS gpu
        FROM step JOIN CUPTI_ACTIVITY_KIND_KERNEL k
            ON k.start BETWEEN step.start AND step.end
        GROUP BY step.number ORDER BY step.number""",
    "per stream": """
        SELECT deviceId, streamId, count(*) AS n, sum(end - start) AS busy,
            max(end) - min(start) AS span,
            round(100.0 * sum(end - start) / (max(end) - min(start)), 2) AS percent
        FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY deviceId, streamId ORDER BY busy DESC, 1, 2""",
    "bandwidth by kind of copy": """
        SELECT o.label, count(*) AS n, sum(m.bytes) AS bytes,
            sum(m.bytes) * 1.0 / sum(m.end - m.start) AS GBps, max(m.bytes) AS largest
        FROM CUPTI_ACTIVITY_KIND_MEMCPY m LEFT JOIN ENUM_CUDA_MEMCPY_OPER o ON o.id = m.copyKind
        GROUP BY m.copyKind ORDER BY bytes DESC, 1""",
    "percentiles of kernels": """
        SELECT name, n, max(CASE WHEN place <= 0.5 * n + 0.5 THEN d END) AS p50,
            max(CASE WHEN place <= 0.9 * n + 0.5 THEN d END) AS p90,
            max(CASE WHEN place <= 0.99 * n + 0.5 THEN d END) AS p99
        FROM (SELECT shortName AS name, end - start AS d,
                row_number() OVER (PARTITION BY shortName ORDER BY end - start) AS place,
                count(*) OVER (PARTITION BY shortName) AS n
            FROM CUPTI_ACTIVITY_KIND_KERNEL)
        GROUP BY name ORDER BY n DESC, name LIMIT 20""",
    "running sum of copied bytes": """
        SELECT start, bytes, sum(bytes) OVER (ORDER BY start, correlationId) AS so_far
        FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY start, correlationId""",
    "time in slices": """
        WITH RECURSIVE bounds AS (SELECT min(start) AS t0, max(end) AS t1
                FROM CUPTI_ACTIVITY_KIND_KERNEL),
            slice(i, a, b) AS (SELECT 0, t0, t0 + (t1 - t0) / 50 FROM bounds
                UNION ALL SELECT i + 1, b, b + (t1 - t0) / 50 FROM slice, bounds WHERE i < 49)
        SELECT i, (SELECT sum(min(k.end, b) - max(k.start, a)) FROM CUPTI_ACTIVITY_KIND_KERNEL k
            WHERE k.start < b AND k.end > a) AS busy FROM slice""",
    "three longest kernels of each name": """
        SELECT s.value, d, start FROM (SELECT shortName, end - start AS d, start, rank() OVER (
                PARTITION BY shortName ORDER BY end - start DESC, start) AS place
            FROM CUPTI_ACTIVITY_KIND_KERNEL) k JOIN StringIds s ON s.id = k.shortName
        WHERE place <= 3 ORDER BY s.value, d DESC, start""",
    "kernels with names like": """
        SELECT gridX, gridY, gridZ, blockX, blockY, blockZ, count(*) AS n,
            avg(end - start) AS mean
        FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE demangledName IN (
            SELECT id FROM StringIds WHERE value LIKE '%ge%')
        GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY n DESC, 1, 2, 3, 4, 5, 6""",
    "calls of a name in a window of time": """
        SELECT r.start, r.end - r.start AS duration, r.globalTid
        FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON r.nameId = s.id
        WHERE s.value LIKE 'cudaMemcpyAsync%' AND r.start > 1000000 AND r.end < 9e17
        ORDER BY duration DESC, r.start LIMIT 50""",
    "operating system calls by thread": """
        SELECT (o.globalTid & 0xffffff) AS tid, s.value AS call, count(*) AS n,
            sum(o.end - o.start) AS total
        FROM OSRT_API o JOIN StringIds s ON o.nameId = s.id
        LEFT JOIN ThreadNames t ON t.globalTid = o.globalTid
        GROUP BY o.globalTid, s.value ORDER BY total DESC, 1, 2 LIMIT 30""",
    "how many kernels ran at once": """
        WITH edge AS (SELECT start AS t, 1 AS d FROM CUPTI_ACTIVITY_KIND_KERNEL
                UNION ALL SELECT end, -1 FROM CUPTI_ACTIVITY_KIND_KERNEL),
            level AS (SELECT t, sum(d) OVER (ORDER BY t, d ROWS UNBOUNDED PRECEDING) AS n,
                lead(t) OVER (ORDER BY t, d) - t AS lasted FROM edge)
        SELECT n, sum(lasted) AS total FROM level GROUP BY n ORDER BY n""",
    "what ran while a call waited": """
        SELECT sr.value AS call, sk.value AS kernel, count(*) AS n
        FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds sr ON sr.id = r.nameId
        JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.start < r.end AND k.end > r.start
            AND k.globalPid / 0x1000000 = r.globalTid / 0x1000000
        JOIN StringIds sk ON sk.id = k.shortName
        WHERE sr.value LIKE '%Synchronize%'
            AND r.start < (SELECT min(start) + 100000000 FROM CUPTI_ACTIVITY_KIND_RUNTIME)
        GROUP BY 1, 2 ORDER BY n DESC, 1, 2 LIMIT 20""",
}
