/* cudart_user.c - a library that is linked to the runtime, as those of Python packages are. */
#define EXPORT __attribute__((visibility("default")))

int cudaProfilerStart(void);
int cudaProfilerStop(void);
EXPORT int start_profiler(void);
EXPORT int stop_profiler(void);

int start_profiler(void)
{
	return cudaProfilerStart();
}

int stop_profiler(void)
{
	return cudaProfilerStop();
}
