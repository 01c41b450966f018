/*
 * fuzz_import.c - the importers against any bytes: each input is a file that is imported, and must
 * end in a report or a message.
 *
 * An input is raw (its first byte is odd) or edits of one of the seeds below, one of each format:
 * that gets past the beginnings by which formats are recognised.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "import/import.h"
#include "store/store.h"
#include "../replay.h"

static const char json[] =
	"{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,\"name\":\"G\",\"numSms\":3,"
	"\"warpSize\":32}],\"distributedInfo\":{"
	"\"rank\":1},"
	"\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::conv2d\",\"pid\":1,"
	"\"tid\":2,\"ts\":10.5,\"dur\":3,"
	"\"args\":{\"External "
	"id\":1,\"Input Dims\":[[1,2,8,8],[4,2,3,3]],\"Concrete Inputs\":[\"\",\"\",\"\",\"[1, "
	"1]\",\"[0, 0]\",\"[1, "
	"1]\",\"1\"],\"x\":{\"y\":[1]}}},"
	"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"void a::(anonymous "
	"namespace)::k<int>(int)\",\"pid\":0,\"tid\":\"stream "
	"7\",\"ts\":12,\"dur\":1,\"args\":{\"External "
	"id\":1,\"correlation\":5,\"grid\":[1,2,3],\"Collective name\":\"allreduce\"}},"
	"{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy HtoD (Pinned -> "
	"Device)\",\"ts\":13,\"dur\":1,\"args\":{\"correlation\":6}},"
	"{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream "
	"Sync\",\"ts\":13,\"dur\":1,\"args\":{\"correlation\":6,\"stream\":7}},"
	"{\"ph\":\"B\",\"name\":\"\\u00e9\\ud83d\\ude00\",\"pid\":1,\"tid\":2,\"ts\":1e2},{\"ph\":"
	"\"E\",\"pid\":1,\"tid\":2,\"ts\":110}"
	",{\"ph\":\"E\",\"pid\":1,\"tid\":4,\"ts\":50},{\"ph\":\"B\",\"name\":\"q\",\"pid\":1,"
	"\"tid\":4,\"ts\":-40},"
	"{\"ph\":\"b\",\"cat\":\"c\",\"id\":\"1\",\"name\":\"a\",\"pid\":1,\"ts\":1},{\"ph\":\"e\","
	"\"cat\":\"c\",\"id\":\"1\",\"pid\":"
	"1,\"ts\":2},"
	"{\"ph\":\"s\",\"id\":1,\"cat\":\"f\",\"pid\":1,\"tid\":1,\"ts\":1},{\"ph\":\"f\",\"id\":1,"
	"\"cat\":\"f\",\"pid\":\"S\",\"tid\":"
	"\"T\",\"ts\":3},"
	"{\"ph\":\"C\",\"name\":\"c\",\"pid\":1,\"ts\":1,\"args\":{\"v\":1.5}},{\"ph\":\"M\","
	"\"name\":\"process_name\",\"pid\":1,"
	"\"args\":{\"name\":\"p\"}},"
	"{\"ph\":\"P\",\"cat\":\"v8\",\"name\":\"Profile\",\"pid\":1,\"tid\":2,\"ts\":1,\"id\":"
	"\"0x1\",\"args\":{\"data\":{"
	"\"startTime\":1}}},"
	"{\"ph\":\"P\",\"name\":\"ProfileChunk\",\"pid\":1,\"tid\":2,\"ts\":1,\"id\":\"0x1\","
	"\"args\":{\"data\":{\"cpuProfile\":{"
	"\"nodes\":[{\"id\":2,"
	"\"parent\":1,\"callFrame\":{\"functionName\":\"f\",\"url\":\"u\"}}],\"samples\":[2,2]},"
	"\"timeDeltas\":[1,2]}}},"
	"{\"ph\":\"b\",\"cat\":\"nvtx\",\"id\":9,\"name\":\"a\",\"pid\":1,\"tid\":2,\"ts\":1,"
	"\"args\":{\"never "
	"ended\":true,\"domain\":3,\"domain name\":\"d\"}},"
	"{\"ph\":\"e\",\"cat\":\"nvtx\",\"id\":9,\"pid\":1,\"tid\":2,\"ts\":2},"
	"{\"ph\":\"X\",\"cat\":\"osrt\",\"name\":\"read\",\"pid\":1,\"tid\":2,\"ts\":2,\"dur\":1,"
	"\"args\":{\"path\":\"/x\"}},"
	"{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":1,\"tid\":2,\"ts\":5,\"args\":{\"Bytes\":-5,"
	"\"Device "
	"Type\":1}}],\"baseTimeNanoseconds\":1700000000}";

static const char perf[] =
	"# c\nmy prog 10/11 [003] d..1. 100.500000:     250000 cpu-clock:pppH: "
	"\n\tffffffff8104f45a "
	"native_write_msr+0xa ([kernel.kallsyms])\n\t 7f12aa00 f(int)+0x10 (/usr/lib/x "
	"(deleted))\n\nother 20 "
	"101.000000001: sched:sched_switch: prev_comm=a ==> next_comm=b\n\na 1 1.5: cycles: 7f00 g "
	"(x)\nx 0 [001] 3.1: "
	"sched:sched_switch: prev_comm=x prev_pid=0 prev_state=R ==> next_comm=a b next_pid=7\nx 7 "
	"[001] 3.2: sched:sched_switch: a "
	"b:7 [120] S "
	"==> x:0 [120]\nx 7 3.3: PERF_RECORD_SWITCH OUT\n 3.4: 401136 main (/b)\n  0x1/0x2/P/-\n";

/* Packets: a clock, a process and thread, a counter track, interned names, a slice with arguments
 * and a flow, ftrace. */
