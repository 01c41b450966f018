/*
 * kernel.c - the program in the kernel that reads Python's frames, on memory that is known: images
 * of interpreters of each version, mapped where they lay, and a made-up chain of frames that is
 * longer than what is read. What it writes must be what the reader of src/cpython finds there.
 *
 *   python_kernel [--samples N] FOLDER-OF-IMAGES
 *
 * With kernel.bpf_stats_enabled=1 each line also says how long the program ran for a sample.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/compiler.h"
#include "image.h"
#include "record/python_bpf.h"

#define COOKIE UINT64_C(0x1234567890abcdef)
#define FREQUENCY 10000u
#define RING_PAGES 512u
#define FRAMES_MOST 1000u
#define CODES_MOST 4096u
#define SECONDS_MOST 20 /* of processor time that samples are waited for */

static unsigned samples_wanted = 4;
static int tests;

/* ---- a thread that is watched: this one ---- */

struct watch {
	struct ws_python py;
	struct ws_python_beacon beacon;
	int sampler, output, cpu;
	struct perf_event_mmap_page *ring;
	uint64_t tail;
	uint8_t *record; /* the last one that was read */
};

/* What came out: the last frames, and all codes. */
struct seen {
	unsigned samples;
	struct ws_py_kernel_frames head;
	struct ws_py_step step[WS_PY_KERNEL_STEPS];
	size_t codes, unlike; /* unlike: codes of which a piece is not what lies in memory */
	uint64_t id[CODES_MOST], code[CODES_MOST];
};

static int open_event(uint64_t config, uint64_t period, int cpu)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = config,
				       .sample_period = period,
				       .sample_type = PERF_SAMPLE_RAW,
				       .exclude_kernel = config == PERF_COUNT_SW_CPU_CLOCK,
				       .disabled = 1};

	return (int)syscall(SYS_perf_event_open, &attr, 0, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static void stay_on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* 0, or -errno with which the kernel refuses. */
static int begin_watch(struct watch *watch, const struct ws_py_layout *layout, uint64_t state)
{
	uint32_t tid = (uint32_t)gettid();
	size_t bytes = (RING_PAGES + 1) * (size_t)sysconf(_SC_PAGESIZE);
	int error;

	memset(watch, 0, sizeof(*watch));
	watch->py.options = (struct ws_python_opts){.sampling = true, .frequency = FREQUENCY};
	ws_python_bpf_start(&watch->py);
	error = ws_python_bpf_open(&watch->py, FREQUENCY);
	if (error)
		return error;
	watch->cpu = sched_getcpu();
	stay_on_cpu(watch->cpu);
	watch->beacon.cookie = ws_python_cookie(COOKIE, tid);
	watch->beacon.hold_start = 7;
	watch->beacon.state = state;
	watch->sampler = open_event(PERF_COUNT_SW_CPU_CLOCK, 1000000000u / FREQUENCY, watch->cpu);
	watch->output = open_event(PERF_COUNT_SW_BPF_OUTPUT, 1, watch->cpu);
	if (watch->sampler < 0 || watch->output < 0)
		return -errno;
	watch->ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, watch->output, 0);
	if (watch->ring == MAP_FAILED)
		return -errno;
	watch->record = malloc(1 << 16);
	error = ws_python_bpf_attach(&watch->py, watch->sampler, watch->output,
				     (uint32_t)watch->cpu);
	if (!error)
		error = ws_py_bpf_watch(watch->py.bpf, tid, tid, layout, COOKIE,
					(uintptr_t)&watch->beacon);
	if (!error)
		ioctl(watch->output, PERF_EVENT_IOC_ENABLE, 0);
	return error;
}

static void end_watch(struct watch *watch)
{
	munmap(watch->ring, (RING_PAGES + 1) * (size_t)sysconf(_SC_PAGESIZE));
	close(watch->sampler);
	close(watch->output);
	free(watch->record);
	ws_python_bpf_close(&watch->py);
}

