/*
 * gl_app.c - draws some frames with OpenGL and prints a checksum of the pixels, the error that
 * OpenGL has, and the first name of a query that it gets.
 *
 * gl_app linked|looked-up|asked EGL GL FRAMES [threads]: calls what it is linked to, what dlsym
 * finds in the two libraries, or what eglGetProcAddress of the first tells.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X)                                                                               \
	X(void *, eglGetDisplay, (void *))                                                         \
	X(unsigned, eglInitialize, (void *, int *, int *))                                         \
	X(unsigned, eglBindAPI, (unsigned))                                                        \
	X(unsigned, eglChooseConfig, (void *, const int *, void **, int, int *))                   \
	X(void *, eglCreatePbufferSurface, (void *, void *, const int *))                          \
	X(void *, eglCreateContext, (void *, void *, void *, const int *))                         \
	X(unsigned, eglMakeCurrent, (void *, void *, void *, void *))                              \
	X(unsigned, eglSwapBuffers, (void *, void *))                                              \
	X(unsigned, eglDestroyContext, (void *, void *))                                           \
	X(unsigned, eglTerminate, (void *))                                                        \
	X(void, glClearColor, (float, float, float, float))                                        \
	X(void, glClear, (unsigned))                                                               \
	X(void, glBegin, (unsigned))                                                               \
	X(void, glVertex2d, (double, double))                                                      \
	X(void, glColor3f, (float, float, float))                                                  \
	X(void, glEnd, (void))                                                                     \
	X(unsigned, glGenLists, (int))                                                             \
	X(void, glNewList, (unsigned, unsigned))                                                   \
	X(void, glEndList, (void))                                                                 \
	X(void, glCallList, (unsigned))                                                            \
	X(void, glTexImage3D,                                                                      \
	  (unsigned, int, int, int, int, int, int, unsigned, unsigned, const void *))              \
	X(void, glBindBuffer, (unsigned, unsigned))                                                \
	X(void, glGenBuffers, (int, unsigned *))                                                   \
	X(void, glBufferData, (unsigned, long, const void *, unsigned))                            \
	X(void, glGetBufferSubData, (unsigned, long, long, void *))                                \
	X(void, glPushDebugGroup, (unsigned, unsigned, int, const char *))                         \
	X(void, glPopDebugGroup, (void))                                                           \
	X(void, glDebugMessageInsert, (unsigned, unsigned, unsigned, unsigned, int, const char *)) \
	X(void, glObjectLabel, (unsigned, unsigned, int, const char *))                            \
	X(void, glFinish, (void))                                                                  \
	X(void, glReadPixels, (int, int, int, int, unsigned, unsigned, void *))                    \
	X(unsigned, glGetError, (void))

#define X(result, name, types) static result(*p_##name) types;
FUNCTIONS(X)
#undef X
#ifdef LINKED
#define X(result, name, types) extern result name types;
FUNCTIONS(X)
#undef X
#endif

enum { SIZE = 32, COLOR = 0x4000, TRIANGLES = 4, COMPILE = 0x1300, QUERY_BUFFER = 0x9192 };

static void *egl, *gl;
static int frames;

static void *look_up(const char *name)
{
	void *found = dlsym(egl, name);

	return found ? found : dlsym(gl, name);
}

static void *(*ask)(const char *);

static void *find(const char *name)
{
	return !strncmp(name, "egl", 3) ? dlsym(egl, name) : ask(name);
}

static void load(const char *how)
{
	void *(*loader)(const char *) = look_up;

#ifdef LINKED
	if (!strcmp(how, "linked")) {
#define X(result, name, types) p_##name = name;
		FUNCTIONS(X)
#undef X
		return;
	}
#endif
	if (!strcmp(how, "asked")) {
		ask = (void *(*)(const char *))dlsym(egl, "eglGetProcAddress");
		loader = find;
	}
#define X(result, name, types)                             \
	p_##name = (result(*) types)loader(#name);         \
	if (!p_##name) {                                   \
		fprintf(stderr, "%s is missing\n", #name); \
		exit(3);                                   \
	}
	FUNCTIONS(X)
#undef X
}

static void draw_triangle(double at)
{
	p_glBegin(TRIANGLES);
	p_glColor3f(0.25f, (float)at, 0.75f);
	p_glVertex2d(-at, -0.5);
	p_glVertex2d(at, -0.5);
	p_glVertex2d(0, at);
	p_glEnd();
}

static void draw_frame(void *display, void *surface, int i, unsigned list)
{
	p_glPushDebugGroup(0x824a, 7, -1, "scene");
	p_glClearColor(0.5f, 0, 0.125f * (float)(i % 8), 1);
	p_glClear(COLOR);
	p_glPushDebugGroup(0x824a, 8, 5, "shadows and more");
	draw_triangle(0.125 * (i % 8));
	p_glPopDebugGroup();
	p_glCallList(list);
	p_glDebugMessageInsert(0x824a, 0x8268, 3, 0x826b, -1, "here");
	p_glPopDebugGroup();
	p_eglSwapBuffers(display, surface);
}

static uint64_t read_pixels(void)
{
	unsigned char pixels[SIZE * SIZE * 4] = {0};
	uint64_t hash = 14695981039346656037u;

	p_glReadPixels(0, 0, SIZE, SIZE, 0x1908, 0x1401, pixels);
	for (size_t i = 0; i < sizeof(pixels); i++)
		hash = (hash ^ pixels[i]) * 1099511628211u;
	return hash;
}

/* With a buffer for results of queries bound, which must stay as it is. */
static void draw_with_query_buffer(void *display, void *surface, unsigned list)
{
	unsigned char bytes[64], sum = 0;
	unsigned buffer = 0;

	p_glGenBuffers(1, &buffer);
	p_glBindBuffer(QUERY_BUFFER, buffer);
	memset(bytes, 1, sizeof(bytes));
	p_glBufferData(QUERY_BUFFER, sizeof(bytes), bytes, 0x88e5);
	draw_frame(display, surface, 3, list);
	p_glFinish();
	p_glGetBufferSubData(QUERY_BUFFER, 0, sizeof(bytes), bytes);
	for (size_t i = 0; i < sizeof(bytes); i++)
		sum = (unsigned char)(sum + bytes[i]);
	printf("buffer %d error %x\n", sum, p_glGetError());
	p_glBindBuffer(QUERY_BUFFER, 0);
}