static const uint8_t perfetto[] = {
	0x0a,
	0x15,
	0x50,
	0x01,
	0x68,
	0x01,
	0x32,
	0x0f,
	0x0a,
	0x05,
	0x08,
	0x06,
	0x10,
	0xe8,
	0x07,
	0x0a,
	0x06,
	0x08,
	0x40,
	0x10,
	0x32,
	0x18,
	0x01,
	0x0a,
	0x12,
	0x50,
	0x01,
	0xe2,
	0x03,
	0x0d,
	0x08,
	0x06,
	0x22,
	0x09,
	0x08,
	0x2a,
	0x10,
	0x2b,
	0x2a,
	0x03,
	'w',
	'r',
	'k',
	0x0a,
	0x0e,
	0x50,
	0x01,
	0xe2,
	0x03,
	0x09,
	0x08,
	0x07,
	0x12,
	0x01,
	'q',
	0x42,
	0x02,
	0x18,
	0x03,
	0x0a,
	0x2e,
	0x50,
	0x01,
	0x40,
	0xd0,
	0x0f,
	0x62,
	0x0f,
	0x0a,
	0x05,
	0x08,
	0x01,
	0x12,
	0x01,
	'c',
	0x12,
	0x06,
	0x08,
	0x01,
	0x12,
	0x02,
	'n',
	'm',
	0x5a,
	0x18,
	0x48,
	0x01,
	0x58,
	0x06,
	0x18,
	0x01,
	0x50,
	0x01,
	0x22,
	0x09,
	0x52,
	0x01,
	'a',
	0x5a,
	0x04,
	0x52,
	0x00,
	0x20,
	0x03,
	0xa0,
	0x02,
	0x09,
	0x18,
	0x01,
	0x0a,
	0x0b,
	0x50,
	0x01,
	0x40,
	0xb8,
	0x17,
	0x5a,
	0x04,
	0x48,
	0x02,
	0x58,
	0x06,
	0x0a,
	0x0e,
	0x50,
	0x01,
	0x40,
	0xb8,
	0x17,
	0x5a,
	0x07,
	0x48,
	0x04,
	0x58,
	0x07,
	0xf0,
	0x01,
	0x05,
	0x0a,
	0x12,
	0x0a,
	0x10,
	0x08,
	0x02,
	0x12,
	0x0c,
	0x08,
	0xa0,
	0x1f,
	0x22,
	0x07,
	0x10,
	0x01,
	0x20,
	0x01,
	0x30,
	0x2b,
	0x00,
	/* clocks, counters of an event, lost packets, an asynchronous event, a sample, compact
	   switches, compressed packets */
	0x0a,
	0x25,
	0x50,
	0x03,
	0x68,
	0x01,
	0x32,
	0x17,
	0x0a,
	0x05,
	0x08,
	0x06,
	0x10,
	0x88,
	0x27,
	0x0a,
	0x05,
	0x08,
	0x03,
	0x10,
	0x94,
	0x23,
	0x0a,
	0x07,
	0x08,
	0x41,
	0x10,
	0x01,
	0x20,
	0xe8,
	0x07,
	0xda,
	0x03,
	0x05,
	0x5a,
	0x03,
	0xf8,
	0x01,
	0x07,
	0x0a,
	0x15,
	0x50,
	0x03,
	0x40,
	0xf8,
	0x23,
	0xd0,
	0x03,
	0x03,
	0x5a,
	0x0b,
	0x48,
	0x03,
	0x58,
	0x06,
	0x60,
	0x05,
	0xf8,
	0x01,
	0x07,
	0x50,
	0x01,
	0x0a,
	0x10,
	0x50,
	0x03,
	0xd0,
	0x02,
	0x01,
	0x40,
	0x02,
	0xd0,
	0x03,
	0x41,
	0x68,
	0x02,
	0x5a,
	0x02,
	0x48,
	0x03,
	0x0a,
	0x18,
	0x50,
	0x03,
	0x68,
	0x01,
	0x40,
	0x01,
	0x5a,
	0x10,
	0xb2,
	0x01,
	0x01,
	0x6e,
	0xba,
	0x01,
	0x01,
	0x72,
	0x58,
	0x05,
	0x32,
	0x04,
	0x10,
	0x62,
	0x30,
	0x4d,
	0x0a,
	0x43,
	0x50,
	0x03,
	0x40,
	0x09,
	0x62,
	0x30,
	0x3a,
	0x06,
	0x08,
	0x01,
	0x10,
	0x02,
	0x10,
	0x01,
	0x32,
	0x06,
	0x08,
	0x01,
	0x10,
	0x01,
	0x18,
	0x01,
	0x32,
	0x06,
	0x08,
	0x02,
	0x10,
	0x02,
	0x18,
	0x01,
	0x9a,
	0x01,
	0x06,
	0x08,
	0x01,
	0x38,
	0x01,
	0x38,
	0x01,
	0x8a,
	0x01,
	0x05,
	0x08,
	0x01,
	0x12,
	0x01,
	0x75,
	0x2a,
	0x05,
	0x08,
	0x01,
	0x12,
	0x01,
	0x6c,
	0x92,
	0x04,
	0x0a,
	0x08,
	0x02,
	0x10,
	0x04,
	0x18,
	0x05,
	0x20,
	0x01,
	0x28,
	0x01,
	0x0a,
	0x31,
	0x0a,
	0x2f,
	0x08,
	0x03,
	0x22,
	0x1f,
	0x2a,
	0x01,
	0x73,
	0x2a,
	0x01,
	0x6f,
	0x0a,
	0x04,
	0xe8,
	0x07,
	0xf4,
	0x03,
	0x12,
	0x02,
	0x01,
	0x02,
	0x1a,
	0x02,
	0x0b,
	0x00,
	0x32,
	0x02,
	0x01,
	0x00,
	0x3a,
	0x02,
	0x84,
	0x07,
	0x42,
	0x01,
	0x0b,
	0x12,
	0x0a,
	0x08,
	0xd0,
	0x0f,
	0x10,
	0x07,
	0xa2,
	0x01,
	0x02,
	0x10,
	0x0b,
	0x0a,
	0x1c,
	0x92,
	0x03,
	0x19,
	0x78,
	0xda,
	0xe3,
	0xe2,
	0x0f,
	0x60,
	0x76,
	0xe0,
	0x8a,
	0xe2,
	0xf4,
	0x60,
	0x8c,
	0x60,
	0xdd,
	0xc5,
	0xc8,
	0x94,
	0x99,
	0x07,
	0x00,
	0x18,
	0x77,
	0x03,
	0x54,
};