/* The next record of the ring, in watch->record; its size, 0 when there is none. */
static size_t next_record(struct watch *watch)
{
	const uint8_t *data = (const uint8_t *)watch->ring + sysconf(_SC_PAGESIZE);
	size_t ring = RING_PAGES * (size_t)sysconf(_SC_PAGESIZE), size;
	uint64_t head = __atomic_load_n(&watch->ring->data_head, __ATOMIC_ACQUIRE);
	const struct perf_event_header *header;

	if (watch->tail == head)
		return 0;
	header = (const void *)(data + watch->tail % ring); /* of 8 bytes: never wraps around */
	size = header->size;
	for (size_t i = 0; i < size; i++)
		watch->record[i] = data[(watch->tail + i) % ring];
	watch->tail += size;
	__atomic_store_n(&watch->ring->data_tail, watch->tail, __ATOMIC_RELEASE);
	return size;
}

static size_t read_self(void *ctx, const struct ws_py_piece *piece, size_t n)
{
	size_t done = 0;

	(void)ctx;
	for (; done < n; done++) {
		struct iovec to = {piece[done].to, piece[done].bytes},
			     from = {(void *)(uintptr_t)piece[done].from, piece[done].bytes};

		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)to.iov_len)
			break;
	}
	return done;
}

/* Is a piece what lies in memory? None means that nothing can be read there. */
static bool is_there(uint64_t from, const void *bytes, size_t size)
{
	static uint8_t there[1 << 16];
	struct ws_py_piece piece = {from, there, ws_max(size, (size_t)1)};
	bool readable = size <= sizeof(there) && read_self(NULL, &piece, 1) == 1;

	if (!size)
		return !readable;
	return readable && !memcmp(there, bytes, size);
}

static bool is_alike(const struct ws_py_kernel_code *code)
{
	return code->head_bytes == WS_PY_TOLD_HEAD &&
	       is_there(code->code, code->head, code->head_bytes) &&
	       is_there(code->name, code->name_piece, code->name_bytes) &&
	       is_there(code->file, code->file_piece, code->file_bytes) &&
	       is_there(code->table, code->table_piece, code->table_bytes) &&
	       (!code->key_name ||
		is_there(code->key_name, code->key_text, sizeof(code->key_text)));
}

static void add_code(struct seen *seen, const struct ws_py_kernel_code *code)
{
	if (seen->codes == CODES_MOST)
		return;
	seen->unlike += !is_alike(code);
	seen->id[seen->codes] = code->id;
	seen->code[seen->codes++] = code->code;
}

static void read_records(struct watch *watch, struct seen *seen)
{
	static uint8_t raw[1 << 16] __attribute__((aligned(8)));
	size_t size;

	while ((size = next_record(watch)) != 0) {
		const struct perf_event_header *header = (const void *)watch->record;
		const struct ws_py_kernel_frames *frames = (const void *)raw;

		if (header->type != PERF_RECORD_SAMPLE || size < sizeof(*header) + 4)
			continue;
		memcpy(raw, watch->record + sizeof(*header) + 4, size - sizeof(*header) - 4);
		if (frames->kind == WS_PY_KERNEL_CODE)
			add_code(seen, (const void *)raw);
		if (frames->kind != WS_PY_KERNEL_FRAMES || frames->count > WS_PY_KERNEL_STEPS)
			continue;
		seen->head = *frames;
		memcpy(seen->step, raw + sizeof(*frames), frames->count * sizeof(seen->step[0]));
		seen->samples++;
	}
}

/* Run for so many samples with frames, or `most` nanoseconds of processor time. */
static void take_samples(struct watch *watch, struct seen *seen, unsigned samples, int64_t most)
{
	struct timespec now;
	int64_t start = -1, used = 0;

	ioctl(watch->sampler, PERF_EVENT_IOC_ENABLE, 0);
	while (seen->samples < samples && used < most) {
		for (volatile int i = 0; i < 100000; i = i + 1)
			;
		read_records(watch, seen);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
		used = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
		if (start < 0)
			start = used;
		used -= start;
	}
	ioctl(watch->sampler, PERF_EVENT_IOC_DISABLE, 0);
	read_records(watch, seen);
}

static double read_number(const char *path, const char *key)
{
	FILE *file = fopen(path, "r");
	char line[256];
	double number = 0;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, strlen(key)))
			number = strtod(line + strlen(key), NULL);
	if (file)
		fclose(file);
	return number;
}