static void *draw(void *argument)
{
	static const int attributes[] = {0x3033, 1, 0x3040, 8, 0x3024, 8,
					 0x3023, 8, 0x3022, 8, 0x3038};
	static const int size[] = {0x3057, SIZE, 0x3056, SIZE, 0x3038};
	void *display = argument, *config = NULL, *surface, *context;
	static char texels[4 * 4 * 4 * 4];
	unsigned list;
	int count = 0;

	p_eglBindAPI(0x30a2);
	p_eglChooseConfig(display, attributes, &config, 1, &count);
	surface = p_eglCreatePbufferSurface(display, config, size);
	context = p_eglCreateContext(display, config, NULL, NULL);
	if (!p_eglMakeCurrent(display, surface, surface, context)) {
		fprintf(stderr, "no context\n");
		exit(4);
	}
	p_glObjectLabel(0x1702, 0, -1, "a texture");
	p_glGetError(); /* texture 0 may have no label */
	p_glTexImage3D(0x806f, 0, 0x1908, 4, 4, 4, 0, 0x1908, 0x1401, texels);
	list = p_glGenLists(1);
	p_glNewList(list, COMPILE);
	draw_triangle(0.75);
	p_glEndList();
	for (int i = 0; i < frames; i++)
		draw_frame(display, surface, i, list);
	draw_with_query_buffer(display, surface, list);
	printf("pixels %016lx error %x\n", (unsigned long)read_pixels(), p_glGetError());
	p_eglMakeCurrent(display, NULL, NULL, NULL);
	p_eglDestroyContext(display, context);
	return NULL;
}

int main(int argc, char **argv)
{
	void *display;

	if (argc < 5)
		return 2;
	egl = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
	gl = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
	if (!egl || !gl) {
		fprintf(stderr, "%s\n", dlerror());
		return 5;
	}
	frames = atoi(argv[4]);
	load(argv[1]);
	display = p_eglGetDisplay(NULL);
	if (!p_eglInitialize(display, NULL, NULL)) {
		fprintf(stderr, "no display\n");
		return 6;
	}
	draw(display);
	if (argc > 5) {
		pthread_t threads[2];

		for (int i = 0; i < 2; i++)
			pthread_create(&threads[i], NULL, draw, display);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
	}
	p_eglTerminate(display);
	return 0;
}
