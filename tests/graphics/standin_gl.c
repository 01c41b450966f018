/*
 * standin_gl.c - what gl_app.c uses of EGL and OpenGL, for machines without Mesa. The "pixels" are
 * what was drawn, as a sum. What a real driver would make an error of, it makes one of as well: a
 * query between glBegin and glEnd; what would end up in a display list or in a buffer does so.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GL __attribute__((visibility("default")))
enum { MOST = 4096, INVALID_OPERATION = 0x502, TIMESTAMP = 0x8e28, QUERY_BUFFER = 0x9192 };

struct context {
	unsigned sum, error, queries, buffer, depth, listed, recorded;
	bool between, listing;
	uint64_t times[MOST];
	unsigned char bytes[64];
};
static __thread struct context *current;
static int dummy;

static void add(unsigned what)
{
	if (current->listing)
		current->recorded = current->recorded * 31 + what;
	else
		current->sum = current->sum * 31 + what;
}

GL void *eglGetDisplay(void *native)
{
	return native ? native : &dummy;
}

GL unsigned eglInitialize(void *display, int *major, int *minor)
{
	(void)major, (void)minor;
	return display != NULL;
}
GL unsigned eglBindAPI(unsigned api)
{
	return api == 0x30a2;
}

GL unsigned eglChooseConfig(void *display, const int *attributes, void **configs, int n, int *count)
{
	*count = display && attributes && n;
	*configs = &dummy;
	return 1;
}
GL void *eglCreatePbufferSurface(void *display, void *config, const int *attributes)
{
	return display && attributes ? config : NULL;
}
GL void *eglCreateContext(void *display, void *config, void *share, const int *attributes)
{
	(void)display, (void)config, (void)share, (void)attributes;
	return calloc(1, sizeof(struct context));
}
GL unsigned eglMakeCurrent(void *display, void *draw, void *read, void *context)
{
	(void)display, (void)draw, (void)read;
	current = context;
	return 1;
}
GL unsigned eglSwapBuffers(void *display, void *surface)
{
	return display && surface;
}

GL unsigned eglDestroyContext(void *display, void *context)
{
	free(context);
	return display != NULL;
}
GL unsigned eglTerminate(void *display)
{
	return display != NULL;
}

GL void *eglGetProcAddress(const char *name)
{
	Dl_info self;

	dladdr(&dummy, &self);
	return dlsym(dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD), name);
}
GL void glClearColor(float r, float g, float b, float a)
{
	add((unsigned)(r + g + b * 8 + a));
}

GL void glClear(unsigned mask)
{
	add(mask);
}

GL void glBegin(unsigned mode)
{
	current->between = !current->listing;
	add(mode);
}
GL void glVertex2d(double x, double y)
{
	add((unsigned)(int)(x * 8 + y * 64));
}

GL void glColor3f(float r, float g, float b)
{
	add((unsigned)(r * 4 + g * 8 + b * 4));
}

GL void glEnd(void)
{
	current->between = false;
}

GL unsigned glGenLists(int n)
{
	return (unsigned)n;
}

GL void glNewList(unsigned list, unsigned mode)
{
	current->listing = list && mode;
}

GL void glEndList(void)
{
	current->listing = false;
	current->listed = current->recorded;
}
GL void glCallList(unsigned list)
{
	add(list + current->listed);
}

GL void glTexImage3D(unsigned target, int level, int format, int width, int height, int depth,
		     int border, unsigned how, unsigned type, const void *texels)
{
	add(target + (unsigned)(level + format + width + height + depth + border) + how + type +
	    *(const unsigned char *)texels);
}
GL void glBindBuffer(unsigned target, unsigned buffer)
{
	if (target == QUERY_BUFFER)
		current->buffer = buffer;
}
GL void glGenBuffers(int n, unsigned *buffers)
{
	*buffers = (unsigned)n;
}

GL void glBufferData(unsigned target, long size, const void *data, unsigned usage)
{
	(void)target, (void)usage;
	memcpy(current->bytes, data, (size_t)size);
}
GL void glGetBufferSubData(unsigned target, long offset, long size, void *data)
{
	(void)target;
	memcpy(data, current->bytes + offset, (size_t)size);
}
GL void glPushDebugGroup(unsigned source, unsigned id, int length, const char *message)
{
	(void)source, (void)id, (void)length, (void)message;
	current->depth++;
}
GL void glPopDebugGroup(void)
{
	if (!current->depth--)
		current->error = 0x504;
}
GL void glDebugMessageInsert(unsigned source, unsigned type, unsigned id, unsigned severity,
			     int length, const char *message)
{
	(void)source, (void)type, (void)id, (void)severity, (void)length, (void)message;
}
GL void glObjectLabel(unsigned type, unsigned name, int length, const char *label)
{
	(void)type, (void)name, (void)length, (void)label;
}
GL void glFinish(void)
{
}
GL void glReadPixels(int x, int y, int width, int height, unsigned format, unsigned type,
		     void *pixels)
{
	(void)x, (void)y, (void)format, (void)type;
	for (int i = 0; i < width * height; i++)
		memcpy((char *)pixels + 4 * i, &current->sum, 4);
}
GL unsigned glGetError(void)
{
	unsigned error = current->error;

	current->error = 0;
	return error;
}
GL const char *glGetString(unsigned what)
{
	return what == 0x1f02 ? "4.5 stand-in" : "GL_none";
}
GL const char *glGetStringi(unsigned what, unsigned i)
{
	(void)what, (void)i;
	return NULL;
}
GL void glGetIntegerv(unsigned what, int *value)
{
	*value = what == 0x9193 ? (int)current->buffer : 0;
}

GL void glGenQueries(int n, unsigned *queries)
{
	for (int i = 0; i < n; i++)
		queries[i] = ++current->queries;
	if (current->queries >= MOST)
		abort();
}
GL void glQueryCounter(unsigned query, unsigned target)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (current->between || target != TIMESTAMP || !query || query > current->queries)
		current->error = INVALID_OPERATION;
	else if (current->listing)
		add(query);
	else
		current->times[query] = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
GL void glGetQueryObjectuiv(unsigned query, unsigned what, unsigned *value)
{
	if (current->buffer)
		memset(current->bytes, (int)(what + query), 4);
	else
		*value = current->times[query] != 0;
}
GL void glGetQueryObjectui64v(unsigned query, unsigned what, uint64_t *value)
{
	if (current->buffer)
		memset(current->bytes, (int)(what + query), 8);
	else
		*value = current->times[query];
}
GL void glGetQueryiv(unsigned target, unsigned what, int *value)
{
	*value = target == TIMESTAMP && what == 0x8864 ? 64 : 0;
}
GL void glGetInteger64v(unsigned what, int64_t *value)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	*value = what == TIMESTAMP ? (int64_t)now.tv_sec * 1000000000 + now.tv_nsec : 0;
}