/* Nanoseconds that the program ran for a sample, when the kernel counts that; else 0. */
static double cost_of_sample(void)
{
	DIR *folder = opendir("/proc/self/fdinfo");
	struct dirent *entry;
	double cost = 0;
	char path[512];

	while (folder && (entry = readdir(folder)) != NULL) {
		snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", entry->d_name);
		if (read_number(path, "run_cnt:") > 0)
			cost = read_number(path, "run_time_ns:") / read_number(path, "run_cnt:");
	}
	if (folder)
		closedir(folder);
	return cost;
}

static void report(bool ok, const char *what, const char *name)
{
	double cost = cost_of_sample();

	printf("%sok %d - %s%s", ok ? "" : "not ", ++tests, what, name);
	if (cost > 0)
		printf(" # %.0f ns a sample", cost);
	printf("\n");
	fflush(stdout);
}

/* ---- comparing ---- */

static uint64_t code_of(const struct seen *seen, uint64_t id)
{
	for (size_t i = 0; i < seen->codes; i++)
		if (seen->id[i] == id)
			return seen->code[i];
	return id; /* 0 and 1 */
}

static size_t frames_of(const struct ws_py_layout *layout, const struct seen *seen,
			struct ws_py_frame *out)
{
	struct ws_py_frame_list list = {.out = out};

	for (size_t i = 0; i < seen->head.count; i++) {
		int32_t at = seen->step[i].at;

		if (layout->chain == WS_PY_OBJECTS)
			at = ws_py_convert_index(layout, at);
		ws_py_add_frame(layout, &list, code_of(seen, seen->step[i].id), at,
				seen->step[i].owner);
	}
	return list.count;
}

static bool same_frames(const struct ws_py_layout *layout, const struct seen *seen,
			const struct ws_py_frame *want, size_t n)
{
	static struct ws_py_frame got[FRAMES_MOST];
	size_t count = frames_of(layout, seen, got);
	bool same = count == n;

	for (size_t i = 0; same && i < n; i++)
		same = got[i].code == want[i].code && got[i].at == want[i].at &&
		       got[i].flags == want[i].flags;
	if (!same)
		printf("# %zu frames of %zu, %u samples, truncated %u\n", count, n, seen->samples,
		       seen->head.truncated);
	return same;
}

/* ---- images ---- */

static struct {
	uint64_t page[4096];
	size_t n;
} mapped; /* pages of the image in hand */

static bool is_mapped(uint64_t page)
{
	for (size_t i = mapped.n; i-- > 0;)
		if (mapped.page[i] == page)
			return true;
	return false;
}

static bool map_page(uint64_t at)
{
	void *want = (void *)(uintptr_t)at;
	void *got;

	if (is_mapped(at))
		return true;
	if (mapped.n == WS_COUNT(mapped.page))
		return false;
	got = mmap(want, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (got != want)
		return false;
	mapped.page[mapped.n++] = at;
	return true;
}

/* Put an image where it lay; false when something of ours lies there. */
static bool map_image(const struct image *image)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (uint64_t i = 0; i < image->n; i++) {
		const struct piece *piece = &image->piece[i];

		for (uint64_t at = piece->at & ~(page - 1); at < piece->at + piece->bytes;
		     at += page)
			if (!map_page(at))
				return false;
		memcpy((void *)(uintptr_t)piece->at, piece->data, piece->bytes);
	}
	return true;
}

static void unmap_image(void)
{
	while (mapped.n)
		munmap((void *)(uintptr_t)mapped.page[--mapped.n], (size_t)sysconf(_SC_PAGESIZE));
}

/* The samples of a thread with `codes` code objects are what the reader finds, up to the number of
 * frames that is read at most. */