static struct seed {
	const uint8_t *bytes;
	size_t n;
} seeds[4] = {{(const uint8_t *)json, sizeof(json) - 1},
	      {(const uint8_t *)perf, sizeof(perf) - 1},
	      {perfetto, sizeof(perfetto)}};

static char folder[64], input[96], output[96];

static const char schema[] =
	"CREATE TABLE StringIds(id INTEGER PRIMARY KEY,value TEXT);INSERT INTO StringIds "
	"VALUES(1,'k'),(2,'gemm(int)');"
	"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER,end INTEGER,deviceId "
	"INTEGER,streamId INTEGER,correlationId "
	"INTEGER,globalPid INTEGER,"
	"demangledName INTEGER,shortName INTEGER);INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
	"VALUES(5,9,0,7,3,281483000000,2,1);"
	"CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER,end INTEGER,globalTid "
	"INTEGER,correlationId INTEGER,nameId "
	"INTEGER,callchainId INTEGER);"
	"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(1,2,281483000001,3,1,1);CREATE TABLE "
	"CUDA_CALLCHAINS(id INTEGER,symbol "
	"INTEGER,module "
	"INTEGER,stackDepth INTEGER);INSERT INTO CUDA_CALLCHAINS VALUES(1,1,2,0),(1,2,2,1);"
	"CREATE TABLE NVTX_EVENTS(start INTEGER,end INTEGER,eventType INTEGER,text TEXT,globalTid "
	"INTEGER,doubleValue REAL);"
	"INSERT INTO NVTX_EVENTS VALUES(-1,5,59,'r',281483000001,1.5);CREATE TABLE OTHER(start "
	"INTEGER,name TEXT);INSERT INTO OTHER "
	"VALUES(3,'x');";

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *tmp = getenv("TMPDIR");
	unsigned char *db;
	sqlite3_int64 size;
	sqlite3 *s;

	(void)argc, (void)argv;
	snprintf(folder, sizeof(folder), "%.32s/fuzz-import-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(folder) || sqlite3_open(":memory:", &s) != SQLITE_OK ||
	    sqlite3_exec(s, "PRAGMA page_size=512", NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_exec(s, schema, NULL, NULL, NULL) != SQLITE_OK)
		abort();
	snprintf(input, sizeof(input), "%s/input", folder);
	snprintf(output, sizeof(output), "%s/output.wsrep", folder);
	db = sqlite3_serialize(s, "main", &size, 0);
	seeds[3] = (struct seed){db, (size_t)size};
	sqlite3_close(s);
	setenv("PATH", "", 1); /* no nsys */
	return 0;
}

