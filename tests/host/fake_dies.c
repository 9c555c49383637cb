/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A die sampler that does what its script says, for tests of the agent: started as pnmem-dies
 * (PNMEM_DIES), it reads the file named by FAKE_DIES anew for each request. A line is one of
 *   driver STATE N_DIES     what it says first (default 0 and the number of die lines)
 *   die UUID PCI STATE FREE_MIB TOTAL_MIB OWN_MIB [COMPUTE_MODE]
 *   do WHAT                 hang, exit STATUS, after STATUS (of a pass), abort, garbage, flood,
 *                           alien (another pass than was asked for), closed
 * It leaves FAKE_DIES.pid and appends a line per request to FAKE_DIES.log.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/die_message.h"
#include "host/clock.h"

struct script {
	struct die_driver driver;
	struct die_sample die[DIE_MESSAGE_MAX_DIES];
	int n_dies;
	char what[16];
	int argument;
};

static const char *path;

static void read_script(struct script *script)
{
	FILE *file = fopen(path, "re");
	char line[256];

	memset(script, 0, sizeof(*script));
	script->driver.n_dies = -1;
	while (file && fgets(line, sizeof(line), file)) {
		struct die_sample *die = &script->die[script->n_dies];
		unsigned uuid, state;
		unsigned long long free_mib, total_mib, own_mib;

		if (sscanf(line, "driver %u %d", &script->driver.state, &script->driver.n_dies) ==
		    2)
			continue;
		if (sscanf(line, "do %15s %d", script->what, &script->argument) >= 1)
			continue;
		die->compute_mode = -1;
		if (sscanf(line, "die %u %15s %u %llu %llu %llu %d", &uuid, die->pci, &state,
			   &free_mib, &total_mib, &own_mib, &die->compute_mode) < 6)
			continue;
		if (die->compute_mode < 0)
			die->compute_mode = state == DIE_NO_CONTEXT ? 3 : 0;
		die->uuid[0] = (uint8_t)uuid;
		die->state = state;
		if (state == DIE_ERROR) {
			die->cuda_error = 719;
			strcpy(die->error_name, "LAUNCH_FAILED");
		}
		die->free_bytes = free_mib << 20;
		die->total_bytes = total_mib << 20;
		die->own_context_bytes = own_mib << 20;
		die->board_group = -1;
		snprintf(die->name, sizeof(die->name), "Fake die %u", uuid);
		die->index = script->n_dies++;
	}
	if (file)
		fclose(file);
	if (script->driver.n_dies < 0)
		script->driver.n_dies = script->n_dies;
	script->driver.driver_version = 13000;
	strcpy(script->driver.library_path, "/fake/libcuda.so.1");
}

static void say(struct die_message *message, uint16_t kind, uint64_t pass)
{
	message->header = die_header_make(kind, pass);
	if (send(DIE_MESSAGE_FD, message, sizeof(*message), MSG_NOSIGNAL) < 0)
		exit(DIE_EXIT_CLOSED);
}

static void say_driver(const struct script *script)
{
	struct die_message message = { .driver = script->driver };

	say(&message, DIE_KIND_DRIVER, 0);
}

static void say_pass(const struct script *script, uint64_t pass)
{
	struct die_message message;

	for (int i = 0; i < script->n_dies; i++) {
		memset(&message, 0, sizeof(message));
		message.die = script->die[i];
		message.die.n_dies = script->n_dies;
		message.die.sample_ns = clock_now_ns();
		say(&message, DIE_KIND_DIE, pass);
	}
	memset(&message, 0, sizeof(message));
	say(&message, DIE_KIND_PASS_END, pass);
}

static void misbehave(const struct script *script, uint64_t pass)
{
	char garbage[sizeof(struct die_message)];

	if (!strcmp(script->what, "hang"))
		for (;;)
			pause();
	if (!strcmp(script->what, "exit"))
		exit(script->argument);
	if (!strcmp(script->what, "after")) {
		say_pass(script, pass);
		exit(script->argument);
	}
	if (!strcmp(script->what, "abort"))
		abort();
	if (!strcmp(script->what, "garbage")) {
		memset(garbage, 0xa5, sizeof(garbage));
		for (;;)
			if (send(DIE_MESSAGE_FD, garbage, sizeof(garbage), MSG_NOSIGNAL) < 0)
				exit(0);
	}
	if (!strcmp(script->what, "flood"))
		for (;;)
			say_pass(script, pass);
	if (!strcmp(script->what, "alien"))
		say_pass(script, pass + 7);
	if (!strcmp(script->what, "closed")) {
		close(DIE_MESSAGE_FD);
		for (;;)
			pause();
	}
}

static void note(const char *suffix, int flags, const char *text)
{
	char name[256];
	int fd;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		exit(DIE_EXIT_SETUP);
	close(fd);
}

int main(int argc, char **argv)
{
	struct die_request request;
	struct script script;
	char text[64];
	ssize_t n;

	path = getenv("FAKE_DIES");
	if (!path)
		return DIE_EXIT_USAGE;
	snprintf(text, sizeof(text), "%d\n", getpid());
	note(".pid", O_TRUNC, text);
	read_script(&script);
	say_driver(&script);
	if (script.driver.state)
		return DIE_EXIT_NO_DEVICE;
	while ((n = recv(DIE_MESSAGE_FD, &request, sizeof(request), 0)) > 0) {
		if (die_request_check(&request, (size_t)n, &request))
			return DIE_EXIT_USAGE;
		read_script(&script);
		snprintf(text, sizeof(text), "%llu\n", (unsigned long long)clock_now_ns());
		note(".log", O_APPEND, text);
		if (script.what[0])
			misbehave(&script, request.header.pass);
		else
			say_pass(&script, request.header.pass);
	}
	return DIE_EXIT_CLOSED;
}