static void check_samples(const struct ws_py_layout *layout, uint64_t state, size_t codes,
			  const char *name)
{
	static const struct ws_py_memory memory = {read_self, NULL};
	static struct ws_py_walk walk;
	static struct ws_py_frame want[WS_PY_KERNEL_STEPS];
	static struct seen seen;
	static struct watch watch;
	bool ok;
	size_t n;
	int error = begin_watch(&watch, layout, state);

	memset(&walk, 0, sizeof(walk));
	memset(&seen, 0, sizeof(seen));
	n = ws_py_walk(layout, &memory, state, &walk, want, WS_COUNT(want));
	if (error) {
		printf("# %s\n", strerror(-error));
		report(false, "loading for ", name);
		return;
	}
	take_samples(&watch, &seen, samples_wanted, SECONDS_MOST * INT64_C(1000000000));
	ok = seen.samples >= samples_wanted && n && seen.head.truncated == walk.truncated &&
	     seen.head.cookie == COOKIE && seen.head.hold == 7 && !seen.head.wait &&
	     seen.codes == codes && !seen.unlike && same_frames(layout, &seen, want, n);
	if (!ok)
		printf("# %u samples, %zu codes, %zu of them unlike\n", seen.samples, seen.codes,
		       seen.unlike);
	/* Another thread's beacon: nothing is read any more. */
	watch.beacon.cookie++;
	seen.samples = 0;
	take_samples(&watch, &seen, 1, INT64_C(5000000));
	report(ok && !seen.samples, "frames of ", name);
	end_watch(&watch);
}

/* How many code objects the frames of a thread have. */
static size_t count_codes(const struct ws_py_layout *layout, uint64_t state)
{
	static const struct ws_py_memory memory = {read_self, NULL};
	static struct ws_py_walk walk;
	struct ws_py_frame frame[64];
	size_t n, count = 0;

	memset(&walk, 0, sizeof(walk));
	n = ws_py_walk(layout, &memory, state, &walk, frame, WS_COUNT(frame));
	for (size_t i = 0; i < n; i++) {
		size_t before = 0;

		while (before < i && frame[before].code != frame[i].code)
			before++;
		count += before == i && !(frame[i].flags & WS_PY_NONE);
	}
	return count;
}

static void check_image(const char *folder, const char *version)
{
	struct ws_py_thread threads[8];
	struct ws_py_layout layout;
	struct image image;
	struct ws_py_memory memory = {image_read, &image};
	char path[1024];

	snprintf(path, sizeof(path), "%s/cpython-%s.img", folder, version);
	if (!image_load(path, &image) || !image_layout(&image, &memory, &layout) ||
	    ws_py_list_threads(&layout, &memory, image.runtime, threads, WS_COUNT(threads)) < 2 ||
	    !map_image(&image)) {
		report(false, "mapping the image of CPython ", version);
	} else {
		for (size_t i = 0; i < 2; i++)
			check_samples(&layout, threads[i].state,
				      count_codes(&layout, threads[i].state), version);
	}
	unmap_image();
	image_free(&image);
}

/* ---- a made-up thread ---- */

#define MADE_CODES 60u /* more than are described at one sample */
#define MADE_FRAMES 600u
#define CODE_BYTES 256u
#define TEXT_BYTES 1024u
#define TABLE_BYTES 400u
#define FRAME_BYTES 128u

struct made {
	uint8_t thread[512], cframe[64];
	uint8_t code[MADE_CODES][CODE_BYTES], name[MADE_CODES][TEXT_BYTES];
	uint8_t file[TEXT_BYTES], table[TEXT_BYTES];
	/* The outermost first, as the interpreter's stack has them. */
	uint8_t frame[MADE_FRAMES][FRAME_BYTES];
};

static void put_pointer(uint8_t *object, uint32_t offset, const void *to)
{
	memcpy(object + offset, &to, sizeof(to));
}

static void put_number(uint8_t *object, uint32_t offset, uint32_t number)
{
	memcpy(object + offset, &number, sizeof(number));
}

static void make_code(const struct ws_py_layout *layout, struct made *made, uint32_t number)
{
	uint8_t *code = made->code[number], *name = made->name[number];

	put_number(code, layout->code_first_line, number + 1);
	put_pointer(code, layout->code_name, name);
	if (layout->code_qualname)
		put_pointer(code, layout->code_qualname, name);
	put_pointer(code, layout->code_file, made->file);
	put_pointer(code, layout->code_table, made->table);
	put_number(name, layout->text_length, 10);
	put_number(name, layout->text_length + 8, number); /* its hash */
}