/* Edits of four bytes: two for the place, one says how, one the value. */
static size_t edit_bytes(uint8_t *bytes, size_t n, const uint8_t *data, size_t left)
{
	for (; left >= 4 && n; data += 4, left -= 4) {
		size_t at = (size_t)(data[0] | data[1] << 8) % n;

		switch (data[2] & 7) {
		case 0:
			n = at; /* cut */
			break;
		case 1:
			memmove(bytes + at, bytes + at + 1, n - at - 1);
			n--;
			break;
		case 2:
			bytes[at] ^= (uint8_t)(1 << (data[3] & 7));
			break;
		default:
			bytes[at] = data[3];
		}
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const char *file = input;
	struct ws_import_request request = {
		.files = &file, .count = 1, .output = output, .overwrite = true, .quiet = true};
	struct ws_err err = {""};
	uint8_t *copy = NULL;
	FILE *f;
	int rc;

	if (n < 2 || n > 1 << 16)
		return 0;
	if (!(data[0] & 1)) {
		const struct seed *seed = &seeds[data[0] >> 1 & 3];

		copy = ws_malloc(seed->n);
		memcpy(copy, seed->bytes, seed->n);
		n = edit_bytes(copy, seed->n, data + 1, n - 1);
	} else {
		data++;
		n--;
	}
	f = fopen(input, "wb");
	if (!f || fwrite(copy ? copy : data, 1, n, f) != n || fclose(f))
		abort();
	free(copy);
	rc = ws_import_files(&request, NULL, &err);
	if (rc < 0 && !*err.msg)
		abort(); /* a failure says why */
	if (!rc != !access(output, F_OK))
		abort(); /* and leaves nothing */
	if (!rc) {
		struct ws_report *report = ws_report_open_plain(output, &err);

		if (!report || ws_report_verify(report, NULL, NULL))
			abort();
		ws_report_close(report);
	}
	unlink(output);
	return 0;
}

#ifdef FUZZ_REPLAY
static size_t make_input(uint8_t *bytes, int round)
{
	size_t n = replay_fill(bytes, round < 4 ? 2 : 1 + 4 * (1 + replay_draw() % 8));

	bytes[0] = round < 4 ? (uint8_t)(round << 1)
			     : (uint8_t)(replay_draw() & 6); /* first the seeds as they are */
	return n;
}

int main(int argc, char **argv)
{
	LLVMFuzzerInitialize(&argc, &argv);
	replay_test(argc, argv, 1500, make_input);
	unlink(input);
	rmdir(folder);
	return 0;
}
#endif
