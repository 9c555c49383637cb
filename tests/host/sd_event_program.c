/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sd_event_program LIBSYSTEMD: a service on sd-event that watches memory pressure as any does, for
 * test_pressure_watch. Says '+' on stdout once it watches and '!' each time its handler runs. It
 * opens the library that it is given, since the one it could be linked with may be too old, and is
 * linked with none, so that the two are not mixed.
 */
#include <dlfcn.h>
#include <unistd.h>

typedef struct sd_event sd_event;
typedef struct sd_event_source sd_event_source;
typedef int handler_fn(sd_event_source *source, void *arg);

static int on_pressure(sd_event_source *source, void *arg)
{
	return write(STDOUT_FILENO, "!", 1) == 1 ? 0 : -1;
}

int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*new)(sd_event * *ret);
	int (*add)(sd_event * event, sd_event_source * *ret, handler_fn * handler, void *arg);
	int (*loop)(sd_event * event);
	sd_event *event;

	if (!library)
		return 2;
	*(void **)&new = dlsym(library, "sd_event_new");
	*(void **)&add = dlsym(library, "sd_event_add_memory_pressure");
	*(void **)&loop = dlsym(library, "sd_event_loop");
	if (!new || !add || !loop)
		return 3;
	if (new (&event) < 0 || add(event, NULL, on_pressure, NULL) < 0)
		return 4;
	if (write(STDOUT_FILENO, "+", 1) != 1)
		return 5;
	return loop(event) < 0 ? 6 : 0;
}