static void make_frame(const struct ws_py_layout *layout, struct made *made, uint32_t number)
{
	uint8_t *frame = made->frame[number], *code = made->code[number % MADE_CODES];

	put_pointer(frame, layout->frame_code, code);
	if (layout->chain == WS_PY_OBJECTS)
		put_number(frame, layout->frame_at, number);
	else
		put_pointer(frame, layout->frame_at, code + layout->code_start + 2 * number);
	if (number)
		put_pointer(frame, layout->frame_previous, made->frame[number - 1]);
}

/* `frames` frames, the outermost of which has the caller `beyond`. */
static struct made *make_thread(const struct ws_py_layout *layout, uint32_t frames,
				const void *beyond)
{
	struct made *made = aligned_alloc(4096, WS_ALIGN_UP(sizeof(*made), 4096u));

	memset(made, 0, sizeof(*made));
	put_number(made->table, layout->bytes_size, TABLE_BYTES);
	for (uint32_t i = 0; i < MADE_CODES; i++)
		make_code(layout, made, i);
	for (uint32_t i = 0; i < frames; i++)
		make_frame(layout, made, i);
	put_pointer(made->frame[0], layout->frame_previous, beyond);
	if (layout->chain == WS_PY_CFRAMES) {
		put_pointer(made->thread, layout->thread_frame, made->cframe);
		put_pointer(made->cframe, layout->cframe_frame, made->frame[frames - 1]);
	} else {
		put_pointer(made->thread, layout->thread_frame, made->frame[frames - 1]);
	}
	return made;
}

static void check_made(uint16_t version, const char *name)
{
	struct ws_py_layout layout;
	struct made *made;
	char what[80];

	ws_py_get_layout(version, &layout);
	made = make_thread(&layout, MADE_FRAMES, NULL);
	snprintf(what, sizeof(what), "%s, more than are read", name);
	check_samples(&layout, (uintptr_t)made->thread, MADE_CODES, what);
	free(made);
	made = make_thread(&layout, 30, (const void *)8);
	snprintf(what, sizeof(what), "%s, the last of which leads nowhere", name);
	check_samples(&layout, (uintptr_t)made->thread, 30, what);
	free(made);
}

/* ---- all of it ---- */

static int skip_all(int error)
{
	printf("1..0 # SKIP the kernel takes no programs (%s)\n", strerror(error));
	return 0;
}

/* 0, or the errno for which there is nothing to test here. A program that the kernel refuses is no
 * such case. */
static int find_hindrance(void)
{
	struct watch watch;
	struct ws_py_layout layout;
	int error, fd;

	if (!ws_python_bpf_is_built())
		return ENOEXEC;
	fd = ws_bpf_map_new(BPF_MAP_TYPE_ARRAY, 4, 4, 1);
	if (fd < 0)
		return -fd;
	close(fd);
	fd = open_event(PERF_COUNT_SW_CPU_CLOCK, 1000000, sched_getcpu());
	if (fd < 0)
		return errno;
	close(fd);
	ws_py_get_layout(0x030b, &layout);
	error = begin_watch(&watch, &layout, 0);
	if (error == -EPERM || error == -ENOSYS)
		return -error;
	if (!error)
		end_watch(&watch);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const versions[] = {"3.8", "3.9", "3.10", "3.11", "3.12", "3.13"};
	int hindrance;

	if (argc == 4 && !strcmp(argv[1], "--samples"))
		samples_wanted = (unsigned)strtoul(argv[2], NULL, 10);
	else if (argc != 2)
		return 2;
	hindrance = find_hindrance();
	if (hindrance)
		return skip_all(hindrance);
	printf("1..%zu\n", 2 * WS_COUNT(versions) + 6);
	for (size_t i = 0; i < WS_COUNT(versions); i++)
		check_image(argv[argc - 1], versions[i]);
	check_made(0x030a, "frame objects");
	check_made(0x030b, "frames of 3.11");
	check_made(0x030c, "frames of 3.12");
	return 0;
}
